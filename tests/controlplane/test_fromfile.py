"""`manage.py simulate --experiment`: what a file may say, and what comes of it."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from controlplane.benchmarks.fromfile import document, play, sample
from controlplane.benchmarks.fromfile.document import ExperimentError, parse
from controlplane.benchmarks.training.cluster16 import shape_of
from tests.controlplane.smallcluster import guarded

SMALL = {"trainings": [{"model": "sample", "gpus": 2, "count": 3, "every": "5m"}], "policies": ["fifo", "weft"]}


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ([], "The file has to be an object with workload, trainings"),
        ({}, "workload: give either workload or trainings, and not both."),
        ({**SMALL, "workload": {"family": "philly"}}, "workload: give either workload or trainings"),
        ({**SMALL, "polices": []}, "polices is no field. Did you mean policies?"),
        ({**SMALL, "policies": ["weft", "tiresia"]}, "policies: 'tiresia' is none. Did you mean tiresias?"),
        ({**SMALL, "policies": ["weft", "weft"]}, "policies: one is there twice."),
        ({**SMALL, "policies": "weft"}, "policies: 'weft' is not a list."),
        ({**SMALL, "batch": "free-ish"}, "batch: 'free-ish' is none. Did you mean free?"),
        ({**SMALL, "history": "yes"}, "history: 'yes' is not true or false."),
        ({**SMALL, "noise": 2}, "noise: 2 is not a number from 0 to 1."),
        ({**SMALL, "noise": float("nan")}, "noise: nan is not a number from 0 to 1."),
        ({**SMALL, "seeds": []}, "seeds: give 1 to 20 of them, here are 0."),
        ({**SMALL, "seeds": [True]}, "seeds: True is no whole number"),
        ({"trainings": []}, "trainings: give at least one"),
        ({"trainings": [7]}, "trainings[0]: write an object with model, gpus"),
        ({"trainings": [{"gpus": 1}]}, "trainings[0].model is missing. Use one of sample, bert"),
        ({"trainings": [{"model": "sample", "gpus": 65}]}, "trainings[0].gpus: 65 is not a whole number from 1 to 64."),
        (
            {"trainings": [{"model": "sample", "at": "soon"}]},
            "trainings[0].at: 'soon' is not a duration. Write such as",
        ),
        ({"trainings": [{"model": "sample", "at": 5}]}, "trainings[0].at: 5 is not a duration. Write such as"),
        ({"trainings": [{"model": "sample", "count": 2000}] * 2}, "trainings: these are 4000. Give at most 2000."),
        ({"workload": {"family": "philly", "number": 5}}, "workload.number: 5 is not a whole number from 1 to 4."),
        ({"workload": {"family": ["philly"]}}, "workload.family: ['philly'] is none."),
    ],
)
def test_what_a_file_may_not_say_is_told_with_its_field_and_the_fix(file: Any, told: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        parse(file)
    assert str(refused.value).startswith(told)


def test_what_a_file_leaves_out_has_the_documented_values() -> None:
    found = parse({"workload": {"family": "saturn"}})
    assert found == document.Experiment(("saturn", 1), (), ("weft", "tiresias"), 0.0, True, 0.1, (0,))


@pytest.mark.parametrize(("gpus", "batch", "least"), [(4, 31, 32), (16, 64, 128), (1, 10_000, 32)])
def test_a_batch_with_which_a_model_does_not_run_on_so_many_gpus_is_refused(gpus: int, batch: int, least: int) -> None:
    file = parse({"trainings": [{"model": "sample", "gpus": gpus, "batch": batch}]})
    with pytest.raises(ExperimentError, match=rf"trainings\[0\].batch: .* runs with {least} to 8192"):
        play.submissions(file, Path("nowhere"))


def test_each_training_comes_when_the_file_says() -> None:
    rows = [{"model": "sample", "at": "10m"}, {"model": "sample", "gpus": 2, "count": 3, "every": "4m", "at": "1m"}]
    found = play.submissions(parse({"trainings": rows}), Path("nowhere"))
    assert [(one.name, one.at, one.gpus, one.batch) for one in found] == [
        ("sample-1-0", 60.0, 2, 32), ("sample-1-1", 300.0, 2, 32), ("sample-1-2", 540.0, 2, 32),
        ("sample-0-0", 600.0, 1, 32),
    ]  # fmt: skip


def test_the_model_that_is_made_up_runs_on_each_number_of_gpus_that_may_be_asked_for() -> None:
    model = sample.application()
    for gpus in range(1, 65):
        step, exchange = model.times_of(shape_of(gpus, 4), 8)
        assert np.isfinite(step)
        assert 0 <= exchange < step
    assert model.times_of((1, 1), 8)[0] > model.times_of((2,), 8)[0], "between nodes it is slower"


def test_the_command_tells_a_line_for_each_policy_and_writes_a_row_for_each_training(tmp_path: Path, capsys) -> None:
    file, out = tmp_path / "experiment.yaml", tmp_path / "out.csv"
    file.write_text(json.dumps({**SMALL, "seeds": [0, 1]}))
    call_command("simulate", "--experiment", str(file), "--out", str(out), "--json")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first, second, last = [one for one in told if "part" not in one]
    assert (first["policy"], second["policy"], first["reduction"]) == ("fifo", "weft", 0.0)
    assert second["reduction"] == pytest.approx(100 * (1 - second["mean"] / first["mean"]))
    assert 0 <= last["interpolated"] <= last["placements"]
    rows = list(csv.DictReader(out.open()))
    assert [(row["policy"], row["seed"]) for row in rows] == [
        (policy, seed) for policy in ("fifo", "weft") for seed in "01" for _ in range(3)
    ]
    assert {(row["placements"], row["interpolated"]) for row in rows if row["policy"] == "fifo"} == {("1", "0")}
    times = [float(row["completion_s"]) for row in rows if row["policy"] == "weft"]
    assert np.mean(times) == pytest.approx(second["mean"], abs=0.1)


def test_policies_see_steps_with_the_noise_of_the_file_and_history_only_where_it_says_so() -> None:
    crowd = {"trainings": [{"model": "sample", "gpus": 4, "batch": 256, "count": 24, "every": "30s"}], "batch": "free"}
    of = [parse({**crowd, "noise": noise, "history": has}) for noise, has in ((0.0, True), (0.5, True), (0.5, False))]
    settings = [play.setting(one, "weft") for one in of]
    assert [one.rules.is_lent for one in settings] == [True, True, False]
    runs = [play.one(one, Path("nowhere"), "weft", 3).outcome for one in of[:2]]
    assert runs[0].jct != runs[1].jct


@pytest.mark.parametrize(("batch", "interpolated"), [(64, 0), (72, 1)])
def test_each_training_tells_how_many_of_its_step_times_are_interpolated(batch: int, interpolated: int) -> None:
    rows = [{"model": "sample", "gpus": 2, "batch": 64}, {"model": "sample", "gpus": 2, "batch": batch, "at": "1m"}]
    run = play.one(parse({"trainings": rows}), Path("nowhere"), "tiresias-packed", 0)
    assert run.ran == {"sample-0-0": (1, 0), "sample-1-0": (1, interpolated)}
    assert (run.placements, run.interpolated, run.between_placements) == (1 + interpolated, interpolated, 0)


def test_a_placement_that_was_not_measured_is_told_apart_from_a_batch_that_was_not() -> None:
    run = play.one(parse({"trainings": [{"model": "sample", "gpus": 64}]}), Path("nowhere"), "tiresias-packed", 0)
    assert (run.placements, run.interpolated, run.between_placements) == (1, 1, 1)


@pytest.mark.parametrize("policy", document.POLICIES)
def test_no_policy_of_a_file_reads_a_table(policy: str) -> None:
    for batch, has_history in (("free", True), ("fixed", False)):
        file = parse({**SMALL, "policies": [policy], "batch": batch, "history": has_history})
        told, guard = guarded(replace(play.setting(file, policy), free=file.free))
        assert len(told.jct) == 20
        assert guard.plans > 0
        assert guard.reads == 0


def test_a_step_time_is_measured_only_with_a_placement_and_a_batch_that_were() -> None:
    model = sample.application()
    assert model.is_measured((1,), 8)
    assert not model.is_measured((1,), 9)
    assert not model.is_measured(shape_of(64, 4), 8)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--out", "x.csv"], "--out: it is for --experiment only."),
        (["--experiment", "nowhere.yaml"], "There is no file nowhere.yaml."),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(arguments: list[str], told: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate", *arguments)
    assert str(refused.value).startswith(told)


def test_without_the_data_it_says_what_needs_none(tmp_path: Path, settings: LazySettings) -> None:
    settings.WEFT_DATA = str(tmp_path)
    file = tmp_path / "experiment.yaml"
    file.write_text("workload: {family: philly}")
    with pytest.raises(CommandError, match="Or write trainings of model sample, which need no data."):
        call_command("simulate", "--experiment", str(file))
