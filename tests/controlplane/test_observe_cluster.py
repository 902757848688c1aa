"""What the cluster shows of nodes, all at once, late, twice or never."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from controlplane.cluster.port import Observation, PodPhase, PodSeen
from controlplane.models import Action, Event, Node, Placement, Workload
from controlplane.services.scheduling import clusters, nodes, observations
from controlplane.services.workloads import workloads
from tests.controlplane.state import World, held, node, phase

pytestmark = pytest.mark.django_db

RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    return World()


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


@pytest.mark.parametrize("reason", ["GpuLost", "NodeShutdown"])
def test_workers_that_fail_beside_one_whose_machine_failed_use_up_no_retry(world, reason):
    job = world.submit("job", workers=2, retries=0)
    world.run(job, "a", "b")
    tell(
        world,
        PodSeen(str(job.pk), 1, 0, "a", (0,), FAILED, ended_at=world.cluster.at, exit_code=1, reason="Error"),
        PodSeen(str(job.pk), 1, 1, "b", (0,), FAILED, ended_at=world.cluster.at, exit_code=1, reason=reason),
    )
    job.refresh_from_db()
    assert (job.phase, job.failures) == ("Queued", 0)
    told = Event.objects.get(workload=job.pk, kind="Requeued")
    assert (told.reason, "Worker 1 on b" in told.message) == (reason, True)


def test_a_round_in_which_nothing_happens_only_moves_the_clock(world, django_assert_max_num_queries):
    job = world.submit("job")
    world.run(job, "a")
    world.later(40)
    before = Event.objects.count()
    with django_assert_max_num_queries(13):
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


# --- many workloads ---------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_full_observation_that_is_written_in_parts_says_what_it_says_at_once(world, at_once):
    jobs = [world.submit(f"job-{number}") for number in range(5)]
    for job in jobs:
        world.run(job, "a")
    seen = world.cluster.observe(None)
    kept = [pod for pod in seen.pods if pod.workload not in {str(jobs[0].pk), str(jobs[1].pk)}]
    ended = [replace(pod, phase=SUCCEEDED) if pod.workload == str(jobs[2].pk) else pod for pod in kept]
    strangers = (replace(kept[0], workload="not-ours"), replace(kept[0], workload=str(uuid4())))
    seen = replace(seen, at=seen.at + 3600.0, pods=(*ended, *strangers))
    applied = observations.apply(seen, lease=world.lease("observe"), at_once=at_once)
    assert [phase(job) for job in jobs] == ["Queued", "Queued", "Succeeded", "Running", "Running"]
    assert (applied.pods, applied.orphans) == (5, 1)
    assert applied.moves >= 3
    assert clusters.seen().cursor == seen.cursor
    assert list(Action.objects.filter(verb="stop", done_at=None).values_list("workload", flat=True)) == [
        UUID(strangers[1].workload)
    ]


def test_an_observation_that_breaks_off_between_its_parts_is_seen_again(world):
    jobs = [world.submit(f"job-{number}") for number in range(3)]
    for job in jobs:
        world.run(job, "a")
    seen = world.cluster.observe(None)
    seen = replace(seen, at=seen.at + 3600.0, pods=tuple(replace(pod, phase=SUCCEEDED) for pod in seen.pods))
    before = clusters.seen().cursor

    class LostError(Exception):
        pass

    class Once:
        """A lease that is another's from the second part on."""

        epoch, checks = 1, 0

        def check(self):
            self.checks += 1
            if self.checks > 1:
                raise LostError

    with pytest.raises(LostError):
        observations.apply(seen, lease=Once(), at_once=1)
    assert sorted(phase(job) for job in jobs) == ["Running", "Running", "Succeeded"]
    assert clusters.seen().cursor == before
    observations.apply(seen, lease=world.lease("observe"), at_once=1)
    assert {phase(job) for job in jobs} == {"Succeeded"}
