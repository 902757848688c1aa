"""The cell that a workload goes to; the rule is scheduler/cells/route.py."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from controlplane.services.cells import standing
from controlplane.services.cells.standing import Amount, Ground, Waiting, Wanted
from controlplane.services.errors import Refused
from controlplane.services.scheduling import inforce
from controlplane.services.workloads import feasibility
from gpushare.gpu import WHOLE
from scheduler.cells.divide import Part
from scheduler.cells.route import NoCellError, Room, route, shown
from scheduler.model.cell import REST, Cell, names


class Router:
    """Sends workloads to cells one after the other: each counts for the next one."""

    def __init__(self, on: Ground, limits: Mapping[Amount, Part], taken: Mapping[Amount, int]) -> None:
        """limits: parts of quotas. taken: milli-GPU that teams hold and ask for. Both by team, pool and cell."""
        self._on, self._limits = on, limits
        self._taken = dict(taken)
        self._by_pool: dict[tuple[str, str], int] = defaultdict(int)
        for (_, pool, cell), milli in taken.items():
            self._by_pool[pool, cell] += milli
        self._held: dict[tuple[object, ...], bool] = {}

    def cell_for(self, wanted: Wanted) -> str:
        """Its cell; it counts there from now on. Raises NoCellError."""
        cells = names(self._on.cells)
        if not any(self._on.machines.values()):  # no machine is known yet: each of them may come
            return wanted.named if wanted.named is not None else cells[0]
        rooms = [self.room(cell, wanted) for cell in cells if self._on.machines.get(cell) or cell == wanted.named]
        chosen = route(wanted.need, rooms, _words(wanted), wanted.named)
        self.count(chosen, wanted)
        return chosen

    def better(self, cell: str, wanted: Wanted) -> str:
        """The cell for one that waits in `cell` and does not count: another one if that has room now, and this has not.

        One whose cell is gone, or could never hold it any more, goes wherever it could start.
        """
        rooms = {other: self.room(other, wanted) for other in names(self._on.cells)}
        able = {other: room for other, room in rooms.items() if room.could_ever_start(wanted.need)}
        if cell in able and (not wanted.need or able[cell].emptiness(wanted.need) >= 0):
            return cell
        now = {other: room for other, room in able.items() if room.emptiness(wanted.need) >= 0}
        found = now or ({} if cell in able else able)
        if not found:
            return cell if cell in rooms else REST
        return min(found, key=lambda other: (-found[other].emptiness(wanted.need), other))

    def count(self, cell: str, wanted: Wanted, sign: int = 1) -> None:
        """Have a workload count where it goes, or with sign -1 no more where it was."""
        if (pool := self._on.home(cell, wanted.team, wanted.ask)) is not None:
            key = wanted.team, pool, cell
            self._taken[key] = self._taken.get(key, 0) + sign * wanted.asked
            self._by_pool[pool, cell] += sign * wanted.asked

    def room(self, cell: str, wanted: Wanted) -> Room:
        """One cell as it is for this workload."""
        pools = self._on.pools(cell, wanted.ask) if wanted.ask.milli else []
        capacity = sum(self._on.capacity[pool].get(cell, 0) for pool in pools)
        free = capacity - sum(self._by_pool[pool, cell] for pool in pools)
        allowed = self._allowed(cell, wanted.team, pools) if pools else None
        left = None if allowed is None else self._left(cell, wanted.team, pools)
        return Room(cell, self._holds(cell, wanted), capacity, free, allowed, left)

    def _holds(self, cell: str, wanted: Wanted) -> bool:
        key = cell, wanted.ask, wanted.workers, wanted.roles, wanted.require
        if (known := self._held.get(key)) is None:
            known = self._held[key] = self._would_hold(cell, wanted)
        return known

    def _would_hold(self, cell: str, wanted: Wanted) -> bool:
        machines = [machine for _, machine in self._on.machines.get(cell, ())]
        parts = [(wanted.ask, wanted.workers), *((role.ask, role.count) for role in wanted.roles)]
        try:
            for ask, count in parts:
                feasibility.check(ask=ask, workers=count, require=wanted.require, among=machines)
        except Refused:
            return False
        return bool(machines)

    def _allowed(self, cell: str, team: str, pools: Iterable[str]) -> int | None:
        """What the team may ever hold of these pools there; None without a limit in one of them."""
        total = 0
        for pool in pools:
            quota = self._on.quotas.get((team, pool))
            if quota is None or quota.borrowing is None:
                return None
            total += min(quota.nominal + quota.borrowing, self._on.capacity[pool].get(cell, 0))
        return total

    def _left(self, cell: str, team: str, pools: Iterable[str]) -> int:
        """What the team may take there beyond what it holds and asks for, by its parts as they are now."""
        total = 0
        for pool in pools:
            part = self._limits.get((team, pool, cell))
            total += (part.nominal + (part.borrowing or 0) if part else 0) - self._taken.get((team, pool, cell), 0)
        return total


def at_submission(cells: tuple[Cell, ...]) -> Router:
    """A router by what was counted last, and what was submitted since."""
    on, limits = standing.ground(cells), standing.stored()
    taken, since = standing.noted()
    standing.add_asked(on, taken, standing.waiting(after=since))
    return Router(on, limits, taken)


def submitted(wanted: Iterable[Wanted]) -> list[str]:
    """The cell of each of these workloads. Refused 422 where none can hold it, or where it names one there is not."""
    now, asked = inforce.now(), list(wanted)
    if not now.cells:
        for one in asked:
            if one.named not in (None, REST):  # what no cell names is all of it
                message = f"cell is {shown(one.named)}, but this cluster is one cell. Leave the cell out."
                raise Refused(422, "NoCells", "cell", message)
        return [""] * len(asked)
    router = at_submission(now.cells)
    return [_routed(router, one, now.cells) for one in asked]


def _routed(router: Router, wanted: Wanted, cells: tuple[Cell, ...]) -> str:
    if wanted.named is not None and wanted.named not in names(cells):
        there = ", ".join(shown(cell) for cell in names(cells))
        raise Refused(422, "NoSuchCell", "cell", f"There is no cell {wanted.named}. The cells are {there}.")
    try:
        return router.cell_for(wanted)
    except NoCellError as none:
        raise Refused(422, "NoCell", "cell" if wanted.named is not None else "workers", str(none)) from None


def elsewhere(router: Router, one: Waiting) -> str | None:
    """The cell to which a waiting workload is to go, None to stay; it counts there from then on."""
    router.count(one.cell, one.wanted, -1)
    cell = router.better(one.cell, one.wanted)
    router.count(cell, one.wanted)
    return None if cell == one.cell else cell


def _words(wanted: Wanted) -> str:
    """What it asks for, in words."""
    models = f" of model {' or '.join(wanted.ask.models)}" if wanted.ask.models else ""
    if wanted.ask.share:
        return f"{wanted.workers} shares of a GPU{models}"
    if not wanted.need:
        return f"{wanted.workers} workers without GPUs"
    return f"{wanted.need / WHOLE:g} GPUs{models}"
