"""Read, decide, commit: how many replicas each service should have."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from autoscaler.decision import Scale
from autoscaler.observed import Signal
from autoscaler.scale import scale
from controlplane.cluster.port import Gateways
from controlplane.domain.cycle import pack_scaling
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.scheduling import scaling, snapshot
from controlplane.services.scheduling import decisions, learned, policy, scalers
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.decision import Evict, Shrink
from scheduler.model.snapshot import Snapshot

LOOK_SECONDS = 14.5  # between two looks, where the loop turns each second
LOOKED = "scale looked at"  # in the wiring's `kept`: when this process last did


def run_once(wiring: Wiring) -> Report:
    """One round of the scale loop."""
    return rounds.run("scale", wiring, _scale)


def answer(wiring: Wiring, gateways: Gateways) -> Report:
    """One round of it between two looks: only what these queues tell, so that a service that sleeps wakes."""
    return rounds.run("scale", wiring, lambda wiring, lease: _decide(wiring, lease, _waiting(gateways), is_look=False))


def _scale(wiring: Wiring, lease: HeldLease) -> int:
    return _decide(wiring, lease, _waiting(wiring.gateways), is_look=_is_time(wiring, time.monotonic()))


def _decide(wiring: Wiring, lease: HeldLease, signals: Mapping[str, Signal], *, is_look: bool) -> int:
    started = time.monotonic()
    services = scaling.serving() if is_look or signals else {}
    if not is_look:  # between two looks only those whose requests wait
        services = {uid: promise for uid, promise in services.items() if uid in signals}
    if not services:
        return 0
    settings, version = policy.current()
    scrapes = wiring.metrics.scrapes(list(services)) if is_look else {}
    at = wiring.cluster.now()  # after the metrics: what was measured by now is not of the future
    metrics = scaling.metrics(services, scrapes, signals)
    uids = [UUID(uid) for uid in services]
    seen = snapshot.some([*uids, *scaling.borrowers(uids)], at)
    found = scale(seen, metrics, settings.scaling)
    learned.keep(found.states, at=at, lease=lease)
    scalers.keep_loads(found.loads, lease=lease)
    scalers.keep_advice(found.advice, _counts(seen, found.advice), at=at, lease=lease)
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
        counts=dict(Counter(type(one).__name__ for one in decided)),
    )
    return len(decisions.commit(decided, lease=lease, cycle=cycle).applied)


def _counts(seen: Snapshot, uids: Iterable[str]) -> dict[str, int]:
    return {uid: seen.workloads[uid].gang.count for uid in uids}


def _waiting(gateways: Gateways | None) -> dict[str, Signal]:
    """What the queues in front of services tell, where something waits."""
    told = gateways.signals() if gateways is not None else {}
    return {uid: signal for uid, signal in told.items() if signal.waiting}


def _is_time(wiring: Wiring, now: float) -> bool:
    """Whether all services are looked at: in each round, but where signals make for a round each second."""
    last = wiring.kept.get(LOOKED)
    if wiring.gateways is not None and last is not None and now - last < LOOK_SECONDS:
        return False
    wiring.kept[LOOKED] = now
    return True


def record(decision: Scale | Shrink | Evict) -> dict[str, Any]:
    """A decision as the Cycle row keeps it; which ranks leave is told by the command that stops them."""
    kept = asdict(decision)
    if isinstance(decision, Scale):
        del kept["leaving"]
        if decision.awake is None:
            del kept["awake"], kept["asleep"]
        if decision.limit is None:
            del kept["limit"]
    return {"kind": type(decision).__name__, **kept}
