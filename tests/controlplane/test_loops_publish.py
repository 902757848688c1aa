"""What the cluster is told: pods of what waits, and a sentence for each decision."""

from typing import Any

import pytest

from controlplane.loops import publish
from controlplane.models import Action
from controlplane.queries.scheduling import cluster_events, upcoming_pods
from controlplane.services.workloads.workloads import patch
from scheduler.model.decision import Reason, Wait
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def told(world: World) -> list[tuple[str, str, bool]]:
    """What is new, as (reason, message, is a warning)."""
    world.cluster.told.clear()
    assert not (report := publish.run_once(world.wiring)).skipped, report
    return [(note.reason, note.message, note.is_warning) for note in world.cluster.told]


def prepared(world: World) -> list[str]:
    publish.run_once(world.wiring)
    return [pod.name for pod in world.cluster.prepared]


def wait(world: World, job: Any, message: str) -> None:
    job.refresh_from_db()
    world.decide(Wait(str(job.pk), job.version, Reason.FRAGMENTED, message))


def test_every_worker_of_a_queued_gang_has_its_pod_of_the_next_attempt(world, settings):
    job = world.submit("job", workers=2)
    assert prepared(world) == [f"{job.pk}-1-0", f"{job.pk}-1-1"]
    (pod, _) = world.cluster.prepared
    assert (pod.node, pod.gpus, pod.size, pod.namespace) == ("", (), 2, "red")


def test_the_head_of_the_queue_comes_first_and_no_more_than_the_setting_says(world, settings):
    world.submit("late")
    urgent = world.submit("urgent", priority_class="high")
    settings.PREPARED_WORKLOADS = 1
    assert prepared(world) == [f"{urgent.pk}-1-0"]
    settings.PREPARED_WORKLOADS = 0
    assert prepared(world) == []


def test_what_was_changed_while_it_waits_has_the_pods_that_it_asks_for_now(world):
    job = world.submit("job", workers=2)
    other = world.submit("other")
    assert prepared(world) == [f"{job.pk}-1-0", f"{job.pk}-1-1", f"{other.pk}-1-0"]
    job.refresh_from_db()
    patch(workload=job, changes={"workers": {"count": 3}}, version=job.version, actor="ann")
    assert prepared(world) == [*(f"{job.pk}-1-{rank}" for rank in range(3)), f"{other.pk}-1-0"]
    assert [pod.size for pod in world.cluster.prepared] == [3, 3, 3, 1]


def test_no_more_pods_are_made_ahead_than_a_cluster_bears_and_no_part_of_a_gang(world):
    small, large, late = world.submit("small"), world.submit("large", workers=3), world.submit("late")
    counts = {
        most: [pod.workload for pod in upcoming_pods.upcoming(world.cluster.at, 10, upcoming_pods.Upcoming(), most)]
        for most in (3, 4, 5)
    }
    assert counts[3] == [str(small.pk)]
    assert counts[4] == [str(small.pk), *[str(large.pk)] * 3]
    assert counts[5] == [*counts[4], str(late.pk)]


def test_a_gang_whose_size_is_open_has_no_pods_before_it_is_placed(world):
    world.submit("elastic", workers={"count": 2, "min": 1, "max": 4})
    assert prepared(world) == []


def test_what_runs_or_waits_out_a_back_off_has_no_pods_to_prepare(world):
    running, failing = world.submit("running"), world.submit("failing")
    world.run(running, "a")
    type(failing).objects.filter(pk=failing.pk).update(not_before=world.cluster.at + 60)
    assert prepared(world) == []


def test_the_pods_of_what_has_a_place_already_are_to_stay(world):
    placed, _, ended = world.submit("placed"), world.submit("queued"), world.submit("ended")
    world.place(placed, "a")
    world.run(ended, "b")
    publish.run_once(world.wiring)
    assert world.cluster.starting == {str(placed.pk)}


def test_each_decision_is_told_once_and_only_the_newest_of_a_workload(world):
    one, two = world.submit("one"), world.submit("two", workers=2)
    assert told(world) == []  # what was there before is not told again
    wait(world, one, "The best node has 3 free.")
    world.place(two, "a", "b")
    assert told(world) == [
        ("Fragmented", "The best node has 3 free.", False),
        ("Admitted", "2 workers placed on a, b.", False),
    ]
    assert told(world) == []
    world.place(one, "a")
    world.actuate()
    world.evict(one, by=two)
    ((reason, _, is_warning),) = told(world)
    assert (reason, is_warning) == ("Preempted", True)


def test_a_cluster_that_does_not_answer_keeps_nothing_back(world):
    job = world.submit("job")
    told(world)
    wait(world, job, "Nothing is free.")
    world.cluster.answers = False
    assert "unreachable" in publish.run_once(world.wiring).skipped
    world.cluster.answers = True
    assert told(world) == [("Fragmented", "Nothing is free.", False)]


def test_while_commands_wait_to_be_performed_little_is_told_as_binds_go_first(world):
    jobs = [world.submit(f"job-{number}") for number in range(cluster_events.BESIDE_COMMANDS + 5)]
    told(world)
    for job in jobs:
        wait(world, job, "waits")
    Action.objects.create(verb="cordon", payload={"node": "a", "on": True}, created_at=0.0)
    assert len(told(world)) == cluster_events.BESIDE_COMMANDS
    Action.objects.update(done_at=1.0)
    assert len(told(world)) == 5
