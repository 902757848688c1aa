"""An elastic training with fewer workers, where these do more: given up in place, judged, kept or grown again."""

from dataclasses import dataclass
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.models import Experiment, Workload
from controlplane.queries.workloads import experiments
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import changing
from tests.controlplane.moved import LONG, Steps, on, pass_minutes, until, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db


@dataclass
class OnTwo(Steps):
    """Between two nodes it exchanges for most of a step."""

    cost: float = 1.6

    def __post_init__(self) -> None:
        self.seconds = lambda nodes: 0.5 if len(nodes) == 1 else self.cost


@pytest.fixture
def world() -> World:
    return world_of(OnTwo())


def running(world: World, **asked: Any) -> Workload:
    resources = {"gpus": 1, "cpu": 4, "memory": "1Gi"}
    made = world.submit("fit", workers={"count": 4, "min": 2}, resources=resources, **asked)
    world.run(made, "a", "a", "b", "b")
    world.later(LONG)
    return made


def test_what_exchanges_between_nodes_gives_up_the_workers_of_one_and_does_more(world: World) -> None:
    training = running(world)
    done = until(world, training, "kept")
    assert (done.axis, done.before["workers"], done.after["workers"], done.after["gpus"]) == ("workers", 4, 2, [2])
    assert done.gain == pytest.approx(0.47, abs=0.1)  # 4 in 1.6 s, 2 in .5 s
    pass_minutes(world, 10)
    training.refresh_from_db()
    assert (on(training), training.workers_cap, training.attempt) == (["a", "a"], 2, 1)
    assert experiments.newest_in_place(training) is not None
    assert [kind for kind in story(training) if kind in ("ChangeTried", "Shrunk", "ChangeKept")] == [
        "ChangeTried", "Shrunk", "ChangeKept",
    ]  # fmt: skip
    changing.take_back(workload=training, actor="alice", hand=Hand.PERSON)
    pass_minutes(world, 10)
    training.refresh_from_db()
    assert (training.workers_cap, len(on(training)), training.attempt) == (None, 4, 1)


def test_where_fewer_do_less_it_grows_again(world: World) -> None:
    world.metrics.seconds = lambda nodes: 1.5 if len(nodes) == 1 else 1.6
    training = running(world)
    done = until(world, training, "rolled_back")
    assert (done.axis, done.gain is not None and done.gain < 0) == ("workers", True)
    pass_minutes(world, 5)
    training.refresh_from_db()
    assert (training.workers_cap, len(on(training)), training.attempt) == (None, 4, 1)
    assert Experiment.objects.filter(workload=training, axis="workers", status="kept").count() == 0


def test_where_the_scheduler_takes_more_meanwhile_nothing_is_judged_and_it_may_grow_again(world: World) -> None:
    training = running(world)
    until(world, training, "on_trial")
    pass_minutes(world, 2)
    world.pods(training, PodPhase.SUCCEEDED, 1)
    tried = until(world, training, "unjudged", most=4)
    assert tried.axis == "workers"
    training.refresh_from_db()
    assert training.workers_cap is None


def test_a_gang_that_is_not_elastic_keeps_its_workers(world: World) -> None:
    resources = {"gpus": 1, "cpu": 4, "memory": "1Gi"}
    made = world.submit("fit", workers=4, resources=resources)
    world.run(made, "a", "a", "b", "b")
    world.later(LONG)
    pass_minutes(world, 16)
    assert not Experiment.objects.exists()
