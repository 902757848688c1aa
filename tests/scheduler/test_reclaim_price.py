"""What it costs a gang that it gives GPUs to others: kept with the decision."""

from typing import Any

import pytest

from controlplane.cluster.reclaims import measured
from controlplane.loops.schedule import record
from controlplane.queries.audit.audit import decision_of
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Shrink
from scheduler.model.settings import Settings
from scheduler.model.terms import PAUSE_ENDS, PAUSE_SAVES
from scheduler.preemption.borrowed import given_back
from tests.worlds import parse

SERVICE = """
    at 1000   node a 6 gpus memory 40000   team red nominal 6
    s1 red inference share 1 smem 20000 x 1..4..6 standby 3 awake 1 asleep 1,2,3 running a:0 a:1 a:2 a:3
"""
GANG = SERVICE + "g1 red training 1 gpumem 16000 x 1..1..3 lent s1 1,2 {} running a:5 a:1 a:3"


def shrunk(text: str, uid: str = "gang") -> dict[str, int | str]:
    return dict(next(d for d in schedule(parse(text), Settings()) if isinstance(d, Shrink) and d.workload == uid).terms)


def test_the_pause_of_a_gang_is_the_one_that_was_measured() -> None:
    table = measured()
    assert tuple(table.seconds[kind]["loss"].mean for kind in ("save", "leave")) == (PAUSE_SAVES, PAUSE_ENDS)
    assert set(table.redone.values()) == {0}, "no step was computed again, so none is in the price"


@pytest.mark.parametrize(("saves", "lost"), [("", 156), ("saves 600", 168)])
def test_a_worker_on_a_lent_gpu_costs_its_gangs_pause_on_all_its_gpus(saves: str, lost: int) -> None:
    world = parse(GANG.format(saves))
    decision = given_back(world.workloads["g1"], [1], "s1", world.at)
    assert isinstance(decision, Shrink)
    assert dict(decision.terms) == {
        "team": "red", "workers": 1, "leaves_milli": 1000, "lost_milli_seconds": lost, "whose": "lent",
    }  # fmt: skip


def test_a_gang_that_leaves_as_a_whole_loses_its_work_since_its_checkpoint_too() -> None:
    text = GANG.replace("x 1..1..3", "x 3..3..3").format("saves 600 started 100 checkpointed 700")
    world = parse(text)
    decision = given_back(world.workloads["g1"], [1], "s1", world.at)
    assert isinstance(decision, Evict)
    told = dict(decision.terms)
    assert (told["unsaved_seconds"], told["workers"], told["leaves_milli"]) == (300, 3, 3000)
    assert (told["lost_milli_seconds"], told["whose"], told["team"]) == (3 * 300_056, "lent", "red")
    assert told["held_milli"] == 1000, "quota counts the GPU that is its own"


def test_so_does_one_whose_lender_has_gone() -> None:
    text = GANG.replace("x 1..1..3", "x 3..3..3").format("started 100").replace("asleep 1,2,3", "asleep 2")
    (left,) = [d for d in schedule(parse(text), Settings()) if isinstance(d, Evict)]
    assert (left.reason, left.by, dict(left.terms)["whose"]) == (EvictReason.TAKEN_BACK, "", "lent")


@pytest.mark.parametrize(
    ("text", "whose"),
    [
        (
            """node a 4 gpus   team red nominal 4   low red training 1 running a
            gang red training 1 x 1..3 running a   high red training 1 priority 100 pending""", "team",
        ),
        (
            """node a 4 gpus   team red nominal 4   team blue nominal 0
            gang red training 1 x 2..2..6 running a a a a   job blue training 2 pending""", "surplus",
        ),
        (
            """node a 4 gpus   team red nominal 2   team blue nominal 2
            gang red training 1 x 1..4 running a   job blue training 2 pending""", "owned",
        ),
    ],
)  # fmt: skip
def test_a_decision_says_whose_gpus_a_claimant_gets(text: str, whose: str) -> None:
    found = shrunk(text)
    assert (found["whose"], found["team"]) == (whose, "red")
    assert found["leaves_milli"] == 1000 * int(found["workers"])
    assert int(found["lost_milli_seconds"]) > 0


def test_what_two_teams_borrow_goes_by_their_fair_shares() -> None:
    found = shrunk("""
        node a 8 gpus   team owner nominal 8   team red nominal 0   team blue nominal 0
        gang red training 1 x 1..8 running a   job blue training 4 pending
    """)
    assert (found["whose"], found["workers"]) == ("fair share", 4)


def test_a_stored_decision_is_read_again_with_its_price_and_one_of_before_without() -> None:
    world = parse(GANG.format(""))
    decision = given_back(world.workloads["g1"], [1], "s1", world.at)
    assert isinstance(decision, Shrink)
    document: dict[str, Any] = record(decision)
    assert decision_of(document) == decision
    del document["terms"]
    before = decision_of(document)
    assert isinstance(before, Shrink)
    assert before.terms == ()
