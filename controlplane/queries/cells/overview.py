"""How the cells stand: machines, work, deciders, and what each has of the quotas. Nothing where there is one cell."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from django.db.models import Count, Q, Sum

from controlplane.domain.deciders import SCHEDULE
from controlplane.models import Node, Placement, Quota, QuotaPart, Workload, bulk
from controlplane.queries.accounts import access
from controlplane.queries.cells import views
from controlplane.queries.reports import health
from controlplane.queries.tenancy import platform
from controlplane.queries.tenancy.teams import HOLDS
from gpushare.gpu import WHOLE
from scheduler.cells.route import shown
from scheduler.model.cell import Cell, cell_of, names
from scheduler.model.workload import ACTIVE, WAITING


class Deciding(StrEnum):
    """How a cell's decider fares. TAKEN_OVER: by a worker that has not completed a round there yet."""

    DECIDING = "deciding"
    TAKEN_OVER = "taken-over"
    LATE = "late"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides for a cell; the age is in real seconds since its last complete round, None before the first.

    holder and error name machines and what is wrong with them: they are for platform admins, empty for others.
    """

    state: Deciding
    age_seconds: float | None
    took_ms: float
    holder: str = ""
    error: str = ""


@dataclass(slots=True)
class _Stand:
    """What is counted of one cell, milli-GPU; capacity is of healthy GPUs on nodes that are ready."""

    pools: set[str] = field(default_factory=set)
    racks: set[str] = field(default_factory=set)
    nodes: int = 0
    capacity: int = 0
    held: int = 0
    running: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell: where its nodes are, what they have and hold (milli-GPU), how many workloads, and its decider."""

    name: str
    pools: tuple[str, ...]
    racks: tuple[str, ...]
    nodes: int
    capacity: int
    held: int
    running: int
    waiting: int
    decider: Decider


def rows(user: access.Person) -> tuple[CellRow, ...]:
    """Every cell by its shown name. Seven queries."""
    cells = views.known()
    if not cells:
        return ()
    stands = {name: _Stand() for name in names(cells)}
    of_node = _count_machines(stands, cells)
    _count_work(stands, of_node)
    deciders = _deciders(stands, with_names=access.is_platform_admin(user))
    found = (
        CellRow(
            shown(name),
            tuple(sorted(one.pools)),
            tuple(sorted(one.racks)),
            one.nodes,
            one.capacity,
            one.held,
            one.running,
            one.waiting,
            deciders[name],
        )
        for name, one in stands.items()
    )
    return tuple(sorted(found, key=lambda row: row.name))


def _count_machines(stands: dict[str, _Stand], cells: Sequence[Cell]) -> dict[str, str]:
    """Count the nodes of each cell; tell the cell of each."""
    found = {}
    columns = ("name", "pool__name", "rack", "gpu_count", "lost_gpus", "ready")
    for node, pool, rack, gpus, lost, is_ready in bulk.select(Node, columns):
        found[node] = cell_of(cells, pool, rack)
        one = stands[found[node]]
        one.nodes += 1
        one.capacity += (gpus - len(lost)) * WHOLE * is_ready
        one.pools.add(pool)
        one.racks.update([rack] if rack else [])
    return found


def _count_work(stands: dict[str, _Stand], of_node: dict[str, str]) -> None:
    """Count what is held on the nodes of each cell, and its workloads."""
    held = Placement.objects.filter(state__in=HOLDS).order_by().values_list("node").annotate(sum=Sum("milli"))
    for node, milli in held:
        if node in of_node:  # else it is gone from the cluster
            stands[of_node[node]].held += milli
    waiting, active = ([phase.value for phase in phases] for phases in (WAITING, ACTIVE))
    counts = (
        Workload.objects.filter(phase__in=[*waiting, *active])
        .order_by()
        .values_list("cell")
        .annotate(w=Count("pk", filter=Q(phase__in=waiting)), r=Count("pk", filter=Q(phase__in=active)))
    )
    for cell, waits, runs in counts:
        if cell in stands:
            stands[cell].waiting, stands[cell].running = waits, runs


def _deciders(cells: Iterable[str], *, with_names: bool) -> dict[str, Decider]:
    holders = health.holders()
    beats = {loop.name: loop for loop in health.loops()}
    found = {}
    for cell in cells:
        beat, holder = beats[f"{SCHEDULE}/{shown(cell)}"], holders.get(f"{SCHEDULE}/{cell}" if cell else SCHEDULE, "")
        named = (holder, beat.error) if with_names else ()
        found[cell] = Decider(_state(beat, holder), beat.age_seconds, beat.took_ms, *named)
    return found


def _state(beat: health.Loop, holder: str) -> Deciding:
    if not holder:
        return Deciding.NONE
    if beat.is_stalled:
        return Deciding.LATE
    return Deciding.DECIDING if beat.holder == holder else Deciding.TAKEN_OVER


# --- quotas -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartRow:
    """What one cell has of a quota, milli-GPU; None = no limit."""

    cell: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


@dataclass(frozen=True, slots=True)
class Divided:
    """A team's quota in a pool and its parts, milli-GPU; None = no limit."""

    team: str
    colour: int
    pool: str
    nominal: int
    borrowing_limit: int | None
    parts: tuple[PartRow, ...]

    @property
    def given(self) -> int:
        """Nominal quota that the cells have together; less than all of it while a part goes from one to another."""
        return sum(part.nominal for part in self.parts)

    @property
    def given_to_borrow(self) -> int | None:
        """What the cells may borrow together."""
        return None if self.borrowing_limit is None else sum(part.borrowing_limit or 0 for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether the cells have all of it."""
        return (self.given, self.given_to_borrow) == (self.nominal, self.borrowing_limit)


def count_divided(user: access.Person) -> int:
    """How many quotas of the teams that the user may see there are."""
    return platform.quotas(user).count()


def divided(user: access.Person, offset: int = 0, limit: int | None = None) -> tuple[Divided, ...]:
    """The quotas of the teams that the user may see with their parts, by team and pool."""
    found = platform.quotas(user)[offset : None if limit is None else offset + limit]
    return tuple(_divided(quota) for quota in found)


def _divided(quota: Quota) -> Divided:
    parts = sorted(map(_part, quota.parts.all()), key=lambda part: part.cell)
    limits = (quota.nominal, quota.borrowing_limit)
    return Divided(quota.team.name, quota.team.colour, quota.pool.name, *limits, tuple(parts))


def _part(part: QuotaPart) -> PartRow:
    return PartRow(shown(part.cell), part.nominal, part.borrowing_limit, part.lending_limit)


def parts_by_cell(found: Iterable[Divided]) -> dict[str, list[tuple[Divided, PartRow]]]:
    """The parts of each cell, each with its quota."""
    by_cell: dict[str, list[tuple[Divided, PartRow]]] = {}
    for whole, part in chain.from_iterable(((one, part) for part in one.parts) for one in found):
        by_cell.setdefault(part.cell, []).append((whole, part))
    return by_cell
