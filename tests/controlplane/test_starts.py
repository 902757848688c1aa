"""What a restart of a training costs: noted once its first steps are seen, lent to others like it, used by the loop."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.models import TrainingStart, Workload
from controlplane.models.restarts import known
from controlplane.queries.workloads import diagnosis
from controlplane.services.training import allocations, lending
from controlplane.services.training.allocations import Found
from tests.controlplane.moved import HOUR, MINUTE, Steps, running, world_of
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return world_of(Steps())


def pass_minute(world: World) -> None:
    world.later(MINUTE - 1)
    world.observe()
    world.account()


def restart(world: World, training: Workload, *, leaves: float, begins: float, waits: float = HOUR) -> None:
    """It is told to leave, is gone after so many s, waits, and is placed; its steps are seen so many s later."""
    other = world.submit(f"other-{world.submitted}", team="blue")
    world.evict(training, other)
    world.later(leaves - 2)
    world.pods(training, PodPhase.GONE)
    world.later(waits)
    world.place(training, *"abcd")
    world.actuate()
    world.cluster.set(training, PodPhase.RUNNING)
    world.later(begins - 1)
    world.observe()
    world.account()
    training.refresh_from_db()


def test_a_restart_is_from_being_told_to_leave_until_gone_and_from_its_places_to_its_first_step(world: World) -> None:
    training = running(world)
    pass_minute(world)
    assert known(training).seconds == pytest.approx(120.0)
    restart(world, training, leaves=40, begins=90)
    (first, second) = TrainingStart.objects.filter(workload=training).order_by("attempt")
    assert (first.attempt, first.leave, second.attempt) == (1, None, 2)
    assert second.leave == pytest.approx(40, abs=2)
    assert second.begin == pytest.approx(90 - MINUTE / 2, abs=2)  # within the window in which it was seen: its middle
    found = known(training)
    assert (found.own, found.lent) == (1, 0)
    assert found.leave == pytest.approx((20 * 40) ** 0.5, rel=0.05)
    pass_minute(world)
    assert TrainingStart.objects.filter(workload=training).count() == 2  # once for each attempt


def test_the_first_start_is_no_restart_and_one_that_failed_was_not_told_to_leave(world: World) -> None:
    training = running(world, retries=2)
    pass_minute(world)
    assert known(training).own == 0
    world.pods(training, PodPhase.FAILED, 0)
    world.pods(training, PodPhase.GONE)
    training.refresh_from_db()
    world.later(HOUR)
    world.place(training, *"abcd")
    world.actuate()
    world.cluster.set(training, PodPhase.RUNNING)
    world.observe()
    pass_minute(world)
    second = TrainingStart.objects.get(workload=training, attempt=2)
    assert second.leave is None
    assert second.begin < 2 * MINUTE


def test_another_training_like_it_is_lent_what_was_seen_but_none_of_another_program_or_team(world: World) -> None:
    first = running(world)
    pass_minute(world)
    for _ in range(3):
        restart(world, first, leaves=5, begins=40)
    assert known(first).own == 3
    rows = TrainingStart.objects.filter(workload=first)
    kind = rows.first().kind  # type: ignore[union-attr]
    alike = world.submit("alike", workers=4)
    assert known(alike).lent == 0  # of what kind it is, is not known before it steps
    TrainingStart.objects.create(workload=alike, attempt=1, kind=kind, at=world.cluster.at, leave=None, begin=900.0)
    found = known(alike)
    assert (found.own, found.lent) == (0, 3)
    assert found.seconds == pytest.approx(known(first).seconds)
    theirs = world.submit("theirs", team="blue", workers=4)
    TrainingStart.objects.create(workload=theirs, attempt=1, kind=kind, at=world.cluster.at, leave=None, begin=900.0)
    assert known(theirs).lent == 0
    TrainingStart.objects.filter(workload=alike).update(kind="another")
    assert known(alike).lent == 0


def test_the_loop_charges_what_was_learned_and_the_diagnosis_shows_it(world: World) -> None:
    training = running(world)
    pass_minute(world)
    members = allocations.places([training.pk])[training.pk]
    now = allocations.of(training, members)
    assert now is not None
    before = allocations.offer(training, now, members, world.cluster.at, Found(None))
    assert before.by_loop.restart == pytest.approx(120.0)
    for _ in range(3):
        restart(world, training, leaves=3, begins=35)
    members = allocations.places([training.pk])[training.pk]
    after = allocations.offer(training, now, members, world.cluster.at, Found(None))
    assert after.by_loop.restart < 20.0
    assert after.by_loop.restart == pytest.approx(known(training).seconds)
    told = diagnosis.shown(training)["restart"]
    assert (told["own"], told["lent"]) == (3, 0)
    assert told["seconds"] == pytest.approx(after.by_loop.restart, abs=0.1)


def test_what_is_old_is_forgotten(world: World) -> None:
    training = running(world)
    pass_minute(world)
    lending.prune(world.cluster.at + HOUR)
    assert TrainingStart.objects.filter(workload=training).count() == 1
    lending.prune(world.cluster.at + lending.KEPT_SECONDS + HOUR)
    assert not TrainingStart.objects.exists()
