"""Decayed use in the database: exact, the same in how many steps it was kept, and told to the scheduler in steps."""

import math

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Change, NodePool, Placement, Quota, Team, TeamUse
from controlplane.queries.scheduling import snapshot
from controlplane.queries.tenancy import shares, teams
from controlplane.queries.workloads import whatif
from controlplane.services.tenancy import shares as service
from scheduler.model.team import Use
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
WEEK, HOUR = 604_800, 3600


@pytest.fixture
def world() -> World:
    return World()


def kernel(age: float) -> float:
    return 2 ** (-age / WEEK)


def test_decayed_use_is_the_kernels_integral_of_what_was_held(world):
    job = world.submit("job", gpus=2)
    world.run(job, "a")
    start = int(Placement.objects.get().bound_at)
    for _ in range(3):
        world.later(50 * HOUR + 7)
        world.observe()
        world.account()
    row = TeamUse.objects.get()
    assert (row.team.name, row.pool) == ("red", "main")
    assert math.isclose(row.decayed, 2000 * (1 - kernel(row.at - start)), rel_tol=1e-9)


def test_it_makes_no_difference_in_how_many_steps_it_is_kept(world):
    team = Team.objects.get(name="red")
    service.note(to=1000.0, held={(team.pk, "once"): [(0, 1000, 3000)]})
    for start in range(0, 1000, 100):
        service.note(to=start + 100.0, held={(team.pk, "often"): [(start, start + 100, 3000)]})
    once, often = TeamUse.objects.get(pool="once"), TeamUse.objects.get(pool="often")
    assert math.isclose(once.decayed, often.decayed, rel_tol=1e-12)


def test_what_is_no_longer_held_counts_half_after_a_half_life(world):
    team = Team.objects.get(name="red")
    service.note(to=float(WEEK), held={(team.pk, "main"): [(0, WEEK, 8000)]})
    assert TeamUse.objects.get().decayed == pytest.approx(4000)
    service.note(to=2.0 * WEEK, held={})
    assert TeamUse.objects.get().decayed == pytest.approx(2000)
    assert shares.decayed() == (Use("red", "main", 2000),)


def test_the_scheduler_is_told_only_when_it_has_moved_far_enough(world):
    team = Team.objects.get(name="red")
    Change.objects.all().delete()
    assert service.note(to=60.0, held={(team.pk, "main"): [(0, 60, 8000)]}) == 0
    assert not Change.objects.exists()
    assert service.note(to=float(WEEK), held={(team.pk, "main"): [(60, WEEK, 8000)]}) == 1
    assert Change.objects.filter(workload=None).count() == 1
    assert snapshot.full().use == (Use("red", "main", 4000),)


def test_where_nothing_is_held_nothing_is_written(world):
    team = Team.objects.get(name="red")
    service.note(to=float(WEEK), held={(team.pk, "main"): [(0, WEEK, 8000)]})
    with CaptureQueriesContext(
        connection,
    ) as caught:
        assert service.note(to=WEEK + 60.0, held={}) == 0
    assert [q["sql"] for q in caught if not q["sql"].startswith("SELECT")] == []


def test_a_parents_figures_are_all_of_its_subtree_or_all_its_own(world):
    pool = NodePool.objects.get(name="main")
    above = Team.objects.create(name="above")
    Team.objects.update(parent=above)
    Team.objects.filter(pk=above.pk).update(parent=None)
    red, blue = Team.objects.get(name="red"), Team.objects.get(name="blue")
    for team, nominal in ((above, 12_000), (red, 4000), (blue, 4000)):
        Quota.objects.create(team=team, pool=pool, nominal=nominal)
    world.run(world.submit("reds", gpus=6), "a")
    world.run(world.submit("own", team="above", gpus=2), "b")
    held = teams.held_by_team_and_pool()
    parent, *below = teams.tree(held, whatif.shares_of_all())
    assert (parent.row.name, parent.row.nominal, parent.row.held, parent.row.borrowed) == ("above", 12_000, 8000, 0)
    assert parent.row.held <= parent.entitled <= 12_000
    (quota,) = parent.quotas
    assert (quota.held, quota.owned, quota.borrowed) == (8000, 12_000, 0)
    assert parent.own is not None
    assert (parent.own.nominal, parent.own.held, parent.own.running) == (4000, 2000, 1)
    assert [(b.row.name, b.own, b.row.held, b.row.borrowed) for b in below] == [
        ("blue", None, 0, 0), ("red", None, 6000, 2000),
    ]  # fmt: skip
    own = {row.name: (row.nominal, row.held, row.borrowed) for row in teams.rows(held)}
    assert own == {"above": (4000, 2000, 0), "blue": (4000, 0, 0), "red": (4000, 6000, 2000)}


def test_a_parent_without_a_quota_owns_what_its_teams_own(world):
    pool = NodePool.objects.get(name="main")
    above = Team.objects.create(name="above")
    Team.objects.filter(name="red").update(parent=above)
    Quota.objects.create(team=Team.objects.get(name="red"), pool=pool, nominal=4000)
    parent = next(b for b in teams.tree({}, whatif.shares_of_all()) if b.row.name == "above")
    assert parent.own is not None
    assert (parent.row.nominal, parent.own.nominal) == (4000, 0)
