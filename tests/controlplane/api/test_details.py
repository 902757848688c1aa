"""One workload closely, each type under its own name, and the devices."""

from typing import Any

import pytest

from autoscaler.bottleneck.detect import Diagnosis, Evidence
from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate.course import Course
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation
from controlplane.cluster.port import PodPhase
from controlplane.domain import coursestate, diagnosisstate
from controlplane.models import Event, Gpu, Node, NodePool, ServiceScaler, ServiceWindow, TrainingDiagnosis, Workload
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job
from tests.controlplane.state import START


def submit(who: Caller, **fields: Any) -> tuple[str, Workload]:
    made = body_of(who.post("/workloads", job(**fields)), 201)
    return f"/workloads/{made['uid']}", Workload.objects.get(pk=made["uid"])


# --- actions ----------------------------------------------------------------------------------


def test_scale_changes_the_workers_of_a_training_that_waits(api: People) -> None:
    at, workload = submit(api.member)
    answer = api.member.post(f"{at}/scale", {"count": 3})
    assert body_of(answer)["workers"] == {"count": 3, "min": 3, "max": 3, "placed": 0, "running": 0}
    assert answer["ETag"] == f'"{body_of(answer)["version"]}"'
    assert body_of(api.member.post(f"{at}/scale", {"min": 1, "max": 4}))["workers"]["min"] == 1
    assert fields_of(api.member.post(f"{at}/scale", {"count": 0})) == ["workers.count"]
    assert fields_of(api.member.post(f"{at}/scale", {"size": 2})) == ["workers.size"]
    assert fields_of(api.member.post(f"{at}/scale", {})) == [""]
    assert fields_of(api.member.post(f"{at}/scale", [2])) == [""]
    api.world.run(workload, "a", "a", "b")
    assert fields_of(api.member.post(f"{at}/scale", {"count": 4}), 409) == ["workers"]


def test_what_is_said_of_workers_beside_their_number_stays_when_that_changes(api: People) -> None:
    at, workload = submit(api.member, workers={"count": 2, "asynchronous": True})
    body_of(api.member.post(f"{at}/scale", {"count": 3}))
    workload.refresh_from_db()
    assert (workload.workers, workload.asynchronous) == (3, True)


def test_scale_sets_the_bounds_of_a_service_and_leaves_the_number_to_the_autoscaler(api: People) -> None:
    at, _ = submit(api.member, type="inference", replicas={"min": 1, "max": 2})
    assert body_of(api.member.post(f"{at}/scale", {"min": 2, "max": 6}))["workers"]["max"] == 6
    assert fields_of(api.member.post(f"{at}/scale", {"count": 3})) == ["count"]
    made = body_of(api.member.post("/notebooks", {"name": "explore", "team": "red", "resources": {"gpus": 1}}), 201)
    assert fields_of(api.member.post(f"/workloads/{made['uid']}/scale", {"count": 2})) == [""]


def test_priority_gives_another_class_and_null_the_default_one(api: People) -> None:
    at, _ = submit(api.member)
    assert body_of(api.member.post(f"{at}/priority", {"priority_class": "high"}))["priority_class"] == "high"
    assert body_of(api.member.post(f"{at}/priority", {"priority_class": None}))["priority_class"] == "normal"
    assert fields_of(api.member.post(f"{at}/priority", {"priority_class": "top"}), 422) == ["priority_class"]
    assert fields_of(api.member.post(f"{at}/priority", {})) == ["priority_class"]


@pytest.mark.parametrize(
    ("method", "verb", "body"),
    [
        ("DELETE", "", None),
        ("PATCH", "", {"labels": {"a": "b"}}),
        ("POST", "/stop", None),
        ("POST", "/suspend", None),
        ("POST", "/requeue", None),
        ("POST", "/scale", {"count": 2}),
        ("POST", "/priority", {"priority_class": "high"}),
    ],
)
def test_whatever_changes_a_workload_may_name_its_version(api: People, method: str, verb: str, body: Any) -> None:
    at, workload = submit(api.member)
    refused = api.member.send(method, at + verb, body, if_match='"7"')
    assert fields_of(refused, 412) == ["version"]
    assert "its version is 1, not 7" in body_of(refused, 412)["detail"]
    workload.refresh_from_db()
    assert (workload.phase, workload.version) == ("Queued", 1)
    body_of(api.member.send(method, at + verb, body, if_match='"1"'))


def test_a_refused_version_of_a_quota_or_budget_names_the_current_one(api: People) -> None:
    for path, body in {"quotas/main": {"nominal_milli": 1000}, "budgets/month": {"gpu_hours": 5}}.items():
        refused = api.platform.send("PUT", f"/teams/red/{path}", body, if_match='"9"')
        assert "its version is 1, not 9" in body_of(refused, 412)["detail"]
    refused = api.platform.send("DELETE", "/teams/red/budgets/month", None, if_match='"9"')
    assert "its version is 1, not 9" in body_of(refused, 412)["detail"]


def test_a_diff_says_what_applying_would_change_and_what_it_would_refuse(api: People) -> None:
    assert body_of(api.viewer.post("/workloads:diff", job())) == {"uid": None, "differences": []}
    at, workload = submit(api.member, resources={"gpus": 1, "memory": "1Gi"})
    same = job(resources={"gpus": 1, "memory": "1024Mi"})
    assert body_of(api.viewer.post("/workloads:diff", same)) == {"uid": str(workload.pk), "differences": []}
    other = {**same, "workers": {"count": 2}, "image": "registry.example/app:2"}
    found = body_of(api.viewer.post("/workloads:diff", other))["differences"]
    assert [(one["field"], one["can_change"]) for one in found] == [("image", False), ("workers", True)]
    assert (found[0]["before"], found[0]["after"]) == ("registry.example/app:1", "registry.example/app:2")
    assert fields_of(api.viewer.post("/workloads:diff", {**same, "retries": -1})) == ["retries"]


# --- details ----------------------------------------------------------------------------------


def test_decisions_are_what_rounds_decided_with_the_round(api: People) -> None:
    at, workload = submit(api.member)
    api.world.run(workload, "a")
    found = body_of(api.viewer.get(f"{at}/decisions"))["results"]
    assert [one["kind"] for one in found] == ["Admitted"]  # neither what users did nor what was observed
    assert found[0]["round"]["loop"] == "schedule"
    assert found[0]["round"]["number"] == found[0]["cycle"]


def test_an_eta_says_when_it_starts_and_ends_and_what_that_is_based_on(api: People) -> None:
    at, workload = submit(api.member, expected_duration="1h")
    waiting = body_of(api.viewer.get(f"{at}/eta"))
    assert waiting["basis"] == "expected_duration"
    start, end = (waiting[name]["cluster_seconds"] for name in ("expected_start", "expected_end"))
    assert start["median"] < end["median"]
    assert end["low"] <= end["median"] <= end["high"]
    api.world.run(workload, "a")
    running = body_of(api.viewer.get(f"{at}/eta"))
    assert running["expected_start"] is None
    assert running["expected_end"]["cluster_seconds"]["median"] > START
    api.world.pods(workload, PodPhase.SUCCEEDED, exit_code=0)
    ended = body_of(api.viewer.get(f"{at}/eta"))
    assert (ended["expected_start"], ended["expected_end"], ended["basis"]) == (None, None, "none")


def test_a_service_has_no_expected_end(api: People) -> None:
    at, workload = submit(api.member, type="inference")
    api.world.run(workload, "a")
    assert body_of(api.viewer.get(f"{at}/eta"))["expected_end"] is None


def test_pods_allocations_and_metrics_follow_a_workload_through_its_attempts(api: People) -> None:
    at, workload = submit(api.member, resources={"gpus": 2})
    assert body_of(api.viewer.get(f"{at}/pods"))["results"] == []
    api.world.run(workload, "a")
    Gpu.objects.create(node=Node.objects.get(name="a"), index=0, duty=0.75, memory_used=1024)
    (pod,) = body_of(api.viewer.get(f"{at}/pods"))["results"]
    assert (pod["name"], pod["namespace"], pod["phase"]) == (f"{workload.pk}-1-0", "weft-red", "Running")
    gpus = body_of(api.viewer.get(f"{at}/metrics"))["gpus"]
    assert [(one["index"], one["duty"]) for one in gpus] == [(0, 0.75), (1, None)]
    api.world.later(100)
    api.world.pods(workload, PodPhase.SUCCEEDED, exit_code=0)
    (held,) = body_of(api.viewer.get(f"{at}/allocations"))["results"]
    assert (held["attempt"], held["state"], held["gpus"], held["milli"]) == (1, "Released", [0, 1], 2000)
    assert held["milli_seconds"] >= 200_000


def test_allocations_come_in_pages(api: People) -> None:
    at, workload = submit(api.member, workers={"count": 3})
    api.world.run(workload, "a", "a", "b")
    first = body_of(api.viewer.get(f"{at}/allocations?page_size=2"))
    assert [one["rank"] for one in first["results"]] == [0, 1]
    following = first["next"].split("/api/v1")[1]
    assert [one["rank"] for one in body_of(api.viewer.get(following))["results"]] == [2]
    fields_of(api.viewer.get(f"{at}/allocations?cursor=abc"))


def test_a_cost_is_the_hours_of_all_attempts_at_the_pools_prices(api: People) -> None:
    NodePool.objects.filter(name="main").update(price_per_gpu_hour="2.500")
    at, workload = submit(api.member, resources={"gpus": 2})
    api.world.run(workload, "a")
    api.world.later(3600)
    api.world.pods(workload, PodPhase.SUCCEEDED, exit_code=0)
    api.world.account()
    cost = body_of(api.viewer.get(f"{at}/cost"))
    assert cost["allocated_gpu_hours"] == pytest.approx(2.0, abs=0.01)
    assert cost["cost"] == pytest.approx(2.5 * cost["allocated_gpu_hours"], abs=0.01)
    assert cost["idle_gpu_hours"] == pytest.approx(cost["allocated_gpu_hours"] - cost["computed_gpu_hours"])
    assert [one["pool"] for one in cost["pools"]] == ["main"]
    (pool,) = body_of(api.viewer.get("/node-pools"))["results"]
    assert pool["price_per_gpu_hour"] == 2.5


# --- types ------------------------------------------------------------------------------------


def test_each_type_is_listed_read_and_submitted_under_its_own_name(api: People) -> None:
    made = body_of(api.member.post("/trainings", {k: v for k, v in job().items() if k != "type"}), 201)
    assert made["type"] == "training"
    assert made == body_of(api.member.get(f"/trainings/{made['uid']}"))
    fields_of(api.member.get(f"/inferences/{made['uid']}"), 404)
    fields_of(api.member.send("DELETE", f"/notebooks/{made['uid']}"), 404)
    assert fields_of(api.member.post("/inferences", job("other"))) == ["type"]
    assert fields_of(api.member.post("/inferences", [])) == [""]
    assert [one["uid"] for one in body_of(api.member.get("/trainings"))["results"]] == [made["uid"]]
    assert body_of(api.member.get("/inferences"))["results"] == []
    assert fields_of(api.member.get("/trainings?type=notebook")) == ["type"]
    assert body_of(api.member.send("DELETE", f"/trainings/{made['uid']}"))["phase"] == "Stopped"


def test_a_training_tells_what_slows_it(api: People) -> None:
    _, fit = submit(api.member, name="fit")
    at = f"/trainings/{fit.pk}/diagnosis"
    silent = body_of(api.viewer.get(at))
    assert (silent["bottleneck"], silent["evidence"], silent["levels"]) == (None, [], None)
    found = Diagnosis(9, evidence={Bottleneck.NETWORK: Evidence(9.0, 0.3, (0.25, 0.35))}, bottleneck=Bottleneck.NETWORK)
    row = {"attempt": fit.attempt, "at": START, "since": START - 60, "bottleneck": "network"}
    TrainingDiagnosis.objects.create(workload=fit.pk, state=diagnosisstate.plain(found), **row)
    told = body_of(api.viewer.get(at))
    assert (told["bottleneck"], told["windows"]) == ("network", 9)
    assert told["evidence"] == [{"bottleneck": "network", "removable": 0.3, "strength": 1.0, "lately": [0.25, 0.35]}]
    assert told["message"].startswith("Its steps wait for the exchange between nodes. About 30 % of a step would go.")
    assert told["since"] < told["at"]
    assert told["batch"] is None
    _, chat = submit(api.member, name="chat", type="inference")
    fields_of(api.viewer.get(f"/trainings/{chat.pk}/diagnosis"), 404)


def test_a_training_tells_its_batch_and_what_others_would_give(api: People) -> None:
    _, fit = submit(api.member, name="fit", batch={"size": 64, "max": 256})
    at = f"/trainings/{fit.pk}/diagnosis"
    silent = {"size": 64, "named": 64, "min": 64, "max": 256, "gradient_noise": None, "curve": []}
    assert body_of(api.viewer.get(at))["batch"] == silent
    now = Allocation((1,), 1, 64, 1.0)
    course = Course(now, seen=(Observation(now, 1.0, 0.0, 0.0, 0.02),))
    kept = coursestate.plain(coursestate.Kept(fit.attempt, course))
    state = diagnosisstate.plain(Diagnosis(9), Gradients(500.0, 64.0))
    row = {"attempt": fit.attempt, "at": START, "since": START, "bottleneck": ""}
    TrainingDiagnosis.objects.create(workload=fit.pk, state=state, course=kept, **row)
    told = body_of(api.viewer.get(at))["batch"]
    assert (told["gradient_noise"], [one["examples"] for one in told["curve"]]) == (500.0, [64, 128, 256])
    assert [one["measured"] for one in told["curve"]] == [1.0, None, None]
    assert all(one["low"] <= one["goodput"] <= one["high"] for one in told["curve"])
    assert all(one["goodput"] < one["speed"] for one in told["curve"][1:])


def test_a_batch_that_cannot_be_is_named_with_what_to_do(api: People) -> None:
    asked = {"workers": {"count": 2, "max": 4}, "resources": {"gpus": 2, "cpu": 1, "memory": "1Gi"}}
    for given, field, said in (
        ({}, "batch.size", "missing"),
        ({"size": 0}, "batch.size", "at least 1"),
        ({"size": 64, "min": 65}, "batch.min", "Set min to at most 64."),
        ({"size": 64, "max": 63}, "batch.max", "Set max to at least 64."),
        (
            {"size": 7},
            "batch.size",
            "it may have 8 GPUs, and each needs an example in every step. Set it to at least 8.",
        ),
        ({"size": 64, "min": 4}, "batch.min", "batch.min is 4, but it may have 8 GPUs"),
        ({"size": 64, "least": 4}, "batch.least", "not a field"),
    ):
        answer = api.member.post("/trainings", job("fit", type="training", batch=given, **asked))
        assert fields_of(answer) == [field], given
        assert said in answer.content.decode(), given
    notebook = api.member.post("/notebooks", job("book", type="notebook", batch={"size": 64}))
    assert fields_of(notebook) == ["batch"]
    assert "It belongs to training" in notebook.content.decode()
    made, _ = submit(api.member, name="fit", batch={"size": 64})
    assert fields_of(api.member.send("PATCH", made, {"batch": {"size": 32}})) == ["batch"]


def test_a_service_tells_its_objective_and_its_replicas(api: People) -> None:
    fields = {"type": "inference", "replicas": {"min": 1, "max": 4}}
    at, plain = submit(api.member, name="plain", **fields)
    assert body_of(api.viewer.get(f"/inferences/{plain.pk}/slo"), 404)["code"] == "NoObjective"
    at, chat = submit(api.member, name="chat", objective={"p95_latency": "200ms", "availability": 99}, **fields)
    ServiceWindow.objects.create(workload=chat.pk, start=START - 60, requests=1000, over=5, p95_seconds=0.1)
    slo = body_of(api.viewer.get(f"/inferences/{chat.pk}/slo"))
    assert (slo["requests"], slo["attainment"], slo["standing"]) == (1000, 0.995, "met")
    assert slo["budget_left"] == pytest.approx(0.5)
    assert slo["burn_rates"] == pytest.approx(dict.fromkeys(("five_minutes", "half_hour", "hour", "six_hours"), 0.5))
    (minute,) = body_of(api.viewer.get(f"{at}/metrics"))["windows"]
    assert (minute["requests"], minute["over"], minute["p95_seconds"]) == (1000, 5, 0.1)
    replicas = body_of(api.viewer.get(f"/inferences/{chat.pk}/autoscaling"))
    nothing = dict.fromkeys(("sleep", "native", "standby", "raised_limit"))
    here = {"running": 0, "on_gpus": 0, "on_nodes": 0}
    assert replicas == {"min": 1, "max": 4, "wanted": 1, "changes": [], "taken": [], **here, **nothing}


def test_a_service_that_kubernetes_scales_tells_what_its_autoscaler_says(api: People) -> None:
    fields = {"type": "inference", "replicas": {"min": 1, "max": 4}, "objective": {"p95_latency": "200ms"}}
    _, chat = submit(api.member, name="chat", scaling="native", **fields)
    address = f"/inferences/{chat.pk}/autoscaling"
    first = body_of(api.viewer.get(address))["native"]
    assert (first["desired_replicas"], first["conditions"], first["seen_at"]) == (None, [], None)
    limited = ["ScalingLimited", "True", "TooManyReplicas", "more than the maximum"]
    ServiceScaler.objects.create(
        workload=chat.pk, at=START, in_flight=31_500, target=6400, seen_at=START, current=2, desired=4,
        conditions=[limited], other_owner="helm",
    )  # fmt: skip
    assert body_of(api.viewer.get(address))["native"] == {
        "requests_in_flight": 31.5,
        "target_per_replica": 6.4,
        "current_replicas": 2,
        "desired_replicas": 4,
        "conditions": [dict(zip(("type", "status", "reason", "message"), limited, strict=True))],
        "other_owner": "helm",
        "seen_at": "2026-01-01T00:00:00Z",
    }


NOT_ON_DEMAND = {"on_demand": False, "on_gpu": None, "in_host_memory": False}


def test_a_notebook_tells_its_address_and_when_it_is_parked(api: People) -> None:
    body = {"name": "explore", "team": "red", "resources": {"gpus": 1}, "idle": {"park_after": "30m"}}
    uid = body_of(api.member.post("/notebooks", body), 201)["uid"]
    found = body_of(api.viewer.get(f"/notebooks/{uid}/connect"))
    assert found == {"address": "http://explore.weft-red.svc:8888", "is_ready": False, "browser_url": None}
    Workload.objects.filter(pk=uid).update(phase="Running", started_at=START, idle_since=START + 60)
    assert body_of(api.viewer.get(f"/notebooks/{uid}/activity")) == {
        "idle_since": "2026-01-01T00:01:00Z",
        "park_after_seconds": 1800.0,
        "parks_at": "2026-01-01T00:31:00Z",
        **NOT_ON_DEMAND,
    }


def idle_notebook(api: People, **fields: Any) -> str:
    """A running one that nobody has used for a minute; its address."""
    body = {"name": "explore", "team": "red", "resources": {"gpus": 1}, **fields}
    uid = body_of(api.member.post("/notebooks", body), 201)["uid"]
    Workload.objects.filter(pk=uid).update(phase="Running", started_at=START, idle_since=START + 60)
    return f"/notebooks/{uid}"


def test_extending_a_notebook_counts_its_time_without_use_anew(api: People) -> None:
    at = idle_notebook(api, idle={"park_after": "30m"})
    counted = {"idle_since": None, "park_after_seconds": 1800.0, "parks_at": None, **NOT_ON_DEMAND}
    for _ in range(2):  # twice does it once
        assert body_of(api.member.post(f"{at}/extend")) == counted
    assert body_of(api.viewer.get(f"{at}/activity")) == counted
    event = Event.objects.get(kind="Extended")
    assert (event.actor, event.message) == ("mia", "Stays for another 30 minutes without use.")
    assert fields_of(api.member.post(f"{at}/extend", {"minutes": 5})) == [""]


def test_only_those_who_may_act_extend_a_notebook(api: People) -> None:
    at = idle_notebook(api, idle={"park_after": "30m"})
    fields_of(api.viewer.post(f"{at}/extend"), 403)
    fields_of(api.blue_admin.post(f"{at}/extend"), 404)
    fields_of(api.nobody.post(f"{at}/extend"), 401)
    assert Workload.objects.get(name="explore").idle_since == START + 60
    body_of(api.platform.post(f"{at}/extend"))


def test_what_is_never_parked_or_does_not_run_is_not_extended(api: People) -> None:
    at = idle_notebook(api)
    assert fields_of(api.member.post(f"{at}/extend"), 422) == ["idle.park_after"]
    other = idle_notebook(api, name="waits", idle={"park_after": "1h"})
    Workload.objects.filter(name="waits").update(phase="Queued")
    refused = api.member.post(f"{other}/extend")
    assert fields_of(refused, 409) == ["phase"]
    assert "does not run" in body_of(refused, 409)["detail"]


def test_what_a_team_says_of_its_notebooks(api: People) -> None:
    at = idle_notebook(api)
    said = {"notebook_park_minutes": 90, "notebook_max_milli": 500, "notebook_extend": False}
    answer = body_of(api.admin.send("PATCH", "/teams/red", said))
    assert {name: answer[name] for name in said} == said
    assert body_of(api.viewer.get("/teams/red")) | said == body_of(api.viewer.get("/teams/red"))
    assert body_of(api.viewer.get(f"{at}/activity"))["park_after_seconds"] == 5400.0
    assert fields_of(api.member.post(f"{at}/extend"), 403) == [""]
    body = {"name": "large", "team": "red", "resources": {"gpus": 1}}
    assert fields_of(api.member.post("/notebooks", body), 422) == ["resources.gpus"]
    for wrong in ({"notebook_park_minutes": -1}, {"notebook_max_milli": 0.5}, {"notebook_extend": "no"}):
        assert fields_of(api.admin.send("PATCH", "/teams/red", wrong)) == list(wrong)
    fields_of(api.member.send("PATCH", "/teams/red", {"notebook_extend": True}), 403)


# --- devices ----------------------------------------------------------------------------------


def test_devices_are_listed_with_their_machines_and_other_teams_stay_nameless(api: People) -> None:
    _, workload = submit(api.member)
    api.world.run(workload, "a")
    mine, theirs = (body_of(who.get("/gpus?page_size=1"))["results"][0] for who in (api.viewer, api.blue_member))
    assert (mine["node"], mine["index"], mine["allocated_milli"]) == ("a", 0, 1000)
    assert mine["tenants"][0]["name"] == "hello"
    assert (theirs["tenants"][0]["team"], theirs["tenants"][0]["name"]) == ("red", None)
    assert len(body_of(api.viewer.get("/gpus?node=b"))["results"]) == 8
    assert body_of(api.viewer.get("/gpus?node=c"))["results"] == []
    assert body_of(api.viewer.get("/gpus?node=b&pool=other"))["results"] == []
    (kind,) = body_of(api.viewer.get("/gpu-profiles"))["results"]
    assert (kind["gpu_model"], kind["memory_mib"], kind["gpus"], kind["nodes"]) == ("A100", 81920, 16, 2)
    (rack,) = body_of(api.viewer.get("/topologies"))["results"]
    assert [one["name"] for one in rack["nodes"]] == ["a", "b"]
    assert (rack["gpus"], rack["whole_free_gpus"]) == (16, 15)
