"""How one training of the mix fares: which of its workers compute, since when, how fast, and what is done of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from controlplane.benchmarks.mix.draws import Training
from scheduler.model.workload import ACTIVE, Workload

Members = dict[int, str]  # ranks that compute, and their nodes
ALL: Mapping[int, float] = MappingProxyType({})  # each has all of its GPU's time


@dataclass(slots=True)
class Course:
    """done: s of its work; rate: of it in a second; used: GPU-seconds in which its workers computed.

    After each change of its workers an all-reduce stands still for what its model takes to restart.
    """

    training: Training
    least: int
    done: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    stalled_until: float = 0.0
    members: Members = field(default_factory=dict)
    parts: Mapping[int, float] = field(default_factory=dict)
    token: int = 0  # of the newest planned end: an older one is void
    bound_at: float = 0.0
    started: float | None = None
    ended: float | None = None
    changes: int = 0
    used: float = 0.0

    def settle(self, at: float) -> None:
        """Count up to now."""
        passed = max(0.0, at - max(self.since, self.stalled_until))
        self.done += passed * self.rate
        self.used += passed * sum(self.parts.get(rank, 1.0) for rank in self.members) if self.rate else 0.0
        self.since = max(self.since, at)

    def follow(self, at: float, workload: Workload | None, up: set[int], parts: Mapping[int, float] = ALL) -> bool:
        """Take over what it has now; whether that changed anything. up: the ranks of pods that run."""
        staying = _staying(workload)
        before = dict(self.members)
        members = {rank: node for rank, node in before.items() if staying.get(rank) == node}
        # Workers that come join all together: at once where the training has not begun.
        if staying.keys() <= up:
            members = staying
        if len(members) < self.least:
            members = {}
        if members == before and parts == self.parts:
            return False
        self.settle(at)
        self.members, self.parts, self.token = members, parts, self.token + 1
        self.rate = self._rate()
        if members and members != before:
            self.changes += self.started is not None
            self.started = at if self.started is None else self.started
            self.stalled_until = at + self.training.speed.restart
        return True

    def _rate(self) -> float:
        if not self.members:
            return 0.0
        placement = _placement(self.members)
        if not self.parts:
            return self.training.speed.of(placement)
        nodes = list(dict.fromkeys(self.members[rank] for rank in sorted(self.members)))
        by_node = sorted(sorted(self.members), key=lambda rank: nodes.index(self.members[rank]))
        return self.training.speed.beside(placement, [self.parts.get(rank, 1.0) for rank in by_node])

    def ends(self, at: float) -> float:
        """When it is done if nothing changes any more. Only while it has a rate."""
        return max(at, self.stalled_until) + max(0.0, self.training.work - self.done) / self.rate


def _staying(workload: Workload | None) -> Members:
    if workload is None or workload.phase not in ACTIVE:
        return {}
    return {a.rank: a.node for a in workload.placement if not (a.leaving or a.reserved)}


def _placement(members: Members) -> tuple[int, ...]:
    """Workers per node, that of the lowest rank first."""
    nodes = [members[rank] for rank in sorted(members)]
    return tuple(nodes.count(node) for node in dict.fromkeys(nodes))
