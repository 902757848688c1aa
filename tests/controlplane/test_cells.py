"""Cells: parts of a cluster with a decider each, end to end on the loops."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain.deciders import decider_of
from controlplane.loops import deciding, schedule
from controlplane.models import Change, Cycle, NodePool, Placement, QuotaPart, Team, Workload
from controlplane.queries.scheduling import cycles, snapshot
from controlplane.services.cells import dividing
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes, leases, policy
from controlplane.services.tenancy import quotas
from scheduler.model.cell import CellView
from scheduler.policies import decide_round
from tests.controlplane.state import PodCluster, World, node, phase

pytestmark = pytest.mark.django_db
NODES = {name: node(name, rack=rack) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2"))}
NORTH, SOUTH = {"north": {"racks": ["r1"]}}, {"south": {"racks": ["r2"]}}


def cells(**named: Any) -> None:
    policy.change(changes={"scheduling": {"cells": named}}, author="ann")


def world() -> World:
    found = World(PodCluster(nodes=dict(NODES)))
    cells(**NORTH, **SOUTH)
    return found


def decide(at: World) -> None:
    at.later()
    report = schedule.run_once(at.wiring)
    assert not report.skipped, report


def nodes_of(workload: Workload) -> list[str]:
    live = Placement.objects.filter(workload=workload).exclude(state="Released")
    return sorted(live.values_list("node", flat=True))


def cell(workload: Workload) -> str:
    return str(Workload.objects.values_list("cell", flat=True).get(pk=workload.pk))


def run(at: World, workload: Workload) -> None:
    at.actuate()
    at.cluster.set(workload, PodPhase.RUNNING)
    at.observe()


def test_each_workload_gets_a_cell_and_each_cell_decides_for_its_own():
    here = world()
    made = [here.submit(f"job-{i}", gpus=8, workers=2) for i in range(2)]
    decide(here)
    assert sorted(cell(one) for one in made) == ["north", "south"]
    assert {cell(one): nodes_of(one) for one in made} == {"north": ["a", "b"], "south": ["c", "d"]}
    assert set(Cycle.objects.values_list("cell", flat=True)) == {"north", "south"}


def test_a_gang_never_spans_two_cells_and_is_refused_where_none_holds_it():
    with pytest.raises(Refused) as refused:
        world().submit("large", gpus=8, workers=3)
    assert refused.value.message == (
        "No cell could ever hold 24 GPUs: north has 16 such GPUs, south has 16 such GPUs. "
        "Ask for less, or have the cells changed."
    )


def test_a_job_file_names_its_cell_only_where_there_are_cells():
    here = World(PodCluster(nodes=dict(NODES)))
    with pytest.raises(Refused) as refused:
        here.submit("one", cell="north")
    assert refused.value.field == "cell"
    cells(**NORTH, **SOUTH)
    assert {cell(here.submit(f"s{i}", cell="south")) for i in range(3)} == {"south"}
    with pytest.raises(Refused) as refused:
        here.submit("two", cell="east")
    assert refused.value.message == "There is no cell east. The cells are rest, north, south."


def test_stored_rounds_of_each_cell_are_decided_again_alike():
    here = world()
    for i in range(6):
        here.submit(f"job-{i}", gpus=2, workers=1 + i % 2)
        decide(here)
    stored = list(Cycle.objects.filter(loop="schedule").order_by("pk"))
    assert {one.cell for one in stored} == {"north", "south"}
    for one in stored:
        again, _ = decide_round(cycles.snapshot_of(one), policy.version(one.policy).scheduling)
        assert [d["workload"] for d in one.decisions] == [d.workload for d in again]


def test_a_round_by_the_cells_before_does_not_commit():
    here = world()
    made = here.submit("one", gpus=8)
    held = replace(here.lease(f"schedule/{cell(made)}"), cells_number=1)
    cells(**NORTH)
    with pytest.raises(leases.LeaseLost):
        held.check()


def test_every_cell_is_decided_for_by_the_new_cells_once_one_of_them_is():
    here = world()
    decide(here)
    cells(north={"racks": ["r2"]}, south={"racks": ["r1"]})
    decide(here)
    views = {key: keeper.view for key, keeper in here.wiring.kept.items() if key.startswith("keeper:")}
    now = policy.current()[0].scheduling.cells
    assert views == {f"keeper:{name}": CellView(name, now) for name in ("", "north", "south")}


def test_other_cells_take_running_work_with_its_nodes_and_waiting_work_anew():
    here = world()
    made = here.submit("one", gpus=8, workers=2, cell="south")
    decide(here)
    run(here, made)
    waits = here.submit("two", gpus=8, workers=2, cell="south")
    decide(here)
    assert phase(waits) == "Queued"
    cells(east={"racks": ["r2"]}, west={"racks": ["r1"]})
    assert cell(made) == "east"
    assert cell(waits) == "west"
    decide(here)
    assert nodes_of(waits) == ["a", "b"]
    assert phase(made) == "Running"


def test_a_gang_that_spans_two_new_cells_stays_and_its_nodes_take_nothing_of_others():
    here = World(PodCluster(nodes=dict(NODES)))
    gang = here.submit("gang", gpus=6, workers=4)
    decide(here)
    run(here, gang)
    on = set(nodes_of(gang))
    cells(one={"racks": ["r1"]}, two={"racks": ["r2"]})
    assert cell(gang) in ("one", "two")
    other = "two" if cell(gang) == "one" else "one"
    foreign = {n for n in on if {"one": "r1", "two": "r2"}[other] == NODES[n].rack}
    assert len(foreign) == 2
    small = [here.submit(f"small-{i}", gpus=2, cell=other) for i in range(4)]
    decide(here)
    assert not any(set(nodes_of(one)) & foreign for one in small)
    here.pods(gang, PodPhase.SUCCEEDED)
    decide(here)
    assert all(nodes_of(one) for one in small)


def test_a_hint_at_work_that_is_in_another_cell_by_now_is_passed_on():
    here = world()
    made = here.submit("one", gpus=8, cell="north")
    decide(here)
    Workload.objects.filter(pk=made.pk).update(cell="south")
    changes.touch_these([(made.pk, "north")])
    decide(here)
    decide(here)
    assert not Change.objects.exists()
    view = CellView("south", policy.current()[0].scheduling.cells)
    assert here.wiring.kept["keeper:south"].whole().changed.keys() == snapshot.full(view=view).workloads.keys()


def test_the_snapshot_that_each_decider_keeps_is_that_of_its_cell():
    here = world()
    red = Team.objects.get(name="red")
    quotas.save(team=red, pool=NodePool.objects.get(), nominal=12_000, borrowing_limit=4000, actor="ann")
    for i in range(5):
        here.submit(f"job-{i}", gpus=2 + i)
        decide(here)
    here.later(61)
    decide(here)
    decide(here)
    for view in (CellView(name, policy.current()[0].scheduling.cells) for name in ("", "north", "south")):
        kept = here.wiring.kept[f"keeper:{view.cell}"].whole()
        fresh = snapshot.full(view=view)
        assert kept.changed.keys() == fresh.workloads.keys()
        assert kept.frame is not None
        quotas_there = here.wiring.kept[f"keeper:{view.cell}"].take(
            replace(here.lease(decider_of(view.cell)), cells_number=1), here.cluster.at
        )
        assert quotas_there.snapshot.quotas == fresh.quotas


def test_parts_are_lowered_before_others_are_raised_and_add_up_at_each_step():
    here = world()
    red = Team.objects.get(name="red")
    quotas.save(team=red, pool=NodePool.objects.get(), nominal=16_000, borrowing_limit=0, actor="ann")
    for _ in range(3):
        here.later(61)
        decide(here)
    assert dict(QuotaPart.objects.values_list("cell", "nominal")) == {"north": 8000, "south": 8000}
    made = here.submit("gang", gpus=8, workers=2, cell="north")
    seen = []
    for _ in range(4):
        here.later(3)
        here.wiring.kept["divide due"] = 0.0
        deciding.divide_when_due(here.wiring)
        seen.append(dict(QuotaPart.objects.values_list("cell", "nominal")))
        here.later(3)
        here.wiring.kept["divide due"] = here.cluster.at + 100
        decide(here)
    assert seen[0] == {"north": 8000, "south": 0}
    assert seen[1] == {"north": 16_000, "south": 0}
    assert nodes_of(made) == ["a", "b"]


def test_a_quota_that_is_lowered_lowers_its_parts_at_once():
    here = world()
    red, pool = Team.objects.get(name="red"), NodePool.objects.get()
    quotas.save(team=red, pool=pool, nominal=16_000, actor="ann")
    for _ in range(3):
        here.later(61)
        decide(here)
    quotas.save(team=red, pool=pool, nominal=6000, actor="ann")
    assert sum(QuotaPart.objects.values_list("nominal", flat=True)) == 6000


def test_work_that_waits_in_a_crowded_cell_moves_to_one_with_room():
    here = world()
    first = here.submit("first", gpus=8, workers=2, cell="north")
    decide(here)
    run(here, first)
    waits = here.submit("second", gpus=8, workers=2)
    assert cell(waits) == "south"
    Workload.objects.filter(pk=waits.pk).update(cell="north")
    here.later(61)
    decide(here)
    assert cell(waits) == "south"
    decide(here)
    assert nodes_of(waits) == ["c", "d"]


def test_without_cells_nothing_is_divided():
    here = World(PodCluster(nodes=dict(NODES)))
    assert dividing.divide(lease=here.lease("divide")) == dividing.Divided()
    made = here.submit("one", gpus=8)
    decide(here)
    assert (cell(made), set(Cycle.objects.values_list("cell", flat=True))) == ("", {""})


def test_bad_cells_are_refused_with_field_and_fix():
    here = World(PodCluster(nodes=dict(NODES)))
    del here
    for named, sentence in (
        ({"north": {"racks": ["r1"]}, "south": {"racks": ["r1"]}}, "names the rack r1 in north and in south."),
        ({"north": {"racks": ["r9"]}}, "There is no rack r9. The racks are r1, r2."),
        ({"north": {"pools": ["x"]}}, "There is no pool x. The pools are main."),
        ({"rest": {"racks": ["r1"]}}, "has a cell 'rest'"),
        ({"north": {}}, "names no pool and no rack"),
        ({"north": {"nodes": ["a"]}}, "Give an object with the lists pools and racks."),
    ):
        with pytest.raises(Refused) as refused:
            cells(**named)
        assert refused.value.field.startswith("scheduling.cells")
        assert sentence in refused.value.message


def test_the_rest_can_be_named_too():
    here = World(PodCluster(nodes=dict(NODES)))
    cells(**NORTH)
    assert cell(here.submit("one", cell="rest")) == ""
    assert cell(here.submit("two", cell="north")) == "north"
