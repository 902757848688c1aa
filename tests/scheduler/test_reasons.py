"""Each waiting reason that a round can give, with its sentence and figures."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Reason, Wait
from scheduler.model.settings import Settings
from tests.worlds import messages, moves, parse, place, reasons

BASE = "team red nominal 8\n"

# One world for each reason a round gives to the workload `w`.
WORLDS = {
    Reason.MISCONFIGURED: (
        "node a 4 gpus\nw nobody training 1 pending",
        "Team nobody does not exist. Submit it to another team.",
    ),
    Reason.ADMISSION_GATED: (
        "node a 4 gpus\nw red training 1 unmet data,prepare pending",
        "Starts after data and prepare.",
    ),
    Reason.BACKOFF_AFTER_FAILURE: (
        "at 1000\nnode a 4 gpus\nw red training 1 notbefore 5025 pending",
        "Failed; retry at 01:23:45 cluster time.",
    ),
    Reason.BUDGET_EXHAUSTED: (
        "node a 4 gpus\nbudget red month 100 120 200000\nw red training 1 pending",
        "Team red has used 120 of the 100 GPU hours of its budget for this month; "
        "nothing new starts before 1970-01-03 07:33 cluster time.",
    ),
    Reason.NO_MATCHING_FLAVOR: (
        "node a 4 gpus model t4\nw red training 1 models h100 pending",
        "No node has h100 GPUs; the cluster has t4.",
    ),
    Reason.GPU_MEMORY_DOES_NOT_FIT: (
        "node a 4 gpus memory 16000\nw red training 1 gpumem 40000 pending",
        "Needs 40000 MiB of memory on a GPU; the largest allowed GPU has 16000 MiB.",
    ),
    Reason.WAITING_FOR_NODES: (
        "node a 4 gpus down\nw red training 1 pending",
        "Needs 1 worker; the ready and schedulable nodes could hold 0. Others are down, cordoned or have lost GPUs.",
    ),
    Reason.EXCEEDS_MAX_QUOTA: (
        "node a 8 gpus\nteam blue nominal 1 borrowing 1\nw blue training 3 pending",
        "Needs 3 GPUs; team blue may use at most 2 in gpu.",
    ),
    Reason.BEHIND_HIGHER_PRIORITY: (
        "node a 1 gpus\nx red training 1 running a\nv red training 1 pending\nw red training 1 pending",
        "Behind [[w:v]] (same request).",
    ),
    Reason.WAITING_FOR_PREEMPTED_WORKLOADS: (
        "node a 1 gpus\nx red training 1 leaving a\nw red training 1 reserved a:0 after x",
        "Its place is reserved; it waits for [[w:x]] to leave.",
    ),
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: (
        "node a 8 gpus\nteam blue nominal 1\nw blue training 2 firm pending",
        "Needs 2 GPUs that may not be preempted; team blue has 0 such allocated, its quota in gpu is 1.",
    ),
    Reason.WAITING_FOR_QUOTA: (
        "node a 8 gpus\nteam blue nominal 1 borrowing 1\nx blue training 1 running a\nw blue training 2 pending",
        "Needs 2 GPUs; team blue has 1 of at most 2 allocated in gpu.",
    ),
    Reason.FAIR_SHARE_EXCEEDED: (
        "node a 10 gpus\nteam blue nominal 2\n"
        "x red training 8 running a\ny blue training 2 running a\nw blue training 1 pending",
        "Needs 1 GPU; team blue has 2 allocated, its quota in gpu is 2, and no team has idle quota to lend.",
    ),
    Reason.OVER_LIMIT: (
        "node a 10 gpus\nteam org nominal 2 borrowing 0\nteam blue parent org\n"
        "x blue training 1 running a\nw blue training 2 pending",
        "Needs 2 GPUs; team org, of which blue is a part, has 1 of at most 2 allocated in gpu.",
    ),
    Reason.RESERVED_FOR_LARGER_JOB: (
        "node a 4 gpus\nx red training 3 leaving a:0,1,2\n"
        "big red training 4 reserved a:0,1,2,3 after x\nw red training 1 pending",
        "Would fit, but the room is reserved for [[w:big]].",
    ),
    Reason.TOPOLOGY_PLACEMENT_FAILED: (
        "node a 2 gpus rack r1\nnode b 2 gpus rack r2\nw red training 1 x 3 require rack pending",
        "Needs 3 workers of 1 GPU in one rack; there is room only across several.",
    ),
    Reason.GANG_INCOMPLETE: (
        "node a 4 gpus\nx red training 2 running a\nw red training 1 x 3 pending",
        "Needs 3 workers of 1 GPU at once; 2 would fit now.",
    ),
    Reason.FRAGMENTED: (
        "node a,b 4 gpus\nx red training 2 running a\ny red training 1 running b\nw red training 4 pending",
        "Needs 4 GPUs on one node; the best node has 3 free, 5 are free in total.",
    ),
    Reason.WAITING_FOR_CAPACITY: (
        "node a 4 gpus\nx red training 3 running a\nw red training 2 pending",
        "Needs 2 GPUs on one node; the best node has 1 free.",
    ),
}
# Given by services (tests/controlplane), or explained of work that is no claimant (test_explain); not by a round.
NOT_HERE = {
    Reason.SUSPENDED,
    Reason.WAITING_FOR_PODS_READY,
    Reason.PENDING_EVALUATION,
}


@pytest.mark.parametrize("reason", WORLDS, ids=str)
def test_a_world_reaches_the_reason_and_its_sentence(reason: Reason) -> None:
    text, sentence = WORLDS[reason]
    decisions = schedule(parse(BASE + text), Settings())
    waits = {d.workload: d for d in decisions if isinstance(d, Wait)}
    assert (waits["w"].reason, waits["w"].message) == (reason, sentence)


def test_every_reason_is_reached_or_belongs_to_others() -> None:
    assert set(WORLDS) | NOT_HERE == set(Reason)


def test_the_figures_in_a_sentence_come_as_numbers_too() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team blue nominal 4
        x red training 1 firm running a   y blue training 1 running a
        w red training 3 pending
    """)
    (waiting,) = (d for d in schedule(world, Settings()) if isinstance(d, Wait))
    assert waiting.message == "Needs 3 GPUs on one node; the best node has 2 free."
    assert dict(waiting.numbers) == {"needs_gpus": 3, "best_node_free": 2, "free_gpus": 2}


def test_gpus_lent_to_others_are_named() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team vision nominal 0
        x vision training 2 firm running a   v vision training 1 starting a
        w red training 4 pending
    """)
    decisions = schedule(world, Settings())
    assert messages(decisions)["w"] == "Needs 4 GPUs on one node; the best node has 1 free; 3 are lent to team vision."


def test_what_is_wrong_for_good_is_said_to_each_and_not_that_it_is_behind() -> None:
    world = parse("node a 4 gpus   team red nominal 4   v red training 9 pending   w red training 9 pending")
    assert reasons(schedule(world, Settings())) == {"v": Reason.NO_MATCHING_FLAVOR, "w": Reason.NO_MATCHING_FLAVOR}


def test_its_own_gate_is_said_before_that_it_is_behind() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 4   x red training 1 running a
        v red training 1 pending   w red training 1 unmet d pending
    """)
    assert reasons(schedule(world, Settings()))["w"] == Reason.ADMISSION_GATED


def test_a_gate_that_has_opened_holds_nobody() -> None:
    world = parse("at 1000   node a 1 gpus   team red nominal 1   w red training 1 notbefore 1000 pending")
    assert moves(schedule(world, Settings())) == [place("w", "a")]


def test_held_work_is_no_claimant() -> None:
    assert schedule(parse("node a 4 gpus   team red nominal 4   w red training 1 held"), Settings()) == ()


def test_a_reason_is_said_once() -> None:
    world = parse("node a 1 gpus   team red nominal 4   x red training 1 running a   w red training 1 pending")
    told = world.after(schedule(world, Settings()))
    assert told.workloads["w"].reason == "WaitingForCapacity"
    assert schedule(told.replace(at=told.at + 1e6), Settings()) == ()


def test_other_words_for_the_same_reason_wait_and_another_reason_does_not() -> None:
    world = parse("""
        at 10000
        node a 4 gpus   team red nominal 8
        x red training 1 running a   y red training 1 running a   w red training 4 pending
    """)
    told = world.after(schedule(world, Settings()))

    def later(seconds: float, gone: str) -> dict[str, str]:
        return messages(schedule(told.replace(at=told.at + seconds, gone=(gone,)), Settings()))

    assert later(59, "x") == {}
    assert later(60, "x")["w"] == "Needs 4 GPUs on one node; the best node has 3 free."
    old = told.after([Wait("w", 1, Reason.WAITING_FOR_CAPACITY, "older words")])
    old = old.replace(changed=[_waited(old.workloads["w"], 1000)])
    assert messages(schedule(old.replace(at=old.at + 249), Settings())) == {}
    assert messages(schedule(old.replace(at=old.at + 250), Settings())) != {}


def _waited(workload: object, seconds: float) -> object:
    from dataclasses import replace

    return replace(workload, queued_at=workload.queued_at - seconds)  # type: ignore[type-var, attr-defined]
