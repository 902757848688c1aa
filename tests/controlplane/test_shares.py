"""Decayed use in the database: exact, the same in how many steps it was kept, and told to the scheduler in steps."""

import math

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Change, Placement, Team, TeamUse
from controlplane.queries import shares, snapshot
from controlplane.services import shares as service
from scheduler.team import Use
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
