"""What only saves time in a round: with and without each of it the same worlds get the same decisions."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import decide
from scheduler.model.decision import Decision, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase, Workload
from scheduler.shortcuts import ALL, NONE, Shortcuts
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings(reservations_per_pool=2)


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Worlds in which many wait for the same: copies of those that wait, of other lengths, priorities and ages."""
    world: Snapshot = draw(worlds(16))
    queued = [w for w in world.workloads.values() if w.phase is Phase.QUEUED]
    seq, copies = 1 + max((w.seq for w in world.workloads.values()), default=0), []
    for workload in queued:
        for _ in range(draw(st.integers(0, 6))):
            copies.append(draw(_alike(workload, seq + len(copies))))
    return world.replace(changed=copies)


@st.composite
def _alike(draw: st.DrawFn, workload: Workload, seq: int) -> Workload:
    waited = draw(st.sampled_from([0.0, 45.0, 4000.0, 90_000.0]))
    reason = draw(st.sampled_from([("", ""), ("BehindHigherPriority", "Behind [[w:w0]] (same request).")]))
    return replace(
        workload,
        id=f"copy-{seq}",
        name=f"copy-{seq}",
        seq=seq,
        priority=draw(st.sampled_from([workload.priority, workload.priority + 1, 0, 100])),
        expected_seconds=draw(st.sampled_from([None, 60.0, 900.0, 50_000.0])),
        queued_at=workload.queued_at - waited,
        reason=reason[0],
        message=reason[1],
        reason_at=workload.queued_at - draw(st.sampled_from([0.0, waited])),
    )


def sorted_waits(decisions: Sequence[Decision]) -> tuple[list[Decision], list[Decision]]:
    """What moves something, in order, and what each that waits is told, by id: in which order that is said is free."""
    waits = [decision for decision in decisions if isinstance(decision, Wait)]
    return [d for d in decisions if not isinstance(d, Wait)], sorted(waits, key=lambda wait: wait.workload)


WITHOUT = {
    "any": NONE,
    "columns": replace(ALL, columns=False),
    "the quota shortage": replace(ALL, quota=False),
    "direct answers": replace(ALL, direct=False),
}


@pytest.mark.parametrize("shortcuts", WITHOUT.values(), ids=WITHOUT)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(world=crowded(), heads=st.sampled_from([1, 2]))
def test_a_round_without_a_shortcut_decides_and_says_the_same(
    shortcuts: Shortcuts, world: Snapshot, heads: int
) -> None:
    rules = replace(RULES, reservations_per_pool=heads)
    decisions, starts = decide(world, rules)
    plain, plain_starts = decide(world, rules, shortcuts=shortcuts)
    assert sorted_waits(decisions) == sorted_waits(plain)
    assert starts == plain_starts
    event(f"planned starts: {min(len(starts), 2)}")


def test_only_the_first_that_asks_something_is_looked_at_and_all_others_are_told_so() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4
        r red training 4 priority 9 running a
        w red training 2 pending   x red training 2 pending   y red training 2 priority 5 pending
        z red training 1 pending
    """)
    told = {d.workload: d.message for d in decide(world, Settings())[0] if isinstance(d, Wait)}
    assert told["w"] == told["x"] == "Behind [[w:y]] (same request)."
    assert told["y"].startswith("Needs 2 GPUs")
    assert told["z"].startswith("Needs 1 GPU")
