"""The benchmark `openb` on small lists of our own."""

import math
import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from controlplane.benchmarks.harness import cores
from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.scheduling import lookahead, openb, openblists, podrounds, rolegangs
from controlplane.benchmarks.scheduling.arrivals import fill, fleet_of, read_nodes, read_pods, world_of
from gpushare.gpu import Share
from scheduler.model.workload import ResourceRequest
from scheduler.placement.fleet import devices_of, take, want_of
from scheduler.placement.forecast import ENOUGH, LAST, next_count

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},64000,262144,{2 + i % 2 * 6},M{i % 2}\n" for i in range(8)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ROWS = ["8000,16384,1,1000,", "4000,8192,1,460,M0|M1", "2000,4096,1,810,M1", "16000,65536,8,1000,", "4000,8192,0,0,"]

FIGURES = [
    "allocation_percent",
    "fgd_difference_points_ci_low",
    "first_fit_difference_points_ci_low",
    "at_100_difference_points_ci_low",
    "generated_difference_points_ci_low",
    "generated_at_100_difference_points_ci_low",
    "decision_p99_ms",
    "decision_cpu_p99_ms",
    "shared_call_difference_points",
    "large_failed_excess_percent",
    "role_gang_decision_p99_ms",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "openb"
    folder.mkdir()
    (folder / "nodes_gpu.csv").write_text(NODES)
    rows = (ROWS[3] if i % 12 == 0 else ROWS[i % 3] if i % 7 else ROWS[4] for i in range(60))
    (folder / "pods_default.csv").write_text(PODS + "".join(f"p{i:02},{row}\n" for i, row in enumerate(rows)))
    return tmp_path


def world(data: Path, seed: int = 42):
    return world_of(*parts_of(data), seed)


def parts_of(data: Path):
    return read_nodes(data / "openb/nodes_gpu.csv"), read_pods(data / "openb/pods_default.csv")


def test_pods_are_read_as_asks(data):
    asks = read_pods(data / "openb/pods_default.csv")
    assert ResourceRequest(gpus=8, cpu_milli=16_000, memory=65_536) in asks
    assert ResourceRequest(share=Share(460, 460, 0), cpu_milli=4000, memory=8192, models=("M0", "M1")) in asks
    assert ResourceRequest(cpu_milli=4000, memory=8192) in asks


def test_arrivals_are_the_shuffled_list_and_then_draws_up_to_130_percent(data):
    found = world(data)
    assert sorted(map(repr, found.arrivals[:60])) == sorted(map(repr, found.asks))
    load = sum(ask.milli for ask in found.arrivals)
    assert found.gpus == 40
    assert 1.3 * 40_000 - 8000 <= load <= 1.3 * 40_000 or len(found.arrivals) == 60
    assert found == world(data)
    assert found != world(data, 43)


def run_of(policy: str, found):
    return podrounds.fill(found) if policy == "ours" else fill(found, lambda *parts: openb.scorer_of(policy, *parts))


@pytest.mark.parametrize("policy", openb.POLICIES)
def test_every_policy_places_within_the_cluster_and_counts_what_failed(data, policy):
    found = world(data)
    done = run_of(policy, found)
    assert 0 < done.at_100 <= done.final <= 40_000
    assert done.load == sum(ask.milli for ask in found.arrivals)
    assert done.large[0] <= done.large[1] == sum(ask.gpus == 8 for ask in found.arrivals)
    assert 0 < done.large_failed[1] < done.large[1]
    assert done.large_failed[0] <= done.large_failed[1]


def test_pods_that_share_a_call_go_where_they_go_one_by_one(data):
    nodes, _ = parts_of(data)
    sizes = [
        ResourceRequest(share=Share(milli, milli, 0), cpu_milli=1000, memory=1024) for milli in (90, 190, 310, 460, 810)
    ]
    bound = [replace(ask, models=("M0",)) for ask in sizes[1:]]
    others = [
        ResourceRequest(gpus=1, cpu_milli=4000),
        ResourceRequest(gpus=2, cpu_milli=8000),
        ResourceRequest(cpu_milli=2000),
        ResourceRequest(gpus=8),
    ]
    found = world_of(nodes, [*sizes * 20, *bound * 8, *others], seed=43)
    places = []
    for together in (1, 20):
        rounds, came = podrounds.Rounds(nodes), 0
        while came < len(found.arrivals):
            asks = found.arrivals[came : came + min(together, rounds.max_together())]
            rounds.place(asks)
            came += len(asks)
        found_places = ((uid, workload.placement) for uid, workload in rounds.snapshot.workloads.items())
        places.append({uid: placement for uid, placement in found_places if placement})
        assert rounds.snapshot.demand.count > ENOUGH
    assert places[0] == places[1]
    assert ENOUGH < len(places[0]) < len(found.arrivals)


def test_a_pod_that_finds_no_place_is_withdrawn(data):
    nodes, _ = parts_of(data)
    rounds, large = podrounds.Rounds(nodes), ResourceRequest(gpus=8, cpu_milli=1000, memory=1024)
    eights = sum(node.gpus == 8 for node in nodes)
    assert rounds.place([large] * (eights + 2)) == [True] * eights + [False] * 2
    assert rounds.place([ResourceRequest(cpu_milli=1000, memory=1024)]) == [True]
    assert len(rounds.snapshot.workloads) == eights + 1


def test_demand_is_counted_of_productions_window_as_often_as_in_production(data):
    nodes, _ = parts_of(data)
    rounds, came, counted = podrounds.Rounds(nodes), 0, []
    huge = ResourceRequest(gpus=64)  # fits nowhere, so that a round is quick
    while came < 2 * LAST:
        asks = [huge] * rounds.max_together()
        before = rounds.snapshot.demand
        rounds.place(asks)
        came += len(asks)
        if rounds.snapshot.demand is not before:
            counted.append((came, rounds.snapshot.demand.count))
    assert counted[0] == (ENOUGH, ENOUGH)
    assert all(count == min(at, LAST) for at, count in counted)
    assert all(later == next_count(sooner) for (sooner, _), (later, _) in pairwise(counted))
    assert counted[-1][1] == LAST


def test_machines_are_pooled_as_the_trace_has_them(data):
    nodes, _ = parts_of(data)
    shuffled = (nodes[3], *nodes[:3], *nodes[4:])
    pooled = podrounds.pooled(shuffled)
    assert [node.name for node in pooled] == [node.name for node in shuffled]
    assert {(node.pool, node.model) for node in pooled} == {("m0", "M0"), ("m1", "M1")}
    assert {node.rack for node in pooled} == {"rack-00"}
    assert {node.nvlink for node in pooled if node.gpus == 8} == {8}


def test_made_lists_bind_a_third_of_the_pods_with_gpus_and_are_always_the_same(data):
    nodes, pods = parts_of(data)
    lists = {"a": pods, "b": [ResourceRequest(gpus=1), ResourceRequest(gpus=8), ResourceRequest(cpu_milli=1000)] * 20}
    made = openblists.generated(lists, nodes)
    assert made == openblists.generated(dict(reversed(lists.items())), nodes)
    assert list(made) == ["generated1-b", "generated2-b", "generated3-b", "generated4-b", "generated5-b"]
    assert len(set(made.values())) == openblists.COUNT
    seen = set()
    for asks in made.values():
        assert Counter((ask.gpus, ask.milli) for ask in asks) == Counter((ask.gpus, ask.milli) for ask in lists["b"])
        assert sum(bool(ask.models) for ask in asks) == 13
        assert not any(ask.models for ask in asks if not ask.milli)
        # Nothing is seen of pods with 8 GPUs, so they go by machines; the others as in list a.
        assert {ask.models for ask in asks if ask.gpus == 8 and ask.models} <= {("M1",)}
        seen |= {ask.models for ask in asks if ask.gpus == 1 and ask.models}
    assert seen == {("M0", "M1"), ("M1",)}


def test_jobs_are_done_by_other_processes_or_here():
    assert dict(cores.each(len, ["a", "bb"], 0)) == {0: 1, 1: 2}
    assert dict(cores.each(os.path.realpath, ["/proc/self"], 0)) == {0: f"/proc/{os.getpid()}"}
    [(number, process)] = cores.each(os.path.realpath, ["/proc/self"], 1)
    assert (number, process.startswith("/proc/")) == (0, True)
    assert process != f"/proc/{os.getpid()}"


def test_a_run_gives_the_figures_and_a_line_for_each_list(data):
    result = openb.run(Options(data, seeds=(2,)), lambda part, text: None)
    assert [figure.name.removeprefix("openb.") for figure in result.figures] == FIGURES
    assert any(note.startswith("default: ") for note in result.notes)
    assert sum(note.startswith("generated") for note in result.notes) == openblists.COUNT
    assert any(note.startswith("look-ahead") for note in result.notes)
    assert any(note.startswith("gangs with roles, 400 on 8 machines, ") for note in result.notes)
    assert next(figure for figure in result.figures if "shared_call" in figure.name).value == 0


def test_a_list_of_ones_own_stands_alone(data):
    result = openb.run(Options(data, seeds=(1,), pods=data / "openb/pods_default.csv"), lambda part, text: None)
    names = [figure.name.removeprefix("openb.") for figure in result.figures]
    assert names == [name for name in FIGURES if not name.startswith("generated")]
    assert not any(note.startswith("generated") for note in result.notes)


def test_a_gang_with_role_members_finds_no_more_than_its_workers_alone(data):
    cost = rolegangs.measure(world(data), 60)
    assert len(cost.with_roles) == len(cost.alone) == 60
    assert 0 < cost.found <= cost.found_alone < 60
    assert rolegangs.TAKEN <= cost.taken < 1
    assert 0 < cost.p99_ms <= 1000 * max(cost.with_roles)


def test_a_queue_of_nobody_is_no_queue(data):
    found = world(data)
    fleet, kinds = fleet_of(found.nodes)
    scorer, final = lookahead.Learning(fleet, kinds, found.nodes), 0
    for ask in found.arrivals:
        scorer.before(ask)
        want = want_of(ask, kinds)
        place = scorer.choose(fleet, want, np.ones(len(found.nodes), dtype=np.bool_))
        if place is not None:
            take(fleet, place[0], devices_of(fleet, *place, want.numbers), want.numbers)
            final += ask.milli
    assert lookahead.fill(found, 0).final == pytest.approx(100 * final / 40_000)
    waits = lookahead.fill(found, 10).waits
    assert max(wait for some in waits.values() for wait in some) > 0


def test_without_the_files_it_says_what_to_set(tmp_path):
    with pytest.raises(BenchmarkError, match="Set WEFT_DATA"):
        openb.run(Options(tmp_path), lambda part, text: None)


def test_a_list_without_a_column_is_named(data):
    own = data / "own.csv"
    own.write_text("name,num_gpu\na,1\n")
    with pytest.raises(BenchmarkError, match="no column cpu_milli"):
        openb.run(Options(data, pods=own), lambda part, text: None)


def test_seeds_are_ten_or_so_many_or_named():
    assert openb.seeds_of((0,)) == tuple(range(42, 52))
    assert openb.seeds_of((3,)) == (42, 43, 44)
    assert openb.seeds_of((42, 50)) == (42, 50)


def test_the_interval_is_students():
    assert openb.low_end([1.0, 3.0]) == pytest.approx(2 - 12.706)
    assert openb.low_end([1.0]) == -math.inf
