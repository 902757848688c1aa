"""What the loops do where control planes of others went wrong in the field. The halls are listed in the package."""

import pytest

from controlplane.cluster.kubernetes import pods as builder
from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.jobspec.spec import SpecError
from controlplane.loops import observe, schedule
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Action, Placement, Workload
from controlplane.queries.scheduling.snapshot import full
from controlplane.services.workloads import actions, workloads
from scheduler.model.decision import Place
from scheduler.model.workload import Assignment
from tests.controlplane.kubernetes.jobs import job as job_file
from tests.controlplane.kubernetes.jobs import pod_of
from tests.controlplane.kubernetes.test_store import pod as pod_json
from tests.controlplane.kubernetes.test_store import running, stored
from tests.controlplane.state import START, World, job, open_actions, phase, seen_by_scheduler

pytestmark = pytest.mark.django_db

RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    """Two nodes of eight GPUs, as an observation has told."""
    return World()


def full_cluster(world: World) -> tuple[Workload, Workload]:
    held = world.submit("one", gpus=8), world.submit("two", gpus=8)
    for workload, name in zip(held, ("a", "b"), strict=True):
        world.run(workload, name)
    return held


def held(workload: Workload) -> int:
    return Placement.objects.filter(workload=workload).exclude(state="Released").count()


# --- decided on a half-loaded cache ------------------------------------------------------------


def test_k8s_45220_a_scheduler_that_was_restarted_knows_what_is_bound_before_it_decides(world):
    full_cluster(world)
    waiting = world.submit("third", gpus=8)
    world.restart()
    schedule.run_once(world.wiring)
    assert phase(waiting) == "Queued"
    assert Placement.objects.exclude(state="Released").count() == 2


def test_kueue_1654_finished_work_is_not_admitted_again_after_a_restart(world):
    done = world.submit("done")
    world.run(done, "a")
    world.pods(done, SUCCEEDED, exit_code=0)
    world.restart()
    schedule.run_once(world.wiring)
    world.observe_all()
    assert (phase(done), held(done), seen_by_scheduler(done)) == ("Succeeded", 0, None)


def test_kueue_10495_a_holder_that_stood_by_keeps_nothing_of_what_it_knew(world):
    keeper = SnapshotKeeper()
    keeper.take(world.lease(), world.cluster.at)
    world.restart()  # another process holds the lease, and gives room away
    world.place(world.submit("taken", gpus=8), "a")
    world.restart()
    again = keeper.take(world.lease(), world.cluster.at)
    assert again.is_base
    assert dict(again.snapshot.workloads) == dict(full(world.cluster.at).workloads)


# --- assumed is not bound ----------------------------------------------------------------------


def test_volcano_1383_a_start_that_fails_for_good_gives_its_places_back(world):
    refused = world.submit("refused", gpus=8)
    world.place(refused, "a")
    world.cluster.refuses = True
    for _ in range(actions.MAX_TRIES + 1):
        world.actuate()
        world.later(700)
    for _ in range(3):
        world.observe()
    assert (phase(refused), held(refused)) == ("Queued", 0)
    assert not full(world.cluster.at).columns.gpu.any()


# --- bound by name, not by uid -----------------------------------------------------------------


def test_k8s_102761_a_pod_made_again_under_its_name_is_another():
    made = stored(running(uid="one"))
    made.list_pods([pod_json(uid="two", version=9)], START)
    made.drop_pod(running(uid="one", version=8), START)  # what is told late of the first one
    assert made.since(None).pods[0].phase == PodPhase.PENDING


def test_hami_2640_each_pod_is_told_its_own_devices_and_bears_its_own_name(world):
    gang = world.submit("gang", workers=2)
    world.place(gang, "a", "b")
    (command,) = actions.due(at=world.cluster.at)
    assert [pod.name for pod in command.pods] == [f"{gang.pk}-1-0", f"{gang.pk}-1-1"]
    assert [(pod.node, pod.gpus) for pod in command.pods] == [("a", (0,)), ("b", (0,))]


# --- crash between a call outside and its commit -----------------------------------------------


def test_dstack_707_killed_after_the_start_and_before_it_was_noted_nothing_starts_twice(world):
    started = world.submit("started")
    world.place(started, "a")
    for command in actions.due(at=world.cluster.at):
        world.cluster.start(command.pods)
    world.restart()
    world.actuate()
    world.observe()
    assert (len(world.cluster.pods), phase(started), open_actions(started)) == (1, "Starting", [])


def test_dstack_3130_however_often_the_process_restarts_there_is_one_attempt(world):
    one = world.submit("one")
    world.place(one, "a")
    for _ in range(7):
        world.restart()
        schedule.run_once(world.wiring)
        world.actuate()
        world.observe_all()
    one.refresh_from_db()
    assert (one.attempt, len(world.cluster.pods)) == (1, 1)


# --- process-local locks, lost updates ---------------------------------------------------------


def test_dstack_3683_two_that_saw_the_same_row_do_not_both_place_it(world):
    one = world.submit("one")
    first, second = (Place(str(one.pk), 1, (Assignment(0, name, (0,)),)) for name in ("a", "b"))
    assert world.decide(first).applied == (first,)
    assert world.decide(second).stale == (second,)
    assert Placement.objects.get().node == "a"


def test_kai_522_an_edit_that_comes_between_makes_the_decision_stale(world):
    one = world.submit("one")
    seen = seen_by_scheduler(one)
    workloads.suspend(workload=one, actor="alice")
    decided = world.decide(Place(seen.id, seen.version, (Assignment(0, "a", (0,)),)))
    assert (len(decided.stale), held(one)) == (1, 0)


# --- stuck terminating -------------------------------------------------------------------------


def test_kueue_1450_our_pods_carry_no_finalizer():
    made = builder.build(pod_of(job_file()), namespace="weft-nlp")
    assert "finalizers" not in made["metadata"]


# --- quota freed too soon or never -------------------------------------------------------------


def test_kueue_14609_a_gang_that_starts_again_is_charged_for_the_workers_that_were_done(world):
    gang = world.submit("gang", workers=2, retries=1)
    world.run(gang, "a", "b")
    world.pods(gang, SUCCEEDED, 1, exit_code=0)
    assert held(gang) == 1
    world.pods(gang, FAILED, 0, exit_code=1)
    assert (phase(gang), held(gang)) == ("Queued", 0)
    world.run(gang, "a", "b")
    assert held(gang) == 2


def test_kueue_14811_work_that_was_made_to_leave_holds_nothing_once_it_has_left(world):
    victim, other = world.submit("victim", workers=2), world.submit("other")
    world.run(victim, "a", "b")
    world.evict(victim, by=other)
    world.actuate()
    world.pods(victim, GONE, 0)
    assert held(victim) >= 1  # one of its pods is still there
    world.pods(victim, GONE, 1)
    assert (phase(victim), held(victim)) == ("Queued", 0)


# --- zombies -----------------------------------------------------------------------------------


def test_kueue_10274_work_whose_pods_vanished_holds_nothing(world):
    lost = world.submit("lost")
    world.run(lost, "a")
    world.cluster.forget(lost)
    world.observe_all()
    assert (phase(lost), held(lost)) == ("Queued", 0)


def test_awx_4911_pods_that_nobody_knows_are_stopped(world):
    stranger = PodSeen("11111111-1111-1111-1111-111111111111", 1, 0, "a", (0,), RUNNING)
    world.cluster._put(stranger.name, stranger)
    world.observe_all()
    world.actuate()
    assert ("stop", stranger.workload) in world.cluster.calls


# --- livelock ----------------------------------------------------------------------------------


def test_kai_2074_work_whose_start_is_refused_again_and_again_does_not_keep_others_from_the_gpu(world):
    world.cluster.change("a", gpus=1)
    world.cluster.change("b", ready=False)
    world.observe_all()
    doomed = world.submit("doomed")
    schedule.run_once(world.wiring)
    world.cluster.refuses = True
    for _ in range(actions.MAX_TRIES + 1):
        world.actuate()
        world.later(100)
    for _ in range(3):
        world.observe()
    world.cluster.refuses = False
    other = world.submit("other")
    schedule.run_once(world.wiring)
    assert (phase(doomed), phase(other)) == ("Queued", "Admitted")


# --- sharing that lies -------------------------------------------------------------------------


def test_hami_2862_a_misspelled_field_is_refused_and_does_not_mean_a_whole_card():
    with pytest.raises(SpecError) as refused:
        job("one", resources={"gpu_shares": {"guarantee": 0.5}, "cpu": 1, "memory": "1Gi"})
    assert [error.field for error in refused.value.errors] == ["resources.gpu_shares"]


# --- lost GPUs ---------------------------------------------------------------------------------


def test_volcano_1818_work_on_lost_gpus_stays_counted_and_nothing_is_placed_there(world):
    one, _ = full_cluster(world)
    world.cluster.change("a", lost=(6, 7))
    world.observe()
    waiting = world.submit("six", gpus=6)
    schedule.run_once(world.wiring)
    assert (phase(waiting), held(one)) == ("Queued", 1)


# --- a reaper that kills the living, or never comes --------------------------------------------


def test_awx_12326_a_control_plane_that_restarts_fails_no_running_job(world):
    one, two = full_cluster(world)
    world.restart()
    world.cluster.answers = False
    world.later(10_000)
    assert "unreachable" in observe.run_once(world.wiring).skipped
    schedule.run_once(world.wiring)
    world.cluster.answers = True
    world.observe_all()
    assert (phase(one), phase(two)) == ("Running", "Running")
    assert not Action.objects.filter(verb="stop").exists()


def test_awx_11572_work_whose_node_is_gone_does_not_wait_for_ever(world):
    one, _ = full_cluster(world)
    world.cluster.lose("a")
    world.observe()
    assert (phase(one), held(one)) == ("Queued", 0)


# --- wall clock --------------------------------------------------------------------------------


def test_openpbs_218_submissions_of_one_second_are_numbered_in_their_order(world):
    order = [world.submit(name).pk for name in ("z", "b", "m")]
    assert len({seen_by_scheduler(w).queued_at for w in Workload.objects.all()}) == 1
    assert [w.pk for w in Workload.objects.order_by("seq")] == order
