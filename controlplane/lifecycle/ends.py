"""The ends of workers: whose fault they are, and how long a job waits after one of its own."""

from dataclasses import dataclass

from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.lifecycle.state import Seat

# A node took the worker and then would not start it: it had no room after all, or no device. Nothing of the job ran.
REFUSED_BY_NODE = frozenset(
    {
        "OutOfCpu", "OutOfGpu", "OutOfGpuMemory", "OutOfMemory", "OutOfPods", "OutOfStorage",
        "NodeAffinity", "TopologyAffinityError", "UnexpectedAdmissionError", "ShareNotServed",
    }
)  # fmt: skip
# Ends that are the machines' fault or our own doing: the job runs again, and its retries are not used up. What fails
# beside such an end fails because of it: a gang's other workers no longer reach that one.
MACHINES_FAULT = frozenset({"NodeLost", "NodeShutdown", "GpuLost", "Evicted", "Preempted", "Disappeared"})
NOT_THE_JOBS_FAULT = MACHINES_FAULT | REFUSED_BY_NODE | {"PeerFailed"}
REFUSED_SECONDS = 60.0  # until the next try: what holds the room is not known to us, so only time can help
BACKOFF_SECONDS = 10.0
BACKOFF_MAX_SECONDS = 600.0


def backoff_seconds(failures: int) -> float:
    """How long a job waits after its n-th failure: 10 s, 20 s, 40 s ... at most 10 minutes."""
    return min(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS * 2.0 ** max(0, min(failures, 20) - 1))


@dataclass(frozen=True, slots=True)
class End:
    """A worker that has ended, and whether we had asked it to."""

    seat: Seat
    pod: PodSeen
    was_leaving: bool

    @property
    def is_success(self) -> bool:
        """Whether it did all it had to do."""
        return self.pod.phase == PodPhase.SUCCEEDED

    @property
    def counts(self) -> bool:
        """Whether this failure uses up a retry."""
        return self.pod.phase == PodPhase.FAILED and self.pod.reason not in NOT_THE_JOBS_FAULT

    @property
    def is_machines_fault(self) -> bool:
        """Whether it ended because of where it ran."""
        return self.pod.phase != PodPhase.SUCCEEDED and self.why in MACHINES_FAULT

    @property
    def is_refused(self) -> bool:
        """Whether its node would not start it."""
        return self.pod.phase == PodPhase.FAILED and self.pod.reason in REFUSED_BY_NODE

    @property
    def why(self) -> str:
        """A reason code."""
        if self.pod.phase == PodPhase.FAILED:
            return self.pod.reason or "Failed"
        return self.pod.reason or ("Completed" if self.is_success else "Disappeared")
