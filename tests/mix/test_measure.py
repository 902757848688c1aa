"""What is made of the runs: figures, intervals, losses, the page and the CSV."""

import csv
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.mix import measure, report, runs
from controlplane.benchmarks.mix.runs import Key, Told


def one(makespan: float, jct: float, late: float = 0.01) -> Told:
    return Told(makespan, jct, late, 1.5, 0.6, 7.0, 2.0, 50.0)


def made() -> dict[Key, Told]:
    """All that a run of three seeds has; ours is three times as fast as others, on ps twice; binpack is level on ar."""
    found = {}
    for key in runs.wanted((5, 6, 7), (5, 6)):
        size = 1000.0 * (1 + key.seed / 100)
        is_best = key.policy == "ours" or (key.policy, key.which) == ("binpack", "ar")
        times = 1.0 if is_best else 2.0 if key.which == "ps" else 3.0
        found[key] = one(size * times, size * times / 2)
    return found


def test_the_figures_are_those_of_the_worst_set() -> None:
    figures = {figure.name: figure for figure in measure.judged(made()).figures}
    assert figures["training.makespan_ratio_ci_low"].value == pytest.approx(2.0, abs=0.011)
    assert figures["training.jct_percent_ci_low"].value == pytest.approx(50.0, abs=0.11)
    assert figures["training.late_percent"].value == 0.01
    assert figures["training.makespan_ratio_ci_low"].met is False
    assert figures["training.late_percent"].met


def test_where_a_baseline_is_level_a_line_says_so() -> None:
    lost = list(measure.losses(made()))
    assert "level or behind in makespan, ar, 12 of 16: binpack 1.00 x" in lost
    assert all("binpack" in line for line in lost)


def test_each_pair_has_the_same_seed_and_what_was_not_played_is_left_out() -> None:
    found = {Key("ps", "ours", 5): one(10, 1), Key("ps", "native", 5): one(20, 4), Key("ps", "native", 6): one(99, 9)}
    assert measure.ratio(found, "ps", "native").tolist() == [2.0]
    assert measure.gain(found, "ps", "native").tolist() == [0.75]
    assert measure.shown(found, "ar", "native") == "ar not played"


def test_the_page_needs_nothing_from_elsewhere_and_the_csv_has_each_run() -> None:
    found = made()
    text = report.page(found)
    assert "<script" not in text
    assert "http" not in text
    for name in ("training.makespan_ratio_ci_low", "kueue-like, pool", "+sharing", "4 of 16", "Losses"):
        assert name in text
    rows = list(csv.DictReader(report.table(found).splitlines()))
    assert len(rows) == len(found)
    assert {row["policy"] for row in rows} == {key.policy for key in found}


def test_without_the_tables_it_says_what_to_set(tmp_path: Path, settings: LazySettings) -> None:
    with pytest.raises(BenchmarkError, match="Set WEFT_DATA"):
        measure.run(Options(tmp_path), lambda part, what: None)
    settings.WEFT_DATA = tmp_path
    with pytest.raises(SystemExit):
        call_command("reproduce", "training", "--out", str(tmp_path / "training.html"))
    assert list(tmp_path.iterdir()) == []


def test_no_seeds_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--repeat: use a whole number from 1 on"):
        call_command("reproduce", "training", "--repeat", "0", "--out", str(tmp_path / "training.html"))
