"""What each cell has of each team's quota in one pool.

First what a team holds in a cell, then what its waiting work asks for there, in the order of its turns, so that a gang
gets its GPUs in one piece; the rest goes to nodes that no team was given yet. So a cell promises no more than its
nodes, as long as all teams together are promised no more than the pool. What a team owns beyond its children is
divided by what they hold and ask for beyond their own parts. The parts of a quota add up to it exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.cells.apportion import apportion, by_room, whole
from scheduler.model.team import Quota

Milli = dict[str, int]  # milli-GPU by cell


@dataclass(frozen=True, slots=True)
class Part:
    """A cell's part of a quota, milli-GPU; None: no limit."""

    nominal: int = 0
    borrowing: int | None = 0
    lending: int | None = 0


@dataclass(frozen=True, slots=True)
class Needed:
    """A waiting workload: whose it is, its cell, milli-GPU."""

    team: str
    cell: str
    milli: int


class Division:
    """One pool as it is being divided. capacity: milli-GPU of the pool's nodes by cell, not empty.

    held: by team and cell, of each team's own workloads; asked: in the order of their turns; teams: parents by name.
    """

    def __init__(
        self,
        teams: Mapping[str, str | None],
        quotas: Iterable[Quota],
        capacity: Mapping[str, int],
        held: Mapping[tuple[str, str], int],
        asked: Sequence[Needed],
    ) -> None:
        self._teams, self._quotas = teams, {quota.team: quota for quota in quotas}
        self._cells = sorted(capacity)
        self._capacity = dict(capacity)
        self._left = dict(capacity)  # what no team was given yet
        self._children: dict[str, list[str]] = defaultdict(list)
        for team, parent in sorted(teams.items()):
            if parent is not None:
                self._children[parent].append(team)
        self._held = {team: {cell: held.get((team, cell), 0) for cell in self._cells} for team in teams}
        self._asks: dict[str, list[Needed]] = {team: [] for team in teams}
        for ask in asked:
            if ask.team in self._asks and ask.cell in self._left:
                self._asks[ask.team].append(ask)
        self._owned: dict[str, Milli] = {}  # with all teams below

    def parts(self) -> dict[tuple[str, str], Part]:
        """The part of each quota for each cell, by team and cell."""
        out: dict[tuple[str, str], Part] = {}
        for level in self._levels():
            own = self._own(level)
            for team in level:
                below = self._below(team)
                self._owned[team] = {cell: own[team][cell] + below[cell] for cell in self._cells}
                self._hand_up(team, own[team])
                if (quota := self._quotas.get(team)) is not None:
                    nominal, borrowing = self._nominal(quota, below), self._borrowing(quota)
                    lending = None if quota.lending is None else apportion(quota.lending, nominal)
                    for cell in self._cells:
                        limits = (None if some is None else some[cell] for some in (borrowing, lending))
                        out[team, cell] = Part(nominal[cell], *limits)
        return out

    def _levels(self) -> list[list[str]]:
        """The teams from the lowest of the tree to those at the top, by name within each."""
        depth = {team: self._depth(team) for team in self._teams}
        deepest = max(depth.values(), default=0)
        return [sorted(t for t, d in depth.items() if d == level) for level in range(deepest, -1, -1)]

    def _depth(self, team: str) -> int:
        parent = self._teams[team]
        return 0 if parent is None or parent not in self._teams else 1 + self._depth(parent)

    def _below(self, team: str) -> Milli:
        return {cell: sum(self._owned[child][cell] for child in self._children[team]) for cell in self._cells}

    def _own(self, level: Sequence[str]) -> dict[str, Milli]:
        """What each of these owns that no team below it does, divided between the cells."""
        amounts: dict[str, int] = {}
        for team in level:
            quota = self._quotas.get(team)
            amounts[team] = max(0, (quota.nominal if quota else 0) - sum(self._below(team).values()))
        parts = {team: self._of_held(amounts[team], self._held[team]) for team in level}
        for part in parts.values():
            self._take(part)
        rest = {team: amounts[team] - sum(parts[team].values()) for team in level}
        self._to_asks(level, parts, rest)
        for team in level:
            for cell, milli in by_room(rest[team], self._room(rest[team])).items():
                parts[team][cell] += milli
                self._left[cell] = max(0, self._left[cell] - milli)
        return parts

    def _of_held(self, amount: int, held: Milli) -> Milli:
        """What it holds, rounded up to whole GPUs where that is not too much."""
        if sum(held.values()) >= amount:
            return apportion(amount, held)
        rounded = {cell: whole(milli) for cell, milli in held.items()}
        return rounded if sum(rounded.values()) <= amount else dict(held)

    def _to_asks(self, level: Sequence[str], parts: Mapping[str, Milli], rest: dict[str, int]) -> None:
        """Give what is left to waiting work: the first of each team, then the second of each, and so on."""
        over = {(team, cell): parts[team][cell] - self._held[team][cell] for team in level for cell in self._cells}
        turns = sorted(
            ((number, team, ask) for team in level for number, ask in enumerate(self._asks[team])),
            key=lambda turn: turn[:2],
        )
        for _, team, ask in turns:
            needed = max(0, ask.milli - over[team, ask.cell])
            given = min(whole(needed), rest[team], self._left[ask.cell])
            over[team, ask.cell] = max(0, over[team, ask.cell] + given - ask.milli)
            parts[team][ask.cell] += given
            rest[team] -= given
            self._left[ask.cell] -= given

    def _room(self, amount: int) -> Milli:
        return self._left if sum(self._left.values()) >= amount else self._capacity

    def _take(self, part: Milli) -> None:
        for cell, milli in part.items():
            self._left[cell] = max(0, self._left[cell] - milli)

    def _nominal(self, quota: Quota, below: Milli) -> Milli:
        """The parts of a quota's nominal; one that is less than what teams below own is divided as that is."""
        if quota.nominal < sum(below.values()):
            return apportion(quota.nominal, below)
        return dict(self._owned[quota.team])

    def _hand_up(self, team: str, mine: Milli) -> None:
        """What the team and those below hold and ask for beyond what it owns counts as its parent's."""
        beyond = {cell: max(0, self._held[team][cell] - mine[cell]) for cell in self._cells}
        spare = {cell: max(0, mine[cell] - self._held[team][cell]) for cell in self._cells}
        asks: list[Needed] = []
        for ask in self._asks[team]:
            used = min(spare[ask.cell], ask.milli)
            spare[ask.cell] -= used
            if ask.milli > used:
                asks.append(Needed(ask.team, ask.cell, ask.milli - used))
        self._held[team], self._asks[team] = beyond, asks
        parent = self._teams[team]
        if parent in self._held:
            for cell, milli in beyond.items():
                self._held[parent][cell] += milli
            self._asks[parent] += asks

    def _borrowing(self, quota: Quota) -> Milli | None:
        """What it may borrow: where it holds or asks for more than it owns, the rest by what there is of the pool."""
        if quota.borrowing is None:
            return None
        parts = self._of_held(quota.borrowing, self._held[quota.team])
        rest = quota.borrowing - sum(parts.values())
        for ask in self._asks[quota.team]:
            given = min(whole(ask.milli), rest)
            parts[ask.cell] += given
            rest -= given
        for cell, milli in by_room(rest, self._capacity).items():
            parts[cell] += milli
        return parts


def divide(
    teams: Mapping[str, str | None],
    quotas: Iterable[Quota],
    capacity: Mapping[str, int],
    held: Mapping[tuple[str, str], int],
    asked: Sequence[Needed],
) -> dict[tuple[str, str], Part]:
    """The part of each quota of one pool for each cell that has nodes of it, by team and cell; see Division."""
    return Division(teams, quotas, capacity, held, asked).parts() if capacity else {}
