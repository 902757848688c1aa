"""Conditions as values find what the ORM's lookups of the same names find, on either database."""

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import Placement, PlacementState, Team, Token, Workload, bulk
from controlplane.models.lookups import NOW, composed
from controlplane.services.accounts import people, tokens
from scheduler.model.workload import ENDED, Kind, Phase
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db

SAME = (
    {"name": "two"},
    {"priority__gt": 0, "seq__lte": 2},
    {"seq__gte": 2},
    {"seq__lt": 3},
    {"deadline__isnull": True},
    {"deadline__isnull": False},
    {"preemptible": True},
    {"preemptible": False},
)


@pytest.fixture
def world() -> World:
    made = World()
    for name in ("one", "two", "three"):
        made.submit(name)
    Workload.objects.filter(name="three").update(phase=Phase.STOPPED.value)
    return made


def found(**where) -> list[str]:
    return [name for (name,) in bulk.select(Workload, ("name",), where, order=("seq",))]


@pytest.mark.parametrize("where", SAME, ids=str)
def test_a_condition_finds_what_the_orm_finds(world: World, where: dict[str, object]) -> None:
    assert found(**where) == list(Workload.objects.filter(**where).order_by("seq").values_list("name", flat=True))


def test_lists_and_what_is_not(world: World) -> None:
    uids = list(Workload.objects.filter(name__in=("one", "three")).values_list("uid", flat=True))
    assert found(uid__among=uids) == ["one", "three"]
    assert found(phase__in=ENDED) == ["three"]
    assert found(phase__not_in=ENDED) == ["one", "two"]
    assert found(phase__not=Phase.QUEUED, kind=Kind.TRAINING) == ["three"]
    assert found(name__not="one") == ["two", "three"]


def test_order_and_limit(world: World) -> None:
    assert [n for (n,) in bulk.select(Workload, ("name",), order=("-seq",), limit=2)] == ["three", "two"]
    assert [n for (n,) in bulk.select(Workload, ("name",), order=("phase", "-seq"))] == ["two", "one", "three"]


def test_what_a_foreign_key_points_to_is_a_column(world: World) -> None:
    columns = ("name", "team__name", "created_by__username", "spec")
    (row,) = bulk.select(Workload, columns, {"name": "one"})
    spec = Workload.objects.get(name="one").spec
    assert list(row) == ["one", "red", None, spec]


def test_rows_are_counted_by_columns(world: World) -> None:
    team = Team.objects.get(name="red")
    assert [tuple(row) for row in bulk.count(Workload)] == [(3,)]
    counted = sorted(map(tuple, bulk.count(Workload, ("team_id", "phase"))))
    assert counted == [(team.pk, "Queued", 2), (team.pk, "Stopped", 1)]


def test_the_databases_clock_can_be_compared_with() -> None:
    user = people.create(username="ann", password="a long one 42", actor="root")
    made = tokens.create(user=user, name="t", lifetime=timedelta(hours=1))
    assert len(bulk.select(Token, ("id",), {"expires_at__gt": NOW})) == 1
    Token.objects.update(expires_at=timezone.now() - timedelta(seconds=5))
    assert bulk.select(Token, ("id",), {"expires_at__gt": NOW}) == []
    assert tokens.owner(made.secret) is None


def test_members_of_our_enums_are_written_and_nothing_else_is() -> None:
    text, values = composed(Placement, {"state__not": PlacementState.RELEASED, "is_settled": False, "node": "a'; --"})
    assert text == """WHERE "state" <> 'Released' AND NOT "is_settled" AND "node" = %s"""
    assert values == ["a'; --"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"deadline": None}, "deadline is None. Use deadline__isnull."),
        ({"name__like": "o"}, "There is no lookup name__like."),
        ({"phase__in": ("Queued",)}, "'Queued' cannot be written into a statement."),
    ],
)
def test_what_cannot_be_asked_is_refused(where: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        composed(Workload, where)
