"""What would start a waiting workload, applied: by whom, to what, and that the next round starts it."""

from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.loops import schedule
from controlplane.models import Event, Quota, Workload
from controlplane.services.tenancy import quotas
from controlplane.services.workloads.workloads import stop
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job
from tests.controlplane.state import story

K = "kind"


def suggestions(who: Caller, uid: str) -> dict[str, Any]:
    """What would start it, by kind."""
    return {one[K]: one for one in body_of(who.get(f"/workloads/{uid}/explanation"))["suggestions"]}


def apply(who: Caller, uid: str, one: dict[str, Any], **headers: str) -> Any:
    body = {name: one[name] for name in ("kind", "after", "target", "pool")}
    return who.post(f"/workloads/{uid}/suggestion", body, **headers)


@pytest.fixture
def full(api: People) -> People:
    """Red's `first` holds 6 GPUs of node a, blue's `secret` all 8 of node b; red owns 8, so two are left."""
    first = body_of(api.member.post("/workloads", job("first", resources={"gpus": 6})), 201)
    secret = body_of(api.blue_member.post("/workloads", job("secret", "blue", resources={"gpus": 8})), 201)
    api.world.run(Workload.objects.get(pk=first["uid"]), "a")
    api.world.run(Workload.objects.get(pk=secret["uid"]), "b")
    return api


def waiting(api: People, name: str = "big", **fields: Any) -> dict[str, Any]:
    """A job of red's member that the next round refuses."""
    made = body_of(api.member.post("/workloads", job(name, **{"resources": {"gpus": 4}, **fields})), 201)
    api.world.later(3600)
    api.world.observe()
    schedule.run_once(api.world.wiring)
    row: dict[str, Any] = body_of(api.member.get(f"/workloads/{made['uid']}"))
    assert row["phase"] == "Queued"
    assert row["reason"]
    return row


def phase_after_a_round(api: People, uid: str) -> str:
    api.world.observe()
    schedule.run_once(api.world.wiring)
    return str(Workload.objects.values_list("phase", flat=True).get(pk=uid))


CASES = {
    "gpus": ({"resources": {"gpus": 4}}, lambda w: w.gpus == 2 and w.spec["resources"]["gpus"] == 2),
    "workers": ({"workers": {"count": 4}, "resources": {"gpus": 1}}, lambda w: (w.workers_min, w.workers) == (2, 2)),
    "priority": ({"resources": {"gpus": 4}}, lambda w: (w.priority, w.preemptible) == (200, True)),
    "cpu": ({"resources": {"gpus": 2, "cpu": 64}}, lambda w: w.cpu_milli == 63_000),
    "memory": ({"resources": {"gpus": 2, "memory": "256Gi"}}, lambda w: w.memory < 262_144),
}


@pytest.mark.parametrize("kind", CASES)
def test_an_applied_change_of_the_ask_starts_the_workload_in_the_next_round(full: People, kind: str) -> None:
    fields, holds = CASES[kind]
    row = waiting(full, **fields)
    before = Workload.objects.get(pk=row["uid"])
    found = suggestions(full.member, row["uid"])
    assert kind in found, found
    one = found[kind]
    assert one["may_apply"]
    answer = apply(full.member, row["uid"], one, if_match=f'"{row["version"]}"')
    told = body_of(answer)
    assert told["version"] == row["version"] + 1
    assert answer["ETag"] == f'"{told["version"]}"'
    w = Workload.objects.get(pk=row["uid"])
    assert holds(w), w.spec
    assert (w.queued_at, w.seq, w.submitted_at) == (before.queued_at, before.seq, before.submitted_at)
    event = Event.objects.get(kind="RemedyApplied")
    assert (event.actor, event.message, event.workload) == ("mia", one["text"], w.pk)
    assert phase_after_a_round(full, row["uid"]) in ("Admitted", "Reserved")


def test_a_looser_level_is_applied(full: People) -> None:
    apart = {"workers": {"count": 4}, "resources": {"gpus": 1}, "topology": {"require": "node"}}
    secret = Workload.objects.get(name="secret")
    stop(workload=secret, actor="bob")
    full.world.pods(secret, PodPhase.GONE)
    half = body_of(full.blue_member.post("/workloads", job("half", "blue", resources={"gpus": 6})), 201)
    full.world.run(Workload.objects.get(pk=half["uid"]), "b")
    Quota.objects.filter(team__name="red").update(nominal=10_000)
    row = waiting(full, **apart)
    body_of(apply(full.member, row["uid"], suggestions(full.member, row["uid"])["topology"]))
    w = Workload.objects.get(pk=row["uid"])
    assert (w.topology_require, w.spec["topology"]) == (None, {})
    assert phase_after_a_round(full, row["uid"]) == "Admitted"


def test_a_quota_is_raised_by_a_platform_admin_only_and_starts_what_waits(api: People) -> None:
    Quota.objects.filter(team__name="red").update(borrowing_limit=0)
    first = body_of(api.member.post("/workloads", job("first", resources={"gpus": 6})), 201)
    api.world.run(Workload.objects.get(pk=first["uid"]), "a")
    row = waiting(api)
    one = suggestions(api.member, row["uid"])["nominal"]
    assert (one["before"], one["after"], one["may_apply"]) == (8000, 10_000, False)
    for who in (api.member, api.admin):
        fields_of(apply(who, row["uid"], one), 403)
    assert suggestions(api.platform, row["uid"])["nominal"]["may_apply"]
    body_of(apply(api.platform, row["uid"], one))
    quota = Quota.objects.get(team__name="red")
    assert (quota.nominal, quota.borrowing_limit, quota.lending_limit, quota.weight) == (10_000, 0, None, 1)
    assert Event.objects.get(kind="QuotaChanged").actor == "root"
    assert Workload.objects.get(pk=row["uid"]).version == row["version"]
    assert phase_after_a_round(api, row["uid"]) == "Admitted"


def test_a_quota_that_has_changed_meanwhile_is_left_alone(api: People) -> None:
    Quota.objects.filter(team__name="red").update(borrowing_limit=0)
    first = body_of(api.member.post("/workloads", job("first", resources={"gpus": 6})), 201)
    api.world.run(Workload.objects.get(pk=first["uid"]), "a")
    row = waiting(api)
    one = suggestions(api.platform, row["uid"])["borrowing"]
    found = Quota.objects.get(team__name="red")
    quotas.save(team=found.team, pool=found.pool, nominal=9000, borrowing_limit=1000, actor="root")
    refused = apply(api.platform, row["uid"], one)
    assert body_of(refused, 409)["code"] == "NoLongerHolds"
    assert Quota.objects.get(team__name="red").borrowing_limit == 1000


def test_another_is_stopped_by_who_may_stop_it(full: People) -> None:
    row = waiting(full)
    one = suggestions(full.member, row["uid"])["stop"]
    first = Workload.objects.get(name="first")
    assert (one["target"], one["may_apply"]) == (str(first.pk), True)
    fields_of(apply(full.viewer, row["uid"], one), 403)
    body_of(apply(full.member, row["uid"], one))
    first.refresh_from_db()
    assert (first.phase, story(first)[-1]) == ("Stopping", "Stopping")
    assert phase_after_a_round(full, row["uid"]) == "Reserved"


def test_who_cannot_see_the_other_cannot_have_it_stopped(full: People) -> None:
    row = waiting(full, resources={"gpus": 8})
    secret = Workload.objects.get(name="secret")
    refused = full.member.post(f"/workloads/{row['uid']}/suggestion", {"kind": "stop", "target": str(secret.pk)})
    assert fields_of(refused, 404) == ["target"]
    assert b"secret" not in refused.content
    secret.refresh_from_db()
    assert secret.phase == "Running"


def test_what_does_not_start_it_any_more_is_refused_with_what_would(full: People) -> None:
    row = waiting(full)
    one = suggestions(full.member, row["uid"])["gpus"]
    small = body_of(full.member.post("/workloads", job("small", resources={"gpus": 1})), 201)
    full.world.run(Workload.objects.get(pk=small["uid"]), "a")
    refused = body_of(apply(full.member, row["uid"], one), 409)
    assert refused["code"] == "NoLongerHolds"
    assert refused["detail"] == (
        "The next round would not start big with that. This would: Request 1 GPU instead of 4 for each worker."
    )
    w = Workload.objects.get(pk=row["uid"])
    assert (w.gpus, w.version, story(w)) == (4, row["version"], story(w))
    assert "RemedyApplied" not in story(w)


def test_what_starts_as_it_is_is_left_so(api: People) -> None:
    made = body_of(api.member.post("/workloads", job("free")), 201)
    refused = api.member.post(f"/workloads/{made['uid']}/suggestion", {"kind": "cpu", "after": 500})
    assert "starts with the next round as it is" in body_of(refused, 409)["detail"]


def test_an_older_version_is_refused_and_nothing_is_changed(full: People) -> None:
    row = waiting(full)
    one = suggestions(full.member, row["uid"])["gpus"]
    body_of(full.member.send("PATCH", f"/workloads/{row['uid']}", {"labels": {"a": "b"}}))
    assert fields_of(apply(full.member, row["uid"], one, if_match=f'"{row["version"]}"'), 412) == ["version"]
    assert Workload.objects.get(pk=row["uid"]).gpus == 4


def test_the_same_key_applies_it_once(full: People) -> None:
    row = waiting(full)
    one = suggestions(full.member, row["uid"])["gpus"]
    first = apply(full.member, row["uid"], one, idempotency_key="k-1")
    phase_after_a_round(full, row["uid"])
    again = apply(full.member, row["uid"], one, idempotency_key="k-1")
    assert (again.status_code, again["Idempotent-Replayed"], again.content) == (200, "true", first.content)
    assert Event.objects.filter(kind="RemedyApplied").count() == 1


def test_a_colleague_who_is_no_admin_of_the_team_may_not(full: People) -> None:
    made = body_of(full.admin.post("/workloads", job("adas", resources={"gpus": 4})), 201)
    one = suggestions(full.member, made["uid"])["gpus"]
    assert not one["may_apply"]
    fields_of(apply(full.member, made["uid"], one), 403)
    body_of(apply(full.admin, made["uid"], one))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "kind"),
        ({"kind": "luck"}, "kind"),
        ({"kind": "gpus", "after": [2]}, "after"),
        ({"kind": "gpus", "after": True}, "after"),
        ({"kind": "gpus", "after": 2, "text": "Ask 2"}, "text"),
        ([], ""),
    ],
)
def test_a_body_that_names_no_change_is_refused_by_field(full: People, body: Any, field: str) -> None:
    row = waiting(full)
    assert fields_of(full.member.post(f"/workloads/{row['uid']}/suggestion", body)) == [field]


@pytest.mark.parametrize("after", [-1, 0, 3, 99, "two", "2; DROP TABLE", ""])
def test_a_change_that_is_none_of_its_kind_is_refused_with_one_that_is(full: People, after: Any) -> None:
    row = waiting(full)
    refused = full.member.post(f"/workloads/{row['uid']}/suggestion", {"kind": "gpus", "after": after})
    assert "Request 2 GPUs instead of 4" in body_of(refused, 409)["detail"]


def test_what_waits_can_be_patched_to_ask_something_else_and_what_runs_cannot(full: People) -> None:
    row = waiting(full)
    changes = {"resources": {"gpus": 2, "cpu": 2}, "topology": {"require": "rack"}}
    told = body_of(full.member.send("PATCH", f"/workloads/{row['uid']}", changes))
    assert (told["resources"]["milli_gpu"], told["spec"]["topology"]) == (2000, {"require": "rack"})
    assert phase_after_a_round(full, row["uid"]) == "Admitted"
    refused = full.member.send("PATCH", f"/workloads/{row['uid']}", changes)
    assert fields_of(refused, 409) == ["topology"]  # its resources are what they were


def test_a_patch_that_no_machine_could_run_is_refused_as_a_submission_is(full: People) -> None:
    row = waiting(full)
    refused = full.member.send("PATCH", f"/workloads/{row['uid']}", {"resources": {"gpus": 9}})
    assert fields_of(refused, 422) == ["resources.gpus"]
    assert Workload.objects.get(pk=row["uid"]).gpus == 4


def test_who_waits_without_a_remedy_is_told_so_in_a_sentence(api: People) -> None:
    first = body_of(api.member.post("/workloads", job("first")), 201)
    after = body_of(api.member.post("/workloads", job("second", after=["first"])), 201)
    told = body_of(api.member.get(f"/workloads/{after['uid']}/explanation"))
    assert (told["reason"], told["suggestions"]) == ("AdmissionGated", [])
    assert "Neither capacity nor quota" in told["no_suggestions"]
    assert body_of(api.member.get(f"/workloads/{first['uid']}/explanation"))["no_suggestions"] == ""
