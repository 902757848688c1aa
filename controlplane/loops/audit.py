"""Check the invariants on the live database and the cluster's pods, seldom enough to cost the other loops little."""

import time

import structlog

from controlplane.cluster.port import Cluster, ClusterUnreachable
from controlplane.invariants.check import INVARIANTS
from controlplane.invariants.state import Violation
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.pace import Pace
from controlplane.loops.wiring import Wiring
from controlplane.queries.audit import audit
from controlplane.queries.scheduling import atrest
from controlplane.services.audit import audits
from controlplane.services.scheduling.leases import HeldLease

PERIOD_SECONDS = 60.0
REST = 40  # times what an audit took: it shares the interpreter with the loops, so it gets a fortieth of the time
MAX_DECIDING_MS = 1_000.0  # the newest round is decided again twice, unless that takes longer
MAX_LOGGED = 20  # violations of one audit

log = structlog.get_logger(__name__)


def run_once(wiring: Wiring) -> Report:
    """One round of the audit loop: an audit if one is due."""
    return rounds.run("audit", wiring, _audit)


def look(cluster: Cluster, *, last_rounds: int, max_ms: float | None = None) -> tuple[tuple[Violation, ...], bool]:
    """Every broken invariant, and whether pods were compared: not if the cluster does not answer.

    No transaction is open while the cluster is asked, which reads long lists in pages.
    """
    before = atrest.live_rows()
    try:
        pods = cluster.observe(None).pods
    except ClusterUnreachable:
        pods = None
    broken = audit.violations(last_rounds=last_rounds, pods=pods, before=before, max_ms=max_ms)
    return broken, pods is not None


def _audit(wiring: Wiring, lease: HeldLease) -> int:
    pace: Pace = wiring.kept.setdefault("audit pace", Pace(PERIOD_SECONDS, REST))
    if not pace.is_due:
        return 0
    started = time.monotonic()
    try:
        broken, _ = look(wiring.cluster, last_rounds=1, max_ms=MAX_DECIDING_MS)
        found: dict[str, list[Violation]] = {name: [] for name in INVARIANTS}
        for violation in broken:
            found[violation.name].append(violation)
        audits.record(found=found, lease=lease)
    finally:
        pace.spend(time.monotonic() - started)  # one that fails is not tried more often
    for violation in broken[:MAX_LOGGED]:
        log.error("invariant broken", name=violation.name, subject=violation.subject, message=violation.message)
    return len(broken)
