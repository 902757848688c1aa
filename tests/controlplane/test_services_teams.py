"""Teams, quotas, priority classes and pools: what an admin sets, and what the scheduler then sees."""

import pytest

from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Event, Membership, NodePool, PriorityClass, Quota, Role, Team, User
from controlplane.services.accounts import members
from controlplane.services.errors import Refused
from controlplane.services.tenancy import quotas, teams
from scheduler.model.team import Quota as SeenQuota
from tests.controlplane.state import World, seen_by_scheduler

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def red() -> Team:
    return Team.objects.get(name="red")


def pool() -> NodePool:
    return NodePool.objects.get(name="main")


def test_a_quota_reaches_the_schedulers_snapshot_in_the_next_round(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    keeper.take(lease, world.cluster.at)
    quotas.save(team=red(), pool=pool(), nominal=4000, borrowing_limit=2000, lending_limit=1000, weight=3, actor="root")
    taken = keeper.take(lease, world.cluster.at)
    assert taken.snapshot.quotas == (SeenQuota("red", "main", 4000, 2000, 1000, 3),)
    event = Event.objects.get(kind="QuotaChanged")
    assert (event.actor, event.team, event.data["nominal"]) == ("root", "red", [None, 4000])


def test_a_change_that_changes_nothing_is_no_event(world):
    for _ in range(2):
        quotas.save(team=red(), pool=pool(), nominal=4000, actor="root")
    assert Event.objects.filter(kind="QuotaChanged").count() == 1


def test_more_owned_than_there_is_is_a_warning_and_no_refusal(world):
    quota, warnings = quotas.save(team=red(), pool=pool(), nominal=20_000, actor="root")
    assert quota.nominal == 20_000
    assert warnings == (
        "The quotas of the teams in main add up to 20 GPUs, but it has 16. Not all of them can be used at once.",
    )


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"nominal": -1}, "nominal"),
        ({"nominal": True}, "nominal"),
        ({"nominal": 10**12}, "nominal"),
        ({"nominal": 1000, "borrowing_limit": -5}, "borrowing_limit"),
        ({"nominal": 1000, "lending_limit": 2000}, "lending_limit"),
        ({"nominal": 1000, "weight": 0}, "weight"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(world, values, field):
    with pytest.raises(Refused) as caught:
        quotas.save(team=red(), pool=pool(), actor="root", **values)
    assert (caught.value.status, caught.value.field) == (422, field)
    assert not Quota.objects.exists()


def test_of_two_admins_at_once_the_second_is_told(world):
    quota, _ = quotas.save(team=red(), pool=pool(), nominal=1000, actor="one")
    quotas.save(team=red(), pool=pool(), nominal=2000, actor="one", version=quota.version)
    with pytest.raises(Refused) as caught:
        quotas.save(team=red(), pool=pool(), nominal=3000, actor="two", version=quota.version)
    assert caught.value.status == 412
    assert Quota.objects.get().nominal == 2000


def test_a_quota_can_be_taken_away(world):
    quota, _ = quotas.save(team=red(), pool=pool(), nominal=1000, actor="root")
    quotas.remove(quota=quota, actor="root")
    assert not Quota.objects.exists()
    assert Event.objects.filter(kind="QuotaRemoved").exists()


def test_live_workloads_follow_their_priority_class(world):
    job = world.submit("job")
    quotas.save_priority(name="normal", value=150, preemptible=False, is_default=True, actor="root")
    seen = seen_by_scheduler(job)
    assert (seen.priority, seen.preemptible, seen.version) == (150, False, 2)


def test_there_is_one_default_class(world):
    quotas.save_priority(name="high", value=200, is_default=True, actor="root")
    assert PriorityClass.objects.get(is_default=True).name == "high"


def test_a_priority_out_of_bounds_is_refused(world):
    with pytest.raises(Refused, match="value is 10000000"):
        quotas.save_priority(name="royal", value=10**7, actor="root")


def test_a_team_is_created_below_its_parent(world):
    child = teams.create(name="red-nlp", parent=red(), actor="root")
    assert (child.parent, Event.objects.get(kind="TeamCreated").data) == (red(), {"parent": "red"})


def test_a_team_of_the_same_name_is_refused(world):
    with pytest.raises(Refused, match="There is a team red already"):
        teams.create(name="red", parent=None, actor="root")


def test_a_team_cannot_be_put_below_itself(world):
    child = teams.create(name="child", parent=red(), actor="root")
    with pytest.raises(Refused) as caught:
        teams.move(team=red(), parent=child, actor="root")
    assert caught.value.code == "TeamCycle"
    teams.move(team=child, parent=None, actor="root")
    assert Team.objects.get(name="child").parent is None


def test_members_come_change_and_go(world):
    user = User.objects.create(username="mel")
    members.save(team=red(), user=user, role=Role.MEMBER, actor="root")
    members.save(team=red(), user=user, role=Role.VIEWER, actor="root")
    assert Membership.objects.get().role == "viewer"
    assert [members.remove(team=red(), user=user, actor="root") for _ in range(2)] == [True, False]
    assert not Membership.objects.exists()
    kinds = Event.objects.filter(kind__startswith="Member").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["MemberAdded", "MemberChanged", "MemberRemoved"]


def test_a_pool_has_a_price(world):
    made = quotas.save_pool(name="main", gpu_model="A100", price_per_gpu_hour=2, actor="root")
    assert made.price_per_gpu_hour == 2
    with pytest.raises(Refused, match="below 0"):
        quotas.save_pool(name="main", price_per_gpu_hour=-1, actor="root")
