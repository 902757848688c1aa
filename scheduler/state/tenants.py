"""Whose shares lie on each GPU: a share goes beside those of another team only where both teams allow it.

A gang's worker on a GPU that others lend counts like a share.

Sums that follow a plan by difference, so that undoing a change is its exact inverse.
"""

from collections.abc import Iterable

import numpy as np

from gpushare.packing import Bools
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Ints, Inventory, states_counted
from scheduler.model.team import Team
from scheduler.model.workload import Workload


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
        for workload in workloads:
            self._count(workload, 1)

    def changed(self, old: Workload, new: Workload) -> None:
        """Follow a plan."""
        self._count(old, -1)
        self._count(new, 1)

    def closed_to(self, team: str, when: int) -> Bools:
        """The devices with shares beside which this team's may not lie, in one state. Shape [G]."""
        others = self._guarded if team in self._open else self._all - self._of.get(team, self._none())
        closed: Bools = others[FUTURE_IDLE] > 0
        return closed | (others[IDLE] > 0) if when == IDLE else closed

    def may_share(self, team: str, other: str) -> bool:
        """Whether what is of these teams may be on one device."""
        return team == other or (team in self._open and other in self._open)

    def on(self, device: int) -> tuple[str, ...]:
        """The teams with a share on a device, now or later."""
        return tuple(sorted(team for team, counts in self._of.items() if counts[:, device].any()))

    def _none(self) -> Ints:
        return np.zeros((2, len(self._inventory.node_of)), dtype=np.int64)

    def _count(self, workload: Workload, sign: int) -> None:
        if not workload.placement or not (has_share(workload) or any(a.lender for a in workload.placement)):
            return
        index, offset = self._inventory.index, self._inventory.offset
        sums = [self._all, self._of.setdefault(workload.team, self._none())]
        if workload.team not in self._open:
            sums.append(self._guarded)
        for worker in workload.placement:
            node = index.get(worker.node)
            if node is None or not (worker.lender or workload.ask_of(worker.rank).share):
                continue
            first, after = int(offset[node]), int(offset[node + 1])  # a node may come back with fewer devices
            devices = [first + gpu for gpu in worker.gpus if first + gpu < after]
            for when in states_counted(workload, worker):
                for counts in sums:
                    counts[when, devices] += sign
