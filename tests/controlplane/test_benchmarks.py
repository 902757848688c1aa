import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from controlplane.benchmarks import record
from controlplane.benchmarks.figure import BenchmarkError, Figure, Options, Result
from controlplane.benchmarks.printing import object_of
from controlplane.benchmarks.registry import BENCHMARKS

FIGURES = (Figure("x.wall_seconds", 12.5, "s", 10.0), Figure("x.rate", 5.0, "1/s", 4.0, higher_is_better=True))


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


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


def test_kept_figures_come_back_with_their_commit_date_and_machine() -> None:
    kept = record.keep("x", Result(FIGURES, ("a note",)), (1, 2), 0.5)

    assert record.kept("x") == kept
    assert kept.figures == FIGURES
    assert kept.date and kept.machine


def test_a_part_of_a_benchmark_is_not_kept() -> None:
    record.keep("x", Result(FIGURES), (0,), 0.5, is_whole=False)

    assert record.kept("x") is None


def test_figures_of_other_code_are_stale() -> None:
    record.keep("x", Result(FIGURES), (0,), 0.5)
    path = next(Path(record._folder()).glob("x.json"))
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "code": "of-long-ago"}))
    kept = record.kept("x")

    assert kept is not None and kept.is_stale


def test_figures_prints_what_is_kept_with_commit_and_date() -> None:
    kept = record.keep("replay", Result((Figure("replay.wall_seconds", 9.0, "s", 600.0),)), (0,), 0.1)
    out = StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("figures", kept=True, json=True, stdout=out)

    assert end.value.code == 0
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {**object_of(kept.figures[0]), "commit": kept.commit, "date": kept.date}
    ]


def test_an_absent_trace_stops_the_benchmark_with_the_fix(settings: Any, tmp_path: Path) -> None:
    settings.WEFT_DATA = tmp_path / "nowhere"

    with pytest.raises(BenchmarkError, match="Set WEFT_DATA to the folder"):
        BENCHMARKS["replay"](Options(tmp_path / "nowhere"), lambda part, text: None)
