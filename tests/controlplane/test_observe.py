"""What the cluster shows, in every state of a workload: pods end, nodes go, reports come late, twice or never."""

from dataclasses import replace

import pytest

from controlplane.cluster.port import Observation, PodPhase, PodSeen
from controlplane.models import Action, Event, Node, Placement, Workload
from controlplane.services import clusters, nodes, observations, workloads
from controlplane.services.outcomes import NOT_THE_JOBS_FAULT, backoff_seconds
from scheduler.workload import ENDED, LEAVING, Phase, may_move
from tests.controlplane.state import PodCluster, World, node, open_actions, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db

RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    return World()


def held(workload: Workload) -> int:
    return Placement.objects.filter(workload=workload).exclude(state="Released").count()


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


@pytest.mark.parametrize("reason", sorted(NOT_THE_JOBS_FAULT))
def test_an_end_that_is_not_the_jobs_fault_uses_up_no_retry(world, reason):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, FAILED, exit_code=1, reason=reason)
    job.refresh_from_db()
    assert (job.phase, job.failures, job.not_before) == ("Queued", 0, None)


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


# --- reserved places --------------------------------------------------------------------------


def reserve(world: World) -> tuple[Workload, Workload]:
    victim, claimant = world.submit("victim"), world.submit("claimant")
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[victim])
    return victim, claimant


def test_a_claimant_starts_when_its_victims_have_left_and_not_before(world):
    victim, claimant = reserve(world)
    assert phase(claimant) == "Reserved"
    world.actuate()
    world.observe()
    assert (phase(claimant), open_actions(claimant)) == ("Reserved", [])
    world.pods(victim, GONE)
    assert (phase(victim), phase(claimant), open_actions(claimant)) == ("Queued", "Admitted", ["start"])
    place = Placement.objects.get(workload=claimant)
    assert (place.state, place.bound_at) == ("Bound", world.cluster.at)


def test_a_claimant_that_got_its_place_no_longer_says_why_it_waited(world):
    victim, claimant = reserve(world)
    Workload.objects.filter(pk=claimant.pk).update(reason="WaitingForPreemptedWorkloads", message="Has its place.")
    world.actuate()
    world.pods(victim, GONE)
    assert Workload.objects.values_list("phase", "reason", "message").get(pk=claimant.pk) == ("Admitted", "", "")


def test_a_claimant_waits_for_all_of_its_victims(world):
    one, two, claimant = world.submit("one"), world.submit("two"), world.submit("claimant", gpus=2)
    for victim in (one, two):
        world.run(victim, "a")
    for victim in (one, two):
        world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[one, two])
    world.actuate()
    world.pods(one, GONE)
    assert phase(claimant) == "Reserved"
    world.pods(two, GONE)
    assert phase(claimant) == "Admitted"


@pytest.mark.parametrize("what", ["lost", "not ready", "cordoned"])
def test_a_reserved_place_on_a_node_that_goes_out_of_use_is_given_up(world, what):
    _, claimant = reserve(world)
    if what == "lost":
        world.cluster.lose("a")
    else:
        world.cluster.change("a", **({"ready": False} if what == "not ready" else {"schedulable": False}))
    world.observe()
    assert phase(claimant) == "Queued"
    assert held(claimant) == 0


def test_a_claimant_stopped_while_reserved_holds_nothing_and_its_victim_is_queued_again(world):
    victim, claimant = reserve(world)
    workloads.stop(workload=claimant, actor="alice")
    assert (phase(claimant), held(claimant)) == ("Stopped", 0)
    world.actuate()
    world.pods(victim, GONE)
    assert phase(victim) == "Queued"


def test_a_service_that_grows_into_a_reserved_place_keeps_serving(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    victim = world.submit("victim")
    world.run(service, "b")
    world.run(victim, "a")
    Workload.objects.filter(pk=service.pk).update(workers=2)
    world.evict(victim, by=service)
    world.place(service, "a", after=[victim])
    assert phase(service) == "Scaling"
    assert [a.reserved for a in seen_by_scheduler(service).placement] == [False, True]
    world.actuate()
    world.pods(victim, GONE)
    assert open_actions(service) == ["start"]
    world.actuate()
    world.pods(service, RUNNING)
    assert phase(service) == "Running"


# --- services ---------------------------------------------------------------------------------


def test_a_replica_that_dies_leaves_a_gap_that_a_new_rank_fills(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 3})
    world.run(service, "a", "b")
    world.pods(service, FAILED, 0, exit_code=1)
    service.refresh_from_db()
    assert (service.phase, service.failures) == ("Degraded", 1)
    seen = seen_by_scheduler(service)
    assert (seen.missing, seen.is_waiting, seen.next_rank) == (1, True, 2)
    world.place(service, "a")
    world.actuate()
    world.pods(service, RUNNING, 2)
    assert phase(service) == "Running"
    assert sorted(Placement.objects.filter(state="Bound").values_list("rank", flat=True)) == [1, 2]


def test_a_service_is_scaling_while_some_replicas_run_and_others_come(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 3})
    world.place(service, "a", "b")
    world.actuate()
    world.pods(service, RUNNING, 0)
    assert phase(service) == "Scaling"
    world.pods(service, RUNNING, 1)
    assert phase(service) == "Running"


def test_a_service_scaled_in_loses_its_highest_ranks_and_keeps_running(world):
    from autoscaler.decision import Scale

    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    Workload.objects.filter(pk=service.pk).update(workers=3)
    world.run(service, "a", "b", "b")
    service.refresh_from_db()
    assert not world.decide(Scale(str(service.pk), service.version, 1, "less load")).stale
    assert Action.objects.get(verb="stop").payload["ranks"] == [1, 2]
    world.actuate()
    world.pods(service, GONE, 1, 2)
    assert (phase(service), held(service)) == ("Running", 1)


# --- nodes ------------------------------------------------------------------------------------


def test_what_ran_on_a_lost_node_is_queued_again_without_a_failure(world):
    job = world.submit("job", workers=2)
    world.run(job, "a", "b")
    world.cluster.lose("b")
    world.observe()
    assert not Node.objects.filter(name="b").exists()
    assert phase(job) == "Degraded"
    world.actuate()
    world.pods(job, GONE, 0)
    job.refresh_from_db()
    assert (job.phase, job.failures) == ("Queued", 0)


def test_nodes_are_written_as_they_are_seen(world):
    world.cluster.nodes["c"] = node("c", gpus=4, rack="r1")
    world.cluster.change("a", lost=(3,), ready=False)
    world.observe_all()
    a, c = Node.objects.get(name="a"), Node.objects.get(name="c")
    assert (a.lost_gpus, a.ready, c.gpu_count, c.rack, c.pool.name) == ([3], False, 4, "r1", "main")
    assert set(Event.objects.values_list("kind", flat=True)) >= {"ClusterSeen", "NodeSeen", "NodeChanged"}


def test_a_cordon_the_cluster_does_not_know_yet_is_not_undone_by_an_observation(world):
    nodes.cordon(name="a", on=True, actor="root")
    world.observe_all()
    assert not Node.objects.get(name="a").schedulable
    world.actuate()
    assert ("cordon", "a") in world.cluster.calls


def test_the_same_observation_twice_writes_no_event_and_moves_nothing(world):
    job = world.submit("job")
    world.run(job, "a")
    before = Event.objects.count(), Workload.objects.get().version
    world.observe_all()
    world.observe_all()
    assert (Event.objects.count(), Workload.objects.get().version) == before


# --- full observations ------------------------------------------------------------------------


def test_a_pod_that_vanished_without_a_word_is_noticed_by_a_full_observation(world):
    job = world.submit("job")
    world.run(job, "a")
    world.cluster.forget(job)
    world.observe()
    assert phase(job) == "Running"
    world.observe_all()
    assert phase(job) == "Queued"
    assert Event.objects.filter(kind="Requeued").get().reason == "Disappeared"


def test_a_worker_that_is_still_to_be_started_is_not_missed(world):
    job = world.submit("job")
    world.place(job, "a")
    world.observe_all()
    assert phase(job) == "Admitted"
    world.actuate()
    world.observe_all()
    assert phase(job) == "Starting"


def test_pods_that_nobody_knows_are_stopped_once(world):
    stranger = PodSeen("11111111-1111-1111-1111-111111111111", 1, 0, "a", (0,), RUNNING)
    world.cluster._put(stranger.name, stranger)
    world.cluster._put("odd", replace(stranger, workload="not-ours"))
    world.observe()
    assert not Action.objects.exists()
    world.observe_all()
    world.observe_all()
    assert Action.objects.get().verb == "stop"
    world.actuate()
    assert ("stop", stranger.workload) in world.cluster.calls


def test_a_worker_that_was_told_to_leave_and_did_not_is_told_again(world):
    job = world.submit("job")
    world.run(job, "a")
    workloads.stop(workload=job, actor="alice")
    world.actuate()
    world.observe_all()
    world.actuate()
    assert world.cluster.calls.count(("stop", str(job.pk))) == 1  # its grace is not over
    world.later(200)
    world.observe_all()
    world.actuate()
    assert world.cluster.calls.count(("stop", str(job.pk))) == 2


def test_a_pod_of_an_attempt_that_is_over_is_stopped_and_the_new_one_left_alone(world):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, GONE, reason="Evicted")
    world.run(job, "b")
    old = PodSeen(str(job.pk), 1, 0, "a", (0,), RUNNING)
    world.cluster._put(old.name, old)
    world.observe_all()
    stop = Action.objects.get(verb="stop")
    assert (stop.attempt, phase(job)) == (1, "Running")


# --- late, doubled, out of order --------------------------------------------------------------


def tell(world: World, *pods: PodSeen, at: float | None = None, full: bool = False) -> None:
    seen = Observation(at or world.cluster.at, "9999", full, pods, tuple(world.cluster.nodes.values()) if full else ())
    observations.apply(seen, lease=world.lease("observe"))


def test_the_end_of_an_older_attempt_never_touches_the_newer_one(world):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, GONE, reason="Evicted")
    world.run(job, "a")
    world.later()
    tell(world, PodSeen(str(job.pk), 1, 0, "a", (0,), GONE), PodSeen(str(job.pk), 1, 0, "a", (0,), FAILED, exit_code=1))
    assert phase(job) == "Running"


def test_a_pod_seen_running_after_it_ended_changes_nothing(world):
    job = world.submit("job")
    world.run(job, "a")
    world.pods(job, SUCCEEDED, exit_code=0)
    tell(world, PodSeen(str(job.pk), 1, 0, "a", (0,), RUNNING, started_at=world.cluster.at))
    assert (phase(job), held(job)) == ("Succeeded", 0)


def test_a_pod_seen_pending_after_it_ran_changes_nothing(world):
    job = world.submit("job")
    world.run(job, "a")
    tell(world, PodSeen(str(job.pk), 1, 0, "a", (0,), PodPhase.PENDING))
    assert (phase(job), Placement.objects.get().pod_phase) == ("Running", "Running")


def test_a_full_observation_that_is_late_takes_nothing_away(world):
    job = world.submit("job")
    before = world.cluster.at
    world.run(job, "a")
    tell(world, at=before, full=True)
    assert phase(job) == "Running"


def test_a_late_full_observation_takes_no_node_away_and_does_not_turn_the_clock_back(world):
    before, now = world.cluster.at, clusters.seen().now
    world.later(100)
    world.observe()
    stale = Observation(before, "0", True, (), (world.cluster.nodes["a"],))
    observations.apply(stale, lease=world.lease("observe"))
    assert Node.objects.count() == 2
    assert clusters.seen().now == now + 101


def test_an_end_told_twice_in_one_observation_is_one_end(world):
    job = world.submit("job", retries=5)
    world.run(job, "a")
    end = PodSeen(str(job.pk), 1, 0, "a", (0,), FAILED, ended_at=world.cluster.at, exit_code=1)
    world.later(10)
    tell(world, end, replace(end, ended_at=world.cluster.at), end)
    job.refresh_from_db()
    place = Placement.objects.get()
    assert (job.phase, job.failures) == ("Queued", 1)
    assert job.attained == 1000 * (place.released_at - place.bound_at)


def test_the_order_in_which_pods_are_reported_does_not_matter(world):
    job = world.submit("job", workers=2, retries=1)
    world.run(job, "a", "b")
    ends = [
        PodSeen(str(job.pk), 1, 0, "a", (0,), FAILED, ended_at=world.cluster.at, exit_code=1, reason="PeerFailed"),
        PodSeen(str(job.pk), 1, 1, "b", (0,), FAILED, ended_at=world.cluster.at, exit_code=9),
    ]
    tell(world, *reversed(ends))
    tell(world, *ends)
    job.refresh_from_db()
    assert (job.phase, job.failures, job.exit_code) == ("Queued", 1, 9)


def test_a_round_in_which_nothing_happens_only_moves_the_clock(world, django_assert_max_num_queries):
    job = world.submit("job")
    world.run(job, "a")
    world.later(40)
    before = Event.objects.count()
    with django_assert_max_num_queries(9):
        world.observe()
    assert clusters.seen().now == world.cluster.at
    assert Event.objects.count() == before


def test_an_unreachable_cluster_changes_nothing(world):
    from controlplane.loops import observe

    job = world.submit("job")
    world.run(job, "a")
    world.cluster.answers = False
    report = observe.run_once(world.wiring)
    assert "unreachable" in report.skipped
    assert phase(job) == "Running"


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


def test_a_promised_place_on_a_device_that_is_lost_is_given_up(world):
    victim, claimant = world.submit("victim", gpus=8), world.submit("claimant", gpus=2)
    world.run(victim, "a")
    world.evict(victim, claimant)
    world.place(claimant, "a", after=[victim])
    world.cluster.change("a", lost=(1,))
    world.observe()
    assert phase(claimant) == "Queued"
    assert not Placement.objects.exclude(state="Released").filter(workload=claimant).exists()


def test_a_promised_place_beside_a_device_that_is_lost_is_kept(world):
    victim, claimant = world.submit("victim", gpus=8), world.submit("claimant", gpus=2)
    world.run(victim, "a")
    world.evict(victim, claimant)
    world.place(claimant, "a", after=[victim])
    world.cluster.change("a", lost=(5,))
    world.observe()
    assert phase(claimant) == "Reserved"
