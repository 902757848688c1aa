"""CPU and memory of what runs are changed in place: asked, told to the nodes, seen; or refused, said and put back."""

from typing import Any

import pytest

from controlplane.cluster.port import DEFERRED, INFEASIBLE, PodPhase
from controlplane.jobspec.spec import SpecError
from controlplane.models import Action, Event, Workload
from controlplane.services.errors import Refused
from controlplane.services.workloads import actions, workloads
from scheduler.model.decision import Place
from scheduler.model.workload import Assignment
from tests.controlplane.state import SILENT, START, World, open_actions, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db

BEFORE, AFTER = (1000, 1024), (4000, 512)


@pytest.fixture
def world() -> World:
    return World()


def resize(workload: Workload, **size: Any) -> None:
    workload.refresh_from_db()
    given = size or {"cpu": 4, "memory": "512Mi"}
    changes = {"resources": workload.spec["resources"] | given}
    workloads.patch(workload=workload, changes=changes, version=None, actor="alice")


def refusal(workload: Workload, **size: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        resize(workload, **size)
    return caught.value


def counted(workload: Workload) -> tuple[int, int]:
    """CPU and memory of each worker as the scheduler counts them."""
    ask = seen_by_scheduler(workload).ask
    return ask.cpu_milli, ask.memory


def asked(workload: Workload) -> tuple[object, int, int]:
    """What its job file says."""
    workload.refresh_from_db()
    values = workload.spec["normalised"]
    return workload.spec["resources"]["cpu"], values["cpu_milli"], values["memory_mib"]


def told(workload: Workload, kind: str) -> Event:
    return Event.objects.filter(workload=workload.pk, kind=kind).latest("id")


# --- done -------------------------------------------------------------------------------------


def test_what_runs_is_resized_in_place_and_goes_on(world):
    gang = world.submit("gang", workers=2)
    world.run(gang, "a", "b")
    resize(gang)
    assert open_actions(gang) == ["resize"]
    world.actuate()
    world.observe()
    gang.refresh_from_db()
    assert (gang.phase, gang.attempt, gang.resize) == ("Running", 1, None)
    assert set(world.cluster.sizes.values()) == {AFTER}
    assert (counted(gang), asked(gang)) == (AFTER, (4, *AFTER))
    assert story(gang)[-3:] == ["Patched", "Resizing", "Resized"]
    assert told(gang, "Resizing").message == "Each worker gets 4 cores and 512 MiB in place of 1 core and 1 GiB."


@pytest.mark.parametrize("kind", ["notebook", "inference"])
def test_a_notebook_and_a_service_are_resized_too(world, kind):
    made = world.submit("one", kind=kind)
    world.run(made, "a")
    resize(made)
    world.actuate()
    world.observe()
    assert (counted(made), story(made)[-1]) == (AFTER, "Resized")


def test_the_larger_of_before_and_after_is_counted_until_all_workers_were_seen(world):
    gang = world.submit("gang", workers=2)
    world.run(gang, "a", "b")
    resize(gang)
    assert counted(gang) == (4000, 1024)
    world.cluster.answer = SILENT
    world.actuate()
    world.observe()
    assert counted(gang) == (4000, 1024)
    world.cluster.answer = ""
    world.cluster.resize(str(gang.pk), 1, 0, *AFTER)
    world.observe()
    assert counted(gang) == (4000, 1024)  # one of two
    world.cluster.resize(str(gang.pk), 1, 1, *AFTER)
    world.observe()
    assert counted(gang) == AFTER


def test_what_nodes_did_before_the_command_was_noted_as_done_is_not_missed(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    for command in actions.due(at=world.cluster.at):
        world.cluster.resize(command.workload, command.attempt, 0, command.cpu_milli, command.memory)
    world.observe()  # sees it, and no more news comes
    assert counted(job) == (4000, 1024)
    world.restart()
    world.actuate()
    assert (counted(job), story(job)[-1]) == (AFTER, "Resized")


def test_a_change_of_mind_counts_at_once_whatever_was_told_before(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job, cpu=8)
    resize(job, cpu=1)
    assert counted(job) == (8000, 1024)
    world.actuate()
    world.observe()
    assert (counted(job), set(world.cluster.sizes.values())) == (BEFORE, {BEFORE})
    assert story(job)[-1] == "Resized"


def test_a_command_that_was_read_before_a_change_of_mind_does_not_finish_the_new_one(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job, cpu=8)
    old = actions.due(at=world.cluster.at)
    resize(job, cpu=1)
    world.observe_all()  # it is seen with what it is to have
    world.cluster.resize(str(job.pk), 1, 0, 8000, 1024)
    actions.settle([actions.Outcome(command) for command in old], at=world.cluster.at, lease=world.lease("actuate"))
    assert counted(job) == (8000, 1024)
    world.actuate()
    world.observe()
    assert (counted(job), set(world.cluster.sizes.values())) == (BEFORE, {BEFORE})


def test_the_same_size_again_changes_nothing(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job, cpu="1", memory="1024Mi")
    assert (open_actions(job), story(job)[-1]) == ([], "Patched")


def test_a_replica_that_comes_meanwhile_has_the_new_size(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 2})
    world.run(service, "a")
    world.cluster.answer = SILENT
    resize(service)
    world.place(service, "b")
    world.actuate()
    assert world.cluster.sizes[f"{service.pk}-1-1"] == AFTER


def test_a_pod_that_was_made_with_the_old_size_after_all_is_told_again(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    Action.objects.filter(verb="resize").update(done_at=world.cluster.at)  # it found no pod
    world.observe_all()
    assert open_actions(job) == ["resize"]
    world.actuate()
    world.observe()
    assert counted(job) == AFTER


def test_workers_that_leave_hold_the_old_size_until_they_are_gone(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 2})
    world.run(service, "a")
    resize(service)
    world.evict(service, service)
    world.actuate()
    world.observe()
    assert counted(service) == (4000, 1024)
    world.pods(service, PodPhase.GONE)
    service.refresh_from_db()
    assert (service.phase, service.resize, counted(service)) == ("Queued", None, AFTER)


def test_companions_keep_their_size(world):
    role = {"name": "ps", "count": 1, "resources": {"cpu": 2, "memory": "2Gi"}}
    gang = world.submit("gang", roles=[role])
    world.run(gang, "a", "b")
    resize(gang)
    world.actuate()
    world.observe()
    assert world.cluster.sizes == {f"{gang.pk}-1-0": (2000, 2048), f"{gang.pk}-1-1": AFTER}
    assert counted(gang) == AFTER


# --- refused by a node ------------------------------------------------------------------------


def test_what_a_node_can_never_do_is_said_and_put_back(world):
    gang = world.submit("gang", workers=2)
    world.run(gang, "a", "b")
    resize(gang)
    world.cluster.answer = INFEASIBLE
    world.actuate()
    world.observe()
    event = told(gang, "ResizeRefused")
    assert event.reason == INFEASIBLE
    assert event.message == ("a could not give worker 0 4 cores and 512 MiB: Full. Each worker keeps 1 core and 1 GiB.")
    assert (asked(gang), counted(gang)) == ((1, *BEFORE), (4000, 1024))  # one may have what was asked until it is seen
    world.actuate()
    world.observe()
    assert (counted(gang), set(world.cluster.sizes.values())) == (BEFORE, {BEFORE})
    assert story(gang)[-3:] == ["Resizing", "ResizeRefused", "Resized"]
    assert phase(gang) == "Running"


def test_a_worker_that_was_resized_goes_back_when_another_was_refused(world):
    gang = world.submit("gang", workers=2)
    world.run(gang, "a", "b")
    resize(gang)
    world.actuate()
    world.cluster.answer = INFEASIBLE
    world.cluster.sizes[f"{gang.pk}-1-1"] = BEFORE
    world.cluster.resize(str(gang.pk), 1, 1, *AFTER)
    world.observe()
    world.actuate()
    assert world.cluster.sizes[f"{gang.pk}-1-0"] == AFTER
    world.cluster.answer = ""
    world.observe_all()
    world.actuate()
    world.observe()
    assert (counted(gang), set(world.cluster.sizes.values())) == (BEFORE, {BEFORE})


@pytest.mark.parametrize(("answer", "reason"), [(DEFERRED, DEFERRED), (SILENT, "ResizeTimeout")])
def test_what_is_not_done_in_time_is_put_back(world, settings, answer, reason):
    settings.RESIZE_SECONDS = 120.0
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    world.cluster.answer = answer
    world.actuate()
    world.later(60)
    world.observe_all()
    assert "ResizeRefused" not in story(job)
    world.later(90)
    world.observe()
    assert told(job, "ResizeRefused").reason == reason
    world.actuate()
    world.observe()
    assert (counted(job), asked(job)) == (BEFORE, (1, *BEFORE))


def test_what_was_deferred_and_done_in_time_stays(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    world.cluster.answer = DEFERRED
    world.actuate()
    world.observe()
    world.cluster.answer = ""
    world.cluster.resize(str(job.pk), 1, 0, *AFTER)
    world.observe()
    assert (counted(job), story(job)[-1]) == (AFTER, "Resized")


def test_what_the_cluster_refuses_to_take_is_put_back_after_some_tries(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    world.cluster.refuses = True
    for _ in range(actions.MAX_TRIES):
        world.actuate()
        world.later(700)
    assert "admission denied" in told(job, "ResizeRefused").message
    world.cluster.refuses = False
    world.actuate()
    world.observe_all()
    assert (counted(job), asked(job), phase(job)) == (BEFORE, (1, *BEFORE), "Running")


def test_labels_that_were_changed_meanwhile_stay_when_a_resize_is_put_back(world):
    job = world.submit("job")
    world.run(job, "a")
    resize(job)
    workloads.patch(workload=job, changes={"labels": {"a": "b"}}, version=None, actor="alice")
    world.cluster.answer = INFEASIBLE
    world.actuate()
    world.observe()
    job.refresh_from_db()
    assert (job.spec["labels"], job.spec["resources"]["cpu"]) == ({"a": "b"}, 1)


# --- refused at once --------------------------------------------------------------------------


def test_more_than_a_node_has_room_for_is_refused_with_what_fits(world):
    gang, other = world.submit("gang", workers=2), world.submit("other", resources={"cpu": 40, "memory": "1Gi"})
    world.run(gang, "a", "a")
    world.run(other, "a")
    no = refusal(gang, cpu=13)
    assert (no.status, no.code, no.field) == (409, "NoRoom", "resources.cpu")
    assert "at most 12000 1/1000 cores" in no.message  # 64 cores less 40, for two
    resize(gang, cpu=12)
    assert refusal(gang, memory="200Gi").field == "resources.memory"


def test_room_that_was_promised_to_others_is_not_there(world):
    job, next_ = world.submit("job"), world.submit("next", resources={"cpu": 60, "memory": "1Gi"})
    leaver = world.submit("leaver", resources={"cpu": 60, "memory": "1Gi"})
    world.run(job, "a")
    world.run(leaver, "a")
    world.evict(leaver, next_)
    world.place(next_, "a", after=[leaver])
    assert refusal(job, cpu=5).code == "NoRoom"
    resize(job, cpu=4)


def test_more_than_any_node_has_is_refused_as_it_is_at_a_submission(world):
    job = world.submit("job")
    world.run(job, "a")
    assert refusal(job, cpu=65).code == "NeverPlaceable"


def test_what_does_not_run_yet_or_leaves_is_not_resized(world):
    job = world.submit("job")
    world.place(job, "a")
    assert (refusal(job).code, refusal(job).field) == ("NotRunning", "resources")
    world.actuate()
    world.cluster.set(job, PodPhase.RUNNING)
    world.observe()
    workloads.suspend(workload=job, actor="alice")
    assert refusal(job).code == "NotRunning"


def test_gpus_of_what_runs_cannot_be_changed(world):
    job = world.submit("job")
    world.run(job, "a")
    no = refusal(job, gpus=2)
    assert (no.status, no.code) == (409, "NotWaiting")
    assert "except for cpu and memory" in no.message
    with pytest.raises(SpecError):
        resize(job, cpu="much")


# --- rounds meanwhile -------------------------------------------------------------------------


def test_a_round_that_did_not_know_of_a_resize_places_nothing_on_its_nodes(world):
    job, other = world.submit("job"), world.submit("other", resources={"cpu": 60, "memory": "1Gi"})
    world.run(job, "a")
    decided = [Place(str(other.pk), other.version, (Assignment(0, name, (0,)),)) for name in ("a", "b")]
    resize(job)
    assert world.decide(decided[0]).stale
    assert world.decide(decided[1]).applied


def test_a_waiting_workload_still_changes_as_a_whole(world):
    job = world.submit("job")
    resize(job)
    assert (counted(job), open_actions(job), story(job)) == (AFTER, [], ["Submitted", "Patched"])
    assert world.cluster.at > START
