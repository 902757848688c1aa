"""What the invariants look at: one state of the product, and what led to it.

A state is built by the in-memory runner (controlplane/simulator), by the tests and, from rows, by
controlplane/queries/audit/audit.py. What a source does not know stays None, and an invariant about it holds.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.invariants.footprint import Footprints
from scheduler.model.decision import Decision
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Phase, Workload

Schedule = Callable[[Snapshot, Settings], Sequence[Decision]]

GONE = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE})  # such a pod holds no device


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant: its name in docs/promises.md, what it was seen on, and a sentence with the numbers."""

    name: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of a workload's life with its audit record. before is None for the first."""

    workload: str
    before: Phase | None
    after: Phase
    actor: str


@dataclass(frozen=True, slots=True)
class Write:
    """One accepted write of a loop: the epoch it carried and the lease's epoch at that moment."""

    loop: str
    epoch: int
    current: int


@dataclass(frozen=True, slots=True)
class Interval:
    """One worker's hold: milli-GPU from start to end (None: still held), cluster-clock seconds."""

    attempt: int
    rank: int
    milli: int
    start: float
    end: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """What a workload was billed, in milli-GPU seconds up to `to`, and the holds that it is billed for."""

    billed: int
    to: float
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that others were made to leave: promised to `claimant` on `workers` once `victims` have left.

    is_excused: the claimant was stopped, suspended or evicted itself, or its place was lost with a node.
    """

    claimant: str
    attempt: int
    workers: tuple[Assignment, ...]
    victims: tuple[str, ...]
    is_excused: bool = False


@dataclass(frozen=True)
class Round:
    """One round of the scheduler: what it saw, what it decided, and how to decide again."""

    snapshot: Snapshot
    decisions: tuple[Decision, ...]
    settings: Settings
    schedule: Schedule | None = None


@dataclass(frozen=True)
class State:
    """One state. `only` names the workloads touched since `before`; None means look at all of them.

    snapshot is the ledger with its incremental columns. pods are those that the cluster itself has, ended ones
    left out, by workload. ended holds every workload that has ended, submitted every one there ever was.
    partly_up: since when a training has some but fewer pods than its gang's least, cluster clock.
    """

    snapshot: Snapshot
    before: Snapshot | None = None
    pods: Mapping[str, Sequence[PodSeen]] | None = None
    partly_up: Mapping[str, float] = field(default_factory=dict)
    ended: Mapping[str, Phase] = field(default_factory=dict)
    submitted: Set[str] | None = None
    transitions: tuple[Transition, ...] | None = None
    writes: tuple[Write, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    rate: int | None = None  # milli-GPU that are billed at this moment
    claims: tuple[Claim, ...] = ()
    round: Round | None = None
    settings: Settings = Settings()
    in_force: tuple[tuple[float, Settings], ...] = ()  # since which cluster second, ascending; empty: always `settings`
    only: Set[str] | None = None
    footprints: Footprints = field(default_factory=Footprints)

    def settings_at(self, at: float) -> Settings:
        """The settings by which a decision at this cluster second was made; the oldest known for what is older."""
        found = bisect_right(self.in_force, at, key=lambda one: one[0])
        return self.in_force[max(0, found - 1)][1] if self.in_force else self.settings

    def subjects(self) -> Sequence[Workload]:
        """The workloads to look at."""
        everyone = self.snapshot.workloads
        if self.only is None:
            return tuple(everyone.values())
        return tuple(everyone[uid] for uid in sorted(self.only) if uid in everyone)
