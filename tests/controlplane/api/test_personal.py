"""Templates, saved views and search over REST."""

from typing import Any

import pytest

from controlplane.models import Event, SavedView, Template, Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, job

SMALL = {"type": "training", "image": "registry.example/app:1", "resources": {"gpus": 1}}


def made(caller: Any, **fields: Any) -> dict[str, Any]:
    return dict(body_of(caller.post("/templates", {"name": "small", "team": "red", "job": SMALL, **fields}), 201))


def test_a_template_is_saved_read_replaced_by_version_and_deleted(api: People) -> None:
    row = made(api.member, about="One GPU")
    path = f"/templates/{row['id']}"
    assert (row["team"], row["type"], row["author"], row["job"]) == ("red", "training", "mia", SMALL)
    changed = api.member.send("PUT", path, {"job": {**SMALL, "retries": 2}}, if_match='"1"')
    assert (body_of(changed)["job"]["retries"], changed["ETag"]) == (2, '"2"')
    assert fields_of(api.member.send("PUT", path, {"job": SMALL}, if_match='"1"'), 412) == ["version"]
    assert [one["id"] for one in body_of(api.viewer.get("/templates?team=red&type=training"))["results"]] == [row["id"]]
    body_of(api.member.send("DELETE", path), 204)
    assert not Template.objects.exists()
    told = Event.objects.filter(team="red", kind__startswith="Template").order_by("id")
    assert list(told.values_list("kind", flat=True)) == [
        "TemplateSaved", "TemplateSaved", "TemplateRemoved",
    ]  # fmt: skip


def test_a_template_is_seen_by_its_team_and_changed_by_its_author_and_the_teams_admins(api: People) -> None:
    path = f"/templates/{made(api.member)['id']}"
    body_of(api.viewer.get(path))
    fields_of(api.viewer.send("DELETE", path), 403)
    fields_of(api.blue_member.get(path), 404)
    fields_of(api.blue_member.send("DELETE", path), 404)
    body_of(api.admin.send("PUT", path, {"job": SMALL}))
    own = f"/templates/{made(api.admin, name='admins')['id']}"
    fields_of(api.member.send("DELETE", own), 403)


def test_only_platform_admins_save_a_template_for_everybody(api: People) -> None:
    fields_of(api.admin.post("/templates", {"name": "all", "job": SMALL}), 403)
    row = made(api.platform, team=None)
    assert body_of(api.blue_member.get(f"/templates/{row['id']}"))["team"] is None


def test_a_template_for_a_team_that_is_not_there_is_nobodys(api: People) -> None:
    fields_of(api.platform.post("/templates", {"name": "small", "team": "ghost", "job": SMALL}), 404)
    assert not Template.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"name": "x", "team": "red", "job": {**SMALL, "resources": {"gpus": -1}}}, 400, "job.resources.gpus"),
        ({"name": "x", "team": "red", "job": {**SMALL, "colour": 1}}, 400, "job.colour"),
        ({"name": "x", "team": "red", "job": [1]}, 400, "job"),
        ({"name": "", "team": "red", "job": SMALL}, 400, "name"),
        ({"name": "x\u0000", "team": "red", "job": SMALL}, 400, "name"),
        ({"name": "small", "team": "red", "job": SMALL}, 409, "name"),
    ],
)
def test_a_template_that_could_never_be_submitted_is_refused_by_field(
    api: People, body: dict[str, Any], status: int, field: str
) -> None:
    made(api.member)
    assert fields_of(api.member.post("/templates", body), status) == [field]
    assert Template.objects.count() == 1


def test_saved_views_are_ones_own_and_a_name_is_used_once(api: People) -> None:
    first = body_of(api.member.post("/views", {"name": "mine", "query": "?phase=waiting&sort=-priority"}), 201)
    assert first["query"] == "phase=waiting&sort=-priority"
    again = body_of(api.member.post("/views", {"name": "mine", "query": "team=red"}), 201)
    assert (again["id"], again["query"]) == (first["id"], "team=red")
    assert body_of(api.viewer.get("/views"))["results"] == []
    fields_of(api.viewer.send("DELETE", f"/views/{first['id']}"), 404)
    body_of(api.member.send("DELETE", f"/views/{first['id']}"), 204)
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("query", ["colour=red", "cursor=abc", "phase=a&phase=b", "q=" + "x" * 600])
def test_a_view_of_no_list_of_ours_is_refused(api: People, query: str) -> None:
    assert fields_of(api.member.post("/views", {"name": "odd", "query": query}), 422) == ["query"]


def found(caller: Any, text: str) -> list[tuple[str, str]]:
    results = body_of(caller.get(f"/search?q={text}"))["results"]
    return [(one["kind"], one["name"]) for one in results]


def test_search_finds_what_the_caller_may_see_the_best_first(api: People) -> None:
    for name, team in (("bert", "red"), ("my-bert", "red"), ("bert-blue", "blue")):
        body_of(api.platform.post("/workloads", job(name, team)), 201)
    assert found(api.member, "bert") == [("workload", "red/bert"), ("workload", "red/my-bert")]
    assert found(api.member, "red/my") == [("workload", "red/my-bert")]
    assert ("workload", "blue/bert-blue") in found(api.platform, "bert")
    assert ("team", "red") in found(api.viewer, "re")
    assert ("team", "blue") not in found(api.viewer, "blu")
    assert [kind for kind, _ in found(api.outsider, "a")] == ["node"]
    uid = Workload.objects.get(name="bert").pk
    assert found(api.member, str(uid)) == [("workload", "red/bert")]
    assert found(api.blue_member, str(uid)) == []


@pytest.mark.parametrize("text", ["", "%25", "_", "-" * 36, "%F0%9F%A6%86", "a/b/c", "/"])
def test_search_takes_any_text(api: People, text: str) -> None:
    body_of(api.member.get(f"/search?q={text}" if text else "/search"))
