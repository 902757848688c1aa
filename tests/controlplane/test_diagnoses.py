"""What slows a running training is looked at once a minute, kept with its evidence, told once, and shown."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.bottleneck.detect import Diagnosis, observe
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, Worker
from controlplane.cluster.port import NodeUse, PodUse, TrainingUse, WorkerUse
from controlplane.domain import diagnosisstate
from controlplane.models import Event, TrainingDiagnosis, Workload
from controlplane.queries.workloads import diagnosis, scalingcurve
from tests.controlplane.state import NoMetrics, World

pytestmark = pytest.mark.django_db
MINUTE = 60.0


@dataclass
class Measured(NoMetrics):
    """Says of a training's steps and of its pods what the test says."""

    uses: list[TrainingUse] = field(default_factory=list)
    uses_of_pods: list[PodUse] = field(default_factory=list)
    uses_of_workers: list[WorkerUse] = field(default_factory=list)
    uses_of_nodes: list[NodeUse] = field(default_factory=list)

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        return tuple(use for use in self.uses if use.workload in workloads)

    def pods(self, workloads: Any) -> tuple[PodUse, ...]:
        return tuple(use for use in self.uses_of_pods if use.workload in workloads)

    def workers(self, workloads: Any) -> tuple[WorkerUse, ...]:
        return tuple(use for use in self.uses_of_workers if use.workload in workloads)

    def nodes(self) -> tuple[NodeUse, ...]:
        return tuple(self.uses_of_nodes)


@pytest.fixture
def world() -> World:
    return World(metrics=Measured())


def running(world: World, *nodes: str, **asked: Any) -> Workload:
    training = world.submit("fit", workers={"count": len(nodes)}, resources={"gpus": 1, "cpu": 4}, **asked)
    world.run(training, *nodes)
    return training


def measure(world: World, training: Workload, wait: float | None, sync: float | None, *pods: PodUse) -> None:
    uid = str(training.pk)
    world.metrics.uses = [TrainingUse(uid, training.attempt, 7, 0.5, None, wait, sync)]
    world.metrics.uses_of_pods = list(pods)


def pod(training: Workload, rank: int, cpu: int, throttled: float, duty: float = 0.5) -> PodUse:
    return PodUse(str(training.pk), training.attempt, rank, duty, cpu, 100, throttled)


def pass_minutes(world: World, count: int) -> None:
    """So many minutes, the account loop after each."""
    for _ in range(count):
        world.later(MINUTE - 1)
        world.observe()
        world.account()


def named(training: Workload) -> str:
    return TrainingDiagnosis.objects.get(workload=training.pk).bottleneck


def test_a_training_that_waits_for_input_while_its_cpus_are_held_back_needs_more_of_them(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.4, 0.02, pod(training, 0, 3990, 0.5))
    pass_minutes(world, 8)
    assert named(training) == "input_cpu"
    (event,) = Event.objects.filter(workload=training.pk, kind="Diagnosed")  # once, not at each look
    assert event.reason == "input_cpu"
    assert event.message.startswith("Its steps wait for input that its CPUs prepare. About 40 % of a step would go.")
    shown = diagnosis.shown(training)
    assert (shown["bottleneck"], shown["levels"]["gpu"]) == ("input_cpu", 0.5)
    strongest = shown["evidence"][0]
    assert strongest == {"bottleneck": "input_cpu", "removable": 0.4, "strength": 1.0, "lately": strongest["lately"]}
    assert set(strongest["lately"]) == {0.4}


def test_a_wait_for_an_exchange_on_several_nodes_is_the_networks(world: World) -> None:
    training = running(world, "a", "b")
    measure(world, training, 0.01, 0.5, *(pod(training, rank, 400, 0.0) for rank in (0, 1)))
    pass_minutes(world, 8)
    assert named(training) == "network"


def test_a_wait_for_input_while_its_nodes_disk_is_busy_is_the_storages(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.4, 0.02, pod(training, 0, 1500, 0.0))
    world.metrics.uses_of_nodes = [NodeUse("a", 0.9, None), NodeUse("b", 0.1, 0.1)]
    pass_minutes(world, 8)
    assert named(training) == "storage"
    assert diagnosis.shown(training)["levels"]["disk"] == 0.9


def test_a_volume_of_the_network_is_storage_too(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.4, 0.02, pod(training, 0, 1500, 0.0))
    world.metrics.uses_of_nodes = [NodeUse("a", 0.0, None)]
    world.metrics.uses_of_workers = [WorkerUse(str(training.pk), training.attempt, 0, 0.5, 0.4, 0.02, 0.8)]
    pass_minutes(world, 8)
    assert named(training) == "storage"


def test_an_exchange_over_an_idle_line_is_not_the_networks(world: World) -> None:
    training = running(world, "a", "b")
    measure(world, training, 0.01, 0.5, *(pod(training, rank, 400, 0.0) for rank in (0, 1)))
    world.metrics.uses_of_nodes = [NodeUse("a", 0.0, 0.01), NodeUse("b", 0.0, 0.02)]
    pass_minutes(world, 8)
    assert named(training) == "gpu_compute"


def test_the_worker_that_all_wait_for_is_named_with_its_node(world: World) -> None:
    training = running(world, "a", "b", "a", roles=[{"name": "chief", "count": 1, "resources": {"cpu": 1}}])
    measure(world, training, 0.0, 0.3)
    world.metrics.uses_of_workers = [
        WorkerUse(str(training.pk), training.attempt, rank, 0.5, 0.0, sync) for rank, sync in ((3, 0.5), (2, 0.02))
    ]
    pass_minutes(world, 9)
    assert named(training) == "straggler"
    shown = diagnosis.shown(training)
    assert shown["slow_worker"] == {"rank": 2, "node": "a"}
    assert shown["message"].startswith("Its workers wait for worker 2, which is slow.")


def test_where_only_some_workers_report_none_is_called_slow(world: World) -> None:
    training = running(world, "a", "a", "a")
    measure(world, training, 0.0, 0.3)
    told = [WorkerUse(str(training.pk), training.attempt, rank, 0.5, 0.0, sync) for rank, sync in ((0, 0.5), (1, 0.02))]
    world.metrics.uses_of_workers = told
    pass_minutes(world, 9)
    assert named(training) == "gpu_compute"
    assert diagnosis.shown(training)["slow_worker"] is None


def test_a_healthy_one_is_bound_by_its_gpus_and_nobody_is_told(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.01, 0.02, pod(training, 0, 3990, 0.5, 0.9))  # held back to no harm
    pass_minutes(world, 8)
    assert named(training) == "gpu_compute"
    assert not Event.objects.filter(kind="Diagnosed").exists()


def test_of_one_that_reports_nothing_nothing_is_kept(world: World) -> None:
    training = running(world, "a")
    pass_minutes(world, 8)
    assert not TrainingDiagnosis.objects.exists()
    shown = diagnosis.shown(training)
    assert (shown["bottleneck"], shown["evidence"], shown["levels"]) == (None, [], None)
    assert "reports no steps" in shown["message"]


def test_another_attempt_begins_anew(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.4, 0.02, pod(training, 0, 3990, 0.5))
    pass_minutes(world, 8)
    Workload.objects.filter(pk=training.pk).update(attempt=2)
    training.refresh_from_db()
    assert diagnosis.of(training) is None
    pass_minutes(world, 1)  # what is told is of the attempt before
    assert diagnosis.of(training) is None
    measure(world, training, 0.4, 0.02)
    pass_minutes(world, 1)
    known = diagnosis.of(training)
    assert known is not None
    assert known.diagnosis.windows == 1
    assert diagnosis.shown(training)["bottleneck"] is None


parts = st.floats(0, 1)
levels = st.builds(Levels, *[st.none() | parts] * 5, sm=st.lists(parts, max_size=3).map(tuple))
workers = st.builds(Worker, st.floats(0.01, 100), st.none() | st.floats(0, 50), st.none() | st.floats(0, 50))


@given(st.lists(st.builds(Window, st.lists(workers, max_size=3).map(tuple), levels, st.integers(1, 4)), max_size=8))
def test_what_is_remembered_comes_back_as_it_was(windows: list[Window]) -> None:
    state = Diagnosis()
    for one in windows:
        state = observe(state, one)
    back = diagnosisstate.state_of(diagnosisstate.plain(state))
    assert (back.windows, back.bottleneck, back.slow_worker) == (state.windows, state.bottleneck, state.slow_worker)
    assert back.evidence.keys() == state.evidence.keys()
    assert diagnosisstate.plain(back) == diagnosisstate.plain(state)


def test_every_bottleneck_has_its_words() -> None:
    from autoscaler.bottleneck.advice import HELPS, WAITS
    from frontend import trainingwords

    assert WAITS.keys() == HELPS.keys() == set(Bottleneck)
    assert trainingwords.BOTTLENECKS.keys() == {one.value for one in Bottleneck}
    assert trainingwords.LEVELS.keys() == set(diagnosis.LEVELS)


def test_the_newest_looks_are_kept_and_what_an_earlier_version_stored_is_read() -> None:
    told = Diagnosis()
    for _ in range(5):
        told = observe(told, Window((Worker(1.0, 0.01, 0.4),), Levels(nic=0.5), 2))
    stored = diagnosisstate.plain(told)
    assert diagnosisstate.state_of(stored).evidence[Bottleneck.NETWORK].lately == (0.4,) * 5
    stored["evidence"] = {name: known[:2] for name, known in stored["evidence"].items()}
    assert diagnosisstate.state_of(stored).evidence[Bottleneck.NETWORK].lately == ()


def test_the_noise_of_its_gradients_gives_its_curve_a_goodput(world: World) -> None:
    training = running(world, "a")
    measure(world, training, 0.0, 0.02, pod(training, 0, 1000, 0.0))
    pass_minutes(world, 13)
    assert {row["goodput"] for row in scalingcurve.rows(training)} == {None}

    (use,) = world.metrics.uses
    world.metrics.uses = [replace(use, samples_per_second=128.0, gradient_noise=64.0)]  # so 64 samples a step
    pass_minutes(world, 1)
    world.metrics.uses = [use]  # a lost scrape
    pass_minutes(world, 1)
    one, two = scalingcurve.rows(training)
    assert (one["workers"], one["goodput"], two["workers"]) == (1, 1.0, 2)
    assert two["goodput"] == pytest.approx(two["speed"] * 2 / 3, abs=0.002)
