"""The rounds of several cells, one after the other in one thread, and the slow loop that divides quotas between them.

What goes wrong in one cell keeps no other waiting. Quotas are divided, and waiting work is moved from where it is
crowded, by the one of the deciders' processes that has the lease of that.
"""

from collections.abc import Callable, Sequence

import structlog

from controlplane.domain.deciders import SCHEDULE
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.services.cells import dividing
from controlplane.services.scheduling import heartbeats
from controlplane.services.scheduling.leases import HeldLease
from scheduler.cells.route import shown

DIVIDE = "divide"
MOST_AGAIN = 4  # rounds in a row; where much comes and goes, quotas never lie quite where they are asked for
PERIOD_SECONDS = 60.0  # of the cluster's clock
SOON_SECONDS = 2.0  # while what was lowered is to be given to others

log = structlog.get_logger(__name__)


def of_each(wiring: Wiring, cells: Sequence[str], run: Callable[[str], Report]) -> Report:
    """Run a round of each cell; tell what they did together. Raises the first error once all have had their round."""
    reports: list[Report] = []
    failed: Exception | None = None
    for cell in cells:
        try:
            report = run(cell)
        except Exception as error:
            log.exception("the round of a cell failed; the others go on", cell=cell)
            failed = failed or error
            continue
        reports.append(report)
        if not report.skipped:
            heartbeats.beat(loop=f"{SCHEDULE}/{shown(cell)}", holder=wiring.holder, took=report.took)
    if failed is not None:
        raise failed
    skipped = [report.skipped for report in reports if report.skipped]
    return Report(
        SCHEDULE,
        sum(report.did for report in reports),
        sum(report.took for report in reports),
        "; ".join(skipped) if len(skipped) == len(reports) else "",
        is_standby=all(report.is_standby for report in reports),
    )


def divide_when_due(wiring: Wiring) -> Report:
    """Divide if it is due."""
    at, due = wiring.cluster.now(), wiring.kept.get("divide due", 0.0)
    if at < due:
        return Report(DIVIDE)
    wiring.kept["divide due"] = at + PERIOD_SECONDS  # one that fails is not tried with each turn
    report = rounds.run(DIVIDE, wiring, _divide)
    if report.is_standby or report.skipped:
        wiring.kept["divide due"] = at + SOON_SECONDS
    return report


def _divide(wiring: Wiring, lease: HeldLease) -> int:
    at = wiring.cluster.now()
    done = dividing.divide(lease=lease)
    again = wiring.kept.get("divided again", 0) + 1 if done.is_pending else MOST_AGAIN
    wiring.kept["divided again"] = again % MOST_AGAIN
    wiring.kept["divide due"] = at + (SOON_SECONDS if again < MOST_AGAIN else PERIOD_SECONDS)
    return done.changed
