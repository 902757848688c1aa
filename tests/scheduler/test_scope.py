"""Rounds of only those with news, and what is kept between rounds: both say what a whole count from scratch says."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.backfill.expected_ends import Ends
from scheduler.cycle.schedule import decide, schedule
from scheduler.model.decision import Decision, Evict, Place, Shrink, Wait
from scheduler.model.history import LEVELS, History
from scheduler.model.partial_cycle import DirtySet, PartialCycle, dirty_after
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Quota
from scheduler.model.workload import Gang, Kind, Phase, Workload
from scheduler.state.ledger import Ledger, Ledgers
from scheduler.state.memo import Memo
from scheduler.state.pending import ATTAINED, CLASS_OF, EQUIVALENCE, FAILURES, NEED, PRIORITY, REASON, SEQ, TEAM
from scheduler.state.recount import LedgerDiffersError, check
from scheduler.state.session import Session
from tests.scheduler.oracle import moved_on
from tests.strategies import worlds
from tests.worlds import moves, parse, place

RULES = Settings(ageing_seconds=1e9)
OTHER_HISTORY = History(runs=tuple((kind.value, tuple(40.0 + 70.0 * level for level in LEVELS)) for kind in Kind))
FULL = """
    node a,b 4 gpus
    team red nominal 4
    team blue nominal 4
    r1 red training 4 running a
    b1 blue training 4 running b
    b2 blue training 2 pending since 99000
"""


def afresh(world: Snapshot) -> Snapshot:
    kept = world.use, world.budgets, world.demand, world.history
    nodes = world.inventory.nodes
    return Snapshot.build(world.at, nodes, world.teams, world.quotas, world.workloads.values(), *kept)


def counted(ledger: Ledger) -> tuple[object, ...]:
    """A ledger without what depends on the order of counting."""
    rows = []
    for slot, workload in enumerate(ledger.slots):
        if workload is not None:
            devices, hosts = (sorted(r[r[:, 0] == slot][:, 1:].tolist()) for r in ledger.rows)
            values = [*ledger.ints[slot].tolist(), *ledger.times[slot].tolist(), *ledger.flags[slot].tolist()]
            del values[4]  # which number a team has
            rows.append((workload.id, values, devices, hosts))
    named = (
        ledger.waiting,
        ledger.gated,
        ledger.holding,
        ledger.unsettled,
        ledger.moving,
        ledger.elastic,
        ledger.preempted,
    )
    usage, pending = ledger.usage, ledger.pending
    waiting = []
    for uid, slot in pending.slot.items():
        known = ("team", ledger.waiting[uid].team), pending.equivalence(slot), pending.workload(slot).reason
        numbers = [pending.known(value) for value in known]
        assert numbers == pending.ints[slot, [TEAM, EQUIVALENCE, REASON]].tolist()
        values = (
            pending.ints[slot, [SEQ, PRIORITY, CLASS_OF, ATTAINED, FAILURES, NEED]].tolist(),
            pending.times[slot].tolist(),
        )
        waiting.append(
            (uid, pending.equivalence(slot), values, bool(pending.is_gated[slot]), bool(pending.waits[slot]))
        )
    return (
        sorted(waiting),
        sorted(ledger.again),
        sorted(rows, key=lambda row: row[0]),
        *(sorted(some) for some in named),
        ledger.wants,
        usage.total,
        usage.firm,
    )


def ends_of(session: Session) -> Ends:
    plan = session.plan
    return Ends(session, session.memo.ends.of(plan.ledger, plan.snapshot.at, session.times))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.integers(2, 5), st.sampled_from([1.0, 61.0, 700.0, 90_000.0]))
def test_ends_that_are_remembered_are_those_worked_out_anew(world: Snapshot, rounds: int, seconds: float) -> None:
    memo = Memo()
    for number in range(rounds):
        world = moved_on(world.after(schedule(world, RULES, memo)), seconds)
        kept, anew = (ends_of(Session(world, RULES, memo)), ends_of(Session(afresh(world), RULES)))
        assert kept.times == anew.times
        for time in kept.times:
            assert {w.id for w in kept.by(time)} == {w.id for w in anew.by(time)}
            assert [*kept.free_at(time).gpu.flat] == [*anew.free_at(time).gpu.flat]
        if number == 1:  # another history: what the last one said is worth nothing
            world = replace(world, history=OTHER_HISTORY)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.integers(1, 4))
def test_a_ledger_kept_by_difference_is_the_one_counted_anew(world: Snapshot, rounds: int) -> None:
    ledgers = Ledgers()
    ledgers.of(world)
    for _ in range(rounds):
        world = moved_on(world.after(schedule(world, RULES)), 61.0)
        assert counted(ledgers.of(world)) == counted(Ledger(afresh(world)))
        ended = [w.id for w in world.workloads.values() if w.phase is Phase.RUNNING][:2]
        world = world.replace(gone=ended)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.integers(1, 4))
def test_rounds_that_hand_their_ledger_on_decide_the_same_and_it_is_the_one_counted_anew(
    world: Snapshot, rounds: int
) -> None:
    memo, copying = Memo.of_one_loop(), Memo()
    for number in range(rounds):
        assert decide(world, RULES, memo) == decide(world, RULES, copying) == decide(afresh(world), RULES)
        check(memo.ledgers)
        if number == 1:  # a trial of another world beside this one, and its ledger stays as it was
            trial = memo.fork()
            theirs = counted(trial.ledgers.of(world))
        world = moved_on(world.after(schedule(world, RULES)), 61.0)
        world = world.replace(gone=[w.id for w in world.workloads.values() if w.phase is Phase.RUNNING][:2])
        if number == 1:
            memo.ledgers.of(world)
            assert trial.ledgers.last is not None
            assert counted(trial.ledgers.last[0]) == theirs


def test_a_ledger_that_missed_a_change_is_found_out() -> None:
    world, memo = parse(FULL), Memo.of_one_loop()
    ledger = memo.ledgers.of(world)
    check(memo.ledgers)
    pool = world.inventory.nodes[0].pool
    ledger.usage.charge("red", pool, 1, 1000)
    with pytest.raises(LedgerDiffersError, match=r"usage\.total"):
        check(memo.ledgers)
    ledger.usage.charge("red", pool, 1, -1000)
    ledger.ints[ledger.slot["r1"], 1] += 1
    ledger.waiting.pop("b2")
    with pytest.raises(LedgerDiffersError, match="differs from a recount: ints, waiting"):
        check(memo.ledgers)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.sampled_from([0, 1000, 7000]), st.booleans())
def test_a_ledger_under_other_quotas_is_the_one_counted_anew(world: Snapshot, nominal: int, is_new_pool: bool) -> None:
    quotas = tuple(replace(q, nominal=nominal, borrowing=None) for q in world.quotas)
    if is_new_pool:  # pools are told apart by numbers, which are others then
        quotas += (Quota("t1", "a-pool-without-nodes", nominal),)
    memo, other = Memo(), replace(world, quotas=quotas)
    first = memo.ledgers.of(world)
    before = counted(first)
    assert counted(memo.fork().ledgers.of(other)) == counted(Ledger(afresh(other)))
    assert repr(schedule(other, RULES, memo)) == repr(schedule(afresh(other), RULES))
    assert counted(first) == before
    assert counted(memo.ledgers.of(world)) == before


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_with_what_rounds_before_left_a_round_decides_what_it_decides_without(world: Snapshot) -> None:
    memo = Memo()
    for number in range(4):
        decisions = schedule(world, RULES, memo)
        assert decisions == schedule(world, RULES)
        assert decisions == schedule(afresh(world), RULES)
        world = moved_on(world.after(decisions), 61.0)
        if number == 1:
            world = replace(world, history=OTHER_HISTORY, quotas=world.quotas[::-1])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_candidates_for_leaving_are_in_the_same_order_however_they_were_counted(world: Snapshot) -> None:
    memo = Memo()
    world = moved_on(world.after(schedule(world, RULES, memo)), 61.0)
    one, other = Session(world, RULES, memo).evictable, Session(afresh(world), RULES).evictable
    assert [w.id for w in one.workloads] == [w.id for w in other.workloads]
    assert np.array_equal(one.costs, other.costs)


def at_rest(world: Snapshot) -> tuple[Snapshot, PartialCycle] | None:
    """The world once whole rounds change nothing more, and what the last one left behind."""
    for _ in range(12):
        decisions, starts = decide(world, RULES)
        after = world.after(decisions)
        if all(isinstance(decision, Wait) for decision in decisions):
            return after, PartialCycle((), starts)
        world = moved_on(after, 61.0)
    return None


def tells(decisions: Sequence[Decision]) -> list[Decision]:
    return [d for d in decisions if not isinstance(d, Wait)]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.sampled_from(["t0", "t1", "t2", "t3"]), st.integers(0, 9), st.booleans())
def test_a_round_of_only_the_news_decides_what_a_whole_round_would(
    world: Snapshot, team: str, like: int, alone: bool
) -> None:
    found = at_rest(world)
    assume(found is not None)
    world, scope = found or (world, PartialCycle(()))
    model = list(world.workloads.values())[like % len(world.workloads)] if world.workloads else None
    assume(model is not None and team in {t.name for t in world.teams})
    new = fresh(model or next(iter(world.workloads.values())), team, world)
    later = world.replace(changed=[new])
    found = dirty_after(world.workloads, [new], ())
    assert found == DirtySet(asked=frozenset({"new"}))
    only = found.scope(scope.starts) if alone else replace(scope, teams=(team,))
    part = tells(schedule(replace(later, scope=only), RULES))
    whole = tells(schedule(later, RULES))
    if scope.starts and part != whole:
        # Beside planned starts it may find another place, or be left to the next whole round.
        assert {d.by if isinstance(d, Evict | Shrink) else d.workload for d in part} <= {new.id}
    elif any(isinstance(decision, Evict | Shrink) for decision in part):
        assert part == whole[: len(part)]  # what is freed beyond its need is left to the next round, a whole one
    else:
        assert part == whole


def fresh(model: Workload, team: str, world: Snapshot) -> Workload:
    """A workload that asks what another one asks, submitted now."""
    return Workload(
        "new", "new", team, model.kind, model.ask, model.gang, model.topology, priority=model.priority,
        preemptible=model.preemptible, seq=1 + max(w.seq for w in world.workloads.values()),
        submitted_at=world.at, queued_at=world.at, roles=model.roles,
    )  # fmt: skip


def test_only_teams_in_scope_are_tried() -> None:
    world = parse(FULL).replace(gone=["r1"])
    assert [d.workload for d in schedule(world, RULES) if isinstance(d, Place)] == ["b2"]
    assert schedule(replace(world, scope=PartialCycle(("red",))), RULES) == ()


def test_a_planned_start_holds_in_a_round_of_only_the_news() -> None:
    world = parse("""
        at 100000
        node a,b 4 gpus
        team red nominal 8
        b1 red training 3 running a started 99000 since 99000
        big red training 4 x 2 since 99000 pending
    """)
    _, starts = decide(world, RULES)
    assert [uid for uid, _ in starts] == ["big"]
    new = parse("node a,b 4 gpus   team blue   s blue training 1 pending").workloads["s"]
    teams = (*world.teams, *parse("team blue").teams)
    later = replace(world.replace(changed=[replace(new, seq=9)]), teams=teams)
    free = replace(later, scope=PartialCycle(("blue",)))
    assert place(schedule(free, RULES), "s")
    assert moves(schedule(replace(free, scope=PartialCycle(("blue",), starts)), RULES)) == []


def test_what_frees_something_is_news_for_everybody() -> None:
    before = parse(FULL).workloads
    ended, held = before["r1"], before["b2"]
    assert dirty_after(before, [], ["r1"]) is None
    assert dirty_after(before, [replace(ended, placement=())], []) is None
    leaving = tuple(replace(a, leaving=True) for a in ended.placement)
    assert dirty_after(before, [replace(ended, placement=leaving)], []) is None
    assert dirty_after(before, [replace(ended, preemptible=False)], []) is None
    assert dirty_after(before, [replace(ended, checkpointed_at=5.0)], []) == DirtySet()
    assert dirty_after(before, [], ["b2"]) == DirtySet(frozenset({"blue"}))
    assert dirty_after(before, [replace(held, priority=100)], []) == DirtySet(frozenset({"blue"}))
    assert dirty_after({}, [held], []) == DirtySet(asked=frozenset({"b2"}))


def test_the_planned_start_of_a_service_that_lacks_a_replica_holds_in_a_round_of_the_news() -> None:
    world = parse("""
        at 100000
        node a 4 gpus
        team red nominal 2   team blue nominal 2
        r red training 3 running a started 99000 since 98000
        s blue inference 1 running a started 98000 since 98000
        w red training 1 priority 100 since 99900 pending
    """)
    world = world.replace(changed=[replace(world.workloads["s"], gang=Gang(2, 1, 2))])
    decisions, starts = decide(world, RULES)
    assert [uid for uid, _ in starts] == ["s"]
    assert moves(decisions) == []
    told = replace(world.after(decisions), scope=PartialCycle(("red",), starts))
    assert moves(schedule(told, RULES)) == []
