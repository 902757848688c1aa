"""Days of services: what the account loop notes of windows, once, and as the rule for now said."""

import pytest
from django.db.models import Sum

from autoscaler.sla import Standing
from autoscaler.standings import tally
from controlplane.loops import account
from controlplane.models import Event, Lease, ServiceDay, ServiceWindow, Workload
from controlplane.queries.reports import sla, standings
from controlplane.services.tenancy import servicedays
from tests.controlplane.state import START, World

pytestmark = pytest.mark.django_db
HOUR, DAY = 3600.0, 86_400.0
MINUTES = ("met", "at_risk", "violated", "unknown")


@pytest.fixture
def world() -> World:
    return World()


def serve(world: World, name: str = "chat") -> Workload:
    service = world.submit(name, kind="inference", replicas={"min": 1, "max": 1})
    world.run(service, "a")
    return service


def measured(service: Workload, since: float, minutes: int, over: int = 0, requests: int = 1000) -> None:
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=service.pk, start=since + 60 * k, requests=requests, over=over, replicas=1)
        for k in range(minutes)
    )


def noted(world: World, at: float) -> None:
    """Go on to this moment, and let the loop note until nothing is left to note."""
    world.cluster.at = at
    world.observe()
    for _ in range(20):
        world.wiring.kept.pop("days_noted_at", None)
        world.account()


def minutes_of(row: ServiceDay) -> dict[str, int]:
    return {name: getattr(row, name) for name in MINUTES}


def test_each_day_has_a_row_with_its_requests_and_how_long_the_service_stood_how(world: World) -> None:
    service = serve(world)
    begin = START + 60
    measured(service, begin, 1440 - 1)  # the rest of the first day
    measured(service, START + DAY, 600, over=10)  # ten hours of the next, 10x as much as may be
    noted(world, START + DAY + 10 * HOUR)
    first, second = ServiceDay.objects.order_by("day")
    assert (first.day, first.until) == (START, START + DAY)
    assert (first.requests, first.over, first.worst_start) == (1_439_000, 0, None)
    assert minutes_of(first) == {"met": 1439, "at_risk": 0, "violated": 0, "unknown": 0}
    assert first.budget_left == 1.0
    assert second.until == START + DAY + 10 * HOUR - 180, "what may still be written is left for later"
    assert (second.requests, second.over) == (597_000, 5970)
    assert minutes_of(second)["met"] > 100
    assert minutes_of(second)["violated"] > 100, "ten hours at 10x use up more than a day's budget"
    assert sum(minutes_of(second).values()) == 597
    assert second.budget_left == pytest.approx(1 - 5960 / (1_439_000 + 596_000) / 0.001, abs=0.005)
    assert (second.worst_start, second.worst_requests, second.worst_over) == (START + DAY, 1000, 10)


def test_what_was_noted_is_what_the_rule_for_now_said_at_each_minute(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 240)
    measured(service, START + 4 * HOUR + 60, 50, over=40)
    said: list[Standing] = []
    rest = list(ServiceWindow.objects.filter(start__gte=START + HOUR).order_by("start"))
    ServiceWindow.objects.filter(start__gte=START + HOUR).delete()
    for minute in range(60, 330):  # the minutes come one by one, as they did
        at = START + 60.0 * (minute + 1)
        ServiceWindow.objects.bulk_create([one for one in rest if one.start == at - 60])
        stands = sla.one(at, Workload.objects.get(pk=service.pk))
        assert stands is not None
        said.append(stands.standing)
    noted(world, START + 5.5 * HOUR + 180)
    row = ServiceDay.objects.get()
    assert row.until == START + 330 * 60
    assert row.met == said.count(Standing.MET) + 59
    assert row.at_risk == said.count(Standing.AT_RISK)
    assert row.violated == said.count(Standing.VIOLATED) > 0
    assert row.unknown == said.count(Standing.UNKNOWN)


def test_nothing_is_counted_twice_however_often_the_loop_turns(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 300, over=1)
    for hour in (1.2, 2.5, 2.6, 5.2):
        noted(world, START + hour * HOUR)
    summed = ServiceWindow.objects.filter(start__lt=ServiceDay.objects.get().until).aggregate(r=Sum("requests"))
    assert ServiceDay.objects.get().requests == summed["r"]


def test_what_was_noted_already_is_not_added_again(world: World) -> None:
    """A worker that read what is due, and another one noted it meanwhile."""
    service = serve(world)
    measured(service, START + 60, 120)
    world.cluster.at = START + 2 * HOUR
    (stretch,) = standings.due(world.cluster.at, 10, kept_days=30)
    moments, windows = standings.past(service.pk, stretch.promise, stretch.since, stretch.until, stretch.phase)
    found = tally(moments, windows, stretch.since, stretch.until)
    lease = world.lease("account")
    assert servicedays.note(stretch=stretch, found=found, lease=lease)
    assert not servicedays.note(stretch=stretch, found=found, lease=lease)
    assert ServiceDay.objects.get().requests == found.requests > 0


def test_a_service_that_is_down_keeps_its_word_and_one_that_nothing_measures_is_not_known(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 60)
    noted(world, START + 3 * HOUR + 180)
    row = ServiceDay.objects.get()
    assert (row.met, row.unknown) == (60 + 14, 3 * 60 - 1 - 74)
    other = serve(world, "other")
    begun = world.cluster.at // 60 * 60
    measured(other, begun, 60)
    world.cluster.at = begun + HOUR
    Workload.objects.filter(pk=other.pk).update(phase="Suspended")
    Event.objects.create(
        at="2026-01-01T00:00:00Z", cluster_at=begun + HOUR, actor="ann", kind="Suspended", phase="Suspended",
        workload=other.pk, name="other", team="red",
    )  # fmt: skip
    noted(world, begun + 3 * HOUR + 180)
    assert ServiceDay.objects.get(workload=other.pk).unknown == 0


def test_the_last_minutes_of_a_service_that_ended_are_noted_and_then_it_rests(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 25)
    Workload.objects.filter(pk=service.pk).update(phase="Stopped", ended_at=START + 26 * 60 + 17)
    noted(world, START + 40 * 60)
    row = ServiceDay.objects.get()
    assert (row.requests, row.until) == (25_000, START + 27 * 60)
    noted(world, START + 30 * HOUR)
    assert ServiceDay.objects.get().until == row.until


def test_without_an_objective_nothing_is_noted(world: World) -> None:
    service = serve(world)
    spec = service.spec
    spec["normalised"]["objective"] = None
    Workload.objects.filter(pk=service.pk).update(spec=spec)
    measured(service, START + 60, 600)
    noted(world, START + 20 * HOUR)
    assert not ServiceDay.objects.exists()


def test_a_changed_objective_counts_from_its_change(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 119, over=500)
    measured(service, START + 2 * HOUR, 120)
    Workload.objects.filter(pk=service.pk).update(objective_since=START + 2 * HOUR)
    noted(world, START + 4 * HOUR + 180)
    row = ServiceDay.objects.get()
    assert row.budget_left == 1.0, "what was late before is no part of it"
    assert row.over == 59_500, "and it was late all the same"


def test_a_worker_that_lost_its_lease_notes_nothing(world: World) -> None:
    service = serve(world)
    measured(service, START + 60, 600)
    world.account()
    world.cluster.at = START + 20 * HOUR
    world.observe()
    Lease.objects.filter(name="account").update(epoch=99, holder="another")
    world.wiring.kept.pop("days_noted_at", None)
    assert account.run_once(world.wiring).skipped
    assert not ServiceDay.objects.exists()
