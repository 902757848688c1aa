"""Read, decide, commit: how many replicas each service should have."""

import time
from dataclasses import asdict
from typing import Any
from uuid import UUID

from autoscaler.decision import Scale
from autoscaler.scale import scale
from controlplane.domain.cycle import pack_scaling
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.scheduling import scaling, snapshot
from controlplane.services.scheduling import decisions, learned, policy
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import HeldLease


def run_once(wiring: Wiring) -> Report:
    """One round of the scale loop."""
    return rounds.run("scale", wiring, _scale)


def _scale(wiring: Wiring, lease: HeldLease) -> int:
    started = time.monotonic()
    services = scaling.serving()
    if not services:
        return 0
    settings, version = policy.current()
    scrapes = wiring.metrics.scrapes(list(services))
    at = wiring.cluster.now()  # after the metrics: what was measured by now is not of the future
    metrics = scaling.metrics(services, scrapes)
    seen = snapshot.some(map(UUID, services), at)
    found = scale(seen, metrics, settings.scaling)
    learned.keep(found.states, at=at, lease=lease)
    decided = found.decisions
    if not decided:
        return 0
    cycle = CycleInput(
        loop="scale",
        at=at,
        took_ms=round((time.monotonic() - started) * 1000, 3),
        policy=version,
        is_base=True,
        input=pack_scaling(seen, metrics),
        decisions=[record(decision) for decision in decided],
        counts={"Scale": len(decided)},
    )
    return len(decisions.commit(decided, lease=lease, cycle=cycle).applied)


def record(decision: Scale) -> dict[str, Any]:
    """A decision as the Cycle row keeps it; which ranks leave is told by the command that stops them."""
    kept = asdict(decision)
    del kept["leaving"]
    return {"kind": "Scale", **kept}
