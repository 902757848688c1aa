"""The table of measured reclaims: what it says, how it is written, and what the simulated cluster makes of it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.benchmarks.slo import cells
from controlplane.cluster import physics, reclaims
from controlplane.cluster.reclaims import KINDS, SPANS, TableError
from tests.controlplane.simulation import cluster, finish, gang, to_running, training

TURNS = [
    {"how": kind, "ended": slow + part, "gone": slow + 2 * part, "answered": 1.0, "loss": part, "redone": 1}
    for kind, slow in (("leave", 0.0), ("save", 8.0))
    for part in (0.1, 0.2, 0.3)
]


def test_the_table_that_comes_with_weft_was_measured_and_a_borrower_that_saves_takes_longer() -> None:
    table = reclaims.measured()
    assert all(table.turns[kind] >= 10 for kind in KINDS)
    assert table.machine and table.date.startswith("20")
    leave, save = (table.seconds[kind] for kind in KINDS)
    assert leave["gone"].at(1.0) < save["gone"].at(0.0)
    for kind in KINDS:
        spans = table.seconds[kind]
        assert all(spans["ended"].at(part) < spans["gone"].at(part) for part in (0.0, 0.5, 1.0))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "reclaims.json"
    reclaims.write(reclaims.table_of(TURNS, 3, "2026-11-26", "two cores", 1.5), file)
    found = reclaims.read(file)
    assert (found.gpus, found.load, found.turns, found.redone) == (
        3,
        1.5,
        {"leave": 3, "save": 3},
        dict.fromkeys(KINDS, 3),
    )
    gone = found.seconds["save"]["gone"]
    assert (gone.mean, gone.at(0.0), gone.at(0.5), gone.at(1.0)) == pytest.approx((8.4, 8.2, 8.4, 8.6))
    assert gone.at(0.25) == pytest.approx(8.3)
    assert found.gpu_seconds_lost == pytest.approx(3 * 0.2)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda table: table["kinds"].pop("save"), "lacks 'save'"),
        (lambda table: table["kinds"]["leave"]["gone"]["quantiles"].pop(), "leave.gone.quantiles are no 7 ascending"),
        (
            lambda table: table["kinds"]["leave"]["gone"]["quantiles"].reverse(),
            "leave.gone.quantiles are no 7 ascending",
        ),
        (lambda table: table["kinds"]["save"]["loss"].update(mean=99.0), "save.loss.mean is 99.0"),
        (lambda table: table.update(parts=[50]), r"parts of reclaims.json are \[50\]"),
    ],
)
def test_a_table_that_is_not_as_it_has_to_be_is_refused_with_the_field_and_the_fix(
    broken, says, tmp_path: Path
) -> None:
    file = tmp_path / "reclaims.json"
    table = reclaims.table_of(TURNS, 3, "2026-11-26", "two cores", 1.5)
    broken(table)
    reclaims.write(table, file)
    with pytest.raises(TableError, match=says) as refused:
        reclaims.read(file)
    assert "benchmark reclaim --write-table" in str(refused.value)


def test_a_kind_without_turns_is_refused_before_anything_is_written() -> None:
    with pytest.raises(TableError, match="no turn of the kind save"):
        reclaims.table_of(TURNS[:3], 3, "2026-11-26", "two cores", 1.5)


def test_the_stored_table_has_what_its_reader_keeps() -> None:
    kinds = json.loads(reclaims.FILE.read_text())["kinds"]
    assert {kind: set(kinds[kind]) for kind in kinds} == dict.fromkeys(KINDS, {"turns", "redone", *SPANS})


# --- what draws from it ---------------------------------------------------------------------------


def test_how_long_a_borrower_takes_follows_from_the_seed_and_lies_in_what_was_measured() -> None:
    for saves, kind in ((False, "leave"), (True, "save")):
        drawn = [physics.give_back_seconds(7, f"w-1-{rank}", saves=saves) for rank in range(200)]
        assert drawn == [physics.give_back_seconds(7, f"w-1-{rank}", saves=saves) for rank in range(200)]
        gone = reclaims.measured().seconds[kind]["gone"]
        assert gone.at(0.0) <= min(drawn) < gone.at(0.25) < gone.at(0.75) < max(drawn) <= gone.at(1.0)
    assert physics.give_back_seconds(7, "w-1-0", saves=True) != physics.give_back_seconds(8, "w-1-0", saves=True)


@pytest.mark.parametrize(("interval", "kind"), [(None, "leave"), ("60s", "save")])
def test_a_simulated_borrower_is_gone_when_one_was_on_a_real_node(interval: str | None, kind: str) -> None:
    file = training(6000.0, 2) | {"checkpoint": {"interval": interval} if interval else {}}
    file["workers"] = {"count": 1, "min": 1, "max": 2}
    first, second = gang("w", file, "a:0", "a:1")
    world = cluster()
    world.start([first, replace(second, is_lent=True, milli=0)])
    to_running(world, "w-1-0", "w-1-1")
    told = world.now()
    world.stop("w", 1, [1], 600.0)
    took = (finish(world, "w-1-1").ended_at or 0.0) - told
    gone = reclaims.measured().seconds[kind]["gone"]
    assert math.ceil(gone.at(0.0)) <= took <= math.ceil(gone.at(1.0))


def test_the_judge_charges_what_was_measured_but_five_seconds_at_least() -> None:
    lost = reclaims.measured().gpu_seconds_lost
    assert lost > 0
    assert max(5.0, lost) == cells.CALL_SECONDS
