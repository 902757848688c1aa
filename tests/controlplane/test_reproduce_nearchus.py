"""The report of `nearchus`: what stands on it, and where others are level or better."""

import csv
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from controlplane.benchmarks.baselines import manifests
from controlplane.benchmarks.baselines.settings import ABLATIONS, BASELINES, LIKE, MEANT, PARTS, PLAYED
from controlplane.benchmarks.harness.figure import Figure, Result
from controlplane.benchmarks.mix.runs import Told
from controlplane.benchmarks.reports import nearchus
from controlplane.benchmarks.training.nearchuscluster import CASES, OURS, SETTINGS, Summary

SEEDS = (5, 6)


def found(**jct: float) -> nearchus.Found:
    """All settings end a training in 100 s on two workloads, and those of E2 in 1000 s, but for these, by setting."""
    cases = CASES[:2]
    told = {(name, case): Summary(jct.get(name, 100.0), 50.0, 50.0, 1.0, 0) for name in SETTINGS for case in cases}
    beside = {(name, case): Summary(jct.get(name, 100.0), 50.0, 50.0, 2.0, 3) for name in PLAYED for case in cases}
    singles = Result((Figure("nearchus.max_gain_percent", 130.0, "%", 129.0, higher_is_better=True),), ("a note",))
    runs = {
        key: Told(
            jct.get(f"E2 {key.policy}", 1000.0), jct.get(f"E2 {key.policy}", 1000.0), 0.5, 1.0, 0.5, 7.0, 2.0, 1.0
        )
        for key in manifests.wanted(SEEDS)
    }
    return nearchus.Found(singles, ("held <against> it",), told, cases, beside, {**runs})


def test_the_page_has_each_figure_with_its_goal_and_text_is_no_markup() -> None:
    page = nearchus.page(found(**{"history, free batch": 50.0}))
    assert "<td>nearchus.max_gain_percent</td><td>130 %</td><td>129 %</td><td>yes</td>" in page
    assert "<td>nearchus.jct_tiresias_percent_ci_low</td><td>50 %</td><td>38 %</td><td>yes</td>" in page
    assert "held &lt;against&gt; it" in page


def test_plans_of_others_do_not_count_as_ours_in_the_figures() -> None:
    assert "<td>nearchus.infeasible_plans</td><td>0 </td>" in nearchus.page(found())


def test_the_page_has_e2_and_each_baseline_and_each_part_of_ours_with_what_it_is() -> None:
    page = nearchus.page(found(**{"history, free batch": 50.0, "fulfilment": 200.0, "no starts between plans": 60.0}))
    for name in (*BASELINES, *ABLATIONS):
        assert f"<td>{name}</td>" in page
    assert "<td>fulfilment</td><td>75 [75, 75]</td><td>0 [0, 0]</td>" in page
    assert "<td>k8s+gang (here it decides as FIFO)</td><td>50 [50, 50]</td>" in page
    assert "<td>no starts between plans</td><td>1.200 [1.200, 1.200]</td><td>0.600 [0.600, 0.600]</td>" in page
    assert "E2, ps in the mix: fulfilment: makespan 1.00 x ours" in page
    assert page.count('<svg class="chart"') == 4 + 1 + 2 * len(manifests.CELLS)
    assert MEANT.keys() - {"dragon", "fulfilment"} <= {*BASELINES, *LIKE, *PARTS}


def test_losses_name_each_workload_and_who_is_level_there() -> None:
    lost = nearchus.losses(
        found(**{"history, free batch": 50.0, "FIFO": 40.0, "Sia-like, free batch": 50.0, "batch fixed": 99.0})
    )
    assert lost[:2] == [f"history, free batch: 0.5 {number}: FIFO, Sia-like, free batch" for number in (1, 2)]
    assert not any("Tiresias" in line for line in lost if line.startswith(("history", "batch fixed")))
    fast = dict.fromkeys((*OURS, "E2 ours"), 50.0)
    assert nearchus.losses(found(**fast)) == ["None."]
    assert any(
        "under fulfilment all trainings" in line for line in nearchus.losses(found(**fast, **{"E2 fulfilment": 9.0}))
    )


def test_the_table_has_a_row_for_each_setting_on_each_workload_and_each_run_of_e2() -> None:
    made = found(FIFO=123.0, fulfilment=321.0)
    rows = list(csv.DictReader(nearchus.table(made).splitlines()))
    assert len(rows) == 2 * (len(SETTINGS) + len(PLAYED)) + len(made.manifests)
    assert {row["jct"] for row in rows if row["setting"] == "FIFO"} == {"123.0"}
    of_two = [row for row in rows if row["setting"] == "fulfilment"]
    assert {(row["jct"], row["makespan"]) for row in of_two} == {("321.0", ""), ("1000.0", "1000.0")}
    assert {row["family"] for row in of_two if row["makespan"]} == {
        f"E2 {which} {where}" for which in ("ps", "ar") for where in ("alone", "in the mix")
    }


def test_each_run_of_e2_is_asked_for_once() -> None:
    keys = list(manifests.wanted(SEEDS))
    assert len(keys) == len(set(keys))
    assert {key.policy for key in keys} >= {"ours", "native", "gang", "binpack", "dragon", "edragon", "fulfilment"}
    assert {key.seed for key in keys} == set(SEEDS)


def test_without_the_tables_it_says_what_to_set_and_writes_nothing(tmp_path: Path, settings: Any) -> None:
    settings.WEFT_DATA = tmp_path
    with pytest.raises(SystemExit):
        call_command("reproduce", "nearchus", "--out", str(tmp_path / "nearchus.html"))
    assert list(tmp_path.iterdir()) == []
