"""The list of cells over REST: who decides for each, what is there, and what each reader may see of the quotas."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.loops import schedule
from controlplane.models import Heartbeat, Lease, Node, NodePool, Quota, Team
from tests.controlplane.api.conftest import People, body_of, fields_of
from tests.controlplane.api.test_cells import JOB, cut
from tests.controlplane.api.test_schema import document, validator


def cells(api: People, who: str = "platform") -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in body_of(getattr(api, who).get("/cells"))["results"]}


def test_one_cell_is_no_cell(api: People) -> None:
    schedule.run_once(api.world.wiring)
    assert body_of(api.platform.get("/cells")) == {"next": None, "results": []}


def test_each_cell_tells_its_nodes_and_its_work(api: People) -> None:
    cut(api)
    body_of(api.member.post("/workloads", {**JOB, "cell": "north"}), 201)
    schedule.run_once(api.world.wiring)
    body_of(api.member.post("/workloads", {**JOB, "name": "two", "cell": "north"}), 201)
    found = cells(api)
    assert list(found) == ["north", "rest", "south"]
    names = ("node_pools", "racks", "nodes", "capacity_milli", "running", "waiting")
    assert [found["north"][name] for name in names] == [["main"], ["r1"], 1, 8000, 1, 1]
    assert [found["south"][name] for name in names] == [["main"], ["r2"], 1, 8000, 0, 0]
    assert found["north"]["allocated_milli"] == 8000
    validator(document(), "CellList").validate(body_of(api.viewer.get("/cells")))


def test_gpus_count_where_their_nodes_are(api: People) -> None:
    cut(api)
    api.world.run(api.world.submit("runs", gpus=8), "b")
    assert {name: row["allocated_milli"] for name, row in cells(api).items()} == {"north": 0, "rest": 0, "south": 8000}


def test_a_decider_is_new_then_decides_then_is_late_and_then_there_is_none(api: People) -> None:
    cut(api)

    def state() -> str:
        return str(cells(api)["north"]["decider"]["state"])

    assert state() == "none"
    schedule.run_once(api.world.wiring)
    assert state() == "deciding"
    Lease.objects.filter(name="schedule/north").update(holder="another")
    assert state() == "taken-over"
    Heartbeat.objects.filter(loop="schedule/north").update(at=timezone.now() - timedelta(seconds=40))
    told = cells(api)["north"]["decider"]
    assert (told["state"], told["holder"]) == ("late", "another")
    assert told["seconds_since_round"] > 39
    Lease.objects.filter(name="schedule/north").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert state() == "none"
    assert cells(api)["south"]["decider"]["state"] == "deciding"
    assert cells(api)["rest"]["decider"]["state"] == "deciding", "its lease has no name of a cell"


def test_parts_add_up_to_the_quota_beside_them(api: People) -> None:
    cut(api)
    parts = [part for row in cells(api).values() for part in row["quotas"] if part["team"] == "red"]
    (whole,) = {part["quota_nominal_milli"] for part in parts}
    assert sum(part["nominal_milli"] for part in parts) == whole == Quota.objects.get(team__name="red").nominal


def test_only_platform_admins_read_where_a_decider_runs_and_what_others_have(api: People) -> None:
    cut(api)
    schedule.run_once(api.world.wiring)
    Heartbeat.objects.filter(loop="schedule/north").update(error="no room on host-7")
    for who, holder, error, teams in (
        ("platform", api.world.wiring.holder, "no room on host-7", {"red", "blue"}),
        ("admin", None, None, {"red"}),
        ("member", None, None, {"red"}),
        ("viewer", None, None, {"red"}),
    ):
        found = cells(api, who)
        assert (found["north"]["decider"]["holder"], found["north"]["decider"]["error"]) == (holder, error), who
        assert {part["team"] for row in found.values() for part in row["quotas"]} == teams, who
        assert found["north"]["nodes"] == 1, who


def test_the_number_of_queries_does_not_grow(api: People) -> None:
    cut(api)

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            body_of(api.member.get("/cells"))
        return len(seen)

    queries()
    few = queries()
    pool, red = NodePool.objects.get(), Team.objects.get(name="red")
    for i in range(20):
        Quota.objects.create(team=Team.objects.create(name=f"t{i}", parent=red), pool=pool, nominal=0)
        Node.objects.create(name=f"n{i}", pool=pool, rack=f"r{i}")
    assert queries() == few <= 20


@pytest.mark.parametrize("path", ["/workloads", "/workloads:preview"])
def test_a_cell_that_there_is_not_is_refused_by_name(api: People, path: str) -> None:
    cut(api)
    answer = api.member.post(path, {**JOB, "cell": "west"})
    assert fields_of(answer, 422) == ["cell"]
    assert "There is no cell west. The cells are rest, north, south." in answer.content.decode()
