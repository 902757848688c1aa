"""How teams share: recent usage, entitlement, and how far their budgets are used."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Sum

from controlplane.domain.periods import Period, span
from controlplane.models import Budget, Team, TeamUse, Usage
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR
from scheduler.model import team as core
from scheduler.model.settings import Settings
from scheduler.model.snapshot import IDLE, Snapshot
from scheduler.state.session import Session


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget and what was used of it in its present period, GPU hours; times are the cluster's clock."""

    pk: int
    team: str
    period: str
    gpu_hours: int
    is_hard: bool
    used_hours: float
    since: float
    until: float
    version: int

    @property
    def is_used_up(self) -> bool:
        """Whether all of it is used."""
        return self.used_hours >= self.gpu_hours

    @property
    def ratio(self) -> float:
        """Used hours as a ratio of its GPU hours; more than 1 when it is exceeded."""
        return self.used_hours / self.gpu_hours if self.gpu_hours else 1.0


def decayed() -> tuple[core.Use, ...]:
    """The recent usage that the scheduler gets, by team and pool. One query."""
    rows = TeamUse.objects.filter(stated__gt=0).order_by("team__name", "pool")
    return tuple(core.Use(*values) for values in rows.values_list("team__name", "pool", "stated"))


def used_up() -> tuple[core.Budget, ...]:
    """The hard budgets that were found used up. One query."""
    rows = Budget.objects.filter(is_hard=True, used_up_until__isnull=False).order_by("team__name", "period")
    columns = ("team__name", "period", "gpu_hours", "used_then", "used_up_until")
    return tuple(core.Budget(*values) for values in rows.values_list(*columns))


@dataclass(frozen=True, slots=True)
class Share:
    """One team in one pool now, milli-GPU of its subtree: nominal quota, entitlement, allocation, recent usage."""

    team: str
    pool: str
    nominal: int
    entitled: int
    held: int
    decayed: int


def of_teams(now: Snapshot, settings: Settings) -> tuple[Share, ...]:
    """How every team stands in every pool in which it owns, holds, held or is entitled to anything."""
    session = Session(now, settings)
    usage, tree = session.plan.usage, session.plan.usage.tree
    lately: dict[tuple[str, str], int] = defaultdict(int)
    for use in now.use:
        for name in tree.paths.get(use.team, ()):
            lately[name, use.pool] += use.milli
    found = [
        Share(
            team, pool, tree.quota_nodes[team, pool].nominal, milli, usage.total[IDLE][team, pool], lately[team, pool]
        )
        for (team, pool), milli in sorted(session.entitlement.shares.items())
    ]
    return tuple(one for one in found if one.nominal or one.entitled or one.held or one.decayed)


def together(of_cells: Sequence[Sequence[Share]]) -> tuple[Share, ...]:
    """How teams stand in all cells together."""
    if len(of_cells) == 1:
        return tuple(of_cells[0])
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 4)
    for one in (share for shares in of_cells for share in shares):
        for at, milli in enumerate((one.nominal, one.entitled, one.held, one.decayed)):
            sums[one.team, one.pool][at] += milli
    return tuple(Share(*key, *values) for key, values in sorted(sums.items()))


def budgets(at: float, team: str | None = None) -> tuple[BudgetRow, ...]:
    """Every budget, or one team's, with what was used in the period of `at`. Three queries and one a kind of period."""
    rows = Budget.objects.select_related("team").order_by("team__name", "period")
    found = list(rows if team is None else rows.filter(team__name=team))
    below = _below() if found else {}
    used = {period: _used(span(Period(period), at)[0]) for period in sorted({b.period for b in found})}
    return tuple(
        BudgetRow(
            b.pk,
            b.team.name,
            b.period,
            b.gpu_hours,
            b.is_hard,
            sum(used[b.period].get(pk, 0) for pk in below[b.team_id]) / MILLI_SECONDS_PER_GPU_HOUR,
            *span(Period(b.period), at),
            b.version,
        )
        for b in found
    )


def used_hours(at: float, team: Team, period: str) -> float:
    """GPU hours that a team and those below it have used in the period of `at`; 0 for what is no period."""
    if period not in list(Period):
        return 0.0
    used = _used(span(Period(period), at)[0])
    return sum(used.get(pk, 0) for pk in _below()[team.pk]) / MILLI_SECONDS_PER_GPU_HOUR


def budget_at(team: str, period: str) -> Budget | None:
    """A team's budget for a period, or None. For platform admins."""
    return Budget.objects.select_related("team").filter(team__name=team, period=period).first()


def _used(since: float) -> dict[int, int]:
    """milli-GPU seconds that each team's own workloads held since then."""
    rows = Usage.objects.filter(hour__gte=int(since)).order_by().values_list("team_id")
    return dict(rows.annotate(total=Sum("held")))


def _below() -> dict[int, list[int]]:
    """Each team with all below it."""
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    found: dict[int, list[int]] = defaultdict(list)
    for pk in parents:
        above: int | None = pk
        while above is not None and pk not in found[above]:
            found[above].append(pk)
            above = parents[above]
    return found
