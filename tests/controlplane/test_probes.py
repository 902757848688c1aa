"""A training that reports no steps: what its series say is a hypothesis, which more CPU in place probes."""

from dataclasses import dataclass
from typing import Any

import pytest

from autoscaler.bottleneck.window import Bottleneck
from controlplane.cluster.port import PodPhase, PodUse, TrainingUse
from controlplane.domain import coursestate
from controlplane.models import Experiment, TrainingDiagnosis, Workload
from controlplane.queries.workloads import diagnosis
from tests.controlplane.moved import LONG, Steps, pass_minutes, until, want, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db


@dataclass
class Unreported(Steps):
    """No steps are told; its CPUs are busy and held back, and its GPUs wait for them."""

    gains: bool = True
    throttled: float = 0.5
    reports: bool = False

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        return super().training(workloads) if self.reports else ()

    def pods(self, workloads: Any) -> tuple[PodUse, ...]:
        running = [p for p in self.cluster.pods.values() if p.phase == PodPhase.RUNNING and p.workload in workloads]
        return tuple(self._pod(pod) for pod in running)

    def _pod(self, pod: Any) -> PodUse:
        cores = self.cluster.sizes[f"{pod.workload}-{pod.attempt}-{pod.rank}"][0] / 1000
        noise = 1.0 + 0.01 * (round(self.cluster.at / 60) % 3)
        duty = min(0.1 * (cores if self.gains else 2.0) * noise, 0.84)
        return PodUse(pod.workload, pod.attempt, pod.rank, duty, round(990 * cores), 100, self.throttled)


@pytest.fixture
def world() -> World:
    return world_of(Unreported())


def running(world: World) -> Workload:
    resources = {"gpus": 2, "cpu": 2, "memory": "1Gi"}
    made = world.submit("fit", resources=resources, checkpoint={"interval": "10m"})
    world.run(made, "a")
    world.later(LONG)
    return made


def kept(training: Workload) -> coursestate.Kept:
    return coursestate.kept_of(TrainingDiagnosis.objects.get(pk=training.pk).course)


def test_more_cpu_in_place_is_probed_and_kept_where_its_gpus_are_busier_then(world: World) -> None:
    training = running(world)
    done = until(world, training, "kept")
    assert (done.axis, done.before["cpu"]) == ("cpu", 2.0)
    assert (done.gain or 0.0) > 0.2
    training.refresh_from_db()
    assert (training.attempt, training.cpu_milli) == (1, round(1000 * done.after["cpu"]))
    assert diagnosis.of(training) is None  # a hypothesis is no diagnosis
    assert "Diagnosed" not in story(training)


def test_what_makes_its_gpus_no_busier_is_taken_back_and_that_hypothesis_is_not_probed_again(world: World) -> None:
    world.metrics.gains = False
    training = running(world)
    until(world, training, "rolled_back")
    assert kept(training).refuted == (Bottleneck.INPUT_CPU,)
    pass_minutes(world, 60)
    assert Experiment.objects.count() == 1
    training.refresh_from_db()
    assert (training.attempt, training.cpu_milli) == (1, 2000)


def test_without_a_hypothesis_or_where_its_team_does_not_want_it_nothing_is_probed(world: World) -> None:
    world.metrics.throttled = 0.0
    training = running(world)
    pass_minutes(world, 16)
    assert not Experiment.objects.exists()
    world.metrics.throttled = 0.5
    want("recommend")
    pass_minutes(world, 16)
    assert not Experiment.objects.exists()
    want("automatic")
    until(world, training, "on_trial")


def test_a_program_that_begins_to_report_ends_a_probe_unjudged_as_it_was_measured_otherwise(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    world.metrics.reports = True
    pass_minutes(world, 2)
    tried = Experiment.objects.get()
    assert tried.status == "unjudged"
    assert tried.message.startswith("Its program began to report its steps")
    assert not kept(training).is_silent
