"""How much each workload should have: one round of scaling."""

from autoscaler.decision import Scale
from autoscaler.inference import replicas
from autoscaler.metrics import Metrics
from autoscaler.settings import Settings
from autoscaler.stabilize import Bounds
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Kind, Workload, staying


def scale(snapshot: Snapshot, metrics: Metrics, settings: Settings) -> tuple[Scale, ...]:
    """Decide the number of workers of every service that runs.

    A service keeps its number unless there is a reason for another one; the least and the most of its gang hold
    always. Time is the snapshot's. The order is that of workload ids.
    """
    out = []
    for uid in sorted(snapshot.workloads):
        workload = snapshot.workloads[uid]
        if workload.kind == Kind.INFERENCE and workload.phase in ACTIVE:
            decision = _service(workload, snapshot.at, metrics, settings)
            if decision is not None:
                out.append(decision)
    return tuple(out)


def _service(workload: Workload, at: float, metrics: Metrics, settings: Settings) -> Scale | None:
    current, bounds = workload.gang.count, Bounds(workload.gang.min, workload.gang.max)
    wanted = replicas(current, bounds, at, metrics.services.get(workload.id), settings)
    if wanted.replicas == current:
        return None
    message = f"{current} to {wanted.replicas} replicas: {wanted.why}."
    return resized(workload, wanted.replicas, message, wanted.terms)


def resized(workload: Workload, workers: int, message: str, terms: tuple[tuple[str, float], ...] = ()) -> Scale:
    """The decision that gives a service this many replicas. If it has more, the newest (the highest ranks) leave."""
    leaving = tuple(staying(workload)[workers:])
    return Scale(workload.id, workload.version, workers, message, terms, leaving)
