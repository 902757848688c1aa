"""The REST API of what waits: why, where in the queue, what would start it, and previews."""

from controlplane.models import Event, Quota, Workload
from controlplane.services.scheduling.policy import change
from tests.controlplane.api.conftest import People, body_of, fields_of, job, submit


def test_what_waits_is_told_why_and_where_in_the_queue(api: People) -> None:
    first = submit(api.member, "first", resources={"gpus": 8}, workers={"count": 2})
    api.world.run(Workload.objects.get(pk=first["uid"]), "a", "b")
    second, third = submit(api.member, "second"), submit(api.member, "third")
    told = body_of(api.member.get(f"/workloads/{second['uid']}/explanation"))
    assert told["reason"]
    assert told["message"]
    assert (told["position"], told["will_start"]) == (1, False)
    assert {check["name"] for check in told["checks"]} == {"Quota", "Order", "Placement", "Preemption"}
    queue = body_of(api.member.get("/queue"))["results"]
    assert [(row["uid"], row["position"]) for row in queue] == [(second["uid"], 1), (third["uid"], 2)]
    assert queue[0]["reason"] == told["reason"]
    assert body_of(api.blue_member.get("/queue"))["results"] == []
    start = told["expected_start"]
    assert start["low"] < start["median"] < start["high"]
    assert start["cluster_seconds"]["low"] > api.world.cluster.at
    later = body_of(api.member.post("/workloads:preview", job("fourth")))["expected_start"]
    assert later["median"] >= start["median"]
    running = body_of(api.member.get(f"/workloads/{first['uid']}/explanation"))
    assert running["expected_start"] is None
    assert (running["position"], running["will_start"]) == (None, None)


def test_what_waits_is_told_what_would_start_it_and_of_other_teams_only_which(api: People) -> None:
    held = [submit(api.member, "first", resources={"gpus": 8})]
    held.append(body_of(api.blue_member.post("/workloads", job("secret", "blue", resources={"gpus": 8})), 201))
    for row, node in zip(held, ("a", "b"), strict=True):
        api.world.run(Workload.objects.get(pk=row["uid"]), node)
    waiting = submit(api.member, "second", resources={"gpus": 1})
    told = body_of(api.member.get(f"/workloads/{waiting['uid']}/explanation"))
    stops = [one for one in told["suggestions"] if one["kind"] == "stop"]
    assert stops, told
    assert all(one["tested"] and one["is_smallest"] for one in told["suggestions"])
    assert (stops[0]["target"], stops[0]["text"]) in (
        (held[0]["uid"], stops[0]["text"]), ("", "Stop a workload of team blue."),
    )  # fmt: skip
    previewed = body_of(api.member.post("/workloads:preview", job("third", resources={"gpus": 1})))
    assert set(told) - {"uid", "phase", "since", "changed_by_weft"} <= set(previewed)
    assert {check["name"] for check in previewed["checks"]} == {"Quota", "Order", "Placement", "Preemption"}


def test_under_a_reference_policy_it_says_that_changes_are_not_searched_for(api: People) -> None:
    first = submit(api.member, "first", resources={"gpus": 8})
    api.world.run(Workload.objects.get(pk=first["uid"]), "a")
    waiting = submit(api.member, "second", resources={"gpus": 8}, workers={"count": 2})
    assert body_of(api.member.get(f"/workloads/{waiting['uid']}/explanation"))["no_suggestions"] == ""
    change(changes={"scheduling": {"policy": "fifo"}}, author="ada")
    told = body_of(api.member.get(f"/workloads/{waiting['uid']}/explanation"))
    assert (told["will_start"], told["suggestions"]) == (False, [])
    assert "fifo is in use" in told["no_suggestions"]
    assert "fifo is in use" in body_of(api.member.post("/workloads:preview", job("third")))["no_suggestions"]
    assert body_of(api.member.get(f"/workloads/{first['uid']}/explanation"))["no_suggestions"] == ""


def test_the_queue_is_paged_by_position(api: People) -> None:
    body_of(api.member.post("/workloads:batch", [job(f"j-{i}", resources={"gpus": 8}) for i in range(5)]), 201)
    page = body_of(api.member.get("/queue?page_size=3"))
    rest = body_of(api.member.get(page["next"].partition("/api/v1")[2]))
    assert [row["position"] for row in page["results"] + rest["results"]] == [1, 2, 3, 4, 5]


def test_what_starts_after_other_work_is_listed_behind_the_queue_without_a_place(api: People) -> None:
    steps = [job("prepare", resources={"gpus": 8}), *(job(f"step-{i}", after=["prepare"]) for i in range(3))]
    body_of(api.member.post("/workloads:batch", [*steps, job("wide", resources={"gpus": 8})]), 201)
    rows, path = [], "/queue?page_size=2"
    while path:
        page = body_of(api.member.get(path))
        rows += page["results"]
        path = (page["next"] or "").partition("/api/v1")[2]
    assert [(row["name"], row["position"]) for row in rows] == [
        ("prepare", 1), ("wide", 2), ("step-0", None), ("step-1", None), ("step-2", None),
    ]  # fmt: skip
    told = body_of(api.member.get(f"/workloads/{rows[2]['uid']}/explanation"))
    assert (told["position"], told["in_queue"], told["will_start"]) == (None, 2, False)
    assert told["no_suggestions"]
    told = body_of(api.member.get(f"/workloads/{rows[1]['uid']}/explanation"))
    assert (told["position"], told["in_queue"]) == (2, 2)


def test_a_preview_tells_what_a_submission_would_meet_and_writes_nothing(api: People) -> None:
    before = (Workload.objects.count(), Event.objects.count())
    told = body_of(api.member.post("/workloads:preview", job(resources={"gpus": 4})))
    assert (told["will_start"], told["phase"], told["position"]) == (True, "Admitted", 1)
    assert len(told["placement"][0]["gpus"]) == 4
    assert told["workload"]["normalised"]["gpus"] == 4
    assert fields_of(api.member.post("/workloads:preview", job(resources={"gpus": 9})), 422) == ["resources.gpus"]
    assert (Workload.objects.count(), Event.objects.count()) == before
    submit(api.member, "first")
    assert fields_of(api.member.post("/workloads:preview", job("first")), 409) == ["name"]
    waits = body_of(api.member.post("/workloads:preview", job("later", after=["first"])))
    assert (waits["will_start"], waits["reason"]) == (False, "AdmissionGated")


def test_a_preview_prices_standby_within_what_the_team_may_hold(api: People) -> None:
    service = job(
        "chat",
        type="inference",
        replicas={"min": 1, "max": 5},
        resources={"gpu_share": {"guarantee": 1, "memory": "6Gi"}},
        objective={"p95_latency": "1s"},
        standby="auto",
    )
    for name in ("workers", "gpus"):
        service.pop(name, None)
    told = body_of(api.member.post("/workloads:preview", service))
    assert told["standby"].startswith("Standby holds up to 4 GPUs, 96 GPU hours a day. It")
    Quota.objects.filter(team__name="red").update(nominal=2000, borrowing_limit=1000)
    told = body_of(api.member.post("/workloads:preview", service))
    assert told["standby"].startswith("Standby holds up to 2 GPUs, 48 GPU hours a day, not 4: the team's quotas let it")


def test_victims_of_other_teams_stay_nameless_in_a_preview(api: People) -> None:
    secret = body_of(api.blue_member.post("/workloads", job("secret", "blue", resources={"gpus": 8})), 201)
    more = body_of(api.blue_member.post("/workloads", job("more", "blue", resources={"gpus": 8})), 201)
    for row, node in ((secret, "a"), (more, "b")):  # 16 GPUs held, 8 owned: blue borrows what red owns
        api.world.run(Workload.objects.get(pk=row["uid"]), node)
    api.world.later(3600)
    api.world.observe()
    told = body_of(api.member.post("/workloads:preview", job("mine", resources={"gpus": 8})))
    assert told["phase"] == "Reserved"
    assert [(victim["team"], victim["name"], victim["uid"]) for victim in told["evicts"]] == [("blue", None, None)]
    told = body_of(api.platform.post("/workloads:preview", job("mine", resources={"gpus": 8})))
    assert told["evicts"][0]["name"] in ("secret", "more")
