"""The report of `nearchus`: what stands on it, and where others are level or better."""

import csv

from controlplane.benchmarks.harness.figure import Figure, Result
from controlplane.benchmarks.reports import nearchus
from controlplane.benchmarks.training.nearchuscluster import CASES, SETTINGS, Summary


def found(**jct: float) -> nearchus.Found:
    """All settings end a training in 100 s on two workloads, but for these, by setting."""
    cases = CASES[:2]
    told = {(name, case): Summary(jct.get(name, 100.0), 50.0, 50.0, 1.0, 0) for name in SETTINGS for case in cases}
    singles = Result((Figure("nearchus.max_gain_percent", 130.0, "%", 129.0, higher_is_better=True),), ("a note",))
    return nearchus.Found(singles, ("held <against> it",), told, cases)


def test_the_page_has_each_figure_with_its_goal_and_text_is_no_markup() -> None:
    page = nearchus.page(found(**{"history, free batch": 50.0}))
    assert "<td>nearchus.max_gain_percent</td><td>130 %</td><td>129 %</td><td>yes</td>" in page
    assert "<td>nearchus.jct_tiresias_percent_ci_low</td><td>50 %</td><td>38 %</td><td>yes</td>" in page
    assert "held &lt;against&gt; it" in page


def test_losses_name_each_workload_and_who_is_level_there() -> None:
    lost = nearchus.losses(found(**{"history, free batch": 50.0, "FIFO": 40.0, "batch fixed": 99.0}))
    assert lost[:2] == ["history, free batch: 0.5 1: FIFO", "history, free batch: 0.5 2: FIFO"]
    assert not any("Tiresias" in line for line in lost if line.startswith(("history", "batch fixed")))
    assert nearchus.losses(found(**dict.fromkeys(nearchus.OURS, 50.0))) == ["None."]


def test_the_table_has_a_row_for_each_setting_on_each_workload() -> None:
    rows = list(csv.DictReader(nearchus.table(found(FIFO=123.0)).splitlines()))
    assert len(rows) == 2 * len(SETTINGS)
    assert {row["jct"] for row in rows if row["setting"] == "FIFO"} == {"123.0"}
