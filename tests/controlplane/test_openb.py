"""The benchmark `openb` on small lists of our own."""

import math
from pathlib import Path

import pytest

from controlplane.benchmarks import lookahead, openb, rolegangs
from controlplane.benchmarks.arrivals import fill, read_nodes, read_pods, world_of
from controlplane.benchmarks.figure import BenchmarkError, Options
from gpushare.gpu import Share
from scheduler.workload import Ask

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},64000,262144,{2 + i % 2 * 6},M{i % 2}\n" for i in range(8)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ROWS = ["8000,16384,1,1000,", "4000,8192,1,460,M0|M1", "2000,4096,1,810,M1", "16000,65536,8,1000,", "4000,8192,0,0,"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "openb"
    folder.mkdir()
    (folder / "nodes_gpu.csv").write_text(NODES)
    rows = (ROWS[3] if i % 12 == 0 else ROWS[i % 3] if i % 7 else ROWS[4] for i in range(60))
    (folder / "pods_default.csv").write_text(PODS + "".join(f"p{i:02},{row}\n" for i, row in enumerate(rows)))
    return tmp_path


def world(data: Path, seed: int = 42):
    return world_of(read_nodes(data / "openb/nodes_gpu.csv"), read_pods(data / "openb/pods_default.csv"), seed)


def test_pods_are_read_as_asks(data):
    asks = read_pods(data / "openb/pods_default.csv")
    assert Ask(gpus=8, cpu_milli=16_000, memory=65_536) in asks
    assert Ask(share=Share(460, 460, 0), cpu_milli=4000, memory=8192, models=("M0", "M1")) in asks
    assert Ask(cpu_milli=4000, memory=8192) in asks


def test_arrivals_are_the_shuffled_list_and_then_draws_up_to_130_percent(data):
    found = world(data)
    assert sorted(map(repr, found.arrivals[:60])) == sorted(map(repr, found.asks))
    load = sum(ask.milli for ask in found.arrivals)
    assert found.gpus == 40
    assert 1.3 * 40_000 - 8000 <= load <= 1.3 * 40_000 or len(found.arrivals) == 60
    assert found == world(data)
    assert found != world(data, 43)


@pytest.mark.parametrize("policy", openb.POLICIES)
def test_every_policy_places_within_the_cluster_and_counts_what_failed(data, policy):
    found = world(data)
    done = fill(found, lambda *parts: openb.scorer_of(policy, *parts))
    assert 0 < done.at_100 <= done.final <= 40_000
    assert done.large[0] <= done.large[1] == sum(ask.gpus == 8 for ask in found.arrivals)
    assert done.large_failed[0] <= done.large_failed[1]
    assert len(done.seconds) == len(found.arrivals)


def test_a_run_gives_the_figures_and_a_line_for_each_list(data):
    result = openb.run(Options(data, seeds=(2,)), lambda part, text: None)
    assert [figure.name.removeprefix("openb.") for figure in result.figures] == [
        "allocation_percent",
        "fgd_difference_points_ci_low",
        "first_fit_difference_points_ci_low",
        "at_100_difference_points_ci_low",
        "decision_p99_ms",
        "large_failed_excess_percent",
        "role_gang_decision_p99_ms",
    ]
    assert any(note.startswith("default: ") for note in result.notes)
    assert any(note.startswith("look-ahead") for note in result.notes)
    assert any(note.startswith("gangs with roles, 400 on 8 machines, ") for note in result.notes)


def test_a_gang_with_companions_finds_no_more_than_its_workers_alone(data):
    cost = rolegangs.measure(world(data), 60)
    assert len(cost.with_roles) == len(cost.alone) == 60
    assert 0 < cost.found <= cost.found_alone < 60
    assert rolegangs.TAKEN <= cost.taken < 1
    assert 0 < cost.p99_ms <= 1000 * max(cost.with_roles)


def test_a_queue_of_nobody_is_no_queue(data):
    found = world(data)
    alone = fill(found, lambda *parts: openb.scorer_of("ours", *parts))
    assert lookahead.fill(found, 0).final == pytest.approx(100 * alone.final / 40_000)
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
