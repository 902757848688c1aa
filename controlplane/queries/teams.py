"""Teams with what they own, hold, borrow and keep busy, in milli-GPU."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Q, Sum

from controlplane.models import (
    Membership,
    Node,
    NodePool,
    Placement,
    PlacementState,
    PriorityClass,
    Quota,
    Team,
    TeamSample,
    Workload,
)
from controlplane.queries.shares import BudgetRow, Share
from gpushare.gpu import WHOLE
from scheduler.workload import ACTIVE, WAITING

HOLDS = (PlacementState.BOUND, PlacementState.LEAVING)


@dataclass(frozen=True, slots=True)
class TeamRow:
    """One team now, milli-GPU over all pools; computing is None before the first measurement."""

    name: str
    parent: str
    colour: int
    nominal: int
    held: int
    borrowed: int
    computing: int | None
    waiting: int
    running: int

    @property
    def is_used(self) -> bool:
        """Whether it has anything to show: a parent team usually owns nothing itself."""
        return bool(self.nominal or self.held or self.waiting or self.running)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One team in one pool, milli-GPU; None = no limit."""

    pk: int | None
    pool: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None
    weight: int
    held: int
    entitled: int = 0
    decayed: int = 0

    @property
    def borrowed(self) -> int:
        """What it holds beyond what it owns."""
        return max(0, self.held - self.nominal)


@dataclass(frozen=True, slots=True)
class Branch:
    """A team in the tree with its quotas; depth 0 is a root."""

    row: TeamRow
    depth: int
    members: int
    quotas: tuple[QuotaRow, ...]
    entitled: int = 0  # over all pools, as far as `tree` was told
    decayed: int = 0
    budgets: tuple[BudgetRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A node pool: what it has and what is promised of it, milli-GPU."""

    pk: int
    name: str
    gpu_model: str
    price_per_gpu_hour: float
    nodes: int
    capacity: int
    nominal: int
    held: int

    @property
    def promised_too_much(self) -> int:
        """Nominal quotas beyond the pool; 0 when they fit."""
        return max(0, self.nominal - self.capacity)


def rows(held: Mapping[tuple[int, str], int] | None = None) -> tuple[TeamRow, ...]:
    """Every team, by name; four queries beside `held_by_team_and_pool`, which whoever has asked that already gives."""
    held = held_by_team_and_pool() if held is None else held
    nominal: dict[tuple[int, str], int] = {
        (team, pool): n for team, pool, n in Quota.objects.values_list("team_id", "pool__name", "nominal")
    }
    computing = _computing()
    counts = _counts()
    return tuple(
        _row(pk, values, held, nominal, computing.get(pk), counts.get(pk, (0, 0)))
        for pk, *values in Team.objects.order_by("name").values_list("pk", "name", "parent__name", "colour")
    )


def colours() -> dict[str, int]:
    """The colour of every team, by its name."""
    return dict(Team.objects.order_by("name").values_list("name", "colour"))


def ids() -> dict[int, str]:
    """The name of every team, by its key."""
    return dict(Team.objects.values_list("pk", "name"))


def held_by_team_and_pool() -> dict[tuple[int, str], int]:
    """milli-GPU held now, leaving workers included. One query."""
    live = Placement.objects.filter(state__in=HOLDS).order_by()
    totals = live.values("workload__team_id", "pool").annotate(total=Sum("milli"))
    return {(t["workload__team_id"], t["pool"]): t["total"] or 0 for t in totals}


def tree(
    held: Mapping[tuple[int, str], int], shares: Sequence[Share] = (), budgets: Sequence[BudgetRow] = ()
) -> tuple[Branch, ...]:
    """Teams as a tree, parents before their children, with the quotas, shares and budgets of each."""
    by_name = {row.name: row for row in rows(held)}
    members = dict(Membership.objects.order_by().values_list("team__name").annotate(n=Count("pk")))
    quotas: dict[str, list[QuotaRow]] = defaultdict(list)
    stand = {(one.team, one.pool): one for one in shares}
    entitled, decayed = Counter[str](), Counter[str]()
    for one in shares:
        entitled[one.team] += one.entitled
        decayed[one.team] += one.decayed
    for q in Quota.objects.select_related("team", "pool").order_by("pool__name"):
        here = stand.get((q.team.name, q.pool.name))
        quotas[q.team.name].append(
            QuotaRow(
                q.pk,
                q.pool.name,
                q.nominal,
                q.borrowing_limit,
                q.lending_limit,
                q.weight,
                held.get((q.team_id, q.pool.name), 0),
                here.entitled if here else 0,
                here.decayed if here else 0,
            )
        )
    children: dict[str, list[str]] = defaultdict(list)
    for row in by_name.values():
        children[row.parent].append(row.name)
    found: list[Branch] = []
    stack = [(name, 0) for name in reversed(children[""])]
    while stack:
        name, depth = stack.pop()
        mine = tuple(one for one in budgets if one.team == name)
        sums = (entitled[name], decayed[name], mine)
        found.append(Branch(by_name[name], depth, members.get(name, 0), tuple(quotas[name]), *sums))
        stack += [(child, depth + 1) for child in reversed(children[name])]
    return tuple(found)


def pools(holdings: Mapping[tuple[int, str], int] | None = None) -> tuple[PoolRow, ...]:
    """Node pools with what they have and what is promised."""
    healthy: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for pool, gpus, lost, ready in Node.objects.values_list("pool_id", "gpu_count", "lost_gpus", "ready"):
        nodes, total = healthy[pool]
        healthy[pool] = (nodes + 1, total + (gpus - len(lost)) * WHOLE * ready)
    nominal = dict(Quota.objects.order_by().values_list("pool_id").annotate(total=Sum("nominal")))
    held: dict[str, int] = defaultdict(int)
    for (_, pool_name), milli in (held_by_team_and_pool() if holdings is None else holdings).items():
        held[pool_name] += milli
    return tuple(
        PoolRow(
            p.pk,
            p.name,
            p.gpu_model,
            float(p.price_per_gpu_hour),
            *healthy[p.pk],
            nominal=nominal.get(p.pk, 0),
            held=held[p.name],
        )
        for p in NodePool.objects.order_by("name")
    )


def members(team: str) -> tuple[tuple[str, str], ...]:
    """(username, role) of a team's own members."""
    found = Membership.objects.filter(team__name=team).order_by("user__username")
    return tuple(found.values_list("user__username", "role"))


def priority_classes() -> list[str]:
    """The names of the priority classes, least first."""
    return list(PriorityClass.objects.order_by("value").values_list("name", flat=True))


def _row(
    pk: int,
    values: list[object],
    held: Mapping[tuple[int, str], int],
    nominal: Mapping[tuple[int, str], int],
    computing: int | None,
    counts: tuple[int, int],
) -> TeamRow:
    name, parent, colour = values
    mine = {pool: milli for (team, pool), milli in held.items() if team == pk}
    total = sum(mine.values())
    return TeamRow(
        name=str(name),
        parent=str(parent or ""),
        colour=int(str(colour)),
        nominal=sum(n for (team, _), n in nominal.items() if team == pk),
        held=total,
        borrowed=sum(max(0, milli - nominal.get((pk, pool), 0)) for pool, milli in mine.items()),
        # What is measured is older than what is held: it never shows more than that.
        computing=None if computing is None else min(computing, total),
        waiting=counts[0],
        running=counts[1],
    )


def _computing() -> dict[int, int]:
    """Measured milli-GPU of each team at the last accounting."""
    last = TeamSample.objects.aggregate(at=Max("at"))["at"]
    return dict(TeamSample.objects.filter(at=last).values_list("team_id", "computing")) if last is not None else {}


def _counts() -> dict[int, tuple[int, int]]:
    waiting, active = ([p.value for p in phases] for phases in (WAITING, ACTIVE))
    found = (
        Workload.objects.filter(phase__in=[*waiting, *active])
        .order_by()
        .values_list("team_id")
        .annotate(w=Count("pk", filter=Q(phase__in=waiting)), r=Count("pk", filter=Q(phase__in=active)))
    )
    return {team: (w, r) for team, w, r in found}
