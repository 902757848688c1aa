"""Budgets of GPU hours: set by an admin, watched by the account loop, hard or a warning."""

from datetime import UTC, datetime

import pytest

from controlplane.domain.periods import Period, span
from controlplane.models import Budget, Change, Event, Team
from controlplane.queries.scheduling import snapshot
from controlplane.queries.tenancy import shares
from controlplane.services.errors import Refused
from controlplane.services.tenancy import budgets
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def world() -> World:
    return World()


def saved(team: str = "red", period: str = "month", hours: int = 2, is_hard: bool = True) -> Budget:
    return budgets.save(team=Team.objects.get(name=team), period=period, gpu_hours=hours, is_hard=is_hard, actor="root")


def used(world: World, hours: float) -> None:
    """Let a job of two GPUs hold them so long, and account for it."""
    world.run(world.submit("job", gpus=2), "a")
    world.later(hours * HOUR)
    world.observe()
    world.account()
    world.account()  # budgets are looked at with what was accounted before


def day(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_periods_are_the_calendars():
    at = day("2026-02-28T13:30:00")  # a Saturday
    assert span(Period.DAY, at) == (day("2026-02-28"), day("2026-03-01"))
    assert span(Period.WEEK, at) == (day("2026-02-23"), day("2026-03-02"))
    assert span(Period.MONTH, at) == (day("2026-02-01"), day("2026-03-01"))
    assert span(Period.MONTH, day("2026-12-31")) == (day("2026-12-01"), day("2027-01-01"))


def test_once_a_hard_budget_is_used_up_nothing_new_starts_and_the_reason_says_so(world):
    saved(hours=2)
    used(world, 1.5)
    next_one = world.submit("next")
    decisions = {d.workload: d for d in schedule(snapshot.full(), Settings())}
    wait = decisions[str(next_one.pk)]
    assert wait.reason is Reason.BUDGET_EXHAUSTED
    assert wait.message.startswith("Team red has used 3 of the 2 GPU hours of its budget for this month; ")
    [event] = Event.objects.filter(kind="BudgetExhausted")
    assert event.message == (
        "Team red has used 3.0 of the 2 GPU hours of its budget for this month; "
        "nothing new starts before the next period."
    )


def test_a_soft_budget_is_only_told(world):
    saved(hours=2, is_hard=False)
    used(world, 1.5)
    world.submit("next")
    assert snapshot.full().budgets == ()
    assert Event.objects.filter(kind="BudgetExhausted").count() == 1
    [row] = shares.budgets(world.cluster.at)
    assert (row.is_used_up, row.ratio) == (True, pytest.approx(1.5, abs=0.01))


def test_it_is_told_once_in_a_period_and_watching_then_writes_nothing(world):
    saved(hours=2)
    used(world, 1.5)
    Change.objects.all().delete()
    hours = {row.pk: row.used_hours for row in shares.budgets(world.cluster.at)}
    assert budgets.watch(at=world.cluster.at, used=hours) == 0
    assert not Change.objects.exists()


def test_with_a_new_period_the_team_may_start_again(world):
    budget = saved(hours=2, period="day")
    used(world, 1.5)
    assert len(snapshot.full().budgets) == 1
    later = world.cluster.at + 86_400
    assert budgets.watch(at=later, used={budget.pk: 0.0}) == 1
    assert snapshot.full().budgets == ()


def test_a_parents_budget_counts_what_its_children_use(world):
    top = Team.objects.create(name="research")
    Team.objects.filter(name="red").update(parent=top)
    saved("research", hours=2)
    used(world, 1.5)
    assert [b.team for b in snapshot.full().budgets] == ["research"]


def test_more_hours_free_the_team_at_once(world):
    saved(hours=2)
    used(world, 1.5)
    saved(hours=10)
    assert snapshot.full().budgets == ()


@pytest.mark.parametrize(
    ("values", "field"),
    [({"period": "year"}, "period"), ({"hours": 0}, "gpu_hours"), ({"hours": 10**10}, "gpu_hours")],
)
def test_what_cannot_be_is_refused_with_the_field(world, values, field):
    with pytest.raises(Refused) as refused:
        saved(**values)
    assert refused.value.field == field


def test_who_saw_an_older_version_is_refused(world):
    first = saved()
    saved(hours=5)
    with pytest.raises(Refused) as refused:
        budgets.save(team=first.team, period="month", gpu_hours=9, is_hard=True, actor="root", version=first.version)
    assert refused.value.status == 412


def test_a_budget_taken_away_frees_the_team(world):
    saved(hours=2)
    used(world, 1.5)
    budgets.remove(budget=Budget.objects.get(), actor="root")
    assert snapshot.full().budgets == ()
    assert Event.objects.filter(kind="BudgetRemoved").count() == 1
