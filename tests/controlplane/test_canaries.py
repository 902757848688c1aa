"""A new revision gets a part of a service's requests until it is promoted, undone, or burns the error budget."""

from typing import Any

import pytest
from django.test import override_settings

from autoscaler.decision import Scale
from controlplane.cluster.port import PodPhase, RevisionUse, pod_name
from controlplane.lifecycle.canaries import Judged, Tally
from controlplane.models import Placement, Revision, Workload
from controlplane.queries.workloads import revisions
from controlplane.services.errors import Refused
from controlplane.services.workloads import workloads
from tests.controlplane.state import World, story
from tests.controlplane.test_rollouts import NEW, OLD, change, fresh, gone, seats, service, surge, told, wanted

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def canary(world: World, replicas: int, weight: int, **asked: Any) -> Workload:
    """A service with a canary of which the first replica answers."""
    chat = service(world, replicas, **asked)
    change(chat, image=NEW, rollout={"weight": weight})
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    chat.refresh_from_db()
    return chat


def of(workload: Workload) -> list[int]:
    """The revisions of its replicas that stay, in order."""
    return sorted(revision for _, revision, state in seats(workload) if state == "Bound")


def away(world: World, workload: Workload) -> None:
    """What was told to leave, if anything was, is gone."""
    if any(state == "Leaving" for _, _, state in seats(workload)):
        gone(world, workload)


def later(world: World, seconds: float) -> None:
    """Time passes, and what it brings is seen."""
    world.later(seconds)
    world.observe()


def split(world: World) -> tuple[int, int | None]:
    """What the cluster was told last: the revision and its percent."""
    world.actuate()
    return world.cluster.splits[-1].revision, world.cluster.splits[-1].percent


def measured(world: World, **counts: tuple[int, int]) -> None:
    """Requests, late or failed ones, by revision, from now on; as r2=(90, 80)."""
    found = {int(name[1:]): both for name, both in counts.items()}
    world.metrics.revisions = lambda promises: tuple(
        RevisionUse(uid, revision, *both) for uid in promises for revision, both in found.items()
    )


# --- its part ---------------------------------------------------------------------------------


def test_one_replica_of_it_comes_and_none_of_the_others_leaves_and_it_waits_for_a_person(world):
    chat = canary(world, 2, 10)
    assert (of(chat), wanted(chat)) == ([1, 1, 2], 3)
    assert split(world) == (2, 10)
    (told_once,) = world.cluster.splits
    assert (told_once.before, told_once.within, told_once.has_queue) == (1, 0.2, False)
    later(world, 30 * 86_400.0)
    assert (of(chat), split(world)) == ([1, 1, 2], (2, 10))
    assert [kind for kind in story(chat) if kind in ("RollingOut", "Split", "RolledOut")] == ["RollingOut", "Split"]
    assert told(chat, "Split").message == "Revision 2 gets 10 % of the requests, revision 1 the others."


def test_it_has_as_many_replicas_as_its_part_needs_and_the_others_keep_enough(world):
    chat = canary(world, 4, 50)
    assert of(chat) == [1, 1, 1, 2], "one of the others makes room for the second"
    away(world, chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    assert of(chat) == [1, 1, 1, 2, 2]
    later(world, 60.0)
    assert of(chat) == [1, 1, 1, 2, 2]


def test_requests_are_split_only_while_replicas_of_both_answer(world):
    chat = canary(world, 1, 20)
    assert split(world) == (2, 20)
    world.pods(chat, PodPhase.GONE, 1, reason="NodeLost")
    assert split(world) == (2, None)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    assert split(world) == (2, 20)
    world.pods(chat, PodPhase.GONE, 0, reason="NodeLost")
    assert split(world) == (2, None)
    assert story(chat).count("Split") == 1, "the same again is no news"


def test_what_is_lost_of_the_revision_before_is_made_of_it_again(world):
    chat = canary(world, 2, 10)
    world.pods(chat, PodPhase.GONE, 0, reason="NodeLost")
    rank = surge(world, chat)
    assert world.cluster.images[pod_name(str(chat.pk), 1, rank)] == OLD
    assert of(chat) == [1, 1, 2]


def test_it_stays_when_the_service_is_scaled(world):
    chat = canary(world, 2, 10)
    world.decide(Scale(str(chat.pk), chat.version, 1, "quiet", leaving=(0, 2)))
    away(world, chat)
    assert of(chat) == [1, 2]


def test_both_give_up_replicas_when_the_service_needs_fewer(world):
    chat = canary(world, 4, 50)
    away(world, chat)
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    chat.refresh_from_db()
    world.decide(Scale(str(chat.pk), chat.version, 1, "quiet", leaving=(1, 2, 3)))
    assert of(chat) == [1, 2]


def test_a_weight_may_be_changed_and_a_hundred_promotes(world):
    chat = canary(world, 2, 10)
    change(chat, rollout={"weight": 30})
    assert split(world) == (2, 30)
    assert Revision.objects.get(workload=chat, number=2).weight == 30
    workloads.patch(workload=chat, changes={"rollout": {"weight": 100}}, version=None, actor="alice")
    assert split(world)[1] is None
    for _ in range(2):
        away(world, chat)
        if 1 in of(chat):
            world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    away(world, chat)
    chat.refresh_from_db()
    assert (of(chat), chat.rollout, chat.surge) == ([2, 2], None, 0)
    kinds = [kind for kind in story(chat) if kind in ("RollingOut", "Split", "Promoted", "RolledOut")]
    assert kinds == ["RollingOut", "Split", "Split", "Promoted", "RolledOut"]


def test_a_weight_while_nothing_is_brought_in_counts_from_the_next_change_on(world):
    chat = service(world, 1)
    change(chat, rollout={"weight": 25})
    assert (chat.rollout, chat.spec["rollout"]["weight"], wanted(chat)) == (None, 25, 1)
    change(chat, image=NEW)
    assert revisions.revisions(chat)["rollout"]["weight"] == 25


def test_one_that_is_preempted_starts_with_the_revision_before(world):
    chat = canary(world, 1, 20)
    world.evict(chat, by=world.submit("other"))
    world.pods(chat, PodPhase.GONE)
    chat.refresh_from_db()
    world.place(chat, "a")
    assert of(chat) == [1]
    world.actuate()
    world.pods(chat, PodPhase.RUNNING)
    assert wanted(chat) == 2
    world.pods(chat, PodPhase.RUNNING, surge(world, chat))
    assert of(chat) == [1, 2]
    assert split(world) == (2, 20)


# --- taken back -------------------------------------------------------------------------------


def test_it_is_undone_and_gets_no_request_from_then_on(world):
    chat = canary(world, 2, 20)
    workloads.undo(workload=chat, actor="alice")
    assert split(world) == (2, 0)
    away(world, chat)
    chat.refresh_from_db()
    assert (of(chat), chat.rollout, chat.spec["image"]) == ([1, 1], None, OLD)
    assert split(world)[1] is None


def test_it_is_taken_back_when_its_own_requests_burn_the_error_budget(world):
    chat = canary(world, 2, 20)
    measured(world, r2=(90, 80), r1=(800, 1))
    later(world, 31.0)
    chat.refresh_from_db()
    assert chat.revision == 1
    back = told(chat, "RollingBack")
    assert back.reason == "ErrorBudgetBurns"
    assert back.message.startswith("80 of the 90 requests that revision 2 answered were late or failed; 0.1 % may")
    assert Revision.objects.get(workload=chat, number=2).failed.startswith("80 of the 90 requests")


def test_one_that_is_no_worse_than_the_revision_before_stays_and_says_what_it_is_judged_by(world):
    chat = canary(world, 2, 20)
    assert revisions.revisions(chat)["rollout"]["judged_by"] == "nothing"
    measured(world, r2=(900, 100), r1=(9000, 1000))
    later(world, 31.0)
    chat.refresh_from_db()
    shown = revisions.revisions(chat)["rollout"]
    assert (chat.revision, shown["judged_by"]) == (2, "requests")
    assert [shown[name] for name in ("own_requests", "own_over", "before_requests", "before_over")] == [
        900, 100, 9000, 1000,
    ]  # fmt: skip


def test_one_that_serves_is_not_taken_back_as_there_is_no_room_for_more_of_it(world):
    chat = canary(world, 2, 100 - 10)
    away(world, chat)
    later(world, 700.0)
    assert fresh(chat).revision == 2


def test_one_whose_next_replica_does_not_answer_is_taken_back(world):
    chat = canary(world, 2, 90)
    away(world, chat)
    surge(world, chat)
    later(world, 700.0)
    assert (fresh(chat).revision, told(chat, "RollingBack").reason) == (1, "NotReady")


@pytest.mark.parametrize(
    ("own", "before", "burns"),
    [
        ((19, 19), (0, 0), False),  # the first requests of a program may be slow
        ((20, 20), (0, 0), True),
        ((20, 2), (0, 0), False),  # 1.7 % by chance
        ((20, 4), (0, 0), True),
        ((1000, 12), (10_000, 0), False),  # 1.2 % where 1 % may: by chance
        ((100_000, 1300), (900_000, 0), True),
        ((1000, 200), (9000, 1800), False),
        ((1000, 200), (9000, 90), True),
        ((0, 0), (0, 0), False),
    ],
)
def test_how_sure_it_must_be(own: tuple[int, int], before: tuple[int, int], *, burns: bool):
    assert Judged(Tally(*own), Tally(*before), 0.99).burns is burns


# --- where it is not possible -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "gateway", "fix"),
    [
        ({}, None, "Leave it out"),
        ({"ACTIVATORS": ("activator:8790",)}, None, "Give the service a gateway"),
        ({}, {"slots": 8}, "Leave it out"),
    ],
)
def test_a_weight_is_refused_where_nothing_splits_requests(world, site: Any, gateway: Any, fix: str):
    chat = service(world, 1, **({"gateway": gateway} if gateway else {}))
    with (
        override_settings(CLUSTER="kubernetes", **site),
        pytest.raises(Refused, match="nothing splits the requests") as refused,
    ):
        change(chat, image=NEW, rollout={"weight": 10})
    assert (refused.value.field, fresh(chat).spec["image"]) == ("rollout.weight", OLD)
    assert fix in refused.value.message


@pytest.mark.parametrize("site", [{"ISTIO": True}, {"ACTIVATORS": ("activator:8790",)}])
def test_a_weight_is_taken_where_istio_or_our_queue_splits_requests(world, site: Any):
    chat = service(world, 1, gateway={"slots": 8})
    with override_settings(CLUSTER="kubernetes", **site):
        change(chat, image=NEW, rollout={"weight": 10})
    assert chat.revision == 2


def test_a_split_that_is_performed_late_is_as_wanted_then(world):
    chat = canary(world, 1, 20)
    change(chat, rollout={"weight": 60})
    world.actuate()
    assert [one.percent for one in world.cluster.splits] in ([20, 60], [60, 60])
    assert Placement.objects.filter(workload=chat, revision=2).count() == 1
