"""On a large cluster that is cut into cells reads ask the newest full round of each, and of no other, cell."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from controlplane.domain.deciders import decider_of
from controlplane.loops import predict_starts, schedule
from controlplane.loops.pace import Pace
from controlplane.models import Node, RoundView, Workload
from controlplane.queries.cells import views
from controlplane.queries.rounds import decider
from controlplane.queries.rounds.lineup import Line
from controlplane.queries.scheduling import snapshot
from controlplane.queries.workloads import whatif
from controlplane.services.cells import rearranging
from controlplane.services.scheduling import policy
from scheduler.model.decision import Reason
from tests.controlplane.api.conftest import Caller, People, body_of, submit
from tests.controlplane.api.test_kept_reads import decide, same, told

SMALL = override_settings(DRY_RUN_MOST=1000)
ONLY_SEARCHED = {"suggestions", "no_suggestions", "remedies", "no_remedies"}


@pytest.fixture(autouse=True)
def large() -> Iterator[None]:
    """Any cluster is a large one."""
    with override_settings(DRY_RUN_MOST=0):
        yield


def full(api: People) -> list[dict[str, Any]]:
    """Cells north and south of one node each, both full; three workloads wait in the first, two in the other."""
    for node, rack in (("a", "r1"), ("b", "r2")):
        api.world.cluster.nodes[node] = replace(api.world.cluster.nodes[node], rack=rack)
    api.world.observe_all()
    cut(north={"racks": ["r1"]}, south={"racks": ["r2"]})
    for owner, cell, node in ((api.member, "north", "a"), (api.blue_member, "south", "b")):
        api.world.run(Workload.objects.get(pk=waits(owner, cell, cell, 8)["uid"]), node)
    asked = (("x", "north", 2), ("y", "south", 2), ("z", "north", 1))
    waiting = [waits(api.member, *one) for one in asked]
    return [*waiting, waits(api.blue_member, "p", "north", 4), waits(api.blue_member, "q", "south", 1)]


def cut(**cells: Any) -> None:
    policy.change(changes={"scheduling": {"cells": cells}}, author="ann")


def waits(who: Caller, name: str, cell: str, gpus: int) -> dict[str, Any]:
    team = "blue" if who.user and who.user.username == "bob" else "red"
    return submit(who, name, team, resources={"gpus": gpus}, cell=cell)


def settled(api: People) -> None:
    """A full round of each cell, by parts of the quotas that stay as they are."""
    for _ in range(4):
        decide(api)
    api.world.wiring.kept["divide due"] = api.world.cluster.at + 1000.0
    decide(api)


def dry() -> Line:
    return whatif.dry_line(*(snapshot.full(view=view) for view in views.every()))


def queue(api: People, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = body_of(api.platform.get(f"/queue{query}"))
    return found


def test_the_queue_is_that_of_a_round_of_each_cells_own(api: People) -> None:
    full(api)
    settled(api)
    assert set(RoundView.objects.values_list("name", flat=True)) == {"schedule", "schedule/north", "schedule/south"}
    line = whatif.line()
    assert line.is_kept
    assert line.as_of == api.world.cluster.at
    assert sorted(turn.position or 0 for turn in line.turns) == [1, 1, 2, 2, 3]
    assert line.turns == dry().turns
    kept = queue(api)
    with SMALL:
        assert queue(api) == kept


def test_every_page_of_the_queue_goes_on_where_the_one_before_ended(api: People) -> None:
    full(api)
    settled(api)
    found, query = list[str](), "?page_size=1"
    while query:
        page = queue(api, query)
        found += [row["name"] for row in page["results"]]
        query = f"?{page['next'].partition('?')[2]}" if page["next"] else ""
    assert found == [row["name"] for row in queue(api)["results"]]
    assert sorted(found) == ["p", "q", "x", "y", "z"]


def test_an_explanation_and_an_expected_start_are_those_of_a_round_of_its_cell(api: People) -> None:
    rows = full(api)
    settled(api)
    api.world.wiring.kept["predict pace"] = Pace(0.0, 0.0)
    predict_starts.run_once(api.world.wiring)
    for row in rows[:3]:
        found, start = told(api, row), told(api, row, "eta")
        assert start["expected_start"] is not None
        assert found["in_queue"] == (2 if row["cell"] == "south" else 3)
        assert "unknown" not in {check["status"] for check in found["checks"] if check["name"] == "Quota"}
        with SMALL:
            assert without(told(api, row), *ONLY_SEARCHED) == without(found, *ONLY_SEARCHED)
            assert without(told(api, row, "eta"), "as_of") == without(start, "as_of")


def without(answer: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in names}


def test_what_a_question_reads_is_not_the_whole_of_a_cell(api: People) -> None:
    rows = full(api)
    settled(api)
    paths = ["/queue?page_size=1", *(f"/workloads/{rows[0]['uid']}/{end}" for end in ("explanation", "eta"))]
    for path in paths:
        with CaptureQueriesContext(connection) as seen:
            body_of(api.member.get(path))
        live = [one["sql"] for one in seen.captured_queries if '"phase" IN' in one["sql"] and "COUNT" not in one["sql"]]
        assert all('"team_id"' in text for text in live), path


def test_one_that_was_moved_is_in_its_new_cell_only_where_none_has_looked_at_it(api: People) -> None:
    rows = full(api)
    settled(api)
    moved = Workload.objects.get(pk=rows[0]["uid"])
    assert moved.reason in set(Reason)
    rearranging.move({moved.pk: "south"})
    line = {turn.uid: turn for turn in whatif.line().turns}
    assert len(whatif.line().turns) == len(line) == len(rows)
    turn = line[str(moved.pk)]
    assert turn.refusal is not None
    assert (turn.is_known, turn.refusal.reason) == (False, Reason.PENDING_EVALUATION)
    found = told(api, rows[0])
    assert (found["reason"], found["will_start"], found["in_queue"]) == (Reason.PENDING_EVALUATION, None, 3)
    schedule.run_once(api.world.wiring)  # a partial cycle
    assert told(api, rows[0])["reason"] != Reason.PENDING_EVALUATION
    decide(api)
    assert whatif.line().turns == dry().turns


def test_a_cell_whose_first_round_has_not_ended_says_so_and_keeps_no_other_waiting(api: People) -> None:
    rows = full(api)
    with override_settings(CELLS=("south",)):
        decide(api)
        decide(api)
    assert [one.name for one in RoundView.objects.all()] == [decider_of("south")]
    kept = {row["name"]: row for row in queue(api)["results"]}
    assert {name: kept[name]["position"] for name in "xzp"} == dict.fromkeys("xzp")
    assert sorted(kept[name]["position"] for name in "yq") == [1, 2]
    assert kept["x"]["message"] == "Not looked at yet: no round has ended so far."
    assert queue(api)["as_of"] is not None
    assert (told(api, rows[0])["as_of"], told(api, rows[0])["checks"]) == (None, [])
    assert told(api, rows[1])["checks"]


def test_what_was_left_by_other_cells_is_asked_no_more(api: People) -> None:
    full(api)
    settled(api)
    cut(north={"racks": ["r2"]})
    assert not RoundView.objects.exists()
    assert {turn.position for turn in whatif.line().turns} == {None}
    settled(api)
    assert set(RoundView.objects.values_list("name", flat=True)) == {"schedule", "schedule/north"}
    assert whatif.line().turns == dry().turns
    cut()
    decide(api)
    assert [one.name for one in RoundView.objects.all()] == ["schedule"]
    assert whatif.line().turns == whatif.dry_line(snapshot.full()).turns


def test_what_a_preview_asks_is_the_snapshot_of_each_cells_decider_brought_up_to_date(api: People) -> None:
    rows = full(api)
    for step in range(4):
        decide(api)
        all_same()
        waits(api.member, f"step-{step}", "north" if step % 2 else "south", 1)
        all_same()
    schedule.run_once(api.world.wiring)
    rearranging.move({Workload.objects.get(pk=rows[0]["uid"]).pk: "south"})
    all_same()
    schedule.run_once(api.world.wiring)
    all_same()
    body_of(api.member.post(f"/workloads/{rows[2]['uid']}/stop"))
    all_same()
    api.world.restart()
    decide(api)
    all_same()
    cut(south={"racks": ["r1"]})
    all_same()
    decide(api)
    all_same()


def all_same() -> None:
    assert same(decider.world(), snapshot.full())
    for view in views.every():
        assert same(decider.world(view), snapshot.full(view=view))


def test_the_machines_of_a_cell_are_those_that_it_names_by_rack_else_by_pool(api: People) -> None:
    del api
    node = Node.objects.get(name="a")
    for name, rack in (("c", "r1"), ("d", "r2"), ("e", "r3"), ("f", "")):
        node.pk, node.name, node.rack = None, name, rack
        node.save()
    for cells in ({"x": {"racks": ["r1"]}, "y": {"pools": ["main"], "racks": ["r3"]}}, {"z": {"racks": ["r2", "r1"]}}):
        cut(**cells)
        for view in views.every():
            assert view is not None
            found = [row[0] for row in snapshot.node_rows(view)]
            assert found == [row[0] for row in snapshot.node_rows() if view.has(row[1], row[7])]
