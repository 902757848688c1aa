"""Who may hold how much: nominal quota, borrowing, lending, the team tree."""

from dataclasses import replace

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE
from scheduler.quota.tree import ENDLESS, held
from scheduler.state.plan import Plan
from tests.worlds import facts, messages, moves, parse, place, reasons


def test_a_team_may_use_its_nominal_quota() -> None:
    world = parse("node a 4 gpus   team red nominal 2 borrowing 0   r1 red training 2 pending")
    assert facts(schedule(world, Settings())) == [place("r1", "a")]


def test_a_team_borrows_what_others_leave_unused() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1   team blue nominal 3
        r1 red training 1 x 3 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "a", "a", "a")]


def test_the_borrowing_limit_holds() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1 borrowing 1   team blue nominal 3
        r1 red training 1 running a   r2 red training 2 pending   r3 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r3", "a")]
    assert reasons(decisions) == {"r2": Reason.WAITING_FOR_QUOTA}
    assert messages(decisions)["r2"] == "Needs 2 GPUs; team red has 1 of at most 2 allocated in gpu."


def test_what_an_owner_keeps_back_is_not_borrowed() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1   team blue nominal 3 lending 1
        r1 red training 1 running a
        r2 red training 1 pending   r3 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r2", "a")]
    assert reasons(decisions) == {"r3": Reason.FAIR_SHARE_EXCEEDED}


def test_the_owner_itself_uses_what_it_keeps_back() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1   team blue nominal 3 lending 1
        r1 red training 1 x 2 running a
        b1 blue training 1 x 2 pending
    """)
    assert moves(schedule(world, Settings())) == [place("b1", "a", "a")]


def test_gpus_that_no_team_owns_can_be_borrowed() -> None:
    world = parse("node a 4 gpus   team red nominal 1   r1 red training 4 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "a")]


def test_a_parents_limit_binds_its_teams_together() -> None:
    world = parse("""
        node a 8 gpus
        team research nominal 4 borrowing 0
        team nlp nominal 2 parent research   team vision nominal 2 parent research
        n1 nlp training 1 x 3 running a
        v1 vision training 2 pending
    """)
    decisions = schedule(world, Settings())
    # vision may have its 2 back, but nlp's gang of 3 would fall below nlp's own 2.
    assert reasons(decisions) == {"v1": Reason.OVER_LIMIT}
    assert "team research, of which vision is a part, has 3 of at most 4" in messages(decisions)["v1"]


def test_a_team_without_quota_shares_its_parents() -> None:
    world = parse("""
        node a 4 gpus
        team research nominal 2 borrowing 0   team nlp parent research
        n1 nlp training 2 pending   n2 nlp training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("n1", "a")]
    assert reasons(decisions) == {"n2": Reason.OVER_LIMIT}


def test_siblings_borrow_inside_their_parent_before_anything_else_is_asked() -> None:
    world = parse("""
        node a 4 gpus
        team research nominal 4 borrowing 0
        team nlp nominal 1 parent research   team vision nominal 3 parent research
        n1 nlp training 3 pending
    """)
    assert moves(schedule(world, Settings())) == [place("n1", "a")]


def test_work_that_may_not_be_preempted_stays_within_nominal() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 2   team blue nominal 2
        r1 red training 2 firm running a
        r2 red training 1 firm pending   r3 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r3", "a")]
    assert reasons(decisions) == {"r2": Reason.NON_PREEMPTIBLE_OVER_QUOTA}
    assert messages(decisions)["r2"] == (
        "Needs 1 GPU that may not be preempted; team red has 2 such allocated, its quota in gpu is 2."
    )


def test_borrowed_preemptible_work_does_not_use_up_room_for_firm_work() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1   team blue nominal 3
        r1 red training 1 x 2 running a   r2 red training 1 firm pending
    """)
    assert moves(schedule(world, Settings())) == [place("r2", "a")]


def test_quota_is_counted_per_pool() -> None:
    world = parse("""
        node a 2 gpus pool small   node b 2 gpus pool big
        team red
        quota red pool small nominal 2 borrowing 0   quota red pool big nominal 1 borrowing 0
        r1 red training 2 pending   r2 red training 1 pending   r3 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r1", "a"), place("r2", "b")]
    assert reasons(decisions) == {"r3": Reason.WAITING_FOR_QUOTA}


def test_shares_count_by_what_they_are_guaranteed() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 1 borrowing 0
        r1 red notebook share 0.6 pending   r2 red notebook share 0.4 pending   r3 red notebook share 0.1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r1", "a"), place("r2", "a")]
    assert reasons(decisions) == {"r3": Reason.WAITING_FOR_QUOTA}


def test_quota_is_charged_until_a_leaving_workload_has_left() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 2 borrowing 0
        r1 red training 2 stopping a   r2 red training 2 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r2", "a", after=("r1",))]


def test_a_gang_takes_no_more_workers_than_quota_allows() -> None:
    world = parse("node a 8 gpus   team red nominal 3 borrowing 0   r1 red training 1 x 2..6 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "a", "a", "a")]


def test_an_overdrawn_team_gets_nothing_more() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 1 borrowing 0
        r1 red training 1 x 2 running a   r2 red training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"r2": Reason.WAITING_FOR_QUOTA}


LENT = """
    node a 16 gpus
    team research nominal 8   team nlp nominal 4 parent research   team vision nominal 2 parent research
    team red nominal 4   team crew nominal 1 parent red   team guest
    p1 research training 3 running a   n1 nlp training 1 running a
    r1 red training 1 running a   c1 crew training 4 running a   g1 guest training 2 running a
"""


def test_who_borrows_is_listed_by_how_much_until_what_is_held_changes() -> None:
    usage = Plan(parse(f"{LENT}   team white nominal 1   w1 white training 1 running a")).usage
    assert usage.borrowers("gpu") == ["crew", "guest", "red", "research"]  # 3, 2, 1; 1 of its children's
    assert usage.borrowers("gpu") is usage.borrowers("gpu")  # asked for each claimant
    usage.charge("crew", "gpu", FUTURE_IDLE, -3000)
    assert usage.borrowers("gpu") == ["guest", "research"]


def test_a_parents_own_work_takes_of_its_children_what_is_more_than_its_own() -> None:
    usage = Plan(parse(LENT)).usage
    assert usage.from_children("research", "gpu") == 1000  # 3 held, 2 owned by no child
    assert usage.from_children("red", "gpu") == -2000
    assert usage.from_children("nlp", "gpu") == -3000


def test_a_team_may_take_from_another_what_is_over_every_quota_up_to_their_common_parent() -> None:
    usage = Plan(parse(LENT)).usage
    assert usage.spare("nlp", "crew", "gpu", 3000) == 1000  # crew is 3 over its own, red with it 1
    assert usage.spare("nlp", "crew", "gpu", 3001) == 0  # more than nlp owns, though research has it
    assert usage.spare("nlp", "red", "gpu", 1000) == 1000
    assert usage.spare("vision", "guest", "gpu", 1000) == 2000  # it owns nothing
    assert usage.spare("guest", "crew", "gpu", 1000) == 0
    assert usage.spare("vision", "nlp", "gpu", 1000) == 0  # below what it owns
    assert usage.spare("nlp", "research", "gpu", 1000) == 1000  # its own work, on what is its children's
    usage.charge("research", "gpu", FUTURE_IDLE, -2000)
    assert usage.spare("nlp", "research", "gpu", 1000) == 0


LIMITS = """
    node a 16 gpus
    team research nominal 8 borrowing 2   team nlp nominal 4 borrowing 1 lending 1 parent research
    team vision nominal 2 parent research   team red nominal 4 lending 1   team guest
"""


def test_what_a_team_owns_keeps_and_may_hold_follows_from_the_rows_below_and_above_it() -> None:
    tree = Plan(parse(LIMITS)).usage.tree
    figures = {
        team: (node.owned, node.own, node.kept_from_lending, node.nominal, node.most)
        for (team, _), node in tree.quota_nodes.items()
    }
    assert figures == {
        "": (16000, 4000, 0, 0, None),
        "research": (8000, 2000, 0, 8000, 10000),
        "nlp": (4000, 4000, 3000, 4000, 5000),
        "vision": (2000, 2000, 0, 2000, None),
        "red": (4000, 4000, 3000, 4000, None),
        "guest": (0, 0, 0, 0, None),
    }
    assert (tree.lends_less, Plan(parse(LENT)).usage.tree.lends_less) == ({"gpu"}, set())


def test_what_more_a_team_may_hold_ends_where_others_keep_theirs_or_a_limit_is_reached() -> None:
    usage = Plan(parse(LIMITS)).usage
    teams = ("nlp", "vision", "red", "guest")

    def room() -> list[int]:
        return [usage.available(team, "gpu", FUTURE_IDLE) for team in teams]

    # nlp: 4 and 1 borrowed; vision: research's 10 less the 3 that nlp keeps; red: all but nlp's 3; guest: all but both.
    assert room() == [5000, 7000, 13000, 10000]
    usage.charge("nlp", "gpu", FUTURE_IDLE, 2000)  # of what it keeps: nobody else notices
    assert room() == [3000, 7000, 13000, 10000]
    usage.charge("nlp", "gpu", FUTURE_IDLE, 3000)  # 2 more than it keeps, at its limit
    assert room() == [0, 5000, 11000, 8000]
    usage.charge("nlp", "gpu", FUTURE_IDLE, 1000)  # beyond it
    assert room() == [0, 4000, 10000, 7000]
    usage.charge("nlp", "gpu", FUTURE_IDLE, -6000)
    assert room() == [5000, 7000, 13000, 10000]
    assert usage.available_assuming("vision", "gpu", FUTURE_IDLE, [("nlp", 5000)]) == 5000
    assert (room(), usage.total[FUTURE_IDLE]["nlp", "gpu"]) == ([5000, 7000, 13000, 10000], 0)


def test_the_limits_on_a_teams_path_leave_the_least_of_what_each_leaves() -> None:
    usage = Plan(parse(f"{LIMITS}   n1 nlp training 1 running a   p1 research training 3 running a")).usage
    assert usage.below_limits("nlp", "gpu", FUTURE_IDLE, []) == 4000  # 5 less 1; research has 10 less 4
    assert usage.below_limits("nlp", "gpu", FUTURE_IDLE, [("nlp", 1000), ("red", 9000)]) == 3000
    assert usage.below_limits("nlp", "gpu", FUTURE_IDLE, [("vision", 3000)]) == 3000
    assert usage.below_limits("nlp", "gpu", FUTURE_IDLE, [("vision", 9000)]) == 0
    assert usage.below_limits("red", "gpu", FUTURE_IDLE, [("red", 9000)]) == ENDLESS


def test_what_is_left_of_what_a_team_owns_is_never_less_than_nothing() -> None:
    usage = Plan(parse(LENT)).usage
    assert [usage.owed(team, "gpu") for team in ("nlp", "crew", "guest", "red")] == [3000, 0, 0, 0]
    assert [usage.within_nominal(team, "gpu", FUTURE_IDLE) for team in ("nlp", "crew", "guest")] == [3000, 0, 0]


def test_a_limit_is_told_only_of_what_goes_beyond_it() -> None:
    world = parse(
        f"{LIMITS}   n1 nlp training 1 running a   firm nlp training 1 firm pending   w nlp training 1 pending"
    )
    usage = Plan(world).usage
    firm, other = world.workloads["firm"], world.workloads["w"]
    assert usage.limit(other, "gpu", 4000) is None
    assert usage.limit(other, "gpu", 4001) == (Reason.WAITING_FOR_QUOTA, "gpu", "nlp", 1000, 5000)
    assert usage.limit(firm, "gpu", 4000) is None  # beside what may be preempted
    assert usage.limit(firm, "gpu", 4001) == (Reason.NON_PREEMPTIBLE_OVER_QUOTA, "gpu", "nlp", 0, 4000)
    usage.charge("research", "gpu", FUTURE_IDLE, 6000)
    assert usage.limit(other, "gpu", 4000) == (Reason.OVER_LIMIT, "gpu", "research", 7000, 10000)


def test_a_worker_counts_now_where_it_is_bound_and_later_where_it_stays() -> None:
    world = parse("node a 8 gpus   team red nominal 8   r1 red training 1 x 2 running a")
    usage, workload = Plan(world).usage, world.workloads["r1"]
    (first, second), at = workload.placement, {"a": "gpu"}
    gone = replace(workload, placement=(replace(first, node="gone"), second))
    assert held(gone, at) == {("gpu", IDLE): 1000, ("gpu", FUTURE_IDLE): 1000}
    assert held(replace(workload, placement=(first, replace(second, reserved=True))), at) == {
        ("gpu", IDLE): 1000,
        ("gpu", FUTURE_IDLE): 2000,
    }
    leaving = replace(workload, placement=(first, replace(second, leaving=True)))
    assert held(leaving, at) == {("gpu", IDLE): 2000, ("gpu", FUTURE_IDLE): 1000}
    assert usage.by_pool(leaving) == {"gpu": 1000}
    usage.count(replace(workload, placement=()))
    assert usage.total[FUTURE_IDLE]["red", "gpu"] == 2000
