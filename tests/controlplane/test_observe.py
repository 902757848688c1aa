"""What the cluster shows, in every state of a workload: pods end, workers leave, time passes."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle.ends import NOT_THE_JOBS_FAULT, REFUSED_BY_NODE, backoff_seconds
from controlplane.models import Event, Placement, Workload
from controlplane.services.workloads import workloads
from scheduler.model.workload import ENDED, LEAVING, Phase, may_move
from tests.controlplane.state import PodCluster, World, held, open_actions, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db

RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    return World()


# --- failures ---------------------------------------------------------------------------------


def test_a_job_without_retries_has_failed_with_its_exit_code(world):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, FAILED, exit_code=137, reason="OOMKilled")
    job.refresh_from_db()
    assert (job.phase, job.exit_code, job.reason) == ("Failed", 137, "OOMKilled")
    assert job.ended_at == world.cluster.at
    assert held(job) == 0


def test_a_job_with_retries_is_queued_again_and_waits_longer_each_time(world):
    job = world.submit("job", retries=2)
    waits = []
    for _ in range(2):
        world.run(job, "a")
        world.pods(job, FAILED, attempt=0, exit_code=1)
        job.refresh_from_db()
        assert job.phase == "Queued"
        waits.append(job.not_before - world.cluster.at)
    assert waits == [10.0, 20.0]
    world.run(job, "a")
    world.pods(job, FAILED, exit_code=1)
    assert phase(job) == "Failed"
    assert Workload.objects.get().attempt == 3


def test_backoff_doubles_up_to_ten_minutes():
    assert [backoff_seconds(n) for n in (1, 2, 3, 7, 100)] == [10.0, 20.0, 40.0, 600.0, 600.0]


@pytest.mark.parametrize("reason", sorted(NOT_THE_JOBS_FAULT - REFUSED_BY_NODE))
def test_an_end_that_is_not_the_jobs_fault_uses_up_no_retry(world, reason):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, FAILED, exit_code=1, reason=reason)
    job.refresh_from_db()
    assert (job.phase, job.failures, job.not_before) == ("Queued", 0, None)


@pytest.mark.parametrize("reason", sorted(REFUSED_BY_NODE))
def test_a_job_that_its_node_refuses_is_tried_again_later_and_uses_up_no_retry(world, reason):
    job = world.submit("job", retries=0)
    world.place(job, "a")
    world.actuate()
    world.later()
    world.pods(job, FAILED, reason=reason)
    job.refresh_from_db()
    assert (job.phase, job.failures, job.not_before) == ("Queued", 0, world.cluster.at + 60.0)
    assert job.queued_at < world.cluster.at  # its age is kept
    told = Event.objects.get(kind="Requeued")
    assert (told.reason, told.message) == (
        reason,
        f"Node a did not start worker 0: {reason}. It is tried again in 60 s; this does not count as a failure.",
    )


def test_a_gang_of_which_one_worker_is_refused_leaves_and_is_tried_again(world):
    job = world.submit("job", workers=2)
    world.run(job, "a", "b")
    world.later()
    world.cluster.set(job, FAILED, 0, reason="OutOfGpu")
    world.cluster.set(job, FAILED, 1, reason="PeerFailed", exit_code=1)
    world.observe()
    job.refresh_from_db()
    assert (job.phase, job.failures, job.not_before) == ("Queued", 0, world.cluster.at + 60.0)


def test_a_replica_that_its_node_refuses_is_wanted_again_only_later(world):
    chat = world.submit("chat", kind="inference", replicas={"min": 2, "max": 2})
    world.run(chat, "a", "b")
    world.pods(chat, FAILED, 1, reason="OutOfMemory")
    chat.refresh_from_db()
    assert (chat.phase, chat.failures, chat.not_before) == ("Degraded", 0, world.cluster.at + 60.0)


def test_when_one_worker_of_a_gang_fails_its_peers_leave_before_the_job_is_queued_again(world):
    job = world.submit("job", workers=2, retries=1)
    world.run(job, "a", "b")
    world.pods(job, FAILED, 1, exit_code=3)
    assert phase(job) == "Degraded"
    assert open_actions(job) == ["stop"]
    assert not seen_by_scheduler(job).is_waiting
    world.actuate()
    world.pods(job, GONE, 0)
    job.refresh_from_db()
    assert (job.phase, job.failures, job.exit_code) == ("Queued", 1, 3)
    assert seen_by_scheduler(job).placement == ()


def test_peers_that_fail_with_it_count_as_one_failure(world):
    job = world.submit("job", workers=3, retries=3)
    world.run(job, "a", "a", "b")
    world.later()
    world.cluster.set(job, FAILED, 0, exit_code=1)
    world.cluster.set(job, FAILED, 1, 2, exit_code=1, reason="PeerFailed")
    world.observe()
    job.refresh_from_db()
    assert (job.phase, job.failures) == ("Queued", 1)


def test_a_gang_of_which_one_worker_is_done_goes_on(world):
    job = world.submit("job", workers=2)
    world.run(job, "a", "b")
    world.pods(job, SUCCEEDED, 1, exit_code=0)
    assert phase(job) == "Running"
    assert held(job) == 1
    world.pods(job, SUCCEEDED, 0, exit_code=0)
    assert phase(job) == "Succeeded"


def test_a_job_that_is_over_before_it_was_seen_running_has_a_start_and_an_end(world):
    job = world.submit("job")
    world.place(job, "a")
    world.actuate()
    began = world.cluster.at
    world.later(9)
    world.pods(job, SUCCEEDED, exit_code=0, started_at=began, ended_at=began + 5)
    job.refresh_from_db()
    assert (job.phase, job.started_at, job.ended_at) == ("Succeeded", began, began + 5)


def test_a_gang_that_does_not_come_together_is_queued_again(world):
    job = world.submit("job", workers=2)
    world.place(job, "a", "b")
    world.actuate()
    world.pods(job, RUNNING, 0)
    assert phase(job) == "Starting"
    world.later(400)
    world.observe()
    assert phase(job) == "Degraded"
    world.actuate()
    world.pods(job, GONE)
    job.refresh_from_db()
    assert (job.phase, job.failures) == ("Queued", 0)
    assert job.not_before > job.queued_at


# --- leaving ----------------------------------------------------------------------------------


def test_an_evicted_job_is_queued_again_with_its_age_its_checkpoint_and_what_it_attained(world):
    job, other = world.submit("job"), world.submit("other")
    world.run(job, "a")
    world.later(100)
    world.evict(job, by=other)
    assert (phase(job), open_actions(job)) == ("Checkpointing", ["stop"])
    assert seen_by_scheduler(job).placement[0].leaving
    world.actuate()
    world.pods(job, GONE, checkpointed_at=world.cluster.at, progress=0.25)
    before = job.queued_at
    job.refresh_from_db()
    assert (job.phase, job.progress, job.queued_at, job.started_at) == ("Queued", 0.25, before, None)
    bound = Placement.objects.get(workload=job)
    assert job.attained == 1000 * (bound.released_at - bound.bound_at)
    assert story(job)[-3:] == ["Evicted", "Preempted", "Requeued"]
    world.run(job, "b")
    assert Workload.objects.get(pk=job.pk).attempt == 2


def test_a_job_that_finishes_while_it_is_evicted_has_succeeded(world):
    job, other = world.submit("job", workers=2), world.submit("other")
    world.run(job, "a", "b")
    world.pods(job, SUCCEEDED, 0, exit_code=0)
    world.evict(job, by=other)
    world.pods(job, SUCCEEDED, 1, exit_code=0)
    assert phase(job) == "Succeeded"


def test_a_job_of_which_only_a_part_was_done_is_not_a_success(world):
    job, other = world.submit("job", workers=2), world.submit("other")
    world.run(job, "a", "b")
    world.evict(job, by=other)
    world.pods(job, GONE, 0)
    world.pods(job, SUCCEEDED, 1, exit_code=0)
    assert phase(job) == "Queued"


def test_preemptions_older_than_a_day_are_forgotten(world):
    job, other = world.submit("job"), world.submit("other")
    kept = []
    for pause in (0, 50_000, 50_000):
        world.later(pause)
        world.run(job, "a")
        world.evict(job, by=other)
        world.actuate()
        world.pods(job, GONE)
        job.refresh_from_db()
        kept.append((len(job.preempted_at), len(job.preempted_by)))
    assert kept == [(1, 1), (2, 2), (2, 2)]


CAUSES = {
    "evict": ("Checkpointing", "Queued"),
    "stop": ("Stopping", "Stopped"),
    "suspend": ("Suspending", "Suspended"),
    "requeue": ("Suspending", "Queued"),
}


@pytest.mark.parametrize("seen", [None, PodPhase.PENDING, RUNNING])
@pytest.mark.parametrize("cause", sorted(CAUSES))
@pytest.mark.parametrize("end", [GONE, FAILED, SUCCEEDED])
def test_every_way_to_leave_ends_where_it_should_whatever_the_pods_did(world, seen, cause, end):
    job, other = world.submit("job", kind="notebook"), world.submit("other")
    world.place(job, "a")
    if seen is not None:
        world.actuate()
        world.pods(job, seen)
    job.refresh_from_db()
    if cause == "evict":
        world.evict(job, by=other)
    else:
        getattr(workloads, cause)(workload=job, actor="alice")
    during, after = CAUSES[cause]
    assert phase(job) == during
    world.actuate()
    if seen is None:  # it never was started: only a complete look at the cluster tells that there is nothing
        world.observe()
        world.observe()
    else:
        world.pods(job, end, exit_code=143 if end == FAILED else 0)
    assert phase(job) == after
    assert held(job) == 0


def test_a_workload_whose_workers_are_all_gone_already_does_not_stay_stopping(world):
    service = world.submit("chat", kind="inference")
    world.run(service, "a")
    world.pods(service, FAILED, exit_code=1)
    assert phase(service) == "Degraded"
    workloads.stop(workload=service, actor="alice")
    assert phase(service) == "Stopped"


# --- time -------------------------------------------------------------------------------------


def test_a_job_that_still_waits_at_its_deadline_expires(world):
    job = world.submit("job", deadline="2026-01-01T00:01:00Z")
    world.observe()
    assert phase(job) == "Queued"
    world.later(120)
    world.observe()
    job.refresh_from_db()
    assert (job.phase, job.reason) == ("Expired", "DeadlineExceeded")


def test_a_job_that_has_run_as_long_as_it_may_is_stopped(world):
    job = world.submit("job", max_duration="1h")
    world.run(job, "a")
    world.later(3000)
    world.observe()
    assert phase(job) == "Running"
    world.later(700)
    world.observe()
    assert (phase(job), open_actions(job)) == ("Stopping", ["stop"])
    world.actuate()
    world.pods(job, GONE)
    job.refresh_from_db()
    assert (job.phase, job.reason) == ("Stopped", "MaxDurationExceeded")


# --- the life cycle ---------------------------------------------------------------------------


def test_every_step_that_was_ever_taken_here_is_in_the_table(world):
    """Drives several workloads through failures and checks the log of phases against the one table."""
    test_an_evicted_job_is_queued_again_with_its_age_its_checkpoint_and_what_it_attained(world)
    for uid in Workload.objects.values_list("pk", flat=True):
        phases = [Phase(p) for p in Event.objects.filter(workload=uid).order_by("id").values_list("phase", flat=True)]
        for before, after in zip(phases, phases[1:], strict=False):
            assert before == after or may_move(before, after)


def test_no_phase_that_ended_or_leaves_is_reported_as_waiting(world):
    job = world.submit("job")
    for now in ENDED | LEAVING:
        Workload.objects.filter(pk=job.pk).update(phase=now.value)
        seen = seen_by_scheduler(job)
        assert seen is None or not seen.is_waiting
    assert isinstance(world.cluster, PodCluster)
