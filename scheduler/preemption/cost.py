"""What it costs when a workload has to leave, in milli-GPU seconds: one figure, so that victims can be compared."""

from scheduler.model.settings import Settings
from scheduler.model.workload import Kind, Workload


def cost(workload: Workload, at: float, settings: Settings) -> float:
    """Milli-GPU seconds lost: (work since the last checkpoint + restart + breakage) x all GPUs it holds.

    A gang that loses one worker loses all, so all its GPUs count, and it is back only when its last worker is: each
    further worker adds `rejoin_seconds`. A service has no work to save; it loses availability, which is dearer.
    Source: our own (docs/making-room.md#what-leaving-costs).
    """
    lost = settings.outage_seconds if workload.kind is Kind.INFERENCE else unsaved_seconds(workload, at)
    breakage = settings.rejoin_seconds * max(0, len(workload.placement) - 1)
    return (lost + settings.restart_seconds + breakage) * max(1, workload.held_milli)


def unsaved_seconds(workload: Workload, at: float) -> float:
    """Seconds of work since its last checkpoint, or since it started."""
    return max(0.0, at - max(workload.started_at or 0.0, workload.checkpointed_at or 0.0))
