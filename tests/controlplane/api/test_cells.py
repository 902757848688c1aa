"""Cells over REST: told where there are some, and nowhere else."""

from controlplane.loops import schedule
from controlplane.models import Node, Workload
from controlplane.services.scheduling import policy
from tests.controlplane.api.conftest import People, body_of, fields_of

JOB = {
    "type": "training", "name": "one", "team": "red", "image": "registry.example/app:1",
    "resources": {"gpus": 8, "cpu": 1, "memory": "1Gi"},
}  # fmt: skip


def cut(api: People) -> None:
    """Node a in north, b in south."""
    Node.objects.filter(name="a").update(rack="r1")
    Node.objects.filter(name="b").update(rack="r2")
    named = {"north": {"racks": ["r1"]}, "south": {"racks": ["r2"]}}
    body_of(api.platform.post("/policies", {"scheduling": {"cells": named}}), 201)


def test_without_cells_no_answer_names_one(api: People) -> None:
    made = body_of(api.member.post("/workloads", JOB), 201)
    assert "cell" not in made
    assert "cell" not in body_of(api.viewer.get("/nodes/a"))
    assert all("parts" not in row for row in body_of(api.platform.get("/quotas"))["results"])
    assert fields_of(api.member.post("/workloads", {**JOB, "name": "two", "cell": "north"}), 422) == ["cell"]


def test_with_cells_workloads_nodes_and_quotas_tell_theirs(api: People) -> None:
    cut(api)
    made = body_of(api.member.post("/workloads", {**JOB, "cell": "south"}), 201)
    assert made["cell"] == "south"
    assert [body_of(api.viewer.get(f"/nodes/{name}"))["cell"] for name in "ab"] == ["north", "south"]
    for row in body_of(api.platform.get("/quotas"))["results"]:
        assert sum(part["nominal_milli"] for part in row["parts"]) == row["nominal_milli"]


def test_an_explanation_and_a_preview_look_at_the_cell(api: People) -> None:
    cut(api)
    first = body_of(api.member.post("/workloads", {**JOB, "cell": "north"}), 201)
    schedule.run_once(api.world.wiring)
    second = body_of(api.member.post("/workloads", {**JOB, "name": "two", "cell": "north"}), 201)
    told = body_of(api.member.get(f"/workloads/{second['uid']}/explanation"))
    assert told["reason"]
    assert Workload.objects.get(pk=first["uid"]).phase != "Queued"
    previewed = body_of(api.member.post("/workloads:preview", {**JOB, "name": "three"}))
    assert {seat["node"] for seat in previewed["placement"]} == {"b"}


def test_cells_that_are_not_are_refused_by_field(api: People) -> None:
    for named, field in (
        ({"north": {"racks": ["r9"]}}, "scheduling.cells.north.racks"),
        ({"North": {"racks": ["r1"]}}, "scheduling.cells"),
        ([], "scheduling.cells"),
    ):
        assert fields_of(api.platform.post("/policies", {"scheduling": {"cells": named}}), 422) == [field]
    assert policy.current()[1] is None
