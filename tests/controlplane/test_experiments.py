"""Changes of running trainings: measured before, tried, measured after, then kept or taken back; or only told."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.reallocate.candidates import Freedom, Room
from autoscaler.reallocate.choice import Training
from autoscaler.reallocate.course import Course, Seen, follow
from autoscaler.throughput.allocation import Allocation
from controlplane.cluster.port import INFEASIBLE, PodPhase, PodUse, TrainingUse
from controlplane.domain import coursestate
from controlplane.domain.coursestate import Kept
from controlplane.models import Event, Experiment, NodePool, Quota, Team, TrainingDiagnosis, Workload
from controlplane.services.workloads import workloads
from tests.controlplane.state import NoMetrics, World, story

pytestmark = pytest.mark.django_db
MINUTE = 60.0
Seconds = Callable[[float], float]


@dataclass
class Starved(NoMetrics):
    """Every training that runs waits for input; how long its steps take follows from its workers' cores."""

    cluster: Any = None
    seconds: Seconds = lambda cores: 2.0 / cores
    sync: float = 0.02  # of a step

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        found = []
        for uid in workloads:
            cores = self.cores(uid)
            if cores:
                attempt = max(pod.attempt for pod in self.cluster.pods.values() if pod.workload == uid)
                noise = 1.0 + 0.01 * (hash((uid, self.cluster.at)) % 3)
                took = self.seconds(cores) * noise
                found.append(
                    TrainingUse(
                        uid, attempt, 7, took, None, max(1 - 0.2 / took, 0.0) if self.sync < 0.1 else 0.0, self.sync
                    )
                )
        return tuple(found)

    def pods(self, workloads: Any) -> tuple[PodUse, ...]:
        return tuple(
            PodUse(pod.workload, pod.attempt, pod.rank, 0.3, round(990 * self.cores(pod.workload)), 100, 0.5)
            for pod in self.cluster.pods.values()
            if pod.workload in workloads
        )

    def cores(self, uid: str) -> float:
        """Of a worker that runs; 0 if none does."""
        mine = [(name, pod) for name, pod in self.cluster.pods.items() if pod.workload == uid]
        return min((self.cluster.sizes[n][0] / 1000 for n, p in mine if p.phase == PodPhase.RUNNING), default=0.0)


@pytest.fixture
def world() -> World:
    made = World(metrics=Starved())
    made.metrics.cluster = made.cluster
    Quota.objects.create(team=Team.objects.get(name="red"), pool=NodePool.objects.get(), nominal=16_000)
    return made


def want(mode: str) -> None:
    Team.objects.filter(name="red").update(reallocation=mode)


def running(world: World, cpu: float = 1, **asked: Any) -> Workload:
    training = world.submit("fit", resources={"gpus": 2, "cpu": cpu, "memory": "1Gi"}, **asked)
    world.run(training, "a")
    world.later(3600)
    return training


def pass_minutes(world: World, count: int) -> None:
    """So many minutes: what is to be done is done, seen, and looked at."""
    for _ in range(count):
        world.later(MINUTE - 1)
        world.actuate()
        world.observe()
        world.account()


def trial(training: Workload) -> Experiment:
    return Experiment.objects.filter(workload=training).latest("id")


def cpu(training: Workload) -> int:
    training.refresh_from_db()
    return training.cpu_milli


def test_a_training_that_waits_for_input_is_given_cpu_in_place_and_keeps_what_made_it_faster(world: World) -> None:
    want("automatic")
    training = running(world)
    pass_minutes(world, 12)
    tried = trial(training)
    assert (tried.status, tried.axis, tried.before["cpu"], tried.after["cpu"]) == ("on_trial", "cpu", 1.0, 16.0)
    assert tried.expected > 0.1
    pass_minutes(world, 8)
    tried.refresh_from_db()
    assert (tried.status, cpu(training)) == ("kept", 16_000)
    assert tried.gain == pytest.approx(math.log(16), abs=0.05)
    assert tried.ended_at is not None
    training.refresh_from_db()
    assert training.attempt == 1  # nothing restarted
    assert training.spec["resources"]["cpu"] == 16
    assert [kind for kind in story(training) if kind.startswith("Change")] == ["ChangeTried", "ChangeKept"]
    assert "Measured +" in Event.objects.get(kind="ChangeKept").message


def test_what_does_not_make_it_faster_is_taken_back_and_not_tried_again(world: World) -> None:
    want("automatic")
    world.metrics.seconds = lambda cores: 2.0  # it waits for something else
    training = running(world)
    pass_minutes(world, 40)
    assert Experiment.objects.filter(workload=training, status="rolled_back").exists()
    tried = list(Experiment.objects.filter(workload=training).values_list("after__cpu", flat=True))
    assert len(tried) == len(set(tried))
    pass_minutes(world, 120)
    assert not Experiment.objects.filter(workload=training, status__in=["on_trial", "kept"]).exists()
    assert cpu(training) == 1000
    assert training.spec["resources"]["cpu"] == 1
    assert Experiment.objects.filter(workload=training).count() <= 5


def test_where_a_team_wants_to_be_told_only_nothing_is_changed(world: World) -> None:
    training = running(world)
    pass_minutes(world, 14)
    assert not Experiment.objects.exists()
    assert cpu(training) == 1000
    told = coursestate.kept_of(TrainingDiagnosis.objects.get(pk=training.pk).course).told
    assert told[0].startswith("16 cores for each worker instead of 1: expected +")


def test_that_it_would_be_faster_on_fewer_nodes_is_told_and_not_done(world: World) -> None:
    """It exchanges for most of a step; its team owns nothing, but a move takes nothing more."""
    want("automatic")
    Quota.objects.update(nominal=0)
    world.metrics.seconds = lambda cores: 1.0
    world.metrics.sync = 0.6
    training = world.submit("fit", workers=2, resources={"gpus": 2, "cpu": 4, "memory": "1Gi"})
    world.run(training, "a", "b")
    world.later(100 * 3600)
    pass_minutes(world, 14)
    (told, *_) = coursestate.kept_of(TrainingDiagnosis.objects.get(pk=training.pk).course).told
    assert told.startswith("its 4 GPUs on 1 node instead of 2: expected +")
    assert "budget" not in told
    assert not Experiment.objects.exists()


def test_a_team_that_wants_nothing_is_left_alone(world: World) -> None:
    want("off")
    training = running(world)
    pass_minutes(world, 14)
    assert not Experiment.objects.exists()
    assert TrainingDiagnosis.objects.get(pk=training.pk).course == {}


def test_no_training_gets_more_of_the_cpus_than_of_the_gpus(world: World) -> None:
    """A node has 64 cores for 8 GPUs: two of these come with 16."""
    want("automatic")
    training = running(world, cpu=12)
    world.metrics.seconds = lambda cores: 24.0 / cores
    pass_minutes(world, 14)
    assert trial(training).after["cpu"] == 16.0


def test_a_team_without_a_quota_of_its_own_is_given_nothing_more(world: World) -> None:
    want("automatic")
    Quota.objects.update(nominal=0)
    training = running(world)
    pass_minutes(world, 14)
    assert not Experiment.objects.exists()
    (told, *_) = coursestate.kept_of(TrainingDiagnosis.objects.get(pk=training.pk).course).told
    assert told.endswith("it does not keep the budget of the team")


def test_a_change_that_its_node_does_not_give_is_over_and_the_next_is_another(world: World) -> None:
    want("automatic")
    training = running(world)
    pass_minutes(world, 11)
    world.cluster.answer = INFEASIBLE
    pass_minutes(world, 4)
    world.cluster.answer = ""
    assert (trial(training).status, cpu(training)) == ("refused", 1000)
    pass_minutes(world, 14)
    assert trial(training).after["cpu"] != 16.0


def test_a_persons_hand_goes_first_and_its_size_stays(world: World) -> None:
    want("automatic")
    training = running(world)
    pass_minutes(world, 13)
    training.refresh_from_db()
    changes = {"resources": training.spec["resources"] | {"cpu": 3}}
    workloads.patch(workload=training, changes=changes, version=None, actor="alice")
    pass_minutes(world, 2)
    assert trial(training).status == "unjudged"
    assert cpu(training) == 3000


def test_a_team_that_no_longer_wants_it_has_its_change_taken_back(world: World) -> None:
    want("automatic")
    training = running(world)
    pass_minutes(world, 13)
    want("off")
    pass_minutes(world, 2)
    assert (trial(training).status, cpu(training)) == ("rolled_back", 1000)


def test_a_training_that_ends_meanwhile_leaves_its_change_unjudged(world: World) -> None:
    want("automatic")
    training = running(world)
    pass_minutes(world, 13)
    world.pods(training, PodPhase.SUCCEEDED)
    other = world.submit("other", resources={"gpus": 1, "cpu": 1, "memory": "1Gi"})
    world.run(other, "b")
    pass_minutes(world, 1)
    assert trial(training).status == "unjudged"


times = st.floats(0.01, 100)
sizes = st.sampled_from([1.0, 2.0, 4.0])


@given(st.lists(st.tuples(sizes, st.none() | times, st.none() | times), min_size=1, max_size=40), st.integers(1, 3))
def test_what_is_remembered_of_a_course_comes_back_as_it_was(
    windows: list[tuple[float, float | None, float | None]], attempt: int
) -> None:
    training = Training(Freedom(False, 8.0), (Room(2, 64.0),), (), 1e6, 0.0, cpu_in_place=True)
    course = Course(Allocation((2,), 1, 1, 1.0))
    for cores, seconds, wait in windows:
        course, _ = follow(course, Seen(Allocation((2,), 1, 1, cores), seconds, 0.0, wait), training)
        kept = Kept(attempt, course, ("more",), None)
        assert coursestate.kept_of(coursestate.plain(kept)).course.wanted == course.wanted
        again = coursestate.plain(coursestate.kept_of(coursestate.plain(kept)))
        assert again == coursestate.plain(kept)
