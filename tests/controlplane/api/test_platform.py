import pytest

from controlplane.models import Action, Event, Node, Quota, Team, Usage
from tests.controlplane.api.conftest import People, body_of, fields_of, job
from tests.controlplane.state import START

GPU_HOUR = 3_600_000  # milli-GPU seconds


def test_a_team_has_quotas_and_members(api: People) -> None:
    team = body_of(api.viewer.get("/teams/red"))
    assert (team["role"], team["nominal_milli"], team["allocated_milli"], team["borrowed_milli"]) == (
        "viewer",
        8000,
        0,
        0,
    )
    assert {m["username"]: m["role"] for m in team["members"]} == {"vera": "viewer", "mia": "member", "ada": "admin"}
    assert team["quotas"] == body_of(api.viewer.get("/teams/red/quotas"))["results"]


def test_a_quota_is_read_replaced_and_changed_by_version(api: People) -> None:
    path = "/teams/red/quotas/main"
    before = api.platform.get(path)
    saved = api.platform.send(
        "PUT", path, {"nominal_milli": 12_000, "lending_limit_milli": 4000}, if_match=before["ETag"]
    )
    row = body_of(saved)
    assert (row["nominal_milli"], row["lending_limit_milli"], row["borrowing_limit_milli"]) == (12_000, 4000, None)
    assert ["add up to 20 GPUs" in warning for warning in row["warnings"]] == [True]
    assert fields_of(api.platform.send("PATCH", path, {"weight": 2}, if_match=before["ETag"]), 412) == ["version"]
    row = body_of(api.platform.send("PATCH", path, {"weight": 2, "lending_limit_milli": None}))
    assert (row["nominal_milli"], row["lending_limit_milli"], row["weight"]) == (12_000, None, 2)
    assert Event.objects.filter(kind="QuotaChanged", actor="root", team="red").count() == 2


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "nominal_milli"),
        ({"nominal_milli": -1}, 400, "nominal_milli"),
        ({"nominal_milli": 1.5}, 400, "nominal_milli"),
        ({"nominal_milli": 10**12}, 400, "nominal_milli"),
        ({"nominal_milli": None}, 400, "nominal_milli"),
        ({"nominal_milli": 1000, "weight": 0}, 400, "weight"),
        ({"nominal_milli": 1000, "lending_limit_milli": 2000}, 422, "lending_limit_milli"),
        ({"nominal": 8}, 400, "nominal"),
    ],
)
def test_a_bad_quota_is_refused_by_field(api: People, body: dict[str, object], status: int, field: str) -> None:
    before = list(Quota.objects.values())
    assert field in fields_of(api.platform.send("PUT", "/teams/red/quotas/main", body), status)
    assert list(Quota.objects.values()) == before


def test_a_quota_of_nowhere_is_404(api: People) -> None:
    for path in ("/teams/green/quotas/main", "/teams/red/quotas/none"):
        fields_of(api.platform.send("PUT", path, {"nominal_milli": 1000}), 404)
        fields_of(api.platform.send("PATCH", path, {"weight": 1}), 404)
        fields_of(api.platform.get(path), 404)


def test_machines_show_their_gpus(api: People) -> None:
    rows = body_of(api.viewer.get("/nodes?pool=main"))["results"]
    assert [(row["name"], row["gpu_count"], len(row["gpus"])) for row in rows] == [("a", 8, 8), ("b", 8, 8)]
    assert body_of(api.viewer.get("/nodes?pool=other"))["results"] == []
    assert body_of(api.viewer.get("/nodes/a")) == rows[0]
    fields_of(api.viewer.get("/nodes/c"), 404)
    page = body_of(api.viewer.get("/nodes?page_size=1"))
    assert [row["name"] for row in page["results"]] == ["a"]
    rest = body_of(api.viewer.get(page["next"].partition("/api/v1")[2]))
    assert [row["name"] for row in rest["results"]] == ["b"]
    assert rest["next"] is None


def test_a_cordoned_machine_gets_nothing_new_at_once(api: People) -> None:
    for name in ("a", "b"):
        assert body_of(api.platform.post(f"/nodes/{name}/cordon"))["schedulable"] is False
    assert body_of(api.platform.post("/nodes/a/cordon"))["schedulable"] is False
    assert list(Action.objects.values_list("verb", "payload")) == [
        ("cordon", {"node": "a", "on": True}),
        ("cordon", {"node": "b", "on": True}),
    ]
    waits = body_of(api.member.post("/workloads:preview", job()))
    assert (waits["will_start"], waits["reason"]) == (False, "WaitingForNodes")
    body_of(api.platform.post("/nodes/a/uncordon"))
    assert body_of(api.member.post("/workloads:preview", job()))["placement"][0]["node"] == "a"
    assert list(
        Event.objects.filter(actor="root", data__has_key="node").order_by("id").values_list("kind", flat=True)
    ) == [
        "Cordoned",
        "Cordoned",
        "Uncordoned",
    ]
    fields_of(api.platform.post("/nodes/none/cordon"), 404)
    assert Node.objects.get(name="a").schedulable


def test_pools_and_classes_are_listed(api: People) -> None:
    (pool,) = body_of(api.viewer.get("/node-pools"))["results"]
    assert (pool["name"], pool["nodes"], pool["gpus"], pool["nominal_milli"]) == ("main", 2, 16, 16_000)
    classes = body_of(api.viewer.get("/priority-classes"))["results"]
    assert [(c["name"], c["value"], c["is_default"]) for c in classes] == [("high", 200, False), ("normal", 100, True)]


def use(name: str, team: str, hour: int, held: int) -> None:
    Usage.objects.create(
        team=Team.objects.get(name=team),
        workload="00000000-0000-4000-8000-000000000001",
        name=name,
        user="mia",
        pool="main",
        hour=int(START) + hour * 3600,
        held=held,
        computed=held // 2,
    )


def test_usage_is_grouped_by_day_and_adds_up(api: People) -> None:
    for hour, held in ((0, GPU_HOUR), (1, 2 * GPU_HOUR), (24, 4 * GPU_HOUR)):
        use("train", "red", hour, held)
    span = "from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z"
    report = body_of(api.viewer.get(f"/usage?{span}&granularity=day&group_by=team,user"))
    assert [(row["start"], row["team"], row["user"], row["allocated_gpu_hours"]) for row in report["rows"]] == [
        ("2026-01-01T00:00:00Z", "red", "mia", 3.0),
        ("2026-01-02T00:00:00Z", "red", "mia", 4.0),
    ]
    (row,) = body_of(api.viewer.get(f"/usage?{span}&granularity=all"))["rows"]
    assert (row["allocated_milli_seconds"], row["computed_milli_seconds"]) == (7 * GPU_HOUR, 7 * GPU_HOUR // 2)
    hours = body_of(api.viewer.get(f"/usage?{span}&granularity=hour&group_by=workload"))["rows"]
    assert [(row["name"], row["allocated_gpu_hours"]) for row in hours] == [
        ("train", 1.0),
        ("train", 2.0),
        ("train", 4.0),
    ]
    assert body_of(api.blue_member.get(f"/usage?{span}"))["rows"] != []  # hours by team are everybody's
    assert body_of(api.blue_member.get(f"/usage?{span}&group_by=team,user"))["rows"] == []
    assert len(body_of(api.platform.get("/usage"))["rows"]) == 1


def test_the_cluster_tells_its_clock(api: People) -> None:
    told = body_of(api.viewer.get("/cluster"))
    assert (told["now"], told["seconds"], told["is_simulated"]) == ("2026-01-01T00:00:01Z", START + 1, True)


def test_a_drained_machine_says_what_became_of_each_workload(api: People) -> None:
    work = api.world.submit("job")
    api.world.run(work, "a")
    for who in (api.viewer, api.member, api.admin):
        fields_of(who.post("/nodes/a/drain"), 403)
    row = body_of(api.platform.post("/nodes/a/drain"))
    assert row["schedulable"] is False
    assert row["workloads"] == [{"workload": str(work.pk), "team": "red", "name": "job", "fate": "moves"}]
    assert body_of(api.platform.post("/nodes/a/drain"))["workloads"][0]["fate"] == "leaves"
    fields_of(api.platform.post("/nodes/z/drain"), 404)
