import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.cluster.port import ClusterUnreachable, LogLine, PodPhase
from controlplane.models import Event, ServiceWindow, Workload
from controlplane.runtime import logs
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job, submit


def test_a_short_job_file_is_queued_and_answered_with_its_defaults(api: People) -> None:
    answer = api.member.post("/workloads", job(resources={"gpus": 2, "memory": "64Gi"}))
    made = body_of(answer, 201)
    assert answer["Location"].endswith(f"/api/v1/workloads/{made['uid']}")
    assert answer["ETag"] == f'"{made["version"]}"'
    assert (made["phase"], made["created_by"], made["priority_class"]) == ("Queued", "mia", "normal")
    assert made["spec"]["resources"] == {"gpus": 2, "cpu": 1, "memory": "64Gi"}
    assert made["spec"]["workers"] == {"count": 1, "min": 1, "max": 1}
    assert made["normalised"]["memory_mib"] == 65536
    assert made["resources"]["milli_gpu"] == 2000
    assert body_of(api.member.get(f"/workloads/{made['uid']}")) == made


def test_the_answered_job_file_makes_the_same_workload_again(api: People) -> None:
    first = submit(api.member, env={"EPOCHS": "3"}, checkpoint={"interval": "10m"}, max_duration="6h")
    again = body_of(api.member.post("/workloads", {**first["spec"], "name": "again"}), 201)  # type: ignore[dict-item]
    assert again["normalised"] == first["normalised"]


def test_roles_are_answered_with_what_they_ask_and_refused_by_field(api: People) -> None:
    roles = [{"name": "ps", "count": 2, "resources": {"cpu": 4}}, {"name": "chief", "resources": {"gpus": 1}}]
    made = submit(api.member, workers={"count": 2}, roles=roles)
    assert made["roles"][0] == {  # type: ignore[index]
        "name": "ps", "count": 2, "placed": 0, "running": 0,
        "resources": {"gpus": 0, "gpu_models": [], "share": None, "gpu_memory_mib": 0, "cpu_milli": 4000,
                      "memory_mib": 2048, "milli_gpu": 0},
    }  # fmt: skip
    assert made["resources"]["milli_gpu"] == 3000  # type: ignore[index]
    again = body_of(api.member.post("/workloads", {**made["spec"], "name": "again"}), 201)  # type: ignore[dict-item]
    assert again["roles"] == made["roles"]
    wrong = api.member.post("/workloads", job("third", roles=[{"name": "ps", "resources": {"cpu": 0}}]))
    assert fields_of(wrong) == ["roles.0.resources.cpu"]


def test_the_preview_says_where_each_role_would_be(api: People) -> None:
    roles = [{"name": "ps", "resources": {"cpu": 1}}]
    seen = body_of(api.member.post("/workloads:preview", job(roles=roles)))
    assert [(p["role"], p["index"]) for p in seen["placement"]] == [("ps", 0), ("worker", 0)]


def test_every_type_can_be_submitted(api: People) -> None:
    share = {"gpu_share": {"guarantee": 0.3, "memory": "10Gi"}}
    notebook = {"type": "notebook", "name": "explore", "team": "red", "resources": share}
    service = job("chat", type="inference", replicas={"min": 2, "max": 6}, objective={"p95_latency": "200ms"})
    made = body_of(api.member.post("/workloads", notebook), 201)
    assert made["resources"]["share"] == {"guarantee_milli": 300, "limit_milli": 300, "memory_mib": 10240}
    assert made["resources"]["milli_gpu"] == 300
    made = body_of(api.member.post("/workloads", service), 201)
    assert made["workers"] == {"count": 2, "min": 2, "max": 6, "placed": 0, "running": 0}


def test_what_can_be_reached_has_an_address_until_it_ends(api: People) -> None:
    notebook = {"type": "notebook", "name": "explore", "team": "red", "resources": {"gpus": 1}}
    made = body_of(api.member.post("/workloads", notebook), 201)
    assert made["address"] == "http://explore.weft-red.svc:8888"
    assert submit(api.member)["address"] is None
    api.member.post(f"/workloads/{made['uid']}/stop")
    assert body_of(api.member.get(f"/workloads/{made['uid']}"))["address"] is None


def test_an_idle_notebook_says_since_when(api: People) -> None:
    notebook = {"type": "notebook", "name": "explore", "team": "red", "resources": {"gpus": 1}}
    uid = body_of(api.member.post("/workloads", notebook), 201)["uid"]

    def idle(**columns: object) -> object:
        Workload.objects.filter(pk=uid).update(**columns)
        return body_of(api.member.get(f"/workloads/{uid}"))["idle_since"]

    assert idle(idle_since=1_767_225_900.0) is None  # it does not run
    assert idle(phase="Running", started_at=1_767_225_600.0) == "2026-01-01T00:05:00Z"
    assert idle(started_at=1_767_226_000.0) is None  # that was an earlier attempt


def test_a_batch_is_a_pipeline_in_any_order(api: People) -> None:
    answer = api.member.post("/workloads:batch", [job("train", after=["prepare"]), job("prepare")])
    train, prepare = body_of(answer, 201)["results"]
    assert (train["name"], train["unmet"], prepare["unmet"]) == ("train", ["prepare"], [])


def test_what_a_workload_starts_after_is_shown_with_its_rule_and_whether_it_is_met(api: People) -> None:
    body_of(api.member.post("/workloads", job("prepare")), 201)
    after = ["prepare", {"name": "probe", "when": "ended"}]
    body_of(api.member.post("/workloads", job("probe")), 201)
    made = body_of(api.member.post("/workloads", job("train", after=after)), 201)
    assert made["spec"]["after"] == after
    assert api.member.post(f"/workloads/{made['uid']}/stop").status_code == 200
    body_of(api.member.post("/workloads", job("train", after=after)), 201)
    (probe,) = body_of(api.viewer.get("/workloads?name=probe"))["results"]
    assert api.member.post(f"/workloads/{probe['uid']}/stop").status_code == 200
    (row,) = body_of(api.viewer.get("/workloads?name=train&phase=Queued"))["results"]
    assert row["after"] == ["prepare", "probe"]
    assert row["starts_after"] == [
        {"name": "prepare", "when": "", "met": False},
        {"name": "probe", "when": "ended", "met": True},
    ]
    (prepare,) = body_of(api.viewer.get("/workloads?name=prepare"))["results"]
    assert api.member.post(f"/workloads/{prepare['uid']}/stop").status_code == 200
    ended = body_of(api.viewer.get(f"/workloads/{row['uid']}"))
    assert (ended["phase"], ended["reason"], ended["unmet"]) == ("Stopped", "DependencyFailed", ["prepare"])
    assert ended["message"].startswith("It starts after prepare has succeeded, but prepare was stopped.")
    assert body_of(api.viewer.get("/queue"))["results"] == []


@pytest.mark.parametrize("given", ["Waiting", "Queued,Waiting", "queued", "Queued Held", ""])
def test_a_phase_that_there_is_not_is_refused_with_those_there_are(api: People, given: str) -> None:
    answer = api.viewer.get(f"/workloads?phase={given}")
    assert fields_of(answer, 400) in (["phase.0"], ["phase.1"])
    assert "Use Submitted, Queued, Held" in answer.json()["errors"][0]["message"]
    assert "or Expired." in answer.json()["errors"][0]["message"]


def test_a_batch_with_one_fault_writes_nothing_and_says_where(api: People) -> None:
    assert fields_of(api.member.post("/workloads:batch", [job("a"), job("b", gpus=1), job("c", retries=-1)])) == [
        "1.gpus",
        "2.retries",
    ]
    assert fields_of(api.member.post("/workloads:batch", [job("a"), job("b", team="blue")]), 404) == ["1.team"]
    assert fields_of(api.member.post("/workloads:batch", [job("a"), job("a")]), 409) == ["name"]
    assert not Workload.objects.exists()


def test_lists_filter_and_page_by_a_cursor(api: People) -> None:
    names = [f"job-{i}" for i in range(5)]
    body_of(api.member.post("/workloads:batch", [job(name) for name in names]), 201)
    body_of(api.blue_member.post("/workloads", job("other", "blue")), 201)
    seen: list[str] = []
    path = "/workloads?ordering=seq&page_size=2"
    while path:
        page = body_of(api.member.get(path))
        seen += [row["name"] for row in page["results"]]
        path = (page["next"] or "").partition("/api/v1")[2]
    assert seen == names

    def found(query: str, who: Caller = api.member) -> list[str]:
        return [row["name"] for row in body_of(who.get(f"/workloads?{query}"))["results"]]

    assert found("name=job-3") == ["job-3"]
    assert found("q=B-4") == ["job-4"]
    assert found("phase=Running,Succeeded") == []
    assert len(found("phase=Queued,Running&type=training")) == 5
    assert found("team=blue") == []
    assert found("team=blue", api.platform) == ["other"]
    assert found("") == names[::-1]


def test_every_row_of_a_list_says_what_the_workload_says_itself(api: People) -> None:
    share = {"gpu_share": {"guarantee": 0.3, "memory": "10Gi"}}
    places = {"gpus": 2, "gpu_model": ["A100", "H100"], "gpu_memory": "40Gi"}
    made = [
        submit(api.member, "gang", workers={"count": 2, "min": 1}, resources=places),
        submit(api.member, "later", after=["gang"]),
        submit(api.member, "chat", type="inference", replicas={"min": 2, "max": 6}, port=8000),
        submit(api.member, "explore", type="notebook", resources=share),
        submit(api.member, "ended"),
    ]
    api.world.run(Workload.objects.get(name="gang"), "a", "b")
    Workload.objects.filter(name="explore").update(phase="Running", started_at=1.5, idle_since=2.5)
    Workload.objects.filter(name="ended").update(
        phase="Failed", created_by=None, exit_code=3, ended_at=9.25, failures=1
    )
    Workload.objects.filter(name="later").update(reason="QuotaExhausted", message="Why.", reason_at=4.0, progress=0.5)
    rows = body_of(api.member.get("/workloads?ordering=seq"))["results"]
    read = [body_of(api.member.get(f"/workloads/{one['uid']}")) for one in made]
    in_full = {"spec", "normalised", "expected_start"}
    assert rows == [{name: value for name, value in one.items() if name not in in_full} for one in read]
    assert (rows[0]["workers"]["running"], rows[1]["unmet"], rows[4]["created_by"]) == (2, ["gang"], "")


def test_a_list_takes_the_same_number_of_queries_however_long(
    api: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    body_of(api.member.post("/workloads:batch", [job(f"a-{i}") for i in range(3)]), 201)
    Workload.objects.update(attempt=1)  # only what was placed once can have places
    api.member.get("/workloads")
    # Token, roles (2), which workloads, the workloads, their places; a token's use is noted at most once a minute.
    with django_assert_num_queries(6):
        api.member.get("/workloads")
    body_of(api.member.post("/workloads:batch", [job(f"b-{i}") for i in range(40)]), 201)
    with django_assert_num_queries(6):
        assert len(body_of(api.member.get("/workloads"))["results"]) == 43


def _serve(api: People, name: str, **more: object) -> Workload:
    """A service that runs."""
    made = api.world.submit(name, kind="inference", team="red", **more)
    api.world.run(made, "a")
    return made


def test_a_list_says_how_each_service_stands(api: People) -> None:
    promised = {"p95_latency": "200ms", "availability": 99.0, "window": "1d"}
    names = {"kept": 0, "broken": 30, "silent": None, "ended": 0}
    for name, over in names.items():
        made = _serve(api, name, objective=promised)
        if over is not None:
            start = api.world.cluster.at - 120
            ServiceWindow.objects.create(workload=made.pk, start=start, requests=1000, over=over, p95_seconds=0.1)
    Workload.objects.filter(name="ended").update(phase="Stopped")
    submit(api.member, name="promises-nothing", type="inference")
    api.world.run(Workload.objects.get(name="promises-nothing"), "b")
    submit(api.member, name="trains")
    rows = {row["name"]: row for row in body_of(api.member.get("/workloads"))["results"]}
    assert {name: row["standing"] for name, row in rows.items()} == {
        "kept": "met", "broken": "violated", "silent": "not known",
        "ended": None, "promises-nothing": None, "trains": None,
    }  # fmt: skip
    for name in ("kept", "broken", "silent"):
        assert body_of(api.member.get(f"/inferences/{rows[name]['uid']}/slo"))["standing"] == rows[name]["standing"]


def test_a_list_of_services_takes_the_same_number_of_queries_however_long(
    api: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    promised = {"p95_latency": "200ms", "availability": 99.0, "window": "1d"}
    for n in range(2):
        _serve(api, f"a-{n}", objective=promised)
    api.member.get("/workloads")
    # Those of any list, the clock, the services, and their requests over the whole window and lately.
    with django_assert_num_queries(6 + 4):
        api.member.get("/workloads")
    for n in range(9):
        _serve(api, f"b-{n}", objective=promised)
    with django_assert_num_queries(6 + 4):
        assert len(body_of(api.member.get("/workloads"))["results"]) == 11


def test_an_unseen_version_is_not_overwritten(api: People) -> None:
    made = submit(api.member, workers={"count": 2, "min": 1, "max": 4})
    path = f"/workloads/{made['uid']}"
    changed = api.member.send(
        "PATCH", path, {"workers": {"max": 6}, "expected_duration": "2h"}, if_match=f'"{made["version"]}"'
    )
    row = body_of(changed)
    assert row["workers"] == {"count": 2, "min": 1, "max": 6, "placed": 0, "running": 0}
    assert row["normalised"]["expected_seconds"] == 7200
    assert row["spec"]["expected_duration"] == "2h"
    assert changed["ETag"] != f'"{made["version"]}"'
    late = api.member.send("PATCH", path, {"labels": {"a": "b"}}, if_match=f'"{made["version"]}"')
    assert fields_of(late, 412) == ["version"]
    row = body_of(api.member.send("PATCH", path, {"expected_duration": None, "priority_class": "high"}))
    assert (row["priority"], "expected_duration" in row["spec"]) == (200, False)


def test_a_job_file_is_applied_as_what_its_name_should_be(api: People) -> None:
    def apply(who: Caller = api.member, status: int = 200, **fields: object) -> dict[str, object]:
        return body_of(who.post("/workloads:apply", job(**fields)), status)  # type: ignore[no-any-return]

    first = apply(
        workers={"count": 2}, resources={"gpus": 1, "memory": "1Gi"}, priority_class="high", max_duration="2h"
    )
    assert (first["outcome"], first["changed"]) == ("created", [])
    same = {"workers": {"count": 2}, "priority_class": "high", "max_duration": "120m"}
    again = apply(**same, resources={"gpus": 1, "memory": "1024Mi"})
    assert (again["outcome"], again["workload"]) == ("unchanged", first["workload"])
    changed = apply(workers={"count": 4, "min": 2}, resources={"gpus": 1, "memory": "1Gi"}, labels={"a": "b"})
    assert (changed["outcome"], sorted(changed["changed"])) == (  # type: ignore[call-overload]
        "configured", ["labels", "max_duration", "priority_class", "workers"],
    )  # fmt: skip
    row = body_of(api.member.get(f"/workloads/{first['workload']['uid']}"))  # type: ignore[index]
    assert (row["workers"]["count"], row["priority_class"], row["spec"]["labels"]) == (4, "normal", {"a": "b"})
    assert "max_duration" not in row["spec"]
    assert Workload.objects.count() == 1


def test_what_cannot_change_and_who_may_not_change_it_leave_an_applied_job_as_it_was(api: People) -> None:
    made = submit(api.member)
    assert fields_of(api.member.post("/workloads:apply", job(image="example/other:2", labels={"a": "b"}))) == ["image"]
    assert body_of(api.member.get(f"/workloads/{made['uid']}")) == made
    assert api.viewer.post("/workloads:apply", job(labels={"a": "b"})).status_code == 403
    assert api.viewer.post("/workloads:apply", job("other")).status_code == 403
    assert api.blue_member.post("/workloads:apply", job(labels={"a": "b"})).status_code == 404
    api.world.run(Workload.objects.get(pk=made["uid"]), "a")
    assert fields_of(api.member.post("/workloads:apply", job(workers={"count": 2})), 409) == ["workers"]


def test_the_name_of_what_has_ended_is_applied_anew(api: People) -> None:
    made = submit(api.member)
    api.member.post(f"/workloads/{made['uid']}/stop")
    done = body_of(api.member.post("/workloads:apply", job()))
    assert (done["outcome"], done["workload"]["uid"] != made["uid"]) == ("created", True)


def test_an_empty_patch_writes_nothing(api: People) -> None:
    made = submit(api.member)
    before = Event.objects.count()
    assert body_of(api.member.send("PATCH", f"/workloads/{made['uid']}", {})) == made
    assert Event.objects.count() == before


def test_what_cannot_change_is_named(api: People) -> None:
    made = submit(api.member)
    answer = api.member.send("PATCH", f"/workloads/{made['uid']}", {"name": "x", "phase": "Running", "team": "blue"})
    assert fields_of(answer) == ["name", "phase", "team"]


def test_actions_do_twice_what_they_do_once(api: People) -> None:
    made = submit(api.member)
    path = f"/workloads/{made['uid']}"
    assert body_of(api.member.post(f"{path}/suspend"))["phase"] == "Held"
    assert body_of(api.member.post(f"{path}/suspend", {}))["phase"] == "Held"
    assert body_of(api.member.post(f"{path}/resume"))["phase"] == "Queued"
    assert body_of(api.member.post(f"{path}/requeue"))["phase"] == "Queued"
    assert body_of(api.member.post(f"{path}/stop"))["phase"] == "Stopped"
    assert body_of(api.member.send("DELETE", path))["phase"] == "Stopped"
    assert fields_of(api.member.post(f"{path}/resume"), 409) == ["phase"]
    assert body_of(api.member.get(path))["ended_at"]


def test_a_running_workload_shows_its_places_and_events(api: People) -> None:
    made = submit(api.member, workers={"count": 2})
    workload = Workload.objects.get(pk=made["uid"])
    api.world.run(workload, "a", "b")
    row = body_of(api.member.get(f"/workloads/{made['uid']}"))
    assert (row["phase"], row["workers"]["placed"], row["workers"]["running"]) == ("Running", 2, 2)
    placement = body_of(api.member.get(f"/workloads/{made['uid']}/placement"))
    assert [(w["rank"], w["node"], w["gpus"]) for w in placement["workers"]] == [(0, "a", [0]), (1, "b", [0])]
    events = body_of(api.member.get(f"/workloads/{made['uid']}/events"))["results"]
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)
    assert events[0]["actor"] == "mia"
    newest = body_of(api.member.get(f"/workloads/{made['uid']}/events?ordering=-id&page_size=1"))
    assert newest["results"] == [events[-1]]
    assert newest["next"]


def test_logs_are_read_from_the_cluster(api: People, monkeypatch: pytest.MonkeyPatch) -> None:
    made = submit(api.member)
    workload = Workload.objects.get(pk=made["uid"])
    asked: list[tuple[object, ...]] = []

    def read(*question: object) -> tuple[LogLine, ...]:
        asked.append(question)
        return (LogLine(1_767_225_605.0, 0, "step 1"), LogLine(1_767_225_606.5, 0, "\x1b[31m</script>"))

    monkeypatch.setattr(logs, "_reader", read)
    path = f"/workloads/{made['uid']}/logs"
    assert body_of(api.member.get(path)) == {"attempt": 0, "next_since": None, "lines": []}
    api.world.run(workload, "a")
    found = body_of(api.member.get(f"{path}?tail=20&rank=0&since=1767225600.5"))
    assert [line["text"] for line in found["lines"]] == ["step 1", "\x1b[31m</script>"]
    assert (found["next_since"], found["lines"][0]["at"]) == (1_767_225_606.5, "2026-01-01T00:00:05Z")
    assert asked == [(made["uid"], 1, 0, 20, 1_767_225_600.5)]
    api.world.pods(workload, PodPhase.SUCCEEDED)
    assert len(body_of(api.viewer.get(path))["lines"]) == 2


def test_logs_say_when_the_cluster_does_not_answer(api: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*question: object) -> tuple[LogLine, ...]:
        raise ClusterUnreachable("no route")

    made = submit(api.member)
    api.world.run(Workload.objects.get(pk=made["uid"]), "a")
    monkeypatch.setattr(logs, "_reader", read)
    answer = api.member.get(f"/workloads/{made['uid']}/logs")
    assert fields_of(answer, 503) == [""]
    assert answer["Retry-After"] == "1"
