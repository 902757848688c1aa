"""What teams are entitled to: nominal first, the rest by weight and by what they borrowed lately."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Reason
from scheduler.model.settings import Settings
from scheduler.quota.entitlement import Side, divide, fill
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import Snapshot, evict, messages, moves, parse, place, reasons

FAIR_SHARE = EvictReason.FAIR_SHARE
RULES = Settings()


def shares(world: Snapshot, settings: Settings = RULES) -> dict[str, float]:
    """GPUs each team is entitled to."""
    return {team: milli / 1000 for (team, _), milli in Session(world, settings).entitlement.shares.items()}


def test_each_gets_what_it_owns_as_far_as_it_wants_it() -> None:
    assert divide(10, [Side(9, owned=4), Side(2, owned=3), Side(9, owned=3)], 0.5) == [4, 2, 4]


def test_what_nobody_owns_is_divided_by_weight_up_to_what_each_wants() -> None:
    assert divide(13, [Side(20, weight=2), Side(20), Side(1)], 0.5) == [8, 4, 1]


def test_nobody_gets_more_than_it_may_borrow() -> None:
    assert divide(10, [Side(9, owned=2, most=3), Side(9, owned=2)], 0.5) == [3, 7]


def test_what_an_owner_does_not_lend_is_given_to_nobody() -> None:
    assert divide(10, [Side(1, owned=6, kept_from_lending=4), Side(20, owned=4)], 0.5) == [1, 6]
    assert divide(10, [Side(5, owned=6, kept_from_lending=4), Side(20, owned=4)], 0.5) == [5, 5]


def test_where_more_is_owned_than_there_is_all_get_less_in_proportion() -> None:
    assert divide(6, [Side(9, owned=8), Side(9, owned=4)], 0.5) == [4, 2]


def test_weight_zero_borrows_what_the_others_leave() -> None:
    assert divide(10, [Side(9, weight=0), Side(4), Side(9, weight=0)], 0.5) == [3, 4, 3]


def test_who_borrowed_more_gets_less_of_what_is_to_borrow() -> None:
    # W' = 1/2 each, U' = 8/8 and 0: weights 0.25 and 0.75.
    assert divide(8, [Side(20, use=8), Side(20)], 0.5) == [2, 6]
    assert divide(8, [Side(20, use=8), Side(20)], 0.0) == [4, 4]


def test_use_of_what_a_team_owns_costs_it_nothing() -> None:
    assert divide(12_000, [Side(20_000, owned=4000, use=4000), Side(20_000)], 0.5) == [8000, 4000]


def test_little_borrowed_in_the_past_shifts_little() -> None:
    # U' = 1/100 of what is to borrow, not all that was borrowed: 0.745 and 0.75.
    assert divide(1000, [Side(2000, use=10), Side(2000)], 0.5) == [499, 501]


def test_a_large_correction_takes_no_weight_below_zero() -> None:
    assert divide(8, [Side(20, use=8), Side(4)], 3.0) == [4, 4]


amounts = st.integers(0, 30)
sides = st.lists(st.builds(Side, amounts, amounts, st.just(0), st.none() | amounts, st.integers(0, 3), amounts))


@given(st.integers(0, 60), sides, st.sampled_from([0.0, 0.5, 2.0]))
def test_division_keeps_its_promises(total: int, between: list[Side], correction: float) -> None:
    out = divide(total, between, correction)
    wants = [s.demand if s.most is None else min(s.demand, s.most) for s in between]
    sure = [min(want, side.owned) for want, side in zip(wants, between, strict=True)]
    assert all(0 <= got <= want for got, want in zip(out, wants, strict=True))
    assert sum(out) == min(total, sum(wants))  # nothing that is lent stays unused
    if sum(sure) <= total:
        assert all(got >= own for got, own in zip(out, sure, strict=True))


@given(st.integers(0, 60), st.lists(st.tuples(amounts, st.integers(1, 4)), max_size=6))
def test_filling_is_the_weighted_max_min_to_the_unit(total: int, rows: list[tuple[int, int]]) -> None:
    """Against the definition: one level for all, each has min(cap, weight x level); found by bisection in fractions."""
    caps, weights = [cap for cap, _ in rows], [weight for _, weight in rows]
    out = fill(total, caps, weights)
    low, high = Fraction(0), Fraction(100)
    for _ in range(60):
        level = (low + high) / 2
        reached = sum(min(Fraction(c), w * level) for c, w in rows)
        low, high = (level, high) if reached <= total else (low, level)
    for got, cap, weight in zip(out, caps, weights, strict=True):
        assert abs(got - min(Fraction(cap), weight * low)) <= len(rows)


def test_entitlement_follows_demand_and_quota() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 4   team blue nominal 2   team green nominal 2
        r1 red training 1 x 3 running a   b1 blue training 1 x 8 pending   g1 green training 1 pending
    """)
    assert shares(world) == {"red": 3, "blue": 4, "green": 1}


def test_inside_a_parent_its_children_share_what_it_gets() -> None:
    world = parse("""
        node a 8 gpus
        team research nominal 4   team nlp nominal 3 parent research   team vision nominal 1 parent research
        team ops nominal 4
        n1 nlp training 1 x 8 pending   v1 vision training 1 x 8 pending   o1 ops training 1 x 8 pending
    """)
    assert shares(world) == {"research": 4, "nlp": 3, "vision": 1, "ops": 4}


def test_work_that_cannot_start_yet_is_no_demand() -> None:
    world = parse("""
        at 1000
        node a 8 gpus   team red   team blue
        r1 red training 1 x 8 unmet other pending   r2 red training 1 x 8 notbefore 2000 pending
        b1 blue training 1 x 8 pending
    """)
    assert shares(world) == {"red": 0, "blue": 8}


def test_work_that_has_to_leave_is_still_wanted() -> None:
    world = parse("node a 8 gpus   team red   r1 red training 1 x 8 leaving a")
    assert shares(world)["red"] == 8


def test_of_two_that_borrow_the_one_that_borrowed_less_lately_goes_first() -> None:
    text = """
        node a 2 gpus   team red   team blue
        use {team} 2
        r1 red training 2 pending   b1 blue training 2 pending
    """
    assert moves(schedule(parse(text.format(team="red")), RULES)) == [place("b1", "a")]
    assert moves(schedule(parse(text.format(team="blue")), RULES)) == [place("r1", "a")]


FOUR_BORROWED = """
    node a 4 gpus   team red   team blue
    r1 red training 1 running a   r2 red training 1 running a   r3 red training 1 running a
    r4 red training 1 running a
"""


def test_borrowers_give_to_who_is_below_its_entitlement_until_they_are_even() -> None:
    world = parse(
        f"{FOUR_BORROWED} b1 blue training 1 pending   b2 blue training 1 pending   b3 blue training 1 pending"
    )
    assert moves(schedule(world, RULES)) == [
        *(evict("r4", FAIR_SHARE, "b1"), place("b1", "a", after=("r4",))),
        *(evict("r3", FAIR_SHARE, "b2"), place("b2", "a", after=("r3",))),
    ]


def test_a_borrower_is_not_brought_below_who_takes_from_it() -> None:
    assert moves(schedule(parse(f"{FOUR_BORROWED} b1 blue training 3 pending"), RULES)) == []


def test_a_large_job_is_not_taken_where_its_team_would_then_be_behind() -> None:
    world = parse("node a 4 gpus   team red   team blue   r1 red training 4 running a   b1 blue training 3 pending")
    assert moves(schedule(world, RULES)) == []


def test_no_borrower_is_brought_below_what_it_owns() -> None:
    world = parse("""
        node a 12 gpus   team red nominal 4   team blue
        r1 red training 9 running a   r2 red training 3 firm running a
        b1 blue training 1 pending   b2 blue training 9 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_who_holds_what_it_is_entitled_to_gives_nothing() -> None:
    world = parse("""
        node a 6 gpus   team red   team blue   team green
        r1 red training 1 running a   r2 red training 1 running a
        g1 green training 4 running a started 99000
        b1 blue training 1 pending   b2 blue training 9 pending
    """)
    assert shares(world)["red"] == 2
    assert moves(schedule(world, RULES)) == []


def test_what_a_used_up_budget_keeps_from_starting_is_no_demand() -> None:
    world = parse("""
        node a 8 gpus   team red   team blue   budget red day 1 2 172800
        r1 red training 1 x 8 pending   b1 blue training 1 x 8 pending
    """)
    assert shares(world) == {"red": 0, "blue": 8}


def test_what_was_borrowed_a_moment_ago_is_left_to_its_borrower() -> None:
    world = parse(f"{FOUR_BORROWED} b1 blue training 1 pending")
    assert moves(schedule(world, Settings(borrower_runtime_seconds=200_000))) == []


def test_nobody_who_owns_what_it_holds_gives_for_another_to_borrow() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team blue
        r1 red training 1 x 4 running a   b1 blue training 1 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_the_message_says_what_the_victims_team_holds_and_is_entitled_to() -> None:
    decision, *_ = schedule(parse(f"{FOUR_BORROWED} b1 blue training 2 pending"), RULES)
    assert isinstance(decision, Evict)
    assert decision.message == ("Gives 1 GPU to team blue for [[w:b1]]: team red holds 4 in gpu and is entitled to 2.")


WORN = "preempted 90000 by x preempted 91000 by y preempted 92000 by z"


def test_work_preempted_three_times_starts_again_only_within_its_teams_nominal_quota() -> None:
    text = "node a 4 gpus   team red nominal 1   h red training 1 {held}   w red training 1 {worn} pending"
    assert moves(schedule(parse(text.format(held="running a", worn="")), RULES)) == [place("w", "a")]
    decisions = schedule(parse(text.format(held="running a", worn=WORN)), RULES)
    assert moves(decisions) == []
    assert reasons(decisions) == {"w": Reason.FAIR_SHARE_EXCEEDED}
    assert messages(decisions)["w"] == (
        "Preempted 3 times, so it starts only within the quota of its team; it needs 1 GPU, and team red has 1 of its "
        "quota of 1 in gpu allocated."
    )
    world = parse("node a 4 gpus   team red nominal 1   w red training 1 " + WORN + " pending")
    assert moves(schedule(world, RULES)) == [place("w", "a")]


def test_work_preempted_too_often_keeps_nobody_else_back() -> None:
    world = parse(f"""
        node a 4 gpus   team red nominal 0
        w red training 1 {WORN} pending   r1 red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [place("r1", "a")]


def test_a_day_later_it_may_borrow_again() -> None:
    world = parse(f"at 180000   node a 4 gpus   team red nominal 0   w red training 1 {WORN} pending")
    assert moves(schedule(world, RULES)) == [place("w", "a")]


def test_nothing_of_a_team_starts_once_its_budget_is_used_up() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team kids parent red   team blue
        budget red month 100 120.5 2592000
        r1 red training 1 pending   k1 kids training 1 pending   b1 blue training 1 pending
    """)
    decisions = schedule(world, RULES)
    assert moves(decisions) == [place("b1", "a")]
    assert reasons(decisions) == {"r1": Reason.BUDGET_EXHAUSTED, "k1": Reason.BUDGET_EXHAUSTED}
    assert messages(decisions) == {
        "r1": "Team red has used 120.5 of the 100 GPU hours of its budget for this month; nothing new starts before "
        "1970-01-31 00:00 cluster time.",
        "k1": "Team red, of which kids is a part, has used 120.5 of the 100 GPU hours of its budget for this month; "
        "nothing new starts before 1970-01-31 00:00 cluster time.",
    }


def test_what_runs_goes_on_when_the_budget_is_used_up() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   budget red day 1 2 172800
        r1 red training 1 running a
    """)
    assert schedule(world, RULES) == ()


def test_a_new_period_frees_the_team() -> None:
    world = parse("node a 4 gpus   team red nominal 4   budget red day 1 2 86400   r1 red training 1 pending")
    assert moves(schedule(world, RULES)) == [place("r1", "a")]


@given(worlds(), st.sampled_from(["t0", "t1", "t2", "t3"]), st.integers(1, 4000))
def test_what_all_may_give_is_what_each_may_give(world: Snapshot, team: str, need: int) -> None:
    session = Session(world, RULES)
    plan, entitlement = session.plan, session.entitlement
    if team not in plan.usage.tree.paths:
        return
    names = [name for name in plan.usage.tree.paths if name]
    for pool in plan.usage.tree.pools:
        each = {other: entitlement.spare(team, other, pool, need) for other in names}
        amounts = entitlement.spares(team, pool, need).tolist()
        found = zip(entitlement.above(pool).names, amounts, strict=True)
        assert {other: amount for other, amount in found if amount} == {
            other: amount for other, amount in each.items() if amount
        }
