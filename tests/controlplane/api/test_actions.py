"""One action on several workloads: POST /workloads:act."""

from typing import Any

import pytest

from controlplane.models import AuditEntry, Event, Workload
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job

NOBODYS = "00000000-0000-4000-8000-000000000000"


def submitted(who: Caller, *names: str, team: str = "red") -> list[str]:
    return [body_of(who.post("/workloads", job(name, team=team)), 201)["uid"] for name in names]


def act(who: Caller, verb: str, *uids: str, **fields: Any) -> list[dict[str, Any]]:
    return list(body_of(who.post("/workloads:act", {"verb": verb, "uids": uids, **fields}))["results"])


def refusals(results: list[dict[str, Any]]) -> list[tuple[int, str, str] | None]:
    found = [one["refusal"] for one in results]
    assert [one["is_done"] for one in results] == [one is None for one in found]
    return [one and (one["status"], one["code"], one["field"]) for one in found]


def test_each_is_done_and_answered_in_the_order_asked(api: People) -> None:
    a, b = submitted(api.member, "a", "b")
    results = act(api.member, "suspend", b, a)
    assert [(one["uid"], one["is_done"], one["workload"]["phase"]) for one in results] == [
        (b, True, "Held"),
        (a, True, "Held"),
    ]
    assert [one["workload"]["phase"] for one in act(api.member, "resume", a, b)] == ["Queued", "Queued"]
    assert [one["workload"]["phase"] for one in act(api.member, "stop", a)] == ["Stopped"]
    (row,) = body_of(api.member.get("/workloads?name=b"))["results"]
    assert act(api.member, "requeue", b)[0]["workload"].keys() == row.keys()


def test_a_refusal_of_one_undoes_nothing_of_the_others(api: People) -> None:
    ended, waits = submitted(api.member, "ended", "waits")
    act(api.member, "stop", ended)
    results = act(api.member, "suspend", ended, waits)
    assert refusals(results) == [(409, "WrongPhase", "phase"), None]
    assert results[0]["refusal"]["message"] == "ended is Stopped; it cannot be suspended."
    assert [one["workload"]["phase"] for one in results] == ["Stopped", "Held"]
    alone = body_of(api.member.post(f"/workloads/{ended}/suspend"), 409)
    assert results[0]["refusal"]["message"] == alone["detail"]


def test_what_one_may_not_do_is_said_of_each_and_what_one_may_not_see_is_not_there(api: People) -> None:
    (red,), (blue,) = submitted(api.member, "red"), submitted(api.blue_member, "blue", team="blue")
    results = act(api.viewer, "stop", red, blue, NOBODYS)
    assert refusals(results) == [(403, "Forbidden", ""), (404, "NotFound", "uids"), (404, "NotFound", "uids")]
    assert [one["workload"] and one["workload"]["name"] for one in results] == ["red", None, None]
    assert results[1]["refusal"] == results[2]["refusal"]
    assert set(Workload.objects.values_list("phase", flat=True)) == {"Queued"}
    assert refusals(act(api.platform, "stop", red, blue)) == [None, None]
    fields_of(api.nobody.post("/workloads:act", {"verb": "stop", "uids": [red]}), 401)


def test_another_priority_is_the_submitters_and_the_team_admins_to_give(api: People) -> None:
    mine, others = submitted(api.member, "mine") + submitted(api.admin, "others")
    results = act(api.member, "priority", mine, others, priority_class="high")
    assert refusals(results) == [None, (403, "Forbidden", "")]
    assert [one["workload"]["priority_class"] for one in results] == ["high", "normal"]
    assert refusals(act(api.admin, "priority", others, priority_class="high")) == [None]
    results = act(api.admin, "priority", mine, others, priority_class=None)
    assert [one["workload"]["priority_class"] for one in results] == ["normal", "normal"]
    assert refusals(act(api.admin, "priority", mine, priority_class="top")) == [
        (422, "UnknownPriorityClass", "priority_class")
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"verb": "stop"}, "uids"),
        ({"uids": [NOBODYS]}, "verb"),
        ({"verb": "stop", "uids": []}, "uids"),
        ({"verb": "stop", "uids": [f"{number:08}{NOBODYS[8:]}" for number in range(101)]}, "uids"),
        ({"verb": "stop", "uids": [NOBODYS, "red/a"]}, "uids.1"),
        ({"verb": "stop", "uids": [NOBODYS, NOBODYS]}, "uids"),
        ({"verb": "scale", "uids": [NOBODYS]}, "verb"),
        ({"verb": "stop", "uids": [NOBODYS], "priority_class": "high"}, "priority_class"),
        ({"verb": "stop", "uids": [NOBODYS], "priority_class": None}, "priority_class"),
        ({"verb": "priority", "uids": [NOBODYS]}, "priority_class"),
        ({"verb": "priority", "uids": [NOBODYS], "priority_class": 7}, "priority_class"),
        ({"verb": "stop", "uids": [NOBODYS], "force": True}, "force"),
        (["stop"], ""),
    ],
)
def test_a_fault_of_the_body_is_named_and_nothing_is_done(api: People, body: Any, field: str) -> None:
    submitted(api.member, "a")
    assert fields_of(api.member.post("/workloads:act", body)) == [field]
    assert Workload.objects.get().phase == "Queued"


def test_a_uid_in_capitals_is_the_same_one(api: People) -> None:
    (a,) = submitted(api.member, "a")
    assert [one["uid"] for one in act(api.member, "stop", a.upper(), a)] == [a]
    assert Event.objects.filter(workload=a, kind="Stopped").count() == 1


def test_the_audit_log_has_a_row_for_each_as_if_it_had_been_asked_alone(api: People) -> None:
    ended, waits = submitted(api.member, "ended", "waits")
    (blue,) = submitted(api.blue_member, "blue", team="blue")
    act(api.member, "stop", ended)
    before = AuditEntry.objects.count()
    act(api.platform, "suspend", waits, ended, blue, NOBODYS)
    rows = AuditEntry.objects.order_by("number")[before:]
    columns = ("actor", "route", "name", "team", "status", "outcome", "kind")
    assert {tuple(getattr(row, name) for name in columns) for row in rows} == {
        ("root", "api/v1/workloads:act", "waits", "red", 200, "done", "Held"),
        ("root", "api/v1/workloads:act", "ended", "red", 409, "refused", ""),
        ("root", "api/v1/workloads:act", "blue", "blue", 200, "done", "Held"),
        ("root", "api/v1/workloads:act", NOBODYS, "", 404, "refused", ""),
    }
    seen = body_of(api.blue_admin.get("/audit-log?kind=Held"))["results"]
    assert [row["name"] for row in seen] == ["blue"]
