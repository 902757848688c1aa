"""What came of each job of a replay, counted as it goes."""

from dataclasses import dataclass

from controlplane.simulator.replay.episode import Episode, Job
from controlplane.simulator.replay.judge import Tally
from scheduler.model.workload import ACTIVE, Kind, Phase, Workload

GRACE_MAX = 60.0  # s: most work has saved itself long before its grace ends


@dataclass(slots=True)
class Course:
    """How one job fares: what is done of it, since when it runs and how fast, and what is counted of it."""

    job: Job
    done: float = 0.0  # seconds with all workers
    since: float = 0.0
    rate: float = 0.0  # of the wanted workers, 0 while it makes no progress
    held: int = 0  # milli-GPU held since `since`
    token: int = 0  # of the newest planned end: an older one is void
    bound_at: float = 0.0  # when it last got a worker
    first_start: float | None = None
    ended: float | None = None
    is_withdrawn: bool = False
    preemptions: int = 0
    moves: int = 0  # made to leave by consolidation, with a place kept elsewhere
    lost_seconds: float = 0.0  # of work that had to be done again
    held_seconds: float = 0.0  # milli-GPU seconds held, and those while it made progress
    used_seconds: float = 0.0
    tally: Tally | None = None  # of a service whose traffic is known

    def settle(self, at: float) -> None:
        """Count up to now."""
        passed = max(0.0, at - self.since)
        self.done += passed * self.rate
        self.held_seconds += passed * self.held
        self.used_seconds += passed * self.held if self.rate else 0.0
        self.since = at


@dataclass(frozen=True, slots=True)
class Played:
    """What came of an episode under some settings."""

    episode: Episode
    courses: tuple[Course, ...]
    rounds: int


def held(workload: Workload) -> int:
    """Milli-GPU held, leaving workers included, reserved ones not."""
    if workload.phase is Phase.RESERVED:
        return 0
    return sum(workload.milli_of(a) for a in workload.placement if not a.reserved)


def could_grow(workload: Workload) -> bool:
    """Whether time alone may bring it more workers: a gang that is partial or below its most."""
    most = workload.gang.max + workload.role_members
    return workload.kind is Kind.TRAINING and workload.phase in ACTIVE and len(workload.placement) < most


def grace(workload: Workload) -> float:
    """Seconds for which what leaves holds its place."""
    return min(workload.grace_seconds, GRACE_MAX)
