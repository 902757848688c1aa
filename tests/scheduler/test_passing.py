"""A round passes over those who ask what others were refused: all are told what a turn of their own would tell them."""

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scheduler.decision import Wait
from scheduler.plan import Plan
from scheduler.schedule import decide, is_news, outcomes
from scheduler.settings import Settings
from scheduler.snapshot import Snapshot
from scheduler.workload import Phase, Workload
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings(reservations_per_pool=2)


def one_by_one(world: Snapshot, rules: Settings) -> tuple[list[object], dict[str, object]]:
    """What a round decides without its reasons, and these, with everybody having a turn."""
    plan = Plan(world)
    told = {w.id: refusal for w, refusal in outcomes(plan, rules) if refusal is not None}
    made = list(plan.decisions)
    known = world.workloads
    return made, {uid: refusal for uid, refusal in told.items() if is_news(known[uid], refusal, world.at, rules)}


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
    reason = draw(st.sampled_from([("", ""), ("BehindHigherPriority", "Is behind [[w:w0]], which asks the same.")]))
    return replace(
        workload,
        id=f"copy-{seq}",
        name=f"copy-{seq}",
        seq=seq,
        priority=draw(st.sampled_from([workload.priority, 0, 100])),
        expected_seconds=draw(st.sampled_from([None, 60.0, 900.0, 50_000.0])),
        queued_at=workload.queued_at - waited,
        reason=reason[0],
        message=reason[1],
        reason_at=workload.queued_at - draw(st.sampled_from([0.0, waited])),
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(crowded(), st.sampled_from([1, 2]))
def test_who_is_passed_over_is_told_what_its_own_turn_would_have_told_it(world: Snapshot, heads: int) -> None:
    rules = replace(RULES, reservations_per_pool=heads)
    plain, reasons = one_by_one(world, rules)
    decisions, starts = decide(world, rules)
    moved = {decision.workload for decision in plain}
    assert [d for d in decisions if not isinstance(d, Wait)][: len(plain)] == plain  # elastic gangs may grow after it
    told = {d.workload: (d.reason, d.message, d.numbers) for d in decisions if isinstance(d, Wait)}
    waits = {w.id for w in world.workloads.values() if w.phase is not Phase.RESERVED}
    assert {uid: told[uid] for uid in told if uid in waits} == {u: r for u, r in reasons.items() if u not in moved}
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
    assert told["w"] == told["x"] == "Is behind [[w:y]], which asks the same."
    assert told["y"].startswith("Needs 2 GPUs")
    assert told["z"].startswith("Needs 1 GPU")
