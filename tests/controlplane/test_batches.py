"""A training whose job file leaves its batch free learns with the one whose goodput is best, as its steps and the noise
of its gradients tell."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from autoscaler.throughput.goodput import Gradients
from controlplane.cluster.port import PodPhase, TrainingUse
from controlplane.models import Event, Experiment, Workload
from controlplane.queries.workloads import experiments, reallocated
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import changing, lending, moving
from tests.controlplane.moved import LONG, MINUTE, Steps, pass_minutes, turn, until, want, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db
FREE = {"size": 64, "min": 32, "max": 128}


@dataclass
class Learning(Steps):
    """A step has a constant part and one that goes with its examples; how many, the pods of the newest attempt say."""

    step: Callable[[int], float] = field(default=lambda examples: 0.8 + 0.2 * examples / 64)
    noise: float | None = 100_000.0  # examples

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        return tuple(self._use(uid) for uid in workloads if self._running(uid))

    def examples(self, uid: str) -> int:
        newest = max((pod for pod in self.cluster.started if pod.workload == uid), key=lambda pod: pod.attempt)
        return newest.batch

    def _running(self, uid: str) -> list[Any]:
        mine = [pod for pod in self.cluster.pods.values() if pod.workload == uid and pod.phase == PodPhase.RUNNING]
        newest = max((pod.attempt for pod in mine), default=0)
        return [pod for pod in mine if pod.attempt == newest]

    def _use(self, uid: str) -> TrainingUse:
        took = self.step(self.examples(uid)) * (1.0 + 0.01 * (round(self.cluster.at / MINUTE) % 3))
        attempt, rate = self._running(uid)[0].attempt, self.examples(uid) / took
        return TrainingUse(uid, attempt, 7, took, rate, 0.0, 0.05, gradient_noise=self.noise)


@pytest.fixture
def world() -> World:
    return world_of(Learning())


def running(world: World, batch: dict[str, int] | None = FREE, *, saves: bool = True, **asked: Any) -> Workload:
    asked |= {"checkpoint": {"interval": "10m"}} if saves else {}
    asked |= {"batch": batch} if batch else {}
    made = world.submit("fit", resources={"gpus": 1, "cpu": 4, "memory": "1Gi"}, workers=4, **asked)
    turn(world)
    turn(world)
    made.refresh_from_db()
    assert made.phase == "Running"
    world.later(LONG)
    return made


def batch_of(training: Workload) -> int | None:
    training.refresh_from_db()
    return training.batch


def test_a_larger_batch_is_tried_by_a_restart_and_kept_where_it_learns_faster_with_it(world: World) -> None:
    training = running(world)
    assert batch_of(training) == 64
    done = until(world, training, "kept")
    assert (done.axis, done.before["batch"], done.after["batch"]) == ("batch", 16, 32)
    assert (batch_of(training), training.batch_wanted, training.goes_to) == (128, None, [])
    assert (training.attempt, training.failures, training.preempted_at) == (2, 0, [])
    assert "128 examples in a step instead of 64" in done.message
    assert {pod.batch for pod in world.cluster.started if pod.attempt == 2} == {128}
    assert training.spec["batch"]["size"] == 64  # its job file stays as it was written
    kinds = story(training)
    assert kinds[kinds.index("ChangeTried") :][:3] == ["ChangeTried", "Evicted", "Moved"]
    assert experiments.newest_in_place(training) is not None


def test_what_is_measured_is_goodput_not_examples_a_second(world: World) -> None:
    world.metrics.noise = 800.0
    training = running(world)
    done = until(world, training, "kept")
    faster = Gradients(800.0, 64).efficiency(128) * 2 * world.metrics.step(64) / world.metrics.step(128)
    assert done.gain == pytest.approx(math.log(faster), abs=0.02)
    assert faster < 1.6 < 2 * world.metrics.step(64) / world.metrics.step(128)


def test_one_with_which_each_example_teaches_too_little_is_not_tried(world: World) -> None:
    world.metrics.noise = 20.0
    running(world)
    pass_minutes(world, 20)
    assert not Experiment.objects.exists()


def test_a_larger_batch_that_teaches_no_faster_goes_back_to_what_its_job_file_says(world: World) -> None:
    world.metrics.step = lambda examples: examples / 64  # all of a step goes with the batch, which no model knew
    training = running(world)
    tried = until(world, training, "rolled_back")
    assert (tried.axis, tried.after["batch"]) == ("batch", 32)
    assert abs(tried.gain or 1.0) < 0.03
    pass_minutes(world, 3)
    assert (batch_of(training), training.batch_wanted, training.phase) == (64, None, "Running")
    assert {pod.batch for pod in world.cluster.started if pod.attempt == 3} == {64}
    pass_minutes(world, 30)
    assert [one.after["batch"] for one in Experiment.objects.filter(axis="batch", after__batch=32)] == [32]  # once


def test_what_the_noise_becomes_while_a_change_is_on_trial_does_not_judge_it(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    world.metrics.noise = 20.0
    assert until(world, training, "kept").axis == "batch"


def test_it_is_taken_back_by_a_person(world: World) -> None:
    training = running(world)
    until(world, training, "kept")
    training.refresh_from_db()
    changing.take_back(workload=training, actor="mia", hand=Hand.PERSON)
    training.refresh_from_db()
    assert (training.goes_to, training.batch_wanted) == ([4], 64)
    (told,) = [one for one in reallocated.of(training) if one["axis"] == "batch"]
    assert told["message"].startswith("It is to run on 1 node with 64 examples in a step, with 4 workers on it")
    pass_minutes(world, 3)
    assert (batch_of(training), training.attempt) == (64, 3)


def test_it_says_itself_that_another_batch_is_on_trial(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    pass_minutes(world, 3)
    assert batch_of(training) == 128
    (told,) = [one for one in reallocated.of(training) if one["axis"] == "batch"]
    assert told["message"].startswith("It runs with 128 examples in a step, on trial: 128 examples in a step instead")


def test_one_that_leaves_before_the_new_batch_began_asks_no_more(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    training.refresh_from_db()
    assert (training.batch_wanted, training.batch) == (128, 64)
    assert moving.withdraw(workload=training, actor="mia")
    pass_minutes(world, 3)
    assert (batch_of(training), training.batch_wanted, training.attempt) == (64, None, 1)
    assert Experiment.objects.get().status == "unjudged"


def test_one_that_saves_no_work_is_only_told(world: World) -> None:
    training = running(world, saves=False)
    pass_minutes(world, 20)
    assert not Experiment.objects.exists()
    assert any("128 examples in a step instead of 64" in one for one in experiments.recommended(training))


def test_where_its_team_wants_recommendations_only_it_is_told(world: World) -> None:
    want("recommend")
    training = running(world)
    pass_minutes(world, 20)
    assert not Experiment.objects.exists()
    assert any("128 examples in a step instead of 64" in one for one in experiments.recommended(training))


@pytest.mark.parametrize("batch", [None, {"size": 64}])
def test_a_batch_that_its_job_file_does_not_leave_free_stays(world: World, batch: dict[str, int] | None) -> None:
    training = running(world, batch)
    pass_minutes(world, 20)
    assert not Experiment.objects.filter(axis="batch").exists()
    assert batch_of(training) == (64 if batch else None)
    assert not any("examples" in one for one in experiments.recommended(training))


def test_one_that_tells_no_noise_keeps_its_batch(world: World) -> None:
    world.metrics.noise = None
    running(world)
    pass_minutes(world, 20)
    assert not Experiment.objects.filter(axis="batch").exists()


def test_of_examples_that_make_no_whole_number_for_each_gpu_none_is_lost_on_the_way_back(world: World) -> None:
    world.metrics.step = lambda examples: examples / 64
    training = running(world, {"size": 66, "min": 64, "max": 140})
    tried = until(world, training, "rolled_back")
    assert (tried.before["batch"], tried.after["batch"]) == (16.5, 33)
    pass_minutes(world, 3)
    assert batch_of(training) == 66


def test_what_one_saw_with_its_batch_is_lent_to_those_that_name_one_only(world: World) -> None:
    training = running(world)
    alike = Workload.objects.get(pk=training.pk)
    assert lending.key(alike, "a") == lending.key(training, "a")
    alike.batch = None
    assert lending.key(alike, "a") != lending.key(training, "a")


# --- what fails with a batch on trial ---------------------------------------------------------


def fail(world: World, training: Workload) -> None:
    """One of its workers has no memory left, and the others leave."""
    training.refresh_from_db()
    world.cluster.set(training, PodPhase.FAILED, 0, exit_code=1, reason="Error")
    world.observe()


def begun(world: World) -> Workload:
    """It runs with 128 instead of 64."""
    training = running(world)
    until(world, training, "on_trial")
    turn(world)
    turn(world)
    assert (batch_of(training), training.batch_before, training.attempt, training.phase) == (128, 64, 2, "Running")
    return training


@pytest.mark.parametrize("minutes", [0, 3])
def test_one_that_fails_with_it_runs_again_with_the_one_before_and_has_lost_no_try(world: World, minutes: int) -> None:
    training = begun(world)
    assert training.retries == 0
    pass_minutes(world, minutes)
    fail(world, training)
    pass_minutes(world, 3)
    assert (batch_of(training), training.batch_before, training.phase) == (64, None, "Running")
    assert (training.failures, training.attempt) == (0, 3)
    tried = Experiment.objects.get(axis="batch")
    assert tried.status == "rolled_back"
    assert tried.message.endswith("; it failed with that, and runs as before")
    told = Event.objects.filter(workload=training.pk, kind="Degraded").latest("id").message
    assert told.endswith("It had a batch of 128 on trial and runs again with 64; this does not count.")
    pass_minutes(world, 30)
    assert not Experiment.objects.filter(after__batch=32).exclude(pk=tried.pk).exists()


def test_what_fails_with_one_that_was_kept_is_a_failure_like_any_other(world: World) -> None:
    training = running(world)
    until(world, training, "kept")
    training.refresh_from_db()
    assert training.batch_before is None
    fail(world, training)
    turn(world)
    training.refresh_from_db()
    assert (training.phase, training.failures, training.batch) == ("Failed", 1, 128)


def test_what_fails_while_it_is_on_its_way_back_has_lost_no_try_either(world: World) -> None:
    world.metrics.step = lambda examples: examples / 64
    training = running(world)
    until(world, training, "rolled_back")
    assert (batch_of(training), training.batch_wanted, training.batch_before) == (128, 64, 64)
    fail(world, training)
    pass_minutes(world, 3)
    assert (batch_of(training), training.batch_before, training.phase, training.failures) == (64, None, "Running", 0)
    assert (training.goes_to, training.batch_wanted) == ([], None)
