"""The report of the seeds' claims: what is on it, its losses, its CSV, and what is kept between two calls."""

import csv
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Progress, Result
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.harness.tree import Tree
from controlplane.benchmarks.mix.mixed import OURS
from controlplane.benchmarks.mix.policies import POLICIES
from controlplane.benchmarks.mix.runs import Key, Told
from controlplane.benchmarks.reports import seeds as drawn
from controlplane.benchmarks.seeds import forms, measure, mixrows, noted, plays, rows
from controlplane.benchmarks.seeds.experiments import EXPERIMENTS, VIEWS
from controlplane.benchmarks.seeds.kept import Kept, digest
from controlplane.benchmarks.seeds.rows import Kind, Row
from controlplane.benchmarks.seeds.taken import OF, Benchmarks, Taken

FORM = replace(forms.full(3), times=(8,))
TINY = replace(
    forms.SHORT, baselines=("native", "gang", "binpack", "kueue-like", "edragon"), curve=("native",),
    crowding=(), times=(), loads=(0.9,), at_random=("native",), manifests=("native",), alone=(), traces=(), work=0.02,
    steps=(("+sharing", "+sharing, no moves"), ("+harvest", OURS)), processes=1,
)  # fmt: skip
NOTES: Mapping[str, tuple[str, ...]] = {
    "slo": ("standby of 2 s by hpa-rps 0.9: late 99.694 %, 4604 bad, net 0.88",),
    "notebooks": (
        "human, on demand: 4.00 users a GPU [3.80, 4.20], 12 seeds; cells p95 1.090 x",
        "human, 2 a GPU, culled after 20 min: 2.50 users a GPU [2.40, 2.60], 12 seeds; cells p95 1.090 x",
    ),
    "nearchus": (
        "Gavel V100, all rows: LM +326.3 %, best +855.7 %; ResNet-50 +0.0 %, best +55.7 %",
        "parameter servers, ASSUMED coefficients (each server: {'mid': (0.4, 0.01)}): mid +65.3 %, best +142.4 %",
        "history, free batch, 2.23 restarts a job; mean completion time lower by %: FIFO 63 [58, 68]; "
        "Optimus 60 s 1 [-2, 3]",
    ),
    "tokens": (
        "token: error 0.66 points in 1 s, 0.07 in 10 s; throughput of four 3.39 to 3.63, stretch p95 1.84; of three "
        "with duty 40 % 2.12 to 2.12",
        "slices: error 20.00 points in 1 s, 20.00 in 10 s; throughput of four 3.34 to 3.57, stretch p95 1.52; of three "
        "with duty 40 % 2.15 to 2.17",
    ),
    "sia": ("philly 1: mean 0.900 x, p99 1.020 x; ours mean 0.5 h", ),
}  # fmt: skip
FIGURES = {
    "slo": ("slo.late_percent_max", "slo.net_ratio_geomean", "slo.bad_windows"),
    "notebooks": ("notebooks.users_per_gpu_ratio",),
    "nearchus": ("nearchus.max_gain_percent", "nearchus.jct_fifo_percent_ci_low"),
    "tokens": ("tokens.throughput_ratio",),
    "sia": ("sia.jct_ratio_to_sia",),
}


class Made(Benchmarks):
    """Benchmarks that are stored, as made up here."""

    def __init__(self) -> None:
        self.now = Tree("abc", {}, ())

    def is_due(self, name: str) -> bool:
        """None is."""
        return False

    def take(self, name: str, data: Path, kept: Kept, progress: Progress) -> Taken:
        """Each figure misses its goal."""
        figures = tuple(Figure(one, 2.0, "x", 1.0) for one in FIGURES[name])
        return Taken(Result(figures, NOTES[name]), "stored: commit 123; older: gpushare changed")


def quiet(part: float, what: str) -> None:
    """No progress."""


def made(keys: list[Key], planted: Mapping[tuple[str, str], float] | None = None) -> dict[Key, Told]:
    """Ours is four times as fast as all others, but for what is planted, by policy and set: times that ours takes."""
    found = {}
    for key in keys:
        times = 1.0 if key.policy == OURS else (planted or {}).get((key.policy, key.which), 4.0)
        size = 1000.0 * (1 + key.seed / 100) * times
        used = 0.9 if key.policy == OURS else 0.6
        late, slowed = (0.01, 1.05) if key.policy == OURS else (10.0, 2.0)
        found[replace(key, work=1.0)] = Told(size, size / 2, late, slowed, used, 7.0, 2.0, 1000.0)
    return found


Planted = tuple[tuple[tuple[str, str], float], ...]


@cache
def report(name: str = "seeds", planted: Planted = ()) -> measure.Found:
    """The full form of few seeds, all of it made up."""
    view, benchmarks = VIEWS[name], Made()
    mix, manifests = made(list(FORM.mix()), dict(planted)), made(list(FORM.by_manifests()))
    taken = {name: benchmarks.take(name, Path(), Kept(None, {}), quiet) for name in NOTES}
    return measure.Found(view, FORM, measure.chosen(view, FORM, mix, manifests, taken, [], "played"), taken, "today")


def losses(text: str) -> str:
    """That part of the page, with spaces as in other texts."""
    return text[text.index('id="losses"') : text.index('id="E')].replace(drawn.TIE, " ")


def test_each_experiment_is_on_the_page_with_its_baselines() -> None:
    text = drawn.page(report())
    for name, one in EXPERIMENTS.items():
        section = text[text.index(f'<div id="{name}">') :]
        assert f"<h2>{name} {one.title}</h2>" in section
        assert "<svg" in section.split('<div id="E')[1]
    whole = text[text.index('<div id="E1">') : text.index('<div id="E2">')]
    for policy in ("gang", "binpack", "kueue-like", "dragon", "edragon"):
        assert f">{policy}</text>" in whole and f">{policy}, pool</text>" in whole
    for part in ("+gang", "+locality", "+sharing", "+elastic", "+lending", "+re-allocation", "+harvest"):
        assert f"<td>{part}</td>" in whole
    for place in ("4 of 16", "12 of 16", "14 of 16", "mixed, 12 of 16, x8"):
        assert place in whole
    for policy in ("default+scaling(2)", "default+scaling(6)", forms.KUBESHARE):
        assert f">{policy}</text>" in text[text.index('<div id="E3">') : text.index('<div id="E4">')]


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = drawn.page(report())
    assert "<script" not in text and "http" not in text and "src=" not in text
    assert set(re.findall(r'href="#([^"]*)"', text)) == set(re.findall(r'<div id="([^"]*)"', text))


def test_tables_break_their_lines_and_say_in_two_words_what_is_stored_of_older_code() -> None:
    text = drawn.page(report())
    claims = text[text.index('id="claims"') : text.index('id="losses"')]
    assert '<table class="wraps">' in claims
    assert f"<td>stored, older{drawn.TIE}code</td>" in claims and "gpushare changed" not in claims
    assert "Benchmark slo: stored: commit 123; older: gpushare changed." in text
    assert f"<td>&gt;={drawn.TIE}2.39{drawn.TIE}x</td>" in claims, "no line ends between a number and its unit"


def test_a_bar_shows_its_interval_its_level_and_a_mean_that_is_almost_0() -> None:
    shown = parts.bars([("a", -0.002, -0.001, 0.0), ("b", 1.0, 2.0, 3.0)], "points")
    assert shown.count('class="spread"') == 2
    assert ">level: 0 points</text>" in shown
    assert ">-0.001 points</text>" in shown and ">2.00 points</text>" in shown


def test_a_loss_that_is_planted_stands_among_the_losses_and_nothing_like_it_else() -> None:
    assert "binpack, pool" not in losses(drawn.page(report()))
    lost = losses(drawn.page(report(planted=((("binpack, pool", "ar"), 0.9), (("edragon, pool", "ps"), 1.0)))))
    assert "<td>binpack, pool</td><td>better than ours</td><td>makespan over ours</td><td>ar, 12 of 16</td>" in lost
    assert "<td>edragon, pool</td><td>level with ours</td><td>makespan over ours</td><td>ps, 12 of 16</td>" in lost
    assert "<td>0.9 x</td>" in lost


def test_goals_and_claims_that_are_missed_stand_there_too_and_those_of_stored_benchmarks() -> None:
    lost = losses(drawn.page(report(planted=tuple((("native", which), 2.0) for which in FORM.sets))))
    assert "<td>mixed.makespan_ratio_ci_low</td><td>the worst set</td><td>2 x</td><td>&gt;= 2.85 x</td>" in lost
    assert "<td>poster training 3.26x, ar</td>" in lost
    assert "<td>notebooks.users_per_gpu_ratio</td>" in lost
    for policy in ("hpa-rps 0.9, with our standby", "as it was placed", "Optimus 60 s", "slices", "sia"):
        assert f"<td>{policy}</td>" in lost, "each stored benchmark's own losses"


def test_the_csv_has_a_row_for_each_figure_of_the_page() -> None:
    found = report()
    lines = list(csv.DictReader(rows.table(found.rows).splitlines()))
    assert len(lines) == len(found.rows)
    text = drawn.page(found)
    known = {tuple(line[name] for name in ("experiment", "kind", "what", "where", "policy")) for line in lines}
    assert len(known) == len(lines)
    assert {line["experiment"] for line in lines} == set(EXPERIMENTS)
    goals = set(re.findall(r"<td>((?:mixed|slo|notebooks|nearchus|tokens|sia)\.\w+)</td>", text))
    assert goals and goals <= {line["what"] for line in lines}
    assert text.count('r="4"') == sum(line["kind"] in ("against", "scale") for line in lines), "bars"
    points = [line for line in lines if line["kind"] == "crowding" and line["what"] == mixrows.MAKESPAN]
    assert text.count('r="3"') == len(points)
    assert {line["verdict"] for line in lines} <= {"", "missed", "level with ours", "better than ours"}


def test_a_row_is_lost_where_its_interval_reaches_the_level_and_better_where_it_lies_below() -> None:
    row = Row("E1", Kind.AGAINST, "makespan over ours", "ps", "gang", 1.2, 1.1, 1.3, "x", 1.0)
    assert (row.is_lost, row.verdict) == (False, "")
    assert replace(row, low=1.0).verdict == "level with ours"
    assert replace(row, low=0.7, value=0.8, high=0.9).verdict == "better than ours"
    most = replace(row, level=None, goal=1.1, is_most=True)
    assert (most.met, most.verdict) == (False, "missed")
    assert replace(most, is_most=False).verdict == ""


@pytest.mark.parametrize("name", ["dynamoml", "poster"])
def test_the_views_have_their_experiments_and_the_claims_of_their_paper(name: str) -> None:
    found = report(name)
    text = drawn.page(found)
    shown = re.findall(r'<div id="(E\d)">', text)
    assert set(shown) == set(VIEWS[name].experiments)
    claims = {row.what for row in found.rows if row.kind is Kind.CLAIM}
    assert {"dynamoml": "throughput +60 %", "poster": "total time 2.39x"}[name] in claims


def test_all_that_a_form_plays_is_a_policy_and_each_run_is_asked_for_once() -> None:
    for form in (FORM, forms.SHORT, forms.full()):
        keys = [*form.mix(), *form.by_manifests()]
        assert {key.policy for key in keys} <= set(POLICIES)
    full = {(key.times, key.policy) for key in forms.full().mix()}
    assert {(8, OURS), (32, OURS), (8, "native"), (32, "edragon, pool")} <= full
    assert min(key.seed for key in forms.full().mix()) >= 5, "constants were chosen on those before"


def test_what_benchmarks_say_of_others_is_read_with_its_interval() -> None:
    def read(name: str) -> list[Row]:
        taken = Made().take(name, Path(), Kept(None, {}), quiet)
        return [row for row in noted.rows(name, taken.result, "s") if row.kind is Kind.AGAINST]

    (users,) = read("notebooks")
    assert (users.policy, users.value) == ("2 a GPU, culled after 20 min", 1.6)
    assert users.low == pytest.approx(3.8 / 2.6)
    assert users.high == pytest.approx(4.2 / 2.4)
    lm, resnet, servers, fifo, optimus = read("nearchus")
    assert (lm.experiment, lm.value, resnet.value, resnet.is_lost) == ("E5", 326.3, 0.0, True)
    assert (servers.what, servers.where) == ("gain at the same GPUs, mid", "parameter servers")
    assert (fifo.experiment, fifo.policy, fifo.low, fifo.is_lost) == ("E6", "FIFO", 58.0, False)
    assert (optimus.policy, optimus.verdict) == ("Optimus 60 s", "level with ours")
    stretch = next(row for row in read("tokens") if row.what.startswith("stretch"))
    assert stretch.verdict == "better than ours", "slices wait less"
    assert [row.verdict for row in read("sia")] == ["", "better than ours"]
    assert [row.what for row in read("slo") if row.is_lost] == ["GPU hours over ours"]


@pytest.mark.parametrize("name", sorted(set(OF.values())))
def test_what_is_stored_of_a_benchmark_is_read(name: str) -> None:
    stored = Benchmarks(is_measured=False, is_short=True).stored
    if name in stored:
        record = stored[name].record
        assert record is not None
        some = list(noted.rows(name, Result(record.figures, record.notes), "s"))
        assert any(row.kind is Kind.AGAINST for row in some)
        assert any(row.kind is Kind.GOAL for row in some)
        assert any(row.kind is Kind.CLAIM for row in some)


def test_a_small_form_is_played_without_data_and_a_second_call_plays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "reproduced.jsonl"
    told: list[str] = []
    found = measure.found(VIEWS["seeds"], TINY, Made(), tmp_path, path, lambda part, what: told.append(what))
    assert {row.experiment for row in found.rows} == set(EXPERIMENTS)
    assert told
    again = measure.found(VIEWS["seeds"], TINY, Made(), tmp_path, path, lambda part, what: pytest.fail(what))
    assert again.rows == found.rows
    assert losses(drawn.page(found))


def test_what_other_code_played_is_played_again_and_a_line_that_broke_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "reproduced.jsonl"
    Kept(path, {"mix": "a"}).add("mix", {"makespan": 1.0}, "key")
    with path.open("a") as file:
        file.write('{"of": "mix", "ke')
    assert Kept(path, {"mix": "a"}).get("mix", "key") == {"makespan": 1.0}
    assert Kept(path, {"mix": "b"}).get("mix", "key") is None
    assert Kept(None, {}).get("mix", "key") is None


def test_the_digest_is_of_the_benchmarks_own_files_and_folders(tmp_path: Path) -> None:
    one = BENCHMARKS["tokens"]
    for path in (*one.files, "gpushare/a.py", "scheduler/b.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1")
    before = digest(one, root=tmp_path)
    (tmp_path / "scheduler/b.py").write_text("2")
    assert digest(one, root=tmp_path) == before
    (tmp_path / "gpushare/a.py").write_text("2")
    assert digest(one, root=tmp_path) != before


def test_without_tables_parameter_servers_are_drawn_as_with_them(tmp_path: Path) -> None:
    assert len(plays.models(tmp_path, "ps")) == 6
    assert asdict(Key("ps", "native", 5))["work"] == 1.0
    assert plays.one(tmp_path, plays.MIX, Key("ps", "binpack", 5, 4, work=0.02)).makespan > 0


def test_without_data_it_names_what_is_missing_and_what_needs_none(
    tmp_path: Path, settings: LazySettings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.WEFT_DATA = tmp_path
    with pytest.raises(SystemExit):
        call_command("reproduce", "seeds", "--out", str(tmp_path / "seeds.html"))
    told = capsys.readouterr().err
    assert "no training/pollux/profile_placements.csv (E1, E2, E3, E4, E7)" in told
    assert "Set WEFT_DATA" in told and "--short needs none" in told
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BenchmarkError, match="notebooks/interactive_training_events.csv.gz \\(E4\\)"):
        measure.require(FORM, Benchmarks(is_measured=True, is_short=False), tmp_path, ["notebooks"])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["seeds", "--short", "--measure"], "--short: leave out --measure and --repeat"),
        (["dragon", "--short"], "--short and --measure are for seeds, dynamoml, poster only"),
    ],
)
def test_options_that_exclude_each_other_are_refused(asked: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=told):
        call_command("reproduce", *asked, "--out", str(tmp_path / "a.html"))


def test_pairs_are_of_the_same_seed() -> None:
    keys = [Key("ps", OURS, 5), Key("ps", "native", 5), Key("ps", "native", 6)]
    assert len(mixrows.pairs(made(keys), Key("ps", "native", 0))) == 1
