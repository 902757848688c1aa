"""What `cells` measures with: the filled cells, a decider of them, a day, and the figures."""

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.large import cells, cellsday, cellsload, load
from controlplane.benchmarks.scheduling.roundload import Machines
from controlplane.models import Workload

SIZE = {"nodes": 100, "count": 2, "seed": 0}
DAY = {"gpu_hours": 98.0, "jobs": 3, "wait_p50": 60.0, "wait_p99": 600.0, "evenness": 0.9, "hours": 24.0}


@pytest.mark.django_db(transaction=True)
def test_one_process_fills_all_cells_and_another_decides_for_them() -> None:
    filled = cellsload.fill(SIZE)
    assert filled["running"] > 250
    assert set(Workload.objects.values_list("cell", flat=True)) == set(cellsload.CELLS)
    decider = cellsload.Decider(Machines(load.preset(SIZE["nodes"]).nodes))
    driver = cellsload.Driver(Machines(load.preset(SIZE["nodes"]).nodes), load.Models(2, Workload.objects.count()))
    driver.machines.resume(load.pods())
    for _ in range(2):
        told = decider.round(driver.turn(0.02)["now"])
        driver.act()
    assert told["cells"] == ["", *cellsload.CELLS]
    decider.round(driver.machines.now())
    assert cellsload.checked() == {"live": decider.seen()["seen"], "twice": 0}


@pytest.mark.django_db(transaction=True)
def test_a_day_in_cells_has_the_same_work_and_tells_what_became_of_it() -> None:
    found = cellsday.measure({**SIZE, "count": 3}, with_cells=True)
    assert found["jobs"] > 10
    assert found["gpu_hours"] > 0
    assert found["hours"] == pytest.approx(0.25, rel=0.1)


def test_the_figures_tell_what_was_lost_and_what_cells_cost() -> None:
    found = {"running": 2, "waiting": 1, "took": {"east": [0.2, 0.4]}, "takeover_seconds": 11.04, "taken": ["east"]}
    found |= {"turns": 7, "seen": 3, "live": 4, "twice": 0}
    result = cells.result(cells.ALL, found, {"one": {**DAY, "gpu_hours": 100.0}, "four": DAY})
    values = {figure.name.partition(".")[2]: (figure.value, figure.met) for figure in result.figures}
    assert values == {
        "round_p99_seconds": (0.4, True), "takeover_seconds": (11.0, True), "lost": (1, False), "twice": (0, True),
        "started_gpu_hours_ratio": (0.98, True),
    }  # fmt: skip
    assert {figure.goal for figure in cells.result(800, found, {"one": DAY, "four": DAY}).figures} == {None}


def test_a_size_without_a_rack_for_each_cell_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="a multiple of 8, 800 or more"):
        BENCHMARKS["cells"](Options(cells.__file__, gpus=400), lambda part, text: None)  # type: ignore[arg-type]
