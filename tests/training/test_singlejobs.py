"""What re-allocates one training sees its noisy steps only, and keeps its budget."""

import grimp
import pytest

from controlplane.benchmarks.training import singlecases, singlejobs
from controlplane.benchmarks.training.singlecases import Case, Times

CLOSE = Case("world", "close", 8, (1, 1, 1, 1), {((4,), 0): Times(0.5)}, Times(1.0))
FAR = Case("world", "far", 8, (1, 1, 1, 1), {((4,), 0): Times(1.3)}, Times(1.0))


def test_what_knows_the_truth_imports_nothing_of_what_reallocates() -> None:
    graph = grimp.build_graph("autoscaler", "controlplane", include_external_packages=False)
    seen = graph.find_upstream_modules("controlplane.benchmarks.training.singlecases")
    assert "controlplane.benchmarks.harness.figure" in seen
    assert [name for name in seen if name.startswith("autoscaler")] == []


def test_what_reallocates_imports_nothing_that_knows_the_truth() -> None:
    graph = grimp.build_graph("autoscaler", "controlplane", include_external_packages=False)
    seen = graph.find_upstream_modules("autoscaler.reallocate.course")
    assert "autoscaler.throughput.fit" in seen
    assert [name for name in seen if name.startswith("controlplane")] == []


def test_a_training_that_runs_faster_on_one_node_ends_there() -> None:
    runs = singlejobs.run_case(CLOSE, 1, 0)
    assert [run.gain for run in runs] == [pytest.approx(1.0)] * singlejobs.RUNS
    assert {run.moves for run in runs} == {1}


def test_a_training_that_runs_slower_on_one_node_goes_back() -> None:
    runs = singlejobs.run_case(FAR, 1, 0)
    assert [run.gain for run in runs] == [0.0] * singlejobs.RUNS
    assert {run.moves for run in runs} == {1}
    assert all(-0.02 < run.net < 0 for run in runs)  # what it cost to try


def test_the_cases_are_every_row_with_so_many_gpus(tmp_path: object) -> None:
    assert {case.gpus for case in singlecases.with_servers()} == set(singlecases.COUNTS)
