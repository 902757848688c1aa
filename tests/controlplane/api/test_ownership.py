"""What REST, pages and the console say of a workload or team that kubectl changes."""

from typing import Any

import pytest

from controlplane.models import NodePool, Team, Workload
from tests.controlplane.api.conftest import People, body_of, job

OBJECT = "workloads.weft.dev"


@pytest.fixture
def made(api: People) -> Any:
    uid = body_of(api.member.post("/workloads", job()), 201)["uid"]
    Workload.objects.filter(pk=uid).update(managed_by=OBJECT)
    return uid


def test_rest_names_the_owner_and_refuses_with_the_command(api: People, made: str) -> None:
    assert body_of(api.member.get(f"/workloads/{made}"))["managed_by"] == OBJECT
    (row,) = body_of(api.member.get("/workloads"))["results"]
    assert row["managed_by"] == OBJECT
    for answer in (
        api.member.post(f"/workloads/{made}/suspend"),
        api.member.post(f"/workloads/{made}/stop"),
        api.member.send("DELETE", f"/workloads/{made}"),
        api.member.send("PATCH", f"/workloads/{made}", {"max_duration": "1h"}),
        api.member.post(f"/workloads/{made}/priority", {"priority_class": None}),
        api.member.post("/workloads:apply", {**job(), "max_duration": "1h"}),
    ):
        problem = body_of(answer, 409)
        assert problem["errors"][0]["field"] == "managed_by"
        assert "hello was made by kubectl and is changed there: kubectl " in problem["detail"]
    assert body_of(api.platform.post(f"/workloads/{made}/suspend"), 409)
    assert body_of(api.platform.post(f"/workloads/{made}/stop"))["phase"] == "Stopped"


def test_other_workloads_and_teams_are_wefts(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job()), 201)["uid"]
    assert body_of(api.member.get(f"/workloads/{uid}"))["managed_by"] == "weft"
    assert body_of(api.member.get("/teams/red"))["managed_by"] == "weft"


def test_a_quota_of_a_team_of_kubectl_is_refused_with_the_command(api: People) -> None:
    Team.objects.filter(name="red").update(managed_by="teams.weft.dev")
    pool = NodePool.objects.values_list("name", flat=True)[0]
    assert body_of(api.member.get("/teams/red"))["managed_by"] == "teams.weft.dev"
    problem = body_of(api.platform.send("PUT", f"/teams/red/quotas/{pool}", {"nominal_milli": 1000}), 409)
    assert "kubectl edit teams.weft.dev red" in problem["detail"]


def test_the_page_shows_the_owner_and_only_what_may_be_done_here(api: People, made: str) -> None:
    assert api.member.user is not None
    api.member.client.force_login(api.member.user)
    page = api.member.client.get(f"/workloads/{made}/").content.decode()
    assert "Made by kubectl (workloads.weft.dev): it is changed there" in page
    assert "kubectl delete workloads.weft.dev hello -n weft-red" in page
    assert f"/workloads/{made}/stop" not in page
    assert api.platform.user is not None
    api.platform.client.force_login(api.platform.user)
    assert f"/workloads/{made}/stop" in api.platform.client.get(f"/workloads/{made}/").content.decode()
