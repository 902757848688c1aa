"""What one training saw of its steps is lent to the next one like it: what was tried in vain is not tried again."""

from typing import Any

import pytest

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.observation import Observation
from controlplane.models import Experiment, StepObservation, Workload
from controlplane.services.training import lending
from tests.controlplane.moved import HOUR, LONG, Steps, on, pass_minutes, until, world_of
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return world_of(Steps(seconds=lambda on: 1.0))


def running(world: World, name: str, *nodes: str, **asked: Any) -> Workload:
    resources = {"gpus": 1, "cpu": 4, "memory": "1Gi"}
    made = world.submit(name, workers=4, resources=resources, checkpoint={"interval": "10m"}, **asked)
    world.run(made, *nodes)
    world.later(LONG)
    return made


def test_what_was_tried_in_vain_is_not_tried_by_the_next_of_its_kind_but_by_another_program(world: World) -> None:
    first = running(world, "first", *"abcd")
    until(world, first, "rolled_back")
    assert {one.allocation.gpus for one in lending.lent(running(world, "next", *"abcd"), "a")} >= {(4,), (1, 1, 1, 1)}
    second = Workload.objects.get(name="next")
    other = running(world, "other", *"abcd", image="registry.example/app:2")
    pass_minutes(world, 20)
    tried = set(Experiment.objects.exclude(workload=first).values_list("workload", flat=True))
    assert (second.pk in tried, other.pk in tried) == (False, True)
    assert on(second) == ["a", "b", "c", "d"]


def test_nothing_is_lent_to_another_team_or_of_itself_and_no_more_than_a_few(world: World) -> None:
    mine = running(world, "mine", *"abcd")
    for count in range(1, 60):
        seen = [Observation(Allocation((1,) * 4, 4, 1, cpu=float(count)), 1.0)]
        lending.note(workload=mine, node="a", at=world.cluster.at + count, seen=seen)
    assert StepObservation.objects.count() == lending.KEPT
    assert lending.lent(mine, "a") == ()
    theirs = running(world, "theirs", *"abcd", team="blue")
    assert lending.lent(theirs, "a") == ()
    found = lending.lent(running(world, "alike", *"abcd"), "a")
    assert [one.allocation.cpu for one in found] == [float(count) for count in range(59, 59 - lending.LEND, -1)]
    assert all(one.is_lent for one in found)


def test_what_is_old_is_forgotten(world: World) -> None:
    mine = running(world, "mine", *"abcd")
    lending.note(workload=mine, node="a", at=world.cluster.at, seen=[Observation(Allocation((4,), 4, 1), 1.0)])
    lending.prune(world.cluster.at + HOUR)
    assert StepObservation.objects.count() == 1
    lending.prune(world.cluster.at + lending.KEPT_SECONDS + HOUR)
    assert StepObservation.objects.count() == 0
