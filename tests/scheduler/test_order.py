"""Whose turn it is."""

from hypothesis import HealthCheck, example, given, settings

from scheduler.cycle.ordering import Claim, Next, claim_of, in_order, within_team
from scheduler.cycle.round import Round
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import Workload
from scheduler.shortcuts import EACH_TURN
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import messages, moves, parse, place, reasons

FIVE_FOR_FOUR = """
    node a 4 gpus
    team red nominal 2   team blue nominal 2
    r1 red training 1 pending   r2 red training 1 pending   r3 red training 1 pending
    b1 blue training 1 pending   b2 blue training 1 pending
"""

# Once b3 has borrowed, the next of blue needs no GPU: it goes before r3, that would borrow.
NEXT_BORROWS_NOT = """
    node a 8 gpus
    team blue nominal 2   team red nominal 2
    b1 blue training 1 pending   b2 blue training 1 pending   b3 blue training 1 pending
    b4 blue training 0 cpu 1 pending
    r1 red training 1 pending   r2 red training 1 pending   r3 red training 1 pending
"""


def test_the_team_furthest_below_its_quota_goes_first() -> None:
    world = parse("""
        node a 5 gpus
        team red nominal 4   team blue nominal 2
        r0 red training 1 x 2 firm running a   b0 blue training 1 x 2 firm running a
        b1 blue training 1 pending   r1 red training 1 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "a")]


def test_a_team_moves_back_with_each_gpu_it_gets() -> None:
    world = parse(FIVE_FOR_FOUR)
    assert [fact[1] for fact in moves(schedule(world, Settings()))] == ["b1", "r1", "b2", "r2"]


def test_services_go_before_notebooks_and_those_before_training() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        t red training 1 priority 100 pending   n red notebook 1 pending   s red inference 1 pending
    """)
    assert moves(schedule(world, Settings())) == [place("s", "a"), place("n", "a")]


def test_higher_priority_goes_first() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        low red training 1 pending   high red training 1 priority 10 pending
    """)
    assert moves(schedule(world, Settings())) == [place("high", "a")]


def test_waiting_raises_priority_by_a_point_an_hour() -> None:
    world = parse("""
        at 20000
        node a 1 gpus   team red nominal 1
        new red training 1 priority 3 pending   old red training 1 since 5000 pending
    """)
    assert moves(schedule(world, Settings(ageing_seconds=3600))) == [place("old", "a")]
    assert moves(schedule(world, Settings(ageing_seconds=7200))) == [place("new", "a")]


def test_ageing_never_reaches_the_next_priority_class() -> None:
    world = parse("""
        at 9000000
        node a 1 gpus   team red nominal 1
        old red training 1 since 0 pending   new red training 1 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [place("new", "a")]


def test_equal_claims_go_in_the_order_of_submission() -> None:
    world = parse("node a 1 gpus   team red nominal 1   z red training 1 pending   b red training 1 pending")
    assert moves(schedule(world, Settings())) == [place("z", "a")]


def test_smaller_work_may_pass_what_does_not_fit() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 1 running a   big red training 2 pending   s red training 1 pending
    """)
    assert moves(schedule(world, Settings())) == [place("s", "a")]


def test_who_asks_the_same_waits_behind_the_first_by_name() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        x red training 1 running a   r1 red training 1 pending   r2 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert reasons(decisions)["r2"] == Reason.BEHIND_HIGHER_PRIORITY
    assert messages(decisions)["r2"] == "Behind [[w:r1]] (same request)."


def test_a_higher_priority_that_asks_the_same_is_not_held_behind_an_aged_one() -> None:
    world = parse("""
        at 200000
        node a 1 gpus   team red nominal 1
        x red training 1 priority 20 running a
        old red training 1 priority 10 since 0 pending   new red training 1 priority 30 since 200000 pending
    """)
    assert moves(schedule(world, Settings()))[-1] == place("new", "a", after=("x",))


def test_what_an_eviction_frees_beyond_its_need_is_kept_for_the_first_in_line() -> None:
    world = parse("""
        at 200000
        node a 2 gpus   team red nominal 2
        x red training 2 priority 50 running a
        old red training 1 priority 40 since 0 pending
        urgent red training 1 priority 60 pending
        late red training 1 cpu 1 priority 30 pending
    """)
    decisions = schedule(world, Settings())
    assert [f for f in moves(decisions) if f[0] == "place"] == [place("urgent", "a", after=("x",))]
    assert messages(decisions)["late"] == "Behind [[w:old]] (no larger request)."
    assert moves(schedule(world.after(decisions), Settings())) == [place("old", "a", after=("x",))]


def test_a_round_stops_after_so_many_changes_and_the_next_goes_on_from_there() -> None:
    world = parse(FIVE_FOR_FOUR)
    few = Settings(max_changes=3)
    first = schedule(world, few)
    assert [fact[1] for fact in moves(first)] == ["b1", "r1", "b2"]
    assert reasons(first) == {}
    second = schedule(world.after(first), few)
    assert [fact[1] for fact in moves(second)] == ["r2"]
    assert list(reasons(second)) == ["r3"]
    assert (*moves(first), *moves(second)) == tuple(moves(schedule(world, Settings())))


def test_what_one_team_gets_counts_for_each_team_beside_it() -> None:
    world = parse("""
        node a 6 gpus
        team research nominal 12   team nlp parent research nominal 6   team vision parent research nominal 6
        v1 vision training 4 running a
        v2 vision training 1 pending   n1 nlp training 1 pending   n2 nlp training 1 pending
    """)
    assert [fact[1] for fact in moves(schedule(world, Settings()))] == ["n1", "n2"]


def test_a_team_that_borrowed_goes_on_at_once_with_what_stays_within_its_quota() -> None:
    world = parse(NEXT_BORROWS_NOT)
    assert [fact[1] for fact in moves(schedule(world, Settings()))] == ["b1", "r1", "b2", "r2", "b3", "b4", "r3"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
@example(parse(NEXT_BORROWS_NOT))
def test_each_turn_is_of_the_team_that_is_furthest_below_at_that_moment(world: Snapshot) -> None:
    session = Session(world, Settings(), None)
    plan, turns = session.plan, Round(session, EACH_TURN)
    list(turns.begin())
    shares = session.entitlement.deserved()
    left: dict[str, list[Workload]] = {}
    for workload in within_team(plan.waiting, world.at, Settings()):
        left.setdefault(workload.team, []).append(workload)

    def key(team: str) -> tuple[bool, Claim, str]:
        pending = plan.ledger.pending
        first = next(w for w in left[team] if plan.view.get(w.id, w) is w)
        need = Next.of(pending, pending.slot[first.id]).need
        own = max((plan.usage.within_nominal(team, pool, FUTURE_IDLE) for pool in plan.usage.tree.pools), default=0)
        return need > own, claim_of(plan, shares, team), team

    before = ""
    for workload, equivalence in in_order(session):
        keys = [key(team) for team, rest in left.items() if any(plan.view.get(w.id, w) is w for w in rest)]
        # A team goes on as long as nothing is decided, also where another has the same claim.
        assert len(left) == 1 or key(workload.team)[:2] == min(keys)[:2], (workload.id, before)
        left[workload.team].remove(workload)
        turns.decide(workload, equivalence)
        before = workload.id
