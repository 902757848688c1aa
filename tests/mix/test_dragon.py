"""Enhanced Dragon's experiment: what is played, what is made of the runs, the page and the CSV."""

import csv
from pathlib import Path
from typing import cast

import pytest
from django.conf import LazySettings
from django.core.management import call_command

from controlplane.benchmarks.mix import dragon, draws, engine, jobs, report
from controlplane.benchmarks.mix.policies import POLICIES
from controlplane.benchmarks.mix.runs import Key, Told
from controlplane.benchmarks.reports import dragon as drawn
from controlplane.benchmarks.training.tables import Application
from tests.mix.made import training, world

SEEDS = (5, 6, 7)
APPS = {"made": cast(Application, None)}  # none that the set `ps` asks


def made() -> dict[Key, Told]:
    """All that three seeds have: ours is 4 x as fast as others; alone binpack is as fast, and dragon twice as fast."""
    found = {}
    for key in dragon.wanted(SEEDS, SEEDS):
        size = 1000.0 * (1 + key.seed / 100)
        is_alone = key.crowded == dragon.NOTHING_ELSE
        fast = {"ours": 4.0} | ({"binpack": 4.0, "dragon": 8.0} if is_alone and not key.load else {})
        times = 1 / fast.get(key.policy, 1.0)
        used = 0.9 if key.policy == "ours" else 0.6
        found[key] = Told(size * times, size * times / 2, 0.01, 1.5, used, 7.0, 2.0, 1000.0)
    return found


def test_each_baseline_is_played_in_the_mix_and_where_it_applies_alone_and_at_random() -> None:
    keys = list(dragon.wanted(SEEDS, SEEDS[:1]))
    assert len(keys) == len(set(keys))
    in_mix = {key.policy for key in keys if key.crowded == 12 and not key.load}
    assert {"native", "gang", "binpack", "dragon", "edragon", "kueue-like", "ours", "+locality", "+elastic"} <= in_mix
    assert {key.policy for key in keys} <= set(POLICIES)
    alone = {key.policy for key in keys if not key.crowded and not key.load}
    assert {"native", "dragon", "ours", "+gang"} <= alone
    assert "edragon" not in alone
    assert {key.load for key in keys if key.load} == {0.6, 0.9, 1.2}
    assert {key.seed for key in keys if key.load} == {5}


def test_the_manifests_ask_for_two_workers_and_where_they_are_elastic_for_four_one_and_four() -> None:
    mix = draws.manifests_world("ps", 5, APPS, dragon.NOTHING_ELSE)
    assert [one.at for one in mix.trainings] == [900.0] * 4 + [1200.0] * 4 + [1500.0] * 4
    assert {one.work for one in mix.trainings} == {3000.0}
    native = [jobs.training(one, n, POLICIES["native"]).gang for n, one in enumerate(mix.trainings)]
    ours = [jobs.training(one, n, POLICIES["ours"]).gang for n, one in enumerate(mix.trainings)]
    assert {(gang.count, gang.min, gang.max) for gang in native} == {(2, 2, 2)}
    assert [gang.count for gang in ours] == [4] * 4 + [1] * 4 + [4] * 4
    assert {(gang.min, gang.max) for gang in ours} == {(1, 4)}
    assert (mix.notebooks, mix.replicas) == (0, 0)
    crowded = draws.manifests_world("ps", 5, APPS)
    assert (crowded.notebooks, crowded.replicas) == (8, 4)


@pytest.mark.parametrize("name", ["native", "dragon", "ours"])
def test_trainings_alone_have_all_gpus_and_no_request_is_late(name: str) -> None:
    mix = draws.World(0, (training("t0", at=1000.0), training("t1", at=1000.0)), draws.Service(0, 0.0), 0, 0)
    outcome = engine.play(mix, POLICIES[name], is_checked=True)
    assert max(outcome.waited.values()) < 120.0
    assert (outcome.late_percent, outcome.service_gpu_seconds) == (0.0, 0.0)
    assert set(outcome.held) == {"training"}


def test_with_a_service_what_it_computes_is_counted() -> None:
    outcome = engine.play(world([training("t0", at=1000.0)], notebooks=0), POLICIES["binpack"], is_checked=True)
    assert outcome.service_gpu_seconds > 0
    assert "inference" in outcome.held


def test_the_figures_are_those_of_the_worst_set_and_of_the_worst_load() -> None:
    found = made()
    worst = {Key(dragon.AT_RANDOM, "ours", seed, 12, 1.2) for seed in SEEDS}
    found |= {
        key: Told(one.makespan, one.jct * 2, 0.0, 1.0, 0.7, 1.0, 1.0, 1.0) for key, one in found.items() if key in worst
    }
    figures = {one.name: one for one in dragon.judged(found).figures}
    assert figures["dragon.makespan_ratio_ci_low"].value == pytest.approx(4.0, abs=0.011)
    assert figures["dragon.jct_percent_ci_low"].value == pytest.approx(75.0, abs=0.11)
    assert figures["dragon.elapsed_percent_ci_low"].value == pytest.approx(50.0, abs=0.11)
    assert figures["dragon.used_points_ci_low"].value == pytest.approx(10.0, abs=0.11)
    assert [one.met for one in figures.values()] == [True, True, False, False]


def test_losses_say_in_words_which_goal_is_missed_and_which_policy_is_level_or_sooner() -> None:
    found = made()
    lost = dragon.losses(found)
    level = "as soon as under ours, as far as these seeds tell"
    assert f"ps, alone: under binpack all trainings are done {level}: its makespan is 1.00 times ours." in lost
    sooner = "a training is done sooner than under ours: its mean completion time is 50 % shorter than under ours."
    assert f"ar, alone: under dragon {sooner}" in lost
    assert not any("in the mix" in line for line in lost)
    slow = {
        key: Told(3000.0, 1500.0, 0, 1, 0.6, 1, 1, 1.0) if key.policy == "ours" else one for key, one in found.items()
    }
    assert dragon.losses(slow)[0].startswith("The goal of dragon.makespan_ratio_ci_low is missed: ")


def test_each_comparison_says_which_is_faster_and_by_how_much() -> None:
    said = dragon.judged(made()).notes
    native = "makespan 4.00 x ours [4.00, 4.00]; mean completion time 75 % shorter under ours [shorter by 75 to 75]"
    assert f"ps, in the mix: native: {native}; late 0.01 %" in said
    assert (
        f"at random alone, load 0.6: native: {native}; under ours +30.0 points of all GPUs' time used [+30.0, +30.0]"
        in said
    )
    dragons = (
        "makespan 0.50 x ours [0.50, 0.50]; mean completion time 100 % longer under ours [shorter by -100 to -100]"
    )
    assert f"ar, alone: dragon: {dragons}" in said


def test_the_page_needs_nothing_from_elsewhere_and_the_csv_has_each_run() -> None:
    found = made()
    text = drawn.page(found)
    assert "<script" not in text
    assert "http" not in text
    for name in ("dragon.used_points_ci_low", "kueue-like, pool", "+locality", "at random alone, load 1.2", "Losses"):
        assert name in text
    assert text.count("<svg") == sum(3 if cell.load else 2 for cell in dragon.CELLS)
    rows = list(csv.DictReader(report.table(found).splitlines()))
    assert len(rows) == len(found)
    assert {row["load"] for row in rows} == {"0.0", "0.6", "0.9", "1.2"}


def test_without_the_tables_it_says_what_to_set_and_writes_nothing(tmp_path: Path, settings: LazySettings) -> None:
    settings.WEFT_DATA = tmp_path
    with pytest.raises(SystemExit):
        call_command("reproduce", "dragon", "--out", str(tmp_path / "dragon.html"))
    assert list(tmp_path.iterdir()) == []
