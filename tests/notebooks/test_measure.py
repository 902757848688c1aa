"""The search for the most notebooks, and the figures of a small run on sessions made by hand."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.notebooks import measure, runs
from controlplane.benchmarks.notebooks.engine import Lived
from controlplane.benchmarks.notebooks.runs import OURS, SETTINGS, Key
from tests.notebooks.made import month


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 8, 40, 41])
@pytest.mark.parametrize("guess", [1, 3, 30])
def test_the_search_ends_at_the_last_step_that_holds(most: int, guess: int) -> None:
    asked: list[int] = []

    def holds(step: int) -> bool:
        asked.append(step)
        return step <= most

    assert runs.last(holds, guess, 2) == most
    assert len(asked) < 16


def test_the_level_is_of_nineteen_cells_in_twenty_and_of_waits() -> None:
    def lived(slow: float, wait: float) -> Lived:
        return Lived((1.0,) * 19 + (slow,), (0.0,) * 19 + (wait,), (), 0.5)

    assert runs.is_held(lived(9.0, 900.0)), "one of twenty may"
    assert not runs.is_held(Lived((1.0,) * 18 + (1.11, 1.11), (), (), 0.5))
    assert not runs.is_held(Lived((1.0,), (0.0,) * 18 + (61.0, 61.0), (), 0.5))


def test_a_whole_gpu_from_creation_to_deletion_serves_one_user(tmp_path: Path) -> None:
    data = month(tmp_path)
    found = runs.most(data, Key("1 a GPU, never culled", "human", 10, (2, 2), step=1, days=0.5))
    assert found.users == 1.0
    assert found.slow_p95 == 1.0


def test_more_notebooks_than_that_are_served_on_demand_and_with_a_cull(tmp_path: Path) -> None:
    data = month(tmp_path)
    culled, ours = (
        runs.most(data, Key(name, "human", 10, (2, 2), step=1, days=1.0)).users
        for name in ("1 a GPU, culled after 60 min", OURS)
    )
    assert 1.0 < culled < ours


def test_a_small_run_gives_all_figures(tmp_path: Path) -> None:
    data = month(tmp_path)
    plan = measure.Plan((2, 2), {"2 GPUs": (2,)}, 0.3, 1, 1, 1, 2)
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        result = measure.measured(pool, data, plan, range(10, 12), lambda _, what: said.append(what))
    assert [one.name for one in result.figures] == [
        "notebooks.users_per_gpu_ratio",
        "notebooks.over_best_stock_ratio",
        "notebooks.users_per_gpu_ratio_all",
        "notebooks.over_best_stock_ratio_all",
        "notebooks.cell_slowdown_p95",
        "notebooks.users_per_gpu_ratio_bound",
        "notebooks.users_per_gpu_ratio_bound_all",
    ]
    assert len(result.notes) == 2 * 3 + 1 + 5
    assert any("on demand, migration between nodes" in line for line in result.notes)
    assert said


def test_without_the_sessions_it_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="Set WEFT_DATA"):
        measure.run(Options(tmp_path), lambda part, what: None)


def test_every_stock_setting_of_the_comparison_is_there() -> None:
    assert len(runs.BASELINES) == 5 * 6
    assert set(runs.BASELINES) < set(SETTINGS)


def test_an_interval_is_of_the_geometric_mean_and_nothing_is_rounded_up() -> None:
    low, high = measure.interval([2.0, 8.0])
    assert low < 4.0 < high
    assert measure.geometric([2.0, 8.0]) == pytest.approx(4.0)
    assert measure.geometric([0.0, 8.0]) == 0.0
    assert measure.interval([0.0, 8.0]) == (0.0, 8.0)
    assert measure.down(3.1999) == 3.199
