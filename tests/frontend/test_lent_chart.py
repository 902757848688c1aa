"""Whose trainings have a service's lent GPUs, on its time axis and in its table."""

from typing import Any

import pytest
from django.test import Client

from controlplane.models import ServiceWindow, Team, Workload
from controlplane.queries.workloads import serving
from tests.controlplane.api.conftest import People, people

pytestmark = pytest.mark.django_db


@pytest.fixture
def crowd(settings: Any) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return people()


@pytest.fixture
def chat(crowd: People) -> Workload:
    """A service with two replicas on standby: of its minutes the first is of a version that kept no teams."""
    share = {"gpu_share": {"guarantee": 1, "memory": "8Gi"}}
    made = crowd.world.submit("chat", kind="inference", replicas={"min": 1, "max": 3}, resources=share, standby=2)
    crowd.world.run(made, "a", "a", "a")
    red, hidden = Team.objects.get(name="red"), Team.objects.create(name="unseen", colour=3)
    at = crowd.world.cluster.at
    told = (None, {str(red.pk): 1}, {str(red.pk): 1, str(hidden.pk): 1}, {})
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=made.pk, start=at - 60 * (len(told) - k), requests=9, over=0, replicas=1, wanted=1,
                      asleep=2, lent=sum((to or {"": 1}).values()), lent_to=to)
        for k, to in enumerate(told)
    )  # fmt: skip
    return made


def areas(client: Client, chat: Workload) -> dict[str, list[int | None]]:
    figure = client.get(f"/services/{chat.pk}/history").json()
    found = {one["name"]: one for one in figure["data"] if one.get("stackgroup") == "lent"}
    assert {one["yaxis"] for one in found.values()} == {"y3"}, "on the axis of the replicas"
    return {name: one["y"] for name, one in found.items()}


def visit(person: Any) -> Client:
    client = Client()
    client.force_login(person.user)
    return client


def test_the_axis_has_an_area_for_each_team_whose_trainings_have_lent_gpus(crowd: People, chat: Workload) -> None:
    assert areas(visit(crowd.platform), chat) == {"lent to unseen": [None, 0, 1, 0], "lent to red": [None, 1, 1, 0]}


def test_teams_that_the_reader_may_not_see_are_one(crowd: People, chat: Workload) -> None:
    client = visit(crowd.viewer)
    assert areas(client, chat) == {"lent to red": [None, 1, 1, 0], "lent to other teams": [None, 0, 1, 0]}
    table = client.get(f"/services/{chat.pk}/?view=table").content.decode()
    assert "other teams 1" in table and "red 1" in table
    assert "unseen" not in table


def test_nothing_is_told_of_a_service_that_lends_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert serving.borrowers([None, {}, None], None) == ()
