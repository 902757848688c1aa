from pathlib import Path
from typing import Any

import grimp
import pytest
from django.utils.module_loading import import_string

from controlplane.benchmarks.harness import tree
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options
from controlplane.benchmarks.harness.printing import object_of
from controlplane.benchmarks.harness.registry import BENCHMARKS, HERE, SERVER
from controlplane.benchmarks.scheduling import roundload
from controlplane.management.commands import benchmark_process
from tests.servers import ROOT

FIGURES = (Figure("x.wall_seconds", 12.5, "s", 10.0), Figure("x.rate", 5.0, "1/s", 4.0, higher_is_better=True))
PACKAGES = ("gpushare", "scheduler", "autoscaler", "controlplane", "frontend", "weft")
# What starts processes of ours runs all of the server in them, whatever it imports itself.
STARTERS = {"controlplane.benchmarks.harness.processes", "controlplane.testbed.compose"}
SHAPE = "controlplane.benchmarks.harness.figure"  # what a figure is, not how it is measured


def test_names_of_benchmarks_stay() -> None:
    assert set(BENCHMARKS) >= {"start", "replay", "page"}


def test_a_figure_is_met_by_its_goal_in_its_direction() -> None:
    lower, higher = FIGURES

    assert (lower.met, higher.met) == (False, True)
    assert Figure("x.y", 1.0, "s").met is None


def test_a_figure_with_a_range_is_met_within_it() -> None:
    assert [Figure("x.y", value, "%", 75.0, True, 85.0).met for value in (74.0, 75.0, 85.0, 86.0)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_a_figure_prints_as_one_object() -> None:
    assert object_of(FIGURES[0]) == {
        "name": "x.wall_seconds", "value": 12.5, "unit": "s", "goal": 10.0, "most": None, "met": False,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["explanations", "fairness", "openb", "replay"])
def test_a_benchmark_of_a_trace_never_measures_a_model_of_it(settings: Any, tmp_path: Path, name: str) -> None:
    settings.WEFT_DATA = tmp_path / "nowhere"

    with pytest.raises(BenchmarkError, match="Set WEFT_DATA to the folder"):
        BENCHMARKS[name](Options(tmp_path / "nowhere"), lambda part, text: None)


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_names_all_that_it_imports_and_runs(imports: grimp.ImportGraph, name: str) -> None:
    benchmark = BENCHMARKS[name]
    own = {f"controlplane.benchmarks.{module}" for module in benchmark.modules}
    reached = own.union(*(imports.find_upstream_modules(module) for module in own)) - {SHAPE}
    paths = {path_of(module) for module in reached if not (ROOT / module.replace(".", "/")).is_dir()}

    forgotten = {
        path
        for path in paths
        if path not in benchmark.files
        and (path.startswith(HERE) or not any(tree.is_in(path, folder) for folder in benchmark.folders))
    }
    assert not forgotten, f"the line of {name} in {HERE}/registry.py does not name {sorted(forgotten)}"
    if reached & STARTERS:
        assert set(benchmark.folders) >= set(SERVER)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_a_benchmark_names_is_there(name: str) -> None:
    benchmark = BENCHMARKS[name]

    for file in benchmark.files:
        assert (ROOT / file).is_file()
    assert f"def {benchmark.function}(" in (ROOT / benchmark.files[0]).read_text()
    for folder in benchmark.folders:
        assert list((ROOT / folder.removesuffix("/*")).glob("*.py")), folder


def path_of(module: str) -> str:
    return module.replace(".", "/") + ".py"


@pytest.mark.parametrize("name", benchmark_process.PARTS)
def test_each_process_of_a_benchmark_has_its_function(name: str) -> None:
    assert callable(import_string(f"controlplane.benchmarks.{benchmark_process.PARTS[name]}"))


def test_a_process_is_as_large_as_the_cluster_of_round_unless_it_is_told() -> None:
    assert roundload.NODES == benchmark_process.NODES
