"""The report of curves: what is drawn, and what the command says where it cannot be."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from controlplane.benchmarks.slo import curves, report
from controlplane.benchmarks.slo.judge import Policy
from controlplane.benchmarks.slo.traces import Trace


def made(name: str = "made", minutes: int = 4) -> Trace:
    """A request a second in the first minute, and of the rest one a minute; each takes 1 s, and one slot serves."""
    at = np.array([*np.arange(0.0, 60.0), *np.arange(60.0, 60.0 * minutes, 60.0)])
    return Trace(name, at, np.full(len(at), 1.5), 1, 3.0, 60.0 * minutes)


def up_at(moment: float, number: int) -> Policy:
    return Policy(lambda seen: number if seen.at >= moment else 1)


SHOWN = {"one": (lambda trace, start: up_at(1e9, 1), 30.0), "two": (lambda trace, start: up_at(75.0, 2), 30.0)}


def test_each_point_has_its_load_the_most_that_were_wanted_the_fewest_that_were_ready_and_what_was_late() -> None:
    cell = curves.cell(made(), SHOWN)
    one, two = cell.curves
    assert cell.minutes == 1
    assert cell.load.tolist() == [1.0, 1 / 60, 1 / 60, 1 / 60]
    assert (one.wanted.tolist(), two.wanted.tolist()) == ([1, 1, 1, 1], [1, 2, 2, 2])
    assert (one.ready.tolist(), two.ready.tolist()) == ([1, 1, 1, 1], [1, 1, 2, 2])
    # Each waits half a second longer than the one before, up to 29.5 s; on time are the first four, late the others.
    assert one.late.tolist() == [pytest.approx(100 * 56 / 60), 100.0, 0.0, 0.0]


def test_a_long_trace_has_several_minutes_in_a_point() -> None:
    cell = curves.cell(made(minutes=1500), SHOWN)
    assert (cell.minutes, len(cell.load)) == (3, 500)
    assert cell.load[0] == pytest.approx(62 / 180)
    assert cell.curves[1].late[0] == pytest.approx(100 * 57 / 62)


def test_what_was_wanted_for_a_moment_only_is_drawn() -> None:
    wants = iter((1, 1, 1, 1, 5, 2, 2, 2))
    cell = curves.cell(made(minutes=2), {"one": (lambda trace, start: Policy(lambda _: next(wants)), 30.0)})
    assert cell.curves[0].wanted.tolist() == [1.0, min(5, made().max_replicas)]


class Page(HTMLParser):
    """Which elements a page has, and what it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_draws_load_and_three_charts_of_all_policies_and_needs_nothing_from_elsewhere() -> None:
    text = report.page([curves.cell(made("a<b"), SHOWN), curves.cell(made("c"), SHOWN)], 7)
    found = Page(text).found
    drawn = [more for tag, more in found if tag == "path" and str(more.get("class")).startswith("curve")]
    assert len(drawn) == 2 * (2 + 1 + 3 * 2)  # keys of the tables, the load, wanted, ready and late
    assert [more["aria-label"] for tag, more in found if tag == "svg" and "aria-label" in more][:2] == [
        "Load, requests/s, a<b", "Replicas wanted, a<b"
    ]  # fmt: skip
    assert not [
        tag for tag, more in found if tag in ("script", "link", "img", "iframe") or {"src", "href"} & more.keys()
    ]
    assert "url(" not in text and "http" not in text
    assert "nan" not in text.lower().replace("</", "")


def test_a_line_goes_from_left_to_right_within_the_chart() -> None:
    text = report.page([curves.cell(made(), SHOWN)], 7)
    for path in re.findall(r'class="curve [^"]*" style="[^"]*" d="M([^"]*)"', text):
        points = [tuple(float(n) for n in point.split()) for point in path.split("L")]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        assert all(report.LEFT <= x <= report.WIDTH and report.TOP <= y <= report.HEIGHT for x, y in points)


def test_the_command_writes_the_report_of_a_trace_that_is_drawn(tmp_path: Path, settings: LazySettings) -> None:
    settings.WEFT_DATA = tmp_path
    out = tmp_path / "slo.html"
    call_command("reproduce", "slo", "--traces", "spike", "--out", str(out))
    text = out.read_text()
    for name in curves.SHOWN:
        assert name in text
    assert list(tmp_path.iterdir()) == [out]


def test_without_the_shared_traces_it_says_which_file_is_missing_and_what_needs_none(
    tmp_path: Path, settings: LazySettings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.WEFT_DATA = tmp_path
    with pytest.raises(SystemExit):
        call_command("reproduce", "slo", "--out", str(tmp_path / "slo.html"))
    told = capsys.readouterr().err
    assert "azure_llm_2023_conv.csv is missing. Set WEFT_DATA" in told
    assert "--traces ramp,step,spike,diurnal" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--traces", "azur"], "--traces: 'azur' is none of azure, azure8"),
        (["--traces", ""], "--traces: '' is none of"),
        (["--seed", "-1"], "--seed: use a whole number from 0 on."),
    ],
)
def test_what_cannot_be_is_refused_with_the_option_that_says_it(asked: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=re.escape(told)):
        call_command("reproduce", "slo", "--out", str(tmp_path / "slo.html"), *asked)


def test_where_it_cannot_write_it_says_so_before_it_measures(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--out: .* is a folder"):
        call_command("reproduce", "slo", "--out", str(tmp_path))
    with pytest.raises(CommandError, match="--out: there is no folder"):
        call_command("reproduce", "slo", "--out", str(tmp_path / "no" / "slo.html"))
