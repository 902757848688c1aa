"""A training that was spread is moved together by the loop, measured there, and kept there or moved back."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain import coursestate
from controlplane.models import Event, Experiment, TrainingDiagnosis, Workload
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import changing
from tests.controlplane.moved import MINUTE, Steps, on, pass_minutes, running, told, until, want, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db
MOVED = ["ChangeTried", "Evicted", "Moved", "Requeued", "Admitted", "Starting", "Running"]


@pytest.fixture
def world() -> World:
    return world_of(Steps())


def test_a_spread_training_saves_leaves_and_starts_again_together_where_it_is_faster_and_stays(world: World) -> None:
    training = running(world)
    tried = until(world, training, "on_trial")
    assert (tried.axis, tried.before["gpus"], tried.after["gpus"]) == ("place", [1, 1, 1, 1], [4])
    assert Experiment.objects.count() == 1
    done = until(world, training, "kept")
    assert len(set(on(training))) == 1
    assert done.gain == pytest.approx(0.8, abs=0.1)  # 1.6 s and 0.7 s
    training.refresh_from_db()
    assert (training.attempt, training.phase, training.failures, training.preempted_at) == (2, "Running", 0, [])
    assert not training.goes_to
    kinds = story(training)
    assert kinds[kinds.index("ChangeTried") :] in ([*MOVED, "ChangeKept"], [*MOVED[:5], "Running", "ChangeKept"])
    assert told(training) == ["ChangeTried", "ChangeKept"]
    assert "its 4 GPUs on 1 node instead of 4" in Event.objects.get(kind="ChangeKept").message


def test_a_move_that_makes_nothing_faster_is_judged_and_moved_back(world: World) -> None:
    world.metrics.seconds = lambda on: 1.0
    training = running(world)
    until(world, training, "rolled_back")
    pass_minutes(world, 3)
    training.refresh_from_db()
    assert sorted(on(training)) == ["a", "b", "c", "d"]
    assert (training.attempt, training.phase, training.preempted_at) == (3, "Running", [])
    assert told(training)[:2] == ["ChangeTried", "ChangeRolledBack"]
    pass_minutes(world, 150)
    tried = list(Experiment.objects.filter(workload=training).values_list("after__gpus", flat=True))
    assert len(tried) == len({tuple(gpus) for gpus in tried}) <= 5


def test_where_no_room_for_the_old_places_remains_it_stays_and_the_row_says_so(world: World) -> None:
    world.metrics.seconds = lambda on: 1.0
    training = running(world)
    until(world, training, "on_trial")
    pass_minutes(world, 2)
    for name in {"a", "b", "c", "d"} - {*on(training)}:
        other = world.submit(f"in-{name}", team="blue", resources={"gpus": 8, "cpu": 1, "memory": "1Gi"})
        world.run(other, name)
    stayed = until(world, training, "stayed")
    assert "not moved back, as no room for that remained" in stayed.message
    assert len(set(on(training))) == 1
    training.refresh_from_db()
    assert (training.attempt, training.goes_to) == (2, [])


def test_what_it_asks_for_in_vain_is_refused_and_not_asked_again(world: World) -> None:
    """Each node has 8 GPUs, of which others take 6 once it was decided."""
    training = running(world)
    pass_minutes(world, 11)
    world.later(MINUTE - 2)
    world.observe()
    world.account()
    tried = Experiment.objects.get()
    for name in "abcd":
        other = world.submit(f"in-{name}", team="blue", resources={"gpus": 6, "cpu": 1, "memory": "1Gi"})
        world.run(other, name)
    refused = until(world, training, "refused")
    assert (refused.pk, refused.message) == (
        tried.pk,
        "No such places were free for it, beside what waits and what is planned.",
    )
    assert on(training) == ["a", "b", "c", "d"]
    training.refresh_from_db()
    assert (training.attempt, training.goes_to) == (1, [])


@pytest.mark.parametrize("column", ["checkpoint_interval", "preemptible"])
def test_what_saves_no_work_or_may_not_be_stopped_is_told_only(world: World, column: str) -> None:
    training = running(world)
    Workload.objects.filter(pk=training.pk).update(**{column: None if column == "checkpoint_interval" else False})
    pass_minutes(world, 16)
    assert not Experiment.objects.filter(axis="place").exists()
    (first, *_) = coursestate.kept_of(TrainingDiagnosis.objects.get(pk=training.pk).course).told
    assert first.startswith("its 4 GPUs on 1 node instead of 4: expected +")


def test_a_restart_that_costs_more_than_what_remains_is_not_tried(world: World) -> None:
    training = running(world)
    Workload.objects.filter(pk=training.pk).update(progress=0.99)  # two hours remain
    pass_minutes(world, 16)
    assert not Experiment.objects.exists()


def test_a_team_that_no_longer_wants_it_has_it_stay_where_it_is_and_nothing_is_restarted(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    pass_minutes(world, 3)
    want("off")
    pass_minutes(world, 3)
    tried = Experiment.objects.get()
    assert (tried.status, tried.message) == ("unjudged", "Its team wants no changes any more; it stays where it is.")
    training.refresh_from_db()
    assert (training.attempt, len(set(on(training)))) == (2, 1)


def test_a_person_takes_a_move_back_and_it_is_not_tried_again(world: World) -> None:
    training = running(world)
    until(world, training, "kept")
    training.refresh_from_db()
    changing.take_back(workload=training, actor="alice", hand=Hand.PERSON)
    pass_minutes(world, 3)
    training.refresh_from_db()
    assert (sorted(on(training)), training.attempt) == (["a", "b", "c", "d"], 3)
    pass_minutes(world, 40)
    shapes = list(Experiment.objects.filter(workload=training).values_list("after__gpus", flat=True))
    assert shapes.count([4]) == 1


def test_a_person_who_takes_back_what_has_not_left_yet_has_it_stay(world: World) -> None:
    training = running(world)
    pass_minutes(world, 11)
    world.later(MINUTE - 2)
    world.observe()
    world.account()
    training.refresh_from_db()
    assert training.goes_to == [4]
    changing.take_back(workload=training, actor="alice", hand=Hand.PERSON)
    pass_minutes(world, 2)
    assert Experiment.objects.get().status == "unjudged"
    assert on(training) == ["a", "b", "c", "d"]


def test_a_training_that_fails_where_it_was_moved_to_goes_back(world: World) -> None:
    training = running(world, retries=3)
    until(world, training, "on_trial")
    pass_minutes(world, 4)
    world.pods(training, PodPhase.FAILED, 0, reason="Error", exit_code=1)
    world.later(30)
    pass_minutes(world, 4)
    tried = Experiment.objects.get()
    assert tried.status == "rolled_back"
