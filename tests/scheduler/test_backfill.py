"""Reservation and backfill: the head that waits too long gets a planned start, and others start beside it."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import outcomes, schedule
from scheduler.model.decision import Place, Reason, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import Phase
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import messages, moves, parse, place, reasons

RULES = Settings()
AT = 100_000.0

# A gang of both nodes has waited two minutes; b1 ends in 1,000 s, and one GPU of `a` and three of `b` are free.
DRAINING = """
    at 100000
    node a,b 4 gpus
    team red nominal 8
    b1 red training 3 running a started 99000 since 99000
    c1 red training 1 running b started 99990 since 99990
    big red training 4 x 2 since 99880 pending
"""


def lasting(world: Snapshot, **seconds: float) -> Snapshot:
    """The world with these expected running times."""
    known = world.workloads
    return world.replace(changed=[replace(known[uid], expected_seconds=value) for uid, value in seconds.items()])


def late(line: str, at: float = AT, **seconds: float) -> Snapshot:
    world = parse(DRAINING.replace("at 100000", f"at {at:.0f}") + line)
    return lasting(world, b1=2000, c1=1005, **seconds)


def wait_of(world: Snapshot, uid: str, settings: Settings = RULES) -> Wait:
    return next(d for d in schedule(world, settings) if isinstance(d, Wait) and d.workload == uid)


def test_the_head_that_waited_too_long_is_planned_for_when_its_least_gang_fits() -> None:
    assert dict(wait_of(late(""), "big").numbers)["planned_start"] == 101_000  # b1 ran 1,000 of 2,000 s


LENT = """
    at 100000
    node a,b 4 gpus
    team red nominal 8
    {}
    g red training 1 x 1..{}..3 running a b b started 99990 since 99990
    big red training 3 x 2 since 99880 pending
"""


@pytest.mark.parametrize(("count", "start"), [(1, 101_000), (3, 105_000)])
def test_a_planned_start_has_what_gangs_hold_beyond_their_count(count: int, start: int) -> None:
    b1 = "b1 red training 3 running a started 99000 since 99000"
    world = lasting(parse(LENT.format(b1, count)), b1=2000, g=5010)
    assert dict(wait_of(world, "big").numbers)["planned_start"] == start
    later = lasting(parse(LENT.format("", count)), g=5010)  # b1 has ended: the head gets it
    assert [d.workload for d in schedule(later, RULES) if isinstance(d, Place)] == ["big"]


def test_later_work_that_may_still_run_at_the_planned_start_is_refused_with_for_whom_and_until_when() -> None:
    wait = wait_of(late("s red training 1 pending", s=900), "s")
    assert wait.reason is Reason.RESERVED_FOR_LARGER_JOB
    assert wait.message == (
        "Would fit, but the room is reserved for [[w:big]], planned to start at 04:03:20 cluster time, "
        "and this one may run for 30 min."
    )
    assert dict(wait.numbers) == {"reserved_for": "[[w:big]]", "planned_start": 101_000, "may_run_seconds": 1800}


def test_later_work_that_ends_before_the_planned_start_goes_first() -> None:
    assert moves(schedule(late("s red training 1 pending", s=400), RULES)) == [place("s", "a")]


def test_the_first_in_line_has_no_reservation_before_it_has_waited() -> None:
    world = late("s red training 1 pending", s=9000)
    fresh = replace(world.workloads["big"], queued_at=AT - 30)
    assert moves(schedule(world.replace(changed=[fresh]), RULES)) == [place("s", "a")]


def test_who_waits_no_longer_than_twice_what_is_usual_has_no_reservation() -> None:
    world = late("s red training 1 pending", s=9000)
    usual = [replace(world.workloads[uid], queued_at=world.workloads[uid].started_at - 60) for uid in ("b1", "c1")]
    assert moves(schedule(world.replace(changed=usual), RULES)) == [place("s", "a")]  # it waited 120 s
    later = world.replace(at=AT + 1, changed=usual)
    assert reasons(schedule(later, RULES))["s"] is Reason.RESERVED_FOR_LARGER_JOB


def test_nodes_that_the_head_does_not_need_are_free_for_all() -> None:
    world = late("node c 4 gpus   team red nominal 12   s red training 1 pending", s=9000)
    quotas = (replace(world.quotas[0], nominal=12_000),)
    roomy = Snapshot.build(world.at, world.inventory.nodes, world.teams[:1], quotas, world.workloads.values())
    # The gang starts on b and c as soon as c1 ends; `a` is not needed.
    decisions = schedule(roomy, RULES)
    assert moves(decisions) == [place("s", "a")]


def test_a_share_is_kept_out_like_whole_gpus_unless_it_is_before_the_head_in_line() -> None:
    text = """
        node a 2 gpus cpu 10
        team red nominal 2
        x red training 1 running a started 99000 since 99000
        big red training 2 x 1 cpu 8 since 99000 pending
        s red notebook share 0.5 pending
    """
    world = lasting(parse(text), x=2000)
    assert reasons(schedule(world, RULES)).get("s") is None  # notebooks are in line before training
    trained = replace(world.workloads["s"], kind=world.workloads["x"].kind, expected_seconds=5000)
    assert reasons(schedule(world.replace(changed=[trained]), RULES))["s"] is Reason.RESERVED_FOR_LARGER_JOB


@pytest.mark.parametrize(("cpu", "starts"), [(2, True), (3, False)])
def test_work_without_gpus_leaves_the_head_its_cores(cpu: int, starts: bool) -> None:
    world = parse(f"""
        node a 2 gpus cpu 10
        team red nominal 2
        x red training 1 cpu 1 running a started 99000 since 99000
        big red training 2 x 1 cpu 8 since 99000 pending
        c red training cpu {cpu} pending
    """)
    world = lasting(world, x=2000, c=50_000)
    assert (place("c", "a") in moves(schedule(world, RULES))) is starts


def test_the_head_keeps_its_nodes_while_nothing_happens() -> None:
    def kept(at: float) -> int:
        return int(dict(wait_of(late("", at=at), "big").numbers)["planned_start"])

    assert {kept(at) for at in (100_000, 100_100, 100_500, 100_990)} == {101_000}
    assert kept(101_001) > 101_001  # b1 overran: it is expected to run longer, not to end at any moment


def test_when_ends_pass_by_nothing_starts_on_the_heads_nodes_after_the_bound() -> None:
    # b1 was to run 2,000 s and runs on; big waited since 99,880, so the bound is 30 s + b1's run after that.
    def starts(at: float, seconds: float) -> bool:
        decisions = schedule(late("s red training 1 pending", at=at, s=seconds), RULES)
        return place("s", "a") in moves(decisions)

    assert starts(100_900, 40)
    long_over = late("s red training 1 pending", at=101_500, s=1)
    began_later = replace(long_over.workloads["b1"], started_at=AT, queued_at=AT, expected_seconds=10.0)
    assert place("s", "a") not in moves(schedule(long_over.replace(changed=[began_later]), RULES))


def test_a_head_whose_room_services_hold_for_ever_keeps_nothing() -> None:
    world = parse("""
        node a 2 gpus
        team red nominal 2
        web red inference 1 running a started 99000 since 99000
        big red training 2 since 99000 pending
        s red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [place("s", "a")]


def test_a_head_without_quota_is_planned_for_when_its_team_holds_less() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 4 borrowing 0   team blue nominal 4
        x red training 3 running a started 99000 since 99000
        big red training 4 since 99000 pending
        s red training 1 pending   t blue training 1 pending
    """)
    world = lasting(world, x=2000, s=9000, t=9000)
    decisions = schedule(world, RULES)
    assert reasons(decisions)["big"] is Reason.WAITING_FOR_QUOTA
    assert reasons(decisions)["s"] is Reason.RESERVED_FOR_LARGER_JOB  # it would take the quota that big waits for
    assert moves(decisions) == [place("t", "a")]


def test_each_pool_has_a_head_of_its_own() -> None:
    world = parse("""
        node a 2 gpus model t4 pool small   node b 2 gpus model h100 pool large
        team red nominal 2 pool small   quota red pool large nominal 2
        x red training 1 models t4 running a started 99000 since 99000
        y red training 1 models h100 running b started 99000 since 99000
        big red training 2 models t4 since 99000 pending   wide red training 2 models h100 since 99000 pending
        s red training 1 models t4 pending   t red training 1 models h100 pending
    """)
    world = lasting(world, x=2000, y=2000, s=9000, t=9000)
    told = reasons(schedule(world, RULES))
    assert told["s"] is told["t"] is Reason.RESERVED_FOR_LARGER_JOB
    assert "[[w:wide]]" in messages(schedule(world, RULES))["t"]


def test_short_work_goes_first_past_long_work_of_its_team() -> None:
    world = late("s red training 1 pending   t red training 1 pending   u red training 1 pending", s=9000, t=100, u=100)
    assert [f[1] for f in moves(schedule(world, RULES))] == ["t", "u"]


def test_what_fits_nowhere_is_not_looked_for_again_however_soon_it_would_end() -> None:
    world = late("s red training 4 pending   t red training 4 pending", s=9000, t=100)
    told = messages(schedule(world, RULES))
    assert told["s"] == "Needs 4 GPUs on one node; the best node has 3 free, 4 are free in total."
    assert told["t"] == "Behind [[w:s]] (same request)."


def test_nobody_leaves_for_what_would_then_delay_the_head_and_the_reason_says_so() -> None:
    world = parse("""
        at 100000
        node a,b 4 gpus
        team blue nominal 4   team green nominal 8   team red nominal 4
        n blue training 4 running b firm started 99000 since 99000
        x blue training 4 running a started 99000 since 99000
        big green training 4 x 2 since 99000 pending
        s red training 4 pending
    """)
    told = lasting(world, n=2000, x=1900, s=9000)
    assert moves(schedule(told, RULES)) == []
    assert wait_of(told, "s").message == (
        "Preemption could make room for it, but that room is reserved for [[w:big]], "
        "planned to start at 04:03:20 cluster time, "
        "and this one may run for 5 h."
    )
    assert [f[1] for f in moves(schedule(lasting(world, n=2000, x=1900, s=200), RULES))] == ["x", "s"]


def test_a_higher_priority_of_the_heads_team_is_not_kept_out() -> None:
    assert moves(schedule(late("s red training 1 priority 9 pending", s=9000), RULES)) == [place("s", "a")]


def test_equal_snapshots_give_equal_reservations() -> None:
    world = late("s red training 1 pending", s=900)
    again = Snapshot.build(
        world.at, world.inventory.nodes, world.teams, world.quotas, reversed(list(world.workloads.values()))
    )
    assert repr(schedule(world, RULES)) == repr(schedule(again, RULES))


def test_the_head_starts_when_its_room_is_there() -> None:
    world = late("s red training 1 pending", s=900)
    ended = world.replace(at=AT + 900, gone=["b1", "c1"])
    decisions = schedule(ended, RULES)
    assert next(d for d in decisions if isinstance(d, Place)).workload == "big"


def planned(world: Snapshot) -> dict[str, int]:
    """The planned start of each head that this round gives one."""
    waits = (refusal for refusal in outcomes(Session(world, RULES)))
    return {
        w.id: int(dict(refusal.numbers)["planned_start"])
        for w, refusal in waits
        if refusal is not None
        and refusal.reason is not Reason.RESERVED_FOR_LARGER_JOB
        and "planned_start" in dict(refusal.numbers)
    }


def delays(world: Snapshot) -> dict[str, int]:
    """By how many seconds what this round starts moves the planned start of each head that still waits.

    Who comes before it in the next round's order may start first then; so it is alone in that.
    """
    before, after = planned(world), world.after(schedule(world, RULES))
    queued = {w.id for w in after.workloads.values() if w.phase is Phase.QUEUED}
    return {
        uid: max(0, planned(after.replace(gone=queued - {uid})).get(uid, 0) - start)
        for uid, start in before.items()
        if uid in queued
    }


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.lists(st.sampled_from([30.0, 500.0, 5000.0, 60_000.0]), min_size=16, max_size=16))
def test_no_round_starts_what_delays_a_head(world: Snapshot, seconds: list[float]) -> None:
    changed = [
        replace(w, priority=0, expected_seconds=seconds[w.seq % 16], queued_at=min(w.queued_at, w.queued_at - 700))
        for w in world.workloads.values()
    ]
    world = world.replace(changed=changed)
    assert all(seconds <= 1 for seconds in delays(world).values()) or takes_its_own(world)


def takes_its_own(world: Snapshot) -> bool:
    """Whether something starts on what its team owns and another borrows: it may delay a head of the queue."""
    started = [d for d in schedule(world, RULES) if isinstance(d, Place)]
    before, usage = Plan(world).usage, Plan(world.after(schedule(world, RULES))).usage
    quota_nodes = usage.tree.quota_nodes
    places = {(world.workloads[d.workload].team, usage.pool_of[a.node]) for d in started for a in d.workers}
    lent = [where for where in places if before.borrowers(where[1]) or usage.borrowers(where[1])]
    return any(quota_nodes[where].nominal >= usage.total[FUTURE_IDLE][where] > 0 for where in lent)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([60, 600, 6000])), min_size=1, max_size=5),
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([30, 500, 5000])), min_size=1, max_size=6),
)
def test_no_small_job_delays_a_gang_that_waits_longer(
    runs: list[tuple[int, int]], workers: int, small: list[tuple[int, int]]
) -> None:
    lines = ["node n1,n2,n3,n4 4 gpus", "team red"]
    lines += [f"r{i} red training {gpus}  running n{i % 4 + 1}  started 99000" for i, (gpus, _) in enumerate(runs[:4])]
    lines += [f"head red training 4  x {workers}  pending  since 90000"]
    lines += [f"s{i} red training {gpus}  pending  since 95000" for i, (gpus, _) in enumerate(small)]
    seconds = {f"r{i}": 1000 + left for i, (_, left) in enumerate(runs)}
    seconds |= {f"s{i}": run for i, (_, run) in enumerate(small)}
    world = parse("\n".join(lines))
    known = [replace(w, expected_seconds=float(seconds.get(w.id, 3600))) for w in world.workloads.values()]
    found = delays(world.replace(changed=known))
    event(f"heads {len(found)}")
    assert all(seconds <= 1 for seconds in found.values())
