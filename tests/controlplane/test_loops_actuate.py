"""Hand-overs: whatever a process has done when it is killed, the next one finishes it, and nothing runs twice."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.loops import actuate
from controlplane.models import Action, Event, Placement, Workload
from controlplane.services.workloads import actions, workloads
from tests.controlplane.state import World, open_actions, phase, story

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def test_killed_after_the_commit_and_before_the_start_the_next_process_starts_it(world):
    job = world.submit("job")
    world.place(job, "a")
    world.restart()
    world.actuate()
    world.observe()
    assert phase(job) == "Starting"


def test_killed_after_the_start_and_before_it_was_noted_the_next_process_starts_nothing_twice(world):
    job = world.submit("job")
    world.place(job, "a")
    for command in actions.due(at=world.cluster.at):
        world.cluster.start(command.pods)
    world.restart()
    world.actuate()
    world.observe()
    assert len(world.cluster.pods) == 1
    assert (phase(job), open_actions(job)) == ("Starting", [])


def test_killed_after_the_start_and_stopped_before_it_was_noted_the_pod_is_stopped_and_waited_for(world):
    job = world.submit("job")
    world.place(job, "a")
    for command in actions.due(at=world.cluster.at):
        world.cluster.start(command.pods)
    world.restart()
    workloads.requeue(workload=job, actor="alice")
    world.actuate()
    world.observe()
    world.observe()
    assert phase(job) == "Suspending"  # its pod lives: a second attempt now would run it twice
    assert ("stop", str(job.pk)) in world.cluster.calls
    world.pods(job, PodPhase.GONE)
    assert phase(job) == "Queued"


def test_a_start_that_was_overtaken_by_a_stop_is_dropped(world):
    job = world.submit("job")
    world.place(job, "a")
    workloads.stop(workload=job, actor="alice")
    world.actuate()
    assert [verb for verb, _ in world.cluster.calls] == ["stop"]
    assert not Action.objects.filter(done_at__isnull=True).exists()
    world.observe()
    world.observe()
    assert phase(job) == "Stopped"


def test_an_unreachable_cluster_leaves_actions_open_and_untried(world):
    job = world.submit("job")
    world.place(job, "a")
    world.cluster.answers = False
    assert "unreachable" in actuate.run_once(world.wiring).skipped
    assert (open_actions(job), Action.objects.get().tries) == (["start"], 0)
    world.cluster.answers = True
    world.actuate()
    assert open_actions(job) == []


def test_a_start_the_cluster_refuses_is_tried_again_later_and_then_the_job_is_queued_again(world):
    job = world.submit("job")
    world.place(job, "a")
    world.cluster.refuses = True
    tries = []
    for _ in range(actions.MAX_TRIES):
        world.actuate()
        tries.append(Action.objects.filter(verb="start").get().tries)
        world.later(700)
    assert tries == [1, 2, 3, 4, 5]
    assert "admission denied" in Action.objects.get(verb="start").error
    world.actuate()
    for _ in range(3):
        world.observe()
    job.refresh_from_db()
    assert (job.phase, job.not_before > job.submitted_at) == ("Queued", True)
    assert Placement.objects.exclude(state="Released").count() == 0
    assert Event.objects.filter(reason="StartRefused").exists()


def test_a_start_is_not_tried_again_before_its_time(world):
    job = world.submit("job")
    world.place(job, "a")
    world.cluster.refuses = True
    world.actuate()
    world.later(5)
    world.actuate()
    assert world.cluster.calls.count(("start", str(job.pk))) == 1


def test_one_bad_command_does_not_stop_the_others(world):
    bad, good = world.submit("bad"), world.submit("good")
    world.place(bad, "a")
    world.place(good, "a")
    Action.objects.filter(workload=bad.pk).update(verb="dance")
    world.actuate()
    assert (open_actions(bad), open_actions(good)) == (["dance"], [])
    assert "unknown verb dance" in Action.objects.get(workload=bad.pk).error


def test_a_pod_spec_carries_what_the_job_file_asked(world):
    job = world.submit("job", resources={"gpu_share": {"guarantee": 0.25, "limit": 1, "memory": "8Gi"}, "cpu": 2})
    world.place(job, "a")
    (command,) = actions.due(at=world.cluster.at)
    (pod,) = command.pods
    assert (pod.milli, pod.gpu_memory, pod.cpu_milli, pod.namespace, pod.size) == (250, 8192, 2000, "red", 1)
    assert pod.spec["name"] == "job"
    assert pod.name == f"{job.pk}-1-0"


def test_no_second_attempt_is_started_while_a_worker_of_the_first_is_there(world):
    job = world.submit("job", workers=2, retries=5)
    for _ in range(3):
        world.run(job, "a", "b")
        attempt = Workload.objects.get().attempt
        world.later()
        world.cluster.set(job, PodPhase.FAILED, 0, attempt=attempt, exit_code=1)
        world.observe()
        assert phase(job) == "Degraded"
        world.actuate()
        world.later()
        world.cluster.set(job, PodPhase.GONE, 1, attempt=attempt)
        world.observe()
        alive = [p for p in world.cluster.pods.values() if p.phase in (PodPhase.PENDING, PodPhase.RUNNING)]
        assert (phase(job), alive) == ("Queued", [])
    assert story(job).count("Admitted") == 3


def test_performed_actions_are_dropped_once_there_are_many(world):
    for number in range(4):
        world.run(world.submit(f"job-{number}"), "a")
    assert actions.prune(keep=2) == 2
    assert Action.objects.count() == 2
