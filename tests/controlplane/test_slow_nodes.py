"""A training leaves the node on which a worker is slow; the node says so, and operators are told of the second one."""

import math

import pytest

from controlplane.cluster.port import WorkerUse
from controlplane.models import Event, SlowNode
from tests.controlplane.moved import MINUTE, Slowed, on, pass_minutes, running, until, want, world_of
from tests.controlplane.state import World, node, story

pytestmark = pytest.mark.django_db


@pytest.fixture
def slowed() -> World:
    return world_of(Slowed())


def test_a_training_with_a_slow_worker_leaves_that_node_as_it_is_on_others_and_the_row_says_which(
    slowed: World,
) -> None:
    for name in "abc":
        slowed.cluster.change(name, gpus=2)
    slowed.observe()
    training = running(slowed, "a", "a", "b", "b")
    tried = until(slowed, training, "on_trial")
    assert (tried.axis, tried.node, tried.after["off"]) == ("node", "b", ["b"])
    assert "off b, where a worker is slow: expected +" in tried.message
    kept = until(slowed, training, "kept")
    assert kept.gain == pytest.approx(math.log(2.0), abs=0.1)
    assert "b" not in on(training)
    training.refresh_from_db()
    assert (training.attempt, training.preempted_at) == (2, [])


def test_an_elastic_gang_gives_up_the_slow_worker_and_grows_elsewhere_without_a_restart(slowed: World) -> None:
    for name in "abcd":
        slowed.cluster.change(name, gpus=1)
    slowed.cluster.nodes |= {"e": node("e", gpus=1)}
    slowed.cluster.change("e")
    slowed.observe()
    training = running(slowed, workers={"count": 4, "min": 2})
    tried = until(slowed, training, "on_trial")
    assert (tried.axis, tried.node) == ("node", "b")
    until(slowed, training, "kept")
    assert sorted(on(training)) == ["a", "c", "d", "e"]
    training.refresh_from_db()
    assert (training.attempt, training.phase) == (1, "Running")
    assert "Shrunk" in story(training)


def test_what_is_as_slow_elsewhere_stays_there_and_is_not_moved_again_for_that(slowed: World) -> None:
    """The second worker is slow wherever it is: it has the largest part of the data."""
    slowed.metrics._own = lambda on: 1.0  # not of a node
    training = running(slowed)
    slowed.metrics._worker = lambda pod: WorkerUse(
        pod.workload, pod.attempt, pod.rank, 2.0, 0.0, 0.05 if pod.rank == 1 else 0.5, None
    )
    slowed.metrics._step = lambda uid: 2.0 + 0.02 * (round(slowed.cluster.at / MINUTE) % 3)
    tried = until(slowed, training, "on_trial")
    assert tried.axis == "node"
    done = None
    for _ in range(60):
        pass_minutes(slowed, 1)
        tried.refresh_from_db()
        if tried.status != "on_trial":
            done = tried.status
            break
    assert done in ("stayed", "rolled_back")


def test_the_node_of_a_slow_worker_is_noted_and_two_trainings_within_a_day_tell_operators(slowed: World) -> None:
    want("recommend")
    first = running(slowed)
    other = slowed.submit("other", workers=2, resources={"gpus": 1, "cpu": 1, "memory": "1Gi"})
    slowed.run(other, "b", "c")
    pass_minutes(slowed, 12)
    named = list(SlowNode.objects.order_by("id").values_list("node", "workload", "rank"))
    assert sorted(named) == sorted([("b", first.pk, 1), ("b", other.pk, 0)])
    assert all(one.part == pytest.approx(0.48, abs=0.1) for one in SlowNode.objects.all())
    (event,) = Event.objects.filter(kind="NodeNamedSlow")
    assert (event.name, event.workload, sorted(event.data["trainings"])) == (
        "b",
        None,
        sorted(map(str, [first.pk, other.pk])),
    )
    pass_minutes(slowed, 5)
    assert SlowNode.objects.count() == 2
