"""How long a pod of the simulated cluster takes to end, once it was told to."""

from controlplane.cluster import physics
from controlplane.cluster.entities import Attempt, Pod
from controlplane.cluster.port import PodPhase

END_SECONDS = 2.0  # from the signal to the end of a process that has nothing to save


def leaves_at(group: Attempt, pod: Pod, told_at: float, seed: int) -> float:
    """When it is gone, if its grace is long enough; one that has not started yet is so within a second."""
    if pod.phase != PodPhase.RUNNING:
        return max(told_at + 1.0, group.saving_until or 0.0)
    if pod.is_lent:  # as long as borrowers took on a real node
        saves = group.work is not None and group.work.checkpoint_interval is not None
        return told_at + physics.give_back_seconds(seed, pod.name, saves=saves)
    return max(told_at + END_SECONDS, group.saving_until or 0.0)
