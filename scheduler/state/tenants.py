"""Whose shares lie on each GPU: a share goes beside those of another team only where both teams allow it.

Where nothing says that it holds shares to their parts (advisory), two models never lie on one device: nothing would
keep one from taking the other's time and memory. Replicas of one service do, and so do shares of other kinds.

And beside which labels: `gpushare.neighbours`. A gang's worker on a GPU that others lend counts like a share without
one.

Sums that follow a plan by difference, so that undoing a change is its exact inverse.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from gpushare.gpu import Labels
from gpushare.neighbours import Beside, open_devices
from gpushare.packing import Bools
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Ints, Inventory, states_counted
from scheduler.model.team import Team
from scheduler.model.workload import Workload
from scheduler.state.ledger import is_model

AFFINITY, ANTI_AFFINITY, EXCLUSION = "affinity", "anti-affinity", "exclusion"
Label = tuple[str, str, str]  # which of these, whose team's, the label; a label is its team's own


def has_share(workload: Workload) -> bool:
    """Whether any of its workers or role members asks for a share."""
    return bool(workload.ask.share) or any(role.ask.share for role in workload.roles)


class Tenants:
    """Numbers of shares by device, shape [2 (IDLE, FUTURE_IDLE), G]: of all teams, and of each by itself."""

    def __init__(self, inventory: Inventory, teams: Iterable[Team], workloads: Iterable[Workload]) -> None:
        self._inventory = inventory
        self._open = frozenset(team.name for team in teams if team.shares_with_others)
        self._all = self._none()
        self._guarded = self._none()  # of teams that share with no other
        self._of: dict[str, Ints] = {}
        self._with: dict[Label, Ints] = {}
        self._exclusive = self._none()  # with any exclusion label
        self._models = self._none()  # of services
        self._replicas: dict[str, Counter[tuple[int, int]]] = {}  # by service: how many, by state and device
        for workload in workloads:
            self._count(workload, 1)

    def changed(self, old: Workload, new: Workload) -> None:
        """Follow a plan."""
        self._count(old, -1)
        self._count(new, 1)

    def closed_to(self, workload: Workload, when: int) -> Bools:
        """The devices with shares beside which its team's may not lie, in one state. Shape [G].

        On demand it comes to each GPU of its node, so all of them are closed to it where one is.
        """
        team = workload.team
        others = self._guarded if team in self._open else self._all - self._of.get(team, self._none())
        closed: Bools = self._seen(others, when) > 0
        if workload.ask.share and workload.ask.share.on_demand and closed.any():
            node_of = self._inventory.node_of
            closed = np.isin(node_of, node_of[closed])
        return closed

    def kept_from(self, workload: Workload, when: int, fresh: Bools) -> Bools:
        """The devices that labels keep its shares from, its own or those of shares there. fresh: idle ones. Shape [G].

        What leaves still keeps others off until it has left, but draws none to it: its affinity does not count.
        """
        team, labels = workload.team, workload.ask.labels
        mine = self._counts(EXCLUSION, team, labels.exclusion)
        others = self._all - mine if labels.exclusion else self._exclusive
        beside = Beside(
            self._counts(AFFINITY, team, labels.affinity)[FUTURE_IDLE],
            self._seen(self._counts(ANTI_AFFINITY, team, labels.anti_affinity), when),
            self._seen(others, when),
        )
        return ~open_devices(labels, beside, fresh)

    def closed_to_model(self, service: Workload, when: int) -> Bools:
        """The devices with another model where nothing says that it holds shares to their parts. Shape [G]."""
        others = self._models.copy()
        for at, count in self._replicas.get(service.id, Counter[tuple[int, int]]()).items():
            others[at] -= count
        closed: Bools = (self._seen(others, when) > 0) & self._inventory.advisory
        return closed

    def carries(self, workload: Workload) -> Ints:
        """The devices with shares of its affinity, those that leave not counted."""
        counts = self._counts(AFFINITY, workload.team, workload.ask.labels.affinity)
        return np.flatnonzero(counts[FUTURE_IDLE])

    def may_share(self, team: str, other: str) -> bool:
        """Whether what is of these teams may be on one device."""
        return team == other or (team in self._open and other in self._open)

    def is_exclusive(self, device: int) -> bool:
        """Whether a share with an exclusion label is on a device, now or later."""
        return bool(self._exclusive[:, device].any())

    def on(self, device: int) -> tuple[str, ...]:
        """The teams with a share on a device, now or later."""
        return tuple(sorted(team for team, counts in self._of.items() if counts[:, device].any()))

    def _none(self) -> Ints:
        return np.zeros((2, len(self._inventory.node_of)), dtype=np.int64)

    def _counts(self, kind: str, team: str, label: str) -> Ints:
        """Shares with a label of a team by device. Shape [2, G]."""
        known = self._with.get((kind, team, label))
        return self._none() if known is None else known

    @staticmethod
    def _seen(counts: Ints, when: int) -> Ints:
        """What counts in one state: new work must fit beside both. Shape [G]."""
        seen: Ints = counts.max(axis=0) if when == IDLE else counts[FUTURE_IDLE]
        return seen

    def _labelled(self, team: str, labels: Labels) -> Iterator[Ints]:
        """The sums in which a share with these labels counts."""
        pairs = ((AFFINITY, labels.affinity), (ANTI_AFFINITY, labels.anti_affinity), (EXCLUSION, labels.exclusion))
        for kind, label in pairs:
            if label:
                yield self._with.setdefault((kind, team, label), self._none())
        if labels.exclusion:
            yield self._exclusive

    def _count(self, workload: Workload, sign: int) -> None:
        if not workload.placement or not (has_share(workload) or any(a.lender for a in workload.placement)):
            return
        sums = [self._all, self._of.setdefault(workload.team, self._none())]
        if workload.team not in self._open:
            sums.append(self._guarded)
        sums += self._labelled(workload.team, workload.ask.labels)
        if is_model(workload):
            sums.append(self._models)
        replicas = self._replicas.setdefault(workload.id, Counter()) if is_model(workload) else Counter()
        for when, devices in self._places(workload):
            for counts in sums:
                counts[when, devices] += sign
            for device in devices:
                replicas[when, device] += sign

    def _places(self, workload: Workload) -> Iterator[tuple[int, list[int]]]:
        """The state and the devices of each of its shares."""
        index, offset = self._inventory.index, self._inventory.offset
        for worker in workload.placement:
            node = index.get(worker.node)
            if node is None or not (worker.lender or workload.ask_of(worker.rank).share):
                continue
            first, after = int(offset[node]), int(offset[node + 1])  # a node may come back with fewer devices
            devices = [first + gpu for gpu in worker.gpus if first + gpu < after]
            for when in states_counted(workload, worker):
                yield when, devices
