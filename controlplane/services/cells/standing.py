"""What there is in each cell: machines, quotas and their parts, and what teams hold and ask for there."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Max, Sum

from controlplane.domain.ondemand import is_on_demand
from controlplane.jobspec.podsets import roles_of, share_of_row
from controlplane.models import CellLoad, Node, Placement, PlacementState, Quota, QuotaPart, Team, Workload, bulk
from controlplane.services.workloads.feasibility import Machines
from gpushare.gpu import WHOLE
from scheduler.cells.divide import Part
from scheduler.model import team as tenants
from scheduler.model.cell import Cell, cell_of, names
from scheduler.model.workload import Level, Phase, ResourceRequest, Role

Amount = tuple[str, str, str]  # a team, a pool and a cell
Key = tuple[str, str]  # a team and a pool, or a pool and a cell


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a workload asks for, as far as its cell depends on it; named: the cell that its user chose."""

    team: str
    ask: ResourceRequest
    workers: int  # without which it does not start
    most: int  # that it is to have
    roles: tuple[Role, ...] = ()
    require: Level | None = None
    named: str | None = None

    @property
    def need(self) -> int:
        """milli-GPU without which it does not start."""
        return self.ask.milli * self.workers + self._of_roles

    @property
    def asked(self) -> int:
        """milli-GPU that it is to have."""
        return self.ask.milli * self.most + self._of_roles

    @property
    def _of_roles(self) -> int:
        return sum(role.count * role.ask.milli for role in self.roles)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A workload that waits with nothing placed."""

    uid: UUID
    cell: str
    wanted: Wanted


@dataclass(frozen=True)
class Ground:
    """The machines of each cell, and the quotas; milli-GPU."""

    cells: tuple[Cell, ...]
    machines: Mapping[str, Sequence[tuple[str, Machines]]]  # by cell: their pool, and those of one shape
    quotas: Mapping[Key, tenants.Quota]  # by team and pool
    numbers: Mapping[Key, int]  # of the quotas' rows
    parents: Mapping[str, str | None]
    capacity: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))  # by pool and cell

    def __post_init__(self) -> None:
        for cell, shapes in self.machines.items():
            for pool, machine in shapes:
                there = self.capacity[pool]
                there[cell] = there.get(cell, 0) + machine.gpus * machine.count * WHOLE

    def pools(self, cell: str, ask: ResourceRequest) -> list[str]:
        """The pools that an ask may use there, the best one first: as its models are named, then by name."""
        order = {model: number for number, model in enumerate(ask.models)}
        found = {
            (order.get(machine.model, 0), pool)
            for pool, machine in self.machines.get(cell, ())
            if machine.gpus and (not order or machine.model in order) and machine.gpu_memory >= ask.gpu_memory
        }
        return list(dict.fromkeys(pool for _, pool in sorted(found)))

    def home(self, cell: str, team: str, ask: ResourceRequest) -> str | None:
        """The pool in which it counts as asked for: the first that it may use and its team owns of, else the first."""
        pools = self.pools(cell, ask)
        owned = (pool for pool in pools if (q := self.quotas.get((team, pool))) is not None and q.nominal)
        return next(owned, next(iter(pools), None))


def ground(cells: tuple[Cell, ...]) -> Ground:
    """The cells as their machines and quotas are now. Four queries."""
    shape = ("zone", "rack", "gpu_model", "gpu_count", "gpu_memory", "cpu_milli", "memory")
    machines: dict[str, list[tuple[str, Machines]]] = {cell: [] for cell in names(cells)}
    for pool, *values in bulk.count(Node, ("pool__name", *shape)):
        machine = Machines(*values)
        machines[cell_of(cells, pool, machine.rack)].append((pool, machine))
    columns = ("pk", "team__name", "pool__name", "nominal", "borrowing_limit", "lending_limit", "weight")
    rows = list(Quota.objects.order_by("team__name", "pool__name").values_list(*columns))
    return Ground(
        cells,
        machines,
        {(team, pool): tenants.Quota(team, pool, *values) for _, team, pool, *values in rows},
        {(team, pool): pk for pk, team, pool, *_ in rows},
        dict(Team.objects.values_list("name", "parent__name")),
    )


def held() -> dict[Amount, int]:
    """milli-GPU that each team's own workloads hold, by team, pool and the workload's cell. One query."""
    live = Placement.objects.filter(is_settled=False).exclude(state=PlacementState.RELEASED).order_by()
    rows = live.values_list("workload__team__name", "pool", "workload__cell").annotate(sum=Sum("milli"))
    return {(team, pool, cell): milli for team, pool, cell, milli in rows}


_COLUMNS = (
    "uid", "cell", "team__name", "gpus", "share_guarantee", "share_limit", "gpu_memory", "cpu_milli", "memory",
    "gpu_models", "workers", "workers_min", "roles", "topology_require", "kind", "offloads",
)  # fmt: skip


def waiting(after: int = 0) -> list[Waiting]:
    """What waits, by priority and then by submission; only what was submitted after that number. One query."""
    where = {"phase": Phase.QUEUED, "seq__gt": after} if after else {"phase": Phase.QUEUED}
    rows = bulk.select(Workload, _COLUMNS, where, order=("-priority", "seq"))
    return [_waiting(*row) for row in rows]


def _waiting(
    uid: UUID, cell: str, team: str, gpus: int, guarantee: int, limit: int, gpu_memory: int, cpu_milli: int,
    memory: int, models: list[str], count: int, least: int, roles: Any, require: int | None, kind: str, offloads: bool,
) -> Waiting:  # fmt: skip
    share = share_of_row(guarantee, limit, gpu_memory, on_demand=is_on_demand(kind, offloads))
    ask = ResourceRequest(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models))
    level = None if require is None else Level(require)
    made = Wanted(team, ask, max(1, least), max(1, count), roles_of(roles) if roles else (), level)
    return Waiting(uid, cell, made)


def newest() -> int:
    """The number of the newest workload; 0 before the first."""
    return Workload.objects.aggregate(last=Max("seq"))["last"] or 0


def stored() -> dict[Amount, Part]:
    """All parts of quotas as they are in force, by team, pool and cell. One query."""
    columns = ("quota__team__name", "quota__pool__name", "cell", "nominal", "borrowing_limit", "lending_limit")
    return {(team, pool, cell): Part(*v) for team, pool, cell, *v in QuotaPart.objects.values_list(*columns)}


def note(held: Mapping[Amount, int], asked: Mapping[Amount, int]) -> None:
    """Keep what was counted, by which new work is sent to cells until it is counted again."""
    teams, seq = dict(Team.objects.values_list("name", "pk")), newest()
    rows = [(teams[key[0]], *key[1:], held.get(key, 0), asked.get(key, 0), seq) for key in sorted({*held, *asked})]
    CellLoad.objects.all().delete()
    bulk.insert(CellLoad, ("team_id", "pool", "cell", "held", "asked", "seq"), rows)


def noted() -> tuple[dict[Amount, int], int]:
    """What teams held and asked for together by team, pool and cell, and the newest workload that was counted."""
    rows = list(CellLoad.objects.values_list("team__name", "pool", "cell", "held", "asked", "seq"))
    return {(team, pool, cell): h + a for team, pool, cell, h, a, _ in rows}, max((row[-1] for row in rows), default=0)


def add_asked(on: Ground, found: dict[Amount, int], some: Iterable[Waiting]) -> None:
    """Add what these ask for, by team, pool and cell."""
    for one in some:
        if (pool := on.home(one.cell, one.wanted.team, one.wanted.ask)) is not None:
            key = one.wanted.team, pool, one.cell
            found[key] = found.get(key, 0) + one.wanted.asked
