"""Budgets of GPU hours: what an admin sets, and the moment one is used up. Used hours come from the usage ledger."""

from collections.abc import Mapping

from django.db import transaction
from django.db.models import F

from controlplane.domain.periods import Period, span
from controlplane.models import Budget, Team
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes

MAX_HOURS = 10**9
USED_UP = "UsedUpAlready"


@transaction.atomic
def save(
    *,
    team: Team,
    period: str,
    gpu_hours: int,
    is_hard: bool,
    actor: str,
    version: int | None = None,
    used_hours: float = 0.0,
    accept_used_up: bool = False,
) -> Budget:
    """Set a team's budget for a period of the cluster's clock.

    `version` is the one the caller saw (None: whatever it is); Refused 412 if another has changed it meanwhile.
    `used_hours` is what is used already in the present period: Refused 422 with USED_UP if that is as much as the
    changed budget or more, unless the caller accepts it.
    """
    if period not in list(Period):
        raise Refused(422, "BadBudget", "period", f"period is {period}. Give {', '.join(Period)}.")
    if isinstance(gpu_hours, bool) or not isinstance(gpu_hours, int) or not 1 <= gpu_hours <= MAX_HOURS:
        message = f"gpu_hours is {gpu_hours}. Give a whole number from 1 to {MAX_HOURS}."
        raise Refused(422, "BadBudget", "gpu_hours", message)
    values = {"gpu_hours": gpu_hours, "is_hard": is_hard}
    before = Budget.objects.select_for_update(no_key=True).filter(team=team, period=period).first()
    if version is not None and version != (before.version if before else 0):
        now = f"its version is {before.version}, not {version}" if before else "there is none now"
        message = f"The budget of {team} for each {period} was changed meanwhile: {now}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    was = {name: getattr(before, name) for name in values} if before else {}
    if was != values and used_hours >= gpu_hours and not accept_used_up:
        raise Refused(422, USED_UP, "gpu_hours", _used_up(team, period, gpu_hours, is_hard, used_hours))
    if before is None:
        Budget.objects.create(team=team, period=period, **values)
    elif was != values:
        # More hours free the team at once; whether fewer are used up already the account loop says, within a minute.
        until = before.used_up_until if before.used_then >= gpu_hours else None
        Budget.objects.filter(pk=before.pk).update(version=F("version") + 1, used_up_until=until, **values)
    if was != values:
        changed = {name: [was.get(name), value] for name, value in values.items() if was.get(name) != value}
        events.record(kind="BudgetChanged", actor=actor, team=team.name, name=period, data=changed)
        _touch()
    return Budget.objects.select_related("team").get(team=team, period=period)


def _used_up(team: Team, period: str, gpu_hours: int, is_hard: bool, used_hours: float) -> str:
    used = f"Team {team} has used {used_hours:.1f} GPU hours this {period} already, and {gpu_hours} is not more"
    then = "nothing new of it starts before the next period" if is_hard else "it is told at once that it is used up"
    return f"{used}: {then}. Give more hours, or confirm it."


@transaction.atomic
def remove(*, budget: Budget, actor: str) -> None:
    """Take a budget away; what waited for it may start."""
    events.record(kind="BudgetRemoved", actor=actor, team=budget.team.name, name=budget.period)
    budget.delete()
    _touch()


def watch(*, at: float, used: Mapping[int, float]) -> int:
    """Note which budgets are used up, and which have begun anew; tell how many changed.

    `used` has the GPU hours of each budget in the period of `at`, by its key. Writes only when something changes: an
    event as a warning, and a hint to the scheduler, whose work it stops or frees.
    """
    changed = 0
    for row in Budget.objects.filter(pk__in=used).select_related("team").order_by("pk"):
        hours = used[row.pk]
        until = span(Period(row.period), at)[1] if hours >= row.gpu_hours else None
        if until == row.used_up_until:
            continue
        changed += 1
        Budget.objects.filter(pk=row.pk).update(used_up_until=until, used_then=round(hours, 1))
        if until is not None:
            consequence = "nothing new starts before the next period" if row.is_hard else "this is a warning only"
            events.record(
                kind="BudgetExhausted",
                actor="loop:account",
                at=at,
                team=row.team.name,
                name=row.period,
                message=f"Team {row.team} has used {hours:.1f} of the {row.gpu_hours} GPU hours of its budget "
                f"for this {row.period}; {consequence}.",
                data={"used_hours": round(hours, 1), "gpu_hours": row.gpu_hours, "is_hard": row.is_hard},
            )
    if changed:
        _touch()
    return changed


def _touch() -> None:
    changes.touch(None)
    wake("schedule")
