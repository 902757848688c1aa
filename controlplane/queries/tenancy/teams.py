"""Teams with what they own, hold, borrow and keep busy, in milli-GPU."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from django.db.models import Count, Max, Q, Sum

from controlplane.domain.sharedemands import words
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
from controlplane.models import Reallocation as Reallocation
from controlplane.models import Takes as Takes  # for the API, which does not load models
from controlplane.queries.tenancy.shares import BudgetRow, Share
from gpushare.backends.catalogue import enforcer_of, rank
from gpushare.gpu import WHOLE, Enforcer
from scheduler.model.team import owned, owned_together
from scheduler.model.workload import ACTIVE, WAITING

MANY_TEAMS, MANY_WORKLOADS = 50, 1000  # from so many on a page of them is put together in two steps
HOLDS = (PlacementState.BOUND, PlacementState.LEAVING)


@dataclass(frozen=True, slots=True)
class TeamRow:
    """One team now, milli-GPU over all pools; computing is None before the first measurement.

    All of it is the team's own: its own workloads, and of its quota what no team below owns. In a `Branch` all of it is
    the team's with all below it.
    """

    name: str
    parent: str
    colour: int
    nominal: int
    held: int
    borrowed: int
    computing: int | None
    waiting: int
    running: int
    shares_with_others: bool = False
    reallocation: str = Reallocation.RECOMMEND
    notebook_park_minutes: int = 0
    notebook_max_milli: int = 0
    notebook_extend: bool = True
    share_demands: tuple[str, ...] = ()

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
    held: int  # like all that follows, with the teams below
    owned: int  # no less than nominal, and than what the teams below own
    entitled: int = 0
    decayed: int = 0

    @property
    def borrowed(self) -> int:
        """What it holds beyond what it owns."""
        return max(0, self.held - self.owned)


@dataclass(frozen=True, slots=True)
class Branch:
    """A team in the tree with its quotas; depth 0 is a root. Every figure is of the team with all below it.

    own: the same without those below, None where there are none.
    """

    row: TeamRow
    own: TeamRow | None
    depth: int
    members: int
    quotas: tuple[QuotaRow, ...]
    entitled: int = 0  # over all pools, as far as `tree` was told
    decayed: int = 0
    budgets: tuple[BudgetRow, ...] = ()
    other_pods: int = 0  # of its own namespace: no workloads, but they take room
    other_gpus: int = 0


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
    takes: Takes = Takes.BOTH
    labelled: int = 0  # nodes that are labelled for shares
    enforcers: tuple[Enforcer, ...] = ()  # what holds shares on these, each once, sorted
    chosen: str = ""  # what was chosen for the pool; empty: nothing, its nodes say

    @property
    def share_nodes(self) -> int:
        """How many of its nodes take shares."""
        return 0 if self.takes == Takes.WHOLE else self.labelled

    @property
    def enforced_by(self) -> str | None:
        """What holds a share in it to its part, on each node that takes shares; None where none may go.

        Where nodes differ it is what guarantees least, as a share may come to lie there.
        """
        if not self.share_nodes:
            return None
        return min(self.enforcers, key=rank).value

    @property
    def promised_too_much(self) -> int:
        """Nominal quotas beyond the pool; 0 when they fit."""
        return max(0, self.nominal - self.capacity)


def rows(held: Mapping[tuple[int, str], int] | None = None) -> tuple[TeamRow, ...]:
    """Every team, by name; four queries beside `held_by_team_and_pool`, which a caller that has it passes in."""
    return tuple(_row(one) for one in _stands(held_by_team_and_pool() if held is None else held))


def are_many() -> bool:
    """Whether how all teams stand takes a while to work out: as a round does, from all that is alive."""
    alive = Workload.objects.filter(phase__in=[phase.value for phase in (*ACTIVE, *WAITING)])
    return Team.objects.count() > MANY_TEAMS or alive.count() > MANY_WORKLOADS


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
    held: Mapping[tuple[int, str], int], shares: Sequence[Share], budgets: Sequence[BudgetRow] = ()
) -> tuple[Branch, ...]:
    """Teams as a tree, parents before their children, with the quotas, shares and budgets of each."""
    by_name = {one.name: one for one in _stands(held)}
    members = dict(Membership.objects.order_by().values_list("team__name").annotate(n=Count("pk")))
    children: dict[str, list[str]] = defaultdict(list)
    for one in by_name.values():
        children[one.parent].append(one.name)
    quotas = _quotas(shares)
    others = {name: counts for name, *counts in Team.objects.values_list("name", "other_pods", "other_gpus")}
    entitled, decayed = Counter[str](), Counter[str]()
    for share in shares:
        entitled[share.team] += share.entitled
        decayed[share.team] += share.decayed

    def whole(name: str) -> _Stand:
        return reduce(_Stand.with_one_below, map(whole, children[name]), by_name[name])

    found: list[Branch] = []
    stack = [(name, 0) for name in reversed(children[""])]
    while stack:
        name, depth = stack.pop()
        own = _row(by_name[name]) if children[name] else None
        mine = tuple(one for one in budgets if one.team == name)
        of_quota = (members.get(name, 0), quotas.get(name, ()), entitled[name], decayed[name], mine, *others[name])
        found.append(Branch(_row(whole(name)), own, depth, *of_quota))
        stack += [(child, depth + 1) for child in reversed(children[name])]
    return tuple(found)


def pool_models() -> list[tuple[str, str]]:
    """The name and GPU model of every node pool. One query."""
    return list(NodePool.objects.order_by("name").values_list("name", "gpu_model"))


def pools(holdings: Mapping[tuple[int, str], int] | None = None) -> tuple[PoolRow, ...]:
    """Node pools with what they have and what is promised."""
    healthy: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    labelled, enforcers = Counter[int](), defaultdict[int, set[Enforcer]](set)
    columns = ("pool_id", "gpu_count", "lost_gpus", "ready", "takes_shares", "enforces_limits", "enforcer")
    for pool, gpus, lost, ready, takes_shares, on, says, chosen in Node.objects.values_list(*columns, "pool__enforcer"):
        nodes, total = healthy[pool]
        if takes_shares and gpus > 0:
            labelled[pool] += 1
            enforcers[pool].add(enforcer_of(chosen, says, enforces=on))
        healthy[pool] = (nodes + 1, total + (gpus - len(lost)) * WHOLE * ready)
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    nominal = _nominal()
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
            nominal=owned_together(parents, nominal[p.name]),
            held=held[p.name],
            takes=Takes(p.takes),
            labelled=labelled[p.pk],
            enforcers=tuple(sorted(enforcers[p.pk])),
            chosen=p.enforcer,
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


@dataclass(frozen=True, slots=True)
class _Stand:
    """What a team holds and owns by pool, and what it does, alone or with teams below."""

    name: str
    parent: str
    colour: int
    held: Counter[str]
    own: Counter[str]
    computing: int | None
    waiting: int
    running: int
    shares_with_others: bool
    reallocation: str
    notebook_park_minutes: int
    notebook_max_milli: int
    notebook_extend: bool
    share_demands: str

    def with_one_below(self, below: "_Stand") -> "_Stand":
        """Both together, under this one's name."""
        measured = [n for n in (self.computing, below.computing) if n is not None]
        return replace(
            self,
            held=self.held + below.held,
            own=self.own + below.own,
            computing=sum(measured) if measured else None,
            waiting=self.waiting + below.waiting,
            running=self.running + below.running,
        )


def _stands(held: Mapping[tuple[int, str], int]) -> list[_Stand]:
    """Every team alone, by name."""
    found = list(Team.objects.order_by("name").values_list(*_TEAM))
    own = _own_quota({pk: parent for pk, _, parent, *_ in found})
    computing, counts = _computing(), _counts()
    return [
        _Stand(
            name, parent or "", colour, _of(pk, held), _of(pk, own), computing.get(pk), *counts.get(pk, (0, 0)), *wants
        )
        for pk, name, _, parent, colour, *wants in found
    ]


_TEAM = (
    "pk", "name", "parent_id", "parent__name", "colour", "shares_with_others", "reallocation",
    "notebook_park_minutes", "notebook_max_milli", "notebook_extend", "share_demands",
)  # fmt: skip


def _row(stand: _Stand) -> TeamRow:
    total = stand.held.total()
    return TeamRow(
        name=stand.name,
        parent=stand.parent,
        colour=stand.colour,
        nominal=stand.own.total(),
        held=total,
        borrowed=(stand.held - stand.own).total(),  # what is left above 0 in each pool
        # What is measured is older than what is held: it never shows more than that.
        computing=None if stand.computing is None else min(stand.computing, total),
        waiting=stand.waiting,
        running=stand.running,
        shares_with_others=stand.shares_with_others,
        reallocation=stand.reallocation,
        notebook_park_minutes=stand.notebook_park_minutes,
        notebook_max_milli=stand.notebook_max_milli,
        notebook_extend=stand.notebook_extend,
        share_demands=words(stand.share_demands),
    )


def _of(team: int, by_pool: Mapping[tuple[int, str], int]) -> Counter[str]:
    return Counter({pool: milli for (pk, pool), milli in by_pool.items() if pk == team})


def _nominal() -> dict[str, dict[int, int]]:
    """Nominal quotas in milli-GPU by pool and team; a pool without any has none."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for pool, team, milli in Quota.objects.values_list("pool__name", "team_id", "nominal"):
        found[pool][team] = milli
    return found


def _own_quota(parents: Mapping[int, int | None]) -> dict[tuple[int, str], int]:
    """What of each team's nominal quota no team below has, by team and pool (quota/tree.py: `QuotaNode.own`)."""
    found: dict[tuple[int, str], int] = {}
    for pool, said in _nominal().items():
        all_owned = owned(parents, said)
        found |= {(team, pool): all_owned[team] for team in said}
        for team, parent in parents.items():
            if parent is not None and (parent, pool) in found:
                found[parent, pool] -= all_owned[team]
    return found


def _quotas(shares: Sequence[Share]) -> dict[str, tuple[QuotaRow, ...]]:
    """The quotas of each team with how it stands in the pool."""
    stand = {(one.team, one.pool): one for one in shares}
    found: dict[str, tuple[QuotaRow, ...]] = {}
    for q in Quota.objects.select_related("team", "pool").order_by("pool__name"):
        here = stand.get((q.team.name, q.pool.name))
        limits = (q.nominal, q.borrowing_limit, q.lending_limit, q.weight)
        now = (here.held, here.nominal, here.entitled, here.decayed) if here else (0, q.nominal)
        found[q.team.name] = (*found.get(q.team.name, ()), QuotaRow(q.pk, q.pool.name, *limits, *now))
    return found


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


def pool_names() -> list[tuple[str, str]]:
    """(name, GPU model) of every node pool."""
    return list(NodePool.objects.order_by("name").values_list("name", "gpu_model"))
