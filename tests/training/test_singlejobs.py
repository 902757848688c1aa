"""What re-allocates one training sees its noisy steps only, and keeps its budget."""

import math
from pathlib import Path

import grimp
import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training import singlecases, singlecourse, singlejobs
from controlplane.benchmarks.training.singlecases import Case, Given, Times

SPREAD = Given((1, 1, 1, 1))
CLOSE = Case("world", "close", 8, SPREAD, {Given((4,)): Times(0.5)}, Times(1.0))
FAR = Case("world", "far", 8, SPREAD, {Given((4,)): Times(1.3)}, Times(1.0))


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
    runs = singlecourse.run_case(CLOSE, 1, 0, singlejobs.RUNS)
    assert [run.gain for run in runs] == [pytest.approx(1.0)] * singlejobs.RUNS
    assert {run.moves for run in runs} == {1}


def test_a_training_that_runs_slower_on_one_node_goes_back() -> None:
    runs = singlecourse.run_case(FAR, 1, 0, singlejobs.RUNS)
    assert [run.gain for run in runs] == [0.0] * singlejobs.RUNS
    assert {run.moves for run in runs} == {1}
    assert all(-0.02 < run.net < 0 for run in runs)  # what it cost to try


class Recorded(dict[Given, Times]):
    """Which step times were asked for."""

    asked: set[Given]

    def get(self, key: Given, default: Times | None = None) -> Times | None:  # type: ignore[override]
        self.asked.add(key)
        return super().get(key, default)


def test_a_course_asks_the_truth_for_the_steps_of_what_ran_and_nothing_else() -> None:
    known = Recorded({Given((4,)): Times(1.3), Given((2, 2)): Times(0.1), SPREAD: Times(1.0)})
    known.asked = set()
    runs = singlecourse.run_case(Case("world", "hidden", 8, SPREAD, known), 1, 0, 3)
    assert {run.moves for run in runs} == {1}
    assert known.asked == {Given((4,)), SPREAD}


def test_a_training_whose_input_starves_gets_the_cores_that_come_with_its_gpu() -> None:
    starved = {case.model: case for case in singlecases.starved()}
    for model, cores in (("AlexNet", 12.0), ("ResNet-50", 4.5)):
        case = starved[model]
        gains = [run.gain for run in singlecourse.run_case(case, 1, 0, 7)]
        assert max(gains) == pytest.approx(case.gain(Given((1,), 0, cores)), abs=0.01)


def test_servers_come_out_of_the_cores_that_come_with_its_gpus() -> None:
    """Two GPUs bring 16 cores, 8 of them are its workers': there is room for two servers and no third."""
    case = next(one for one in singlecases.with_servers() if (one.model, one.gpus) == ("heavy", 2))
    gains = {round(run.gain, 3) for run in singlecourse.run_case(case, 1, 0, 5)}
    assert gains == {round(case.gain(Given(case.start.placement, 2)), 3)}


def test_the_cases_of_gavel_are_its_rows_capped_at_linear(tmp_path: Path) -> None:
    table = tmp_path / singlecases.GAVEL
    table.parent.mkdir(parents=True)
    table.write_text(
        "gpu_type,consolidated,job_type,scale_factor,steps_per_s\n"
        "v100,1,LM (batch size 5),1,10\nv100,0,LM (batch size 5),1,10\n"
        "v100,1,LM (batch size 5),2,30\nv100,0,LM (batch size 5),2,5\n"  # faster than two alone
        "v100,1,LM (batch size 5),4,0\nv100,0,LM (batch size 5),4,0\n"  # does not fit
        "k80,1,LM (batch size 5),2,3\n"
    )
    (case,) = singlecases.gavel(tmp_path, "v100")
    assert (case.model, case.batch, case.start) == ("LM", 5, Given((1, 1)))
    assert case.gain(Given((2,))) == pytest.approx(3.0)


def test_a_missing_table_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="WEFT_DATA"):
        singlecases.gavel(tmp_path, "v100")


def test_the_cases_have_every_number_of_workers() -> None:
    assert {case.gpus for case in singlecases.with_servers()} == set(singlecases.COUNTS)


def test_what_a_trace_starts_spread_is_weighed_by_its_jobs() -> None:
    gained = singlejobs.judge([CLOSE], 1, 3)
    steps = {("close", 8, 4): [1e6, 1.0], ("close", 8, 1): [1e6]}
    (said,) = [singlejobs.gavel_starts(gained, steps)]
    assert "2 of 3 jobs have several GPUs, 1 of these" in said
    assert "gain of all jobs +33.3 %" in said


def test_before_any_try_more_is_expected_where_the_exchange_is_longer() -> None:
    known = {part: {SPREAD: Times(1.0, part), Given((4,)): Times(1.0 - 0.8 * part, 0.2 * part)} for part in (0.1, 0.6)}
    found = [singlecourse.expected(Case("world", "told", 8, SPREAD, one))[0] for one in known.values()]
    for (gain, true), (part, _) in zip(found, known.items(), strict=True):
        assert true == pytest.approx(-math.log(1 - 0.8 * part))
        assert abs(gain.value - true) < 2 * gain.error + 0.05
    assert found[0][0].value < found[1][0].value
