"""A service gets another image or environment replica by replica; one that does not work is taken back."""

from typing import Any

import pytest

from autoscaler.decision import Scale
from controlplane.cluster.port import PodPhase, pod_name
from controlplane.jobspec.spec import SpecError
from controlplane.models import Action, Event, Placement, Revision, ServiceWindow, Workload
from controlplane.queries.scheduling import snapshot
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads import actions, workloads
from scheduler.model.decision import Reason, Wait
from tests.controlplane.state import START, World, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db

OLD, NEW = "registry.example/app:1", "registry.example/app:2"
NODES = ("a", "b", "a", "b")


@pytest.fixture
def world() -> World:
    return World()


def service(world: World, replicas: int, **asked: Any) -> Workload:
    """One that runs."""
    made = world.submit("chat", kind="inference", replicas={"min": replicas, "max": 4}, **asked)
    world.run(made, *NODES[:replicas])
    return made


def change(workload: Workload, hand: Hand = Hand.PERSON, **changes: Any) -> None:
    workload.refresh_from_db()
    workloads.patch(workload=workload, changes=changes or {"image": NEW}, version=None, actor="alice", hand=hand)
    workload.refresh_from_db()


def seats(workload: Workload) -> list[tuple[int, int, str]]:
    """(rank, revision, state) of its replicas that hold a place."""
    live = Placement.objects.filter(workload=workload).exclude(state="Released").order_by("rank")
    return list(live.values_list("rank", "revision", "state"))


def wanted(workload: Workload) -> int:
    """Replicas that the scheduler is to place."""
    return int(seen_by_scheduler(workload).gang.count)


def surge(world: World, workload: Workload) -> int:
    """The scheduler places one more, and it starts; its rank."""
    workload.refresh_from_db()
    rank = workload.next_rank
    world.place(workload, "b")
    world.actuate()
    return rank


def gone(world: World, workload: Workload) -> None:
    """What was told to leave is away."""
    leaving = [rank for rank, _, state in seats(workload) if state == "Leaving"]
    world.pods(workload, PodPhase.GONE, *leaving)


def told(workload: Workload, kind: str) -> Event:
    return Event.objects.filter(workload=workload.pk, kind=kind).latest("id")


def late(workload: Workload, start: float, requests: int, over: int) -> None:
    ServiceWindow.objects.create(
        workload=workload.pk, start=start, replicas=1, wanted=1, requests_per_second=1.0, p95_seconds=0.5,
        requests=requests, over=over,
    )  # fmt: skip


# --- forward ----------------------------------------------------------------------------------


def test_each_replica_leaves_only_once_a_new_one_is_ready(world):
    chat = service(world, 2)
    change(chat)
    assert (chat.revision, chat.spec["image"], wanted(chat)) == (2, NEW, 3)
    for replaced in (0, 1):
        rank = surge(world, chat)
        assert world.cluster.images[pod_name(str(chat.pk), 1, rank)] == NEW
        assert [state for _, _, state in seats(chat)] == ["Bound"] * 3
        world.pods(chat, PodPhase.RUNNING, rank)
        assert seats(chat)[0] == (replaced, 1, "Leaving")
        assert wanted(chat) == 2, "while one leaves, no further one takes room"
        gone(world, chat)
    chat.refresh_from_db()
    assert [revision for _, revision, _ in seats(chat)] == [2, 2]
    assert (chat.rollout, chat.surge, chat.phase, wanted(chat)) == (None, 0, "Running", 2)
    assert [kind for kind in story(chat) if kind.startswith("Roll")] == ["RollingOut", "RolledOut"]
    assert told(chat, "RollingOut").message == "Revision 2 replaces revision 1."


def test_the_autoscaler_does_not_see_the_replica_more(world):
    chat = service(world, 2)
    change(chat)
    assert wanted(chat) == 3
    seen = snapshot.some([chat.pk], world.cluster.at)
    assert seen.workloads[str(chat.pk)].gang.count == 2


def test_what_does_not_serve_leaves_at_once(world):
    chat = world.submit("chat", kind="inference", replicas={"min": 2, "max": 2})
    world.place(chat, "a", "b")
    world.actuate()
    world.observe()
    change(chat)
    assert [state for _, _, state in seats(chat)] == ["Leaving", "Leaving"]


def test_one_that_waits_has_the_new_image_when_it_starts(world):
    chat = world.submit("chat", kind="inference")
    change(chat)
    assert (chat.revision, chat.rollout) == (2, None)
    world.run(chat, "a")
    assert world.cluster.images[pod_name(str(chat.pk), 1, 0)] == NEW
    assert seats(chat) == [(0, 2, "Bound")]


def test_a_start_that_is_repeated_is_of_the_revision_that_its_place_was_given_for(world):
    chat = service(world, 1)
    change(chat)
    Action.objects.filter(workload=chat.pk, verb="start").update(done_at=None)  # its answer was lost
    (command,) = actions.due(at=world.cluster.at)
    assert [pod.spec["image"] for pod in command.pods] == [OLD]


def test_without_room_for_one_more_one_goes_first(world):
    chat = service(world, 2)
    change(chat)
    tell_no_room(world, chat)
    world.observe_all()
    assert [state for _, _, state in seats(chat)] == ["Bound", "Bound"], "there may be room in a moment"
    world.later(40.0)
    world.observe()
    assert seats(chat)[0] == (0, 1, "Leaving")
    assert (wanted(chat), told_rollout(chat)["has_no_room"]) == (2, True)
    gone(world, chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    assert seats(chat)[0] == (1, 1, "Leaving"), "the next one goes without another wait"


def test_the_only_replica_never_goes_first(world):
    chat = service(world, 1)
    change(chat)
    tell_no_room(world, chat)
    world.later(300.0)
    world.observe()
    assert seats(chat) == [(0, 1, "Bound")]
    world.later(400.0)
    world.observe()
    assert told(chat, "RollingBack").reason == "NoRoom"
    assert seats(chat) == [(0, 1, "Bound")]


def test_fewer_replicas_are_those_of_the_revision_before(world):
    chat = service(world, 3)
    change(chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    gone(world, chat)
    chat.refresh_from_db()
    ranks = tuple(rank for rank, _, _ in seats(chat))[2:]
    world.decide(Scale(str(chat.pk), chat.version, 2, "3 to 2 replicas: quiet.", leaving=ranks))
    assert [state for _, _, state in seats(chat)] == ["Bound"] * 3, "two, and the one more of the rollout"
    world.observe_all()
    assert [(revision, state) for _, revision, state in seats(chat)] == [(1, "Leaving"), (1, "Bound"), (2, "Bound")]


def test_one_that_is_preempted_meanwhile_starts_again_as_the_new_revision(world):
    chat, other = service(world, 2), world.submit("other", priority_class="high")
    change(chat)
    world.evict(chat, other)
    world.pods(chat, PodPhase.GONE)
    chat.refresh_from_db()
    assert (chat.phase, chat.surge, wanted(chat)) == ("Queued", 0, 2)
    world.later(3600.0)
    world.run(chat, "a", "b")
    assert ([revision for _, revision, _ in seats(chat)], chat.rollout) == ([2, 2], None)


# --- taken back -------------------------------------------------------------------------------


def test_one_that_does_not_become_ready_is_taken_back(world):
    chat = service(world, 2, rollout={"deadline": "2m"})
    change(chat)
    rank = surge(world, chat)
    world.later(60.0)
    world.observe()
    assert chat_image(chat) == NEW
    world.later(90.0)
    world.observe()
    chat.refresh_from_db()
    assert (chat.revision, chat.spec["image"]) == (1, OLD)
    assert (rank, 2, "Leaving") in seats(chat)
    assert (told(chat, "RollingBack").reason, phase(chat)) == ("NotReady", "Scaling")
    gone(world, chat)
    chat.refresh_from_db()
    assert (chat.rollout, [(r, s) for _, r, s in seats(chat)]) == (None, [(1, "Bound"), (1, "Bound")])
    assert (story(chat)[-2:], phase(chat)) == (["RolledBack", "Running"], "Running")
    failed = Revision.objects.get(workload=chat, number=2).failed
    assert failed == "No further replica of revision 2 was ready within 120 s."


def test_one_whose_replicas_fail_is_taken_back_at_once(world):
    chat = service(world, 1)
    change(chat)
    for _ in range(3):
        world.pods(chat, PodPhase.FAILED, surge(world, chat), exit_code=1, reason="Error")
        world.later(700.0 if told_rollout(chat) is None else 30.0)
    assert told(chat, "RollingBack").reason == "RevisionFails"
    assert [(revision, state) for _, revision, state in seats(chat)] == [(1, "Bound")]


def test_one_under_which_the_error_budget_burns_is_taken_back(world):
    chat = service(world, 2)
    late(chat, world.cluster.at, 10_000, 0)
    change(chat)
    world.later(40.0)
    world.observe()  # how it stands before the new revision answers
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    world.later(40.0)
    world.observe()
    assert chat_image(chat) == NEW
    late(chat, world.cluster.at, 1000, 900)
    world.later(40.0)
    world.observe()
    assert (told(chat, "RollingBack").reason, chat_image(chat)) == ("ErrorBudgetBurns", OLD)


NATIVE = {"scaling": "native", "objective": {"p95_latency": "500ms"}}


@pytest.fixture
def deployed(world, settings) -> Workload:
    """A service whose Deployment replaces its replicas."""
    settings.CLUSTER = settings.ADMISSION = settings.EXTERNAL_METRICS = "kubernetes"
    return service(world, 2, **NATIVE)


def test_what_a_deployment_replaces_is_looked_on_at_and_told(world, deployed):
    change(deployed)
    told_first = told(deployed, "RollingOut").message
    assert told_first == "Revision 2 replaces revision 1: its Deployment does it."
    world.later(40.0)
    world.observe()
    assert (wanted(deployed), {state for _, _, state in seats(deployed)}) == (2, {"Bound"})
    for rank in (0, 1):  # the Deployment's controller takes one away, and makes one that is of the new template
        world.pods(deployed, PodPhase.GONE, rank)
        world.pods(deployed, PodPhase.RUNNING, surge(world, deployed))
    deployed.refresh_from_db()
    assert (deployed.rollout, [revision for _, revision, _ in seats(deployed)]) == (None, [2, 2])
    assert told(deployed, "RolledOut").message == "All replicas are of revision 2; none is left of revision 1."


def test_what_a_deployment_replaces_is_taken_back_where_the_error_budget_burns(world, deployed):
    late(deployed, world.cluster.at, 10_000, 0)
    change(deployed)
    world.later(40.0)
    world.observe()
    world.pods(deployed, PodPhase.GONE, 0)
    world.pods(deployed, PodPhase.RUNNING, surge(world, deployed))
    late(deployed, world.cluster.at, 1000, 900)
    world.later(40.0)
    world.observe()
    assert (told(deployed, "RollingBack").reason, chat_image(deployed)) == ("ErrorBudgetBurns", OLD)
    assert {state for _, _, state in seats(deployed)} == {"Bound"}, "its Deployment's controller says which leave"
    world.pods(deployed, PodPhase.GONE, 2)
    world.pods(deployed, PodPhase.RUNNING, surge(world, deployed))
    deployed.refresh_from_db()
    assert deployed.rollout is None
    assert "RolledBack" in story(deployed)


def test_a_service_that_stood_badly_before_may_be_mended(world):
    chat = service(world, 2)
    late(chat, world.cluster.at, 1000, 900)
    change(chat)
    world.later(40.0)
    world.observe()
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    world.later(40.0)
    world.observe()
    assert (chat_image(chat), "RollingBack" in story(chat)) == (NEW, False)


def test_an_object_that_still_asks_for_it_is_told_why_not(world):
    chat = service(world, 1)
    Workload.objects.filter(pk=chat.pk).update(managed_by="workloads.weft.dev")
    change(chat, Hand.OBJECT)
    world.later(700.0)
    world.observe()
    with pytest.raises(Refused, match="Revision 2 was taken back") as refused:
        change(chat, Hand.OBJECT)
    assert (refused.value.code, refused.value.field) == ("RevisionFailed", "image")


# --- undone -----------------------------------------------------------------------------------


def test_undo_goes_to_the_revision_before_and_again_to_that_of_now(world):
    chat = service(world, 1)
    change(chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    gone(world, chat)
    assert workloads.undo(workload=fresh(chat), actor="alice") == 1
    assert chat_image(chat) == OLD
    world.later()
    assert workloads.undo(workload=fresh(chat), actor="alice") == 2
    assert chat_image(chat) == NEW


def test_undo_in_the_midst_keeps_what_is_left_of_the_revision_before(world):
    chat = service(world, 3)
    change(chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    gone(world, chat)
    workloads.undo(workload=fresh(chat), actor="alice")
    world.observe_all()
    assert [revision for _, revision, state in seats(chat) if state == "Bound"] == [1, 1, 2]
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    gone(world, chat)
    assert [revision for _, revision, _ in seats(chat)] == [1, 1, 1]
    assert story(chat)[-1] == "RolledBack"


def test_an_image_that_it_had_before_is_the_same_revision(world):
    chat = service(world, 1)
    change(chat)
    change(chat, image=OLD)
    assert chat.revision == 1
    assert list(Revision.objects.filter(workload=chat).order_by("number").values_list("image", flat=True)) == [OLD, NEW]


@pytest.mark.parametrize("to", [None, 7])
def test_there_must_be_a_revision_to_go_back_to(world, to):
    chat = service(world, 1)
    with pytest.raises(Refused) as refused:
        workloads.undo(workload=fresh(chat), actor="alice", to=to)
    assert (refused.value.status, refused.value.code, refused.value.field) == (409, "NoRevision", "to")


# --- refused, and what does not replace anything -----------------------------------------------


def test_the_image_of_a_training_stays(world):
    gang = world.submit("gang")
    with pytest.raises(SpecError, match="image cannot change after the submission"):
        change(gang)


def test_events_tell_the_names_of_variables_and_not_their_values(world):
    chat = service(world, 1)
    change(chat, env={"KEY": "secret"})
    assert told(chat, "Patched").data == {"changes": {"env": ["KEY"]}}
    assert Revision.objects.get(workload=chat, number=2).env == {"KEY": "secret"}


def test_an_objective_replaces_no_replica_and_counts_from_now_on(world):
    from controlplane.queries.reports import sla  # noqa: PLC0415 - only this test looks at standings

    chat = service(world, 1)
    late(chat, START, 1000, 500)
    world.later(120.0)
    change(chat, objective={"p95_latency": "1s", "availability": 99.0, "window": "28d"})
    assert (chat.rollout, chat.revision, seats(chat)) == (None, 1, [(0, 1, "Bound")])
    late(chat, world.cluster.at + 60, 1000, 5)
    stand = sla.one(world.cluster.at + 120, fresh(chat))
    assert stand is not None
    assert (stand.p95_target, stand.target, stand.requests, stand.over) == (1.0, 0.99, 1000, 5)
    assert stand.recent[3600.0] == (1000, 5)
    assert sla.standings(world.cluster.at + 120, [chat.pk]) == {chat.pk: "met"}


def tell_no_room(world: World, workload: Workload) -> None:
    """The scheduler says why it has no place for the replica more."""
    workload.refresh_from_db()
    world.decide(Wait(str(workload.pk), workload.version, Reason.WAITING_FOR_QUOTA, "Its team has no quota left."))


def told_rollout(workload: Workload) -> Any:
    return fresh(workload).rollout


def chat_image(workload: Workload) -> str:
    return str(fresh(workload).spec["image"])


def fresh(workload: Workload) -> Workload:
    return Workload.objects.get(pk=workload.pk)
