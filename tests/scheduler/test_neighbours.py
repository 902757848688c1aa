"""Which nodes take shares, and beside whose shares a share may lie."""

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Share
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Kind, Phase, ResourceRequest, Workload
from scheduler.policies import POLICIES
from tests.worlds import messages, moves, parse, place, reasons

TWO_TEAMS = """
    team red nominal 4   team blue nominal 4
"""


def test_a_share_goes_only_where_shares_are_taken() -> None:
    world = parse(TWO_TEAMS + "node a 1 gpus only-whole   node b 1 gpus   r1 red notebook share 0.5 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_whole_gpus_go_only_where_they_are_taken_whole() -> None:
    world = parse(TWO_TEAMS + "node a 1 gpus only-shares   node b 1 gpus   r1 red training 1 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_without_a_node_that_takes_shares_the_reason_says_what_to_do() -> None:
    world = parse(TWO_TEAMS + "node a 8 gpus only-whole   r1 red notebook share 0.5 pending")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"r1": Reason.NO_MATCHING_FLAVOR}
    assert "No node takes shares of its GPUs. A platform admin labels nodes" in messages(decisions)["r1"]


def test_without_a_node_that_takes_whole_gpus_the_reason_says_so() -> None:
    world = parse(TWO_TEAMS + "node a 8 gpus only-shares   r1 red training 1 models gpu pending")
    assert "No node with gpu GPUs takes work with whole GPUs" in messages(schedule(world, Settings()))["r1"]


def test_a_share_does_not_go_beside_another_teams_if_one_of_them_does_not_allow_it() -> None:
    for red, blue in (("alone", ""), ("", "alone"), ("alone", "alone")):
        world = parse(f"""
            team red nominal 4 {red}
            team blue nominal 4 {blue}
            node a 1 gpus
            b1 blue notebook share 0.3 running a:0
            r1 red notebook share 0.3 pending
        """)
        decisions = schedule(world, Settings())
        assert moves(decisions) == []
        assert reasons(decisions) == {"r1": Reason.WAITING_FOR_CAPACITY}
        assert (
            "hold shares of team blue, and two teams share a GPU only where both allow it" in messages(decisions)["r1"]
        )


def test_a_share_goes_beside_its_own_teams_and_beside_others_where_both_allow_it() -> None:
    world = parse("""
        team red nominal 4 alone   team blue nominal 4   team green nominal 4
        node a 2 gpus
        r1 red notebook share 0.3 running a:0
        b1 blue notebook share 0.3 running a:1
        r2 red notebook share 0.3 pending
        g1 green notebook share 0.3 pending
    """)
    places = {d.workload: d.workers[0].gpus for d in schedule(world, Settings()) if isinstance(d, Place)}
    assert places == {"r2": (0,), "g1": (1,)}


def test_a_place_beside_a_share_that_still_leaves_is_taken_only_after_it() -> None:
    world = parse("""
        team red nominal 4 alone   team blue nominal 4
        node a 1 gpus
        b1 blue notebook share 0.3 leaving a:0
        r1 red notebook share 0.3 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "a", after=("b1",))]


def test_two_shares_of_one_round_are_kept_apart_as_well() -> None:
    world = parse("""
        team red nominal 4 alone   team blue nominal 4 alone
        node a 2 gpus
        r1 red notebook share 0.3 pending   b1 blue notebook share 0.3 pending
        r2 red notebook share 0.3 pending   b2 blue notebook share 0.3 pending
    """)
    places = {d.workload: d.workers[0].gpus for d in schedule(world, Settings()) if isinstance(d, Place)}
    assert places["r1"] == places["r2"]
    assert places["b1"] == places["b2"]
    assert places["r1"] != places["b1"]


def test_a_team_that_gets_its_quota_back_makes_all_that_may_not_lie_beside_it_leave() -> None:
    world = parse("""
        team red nominal 1 alone   team blue nominal 0
        node a 1 gpus
        b1 blue notebook share 0.3 running a:0 started 100
        b2 blue notebook share 0.3 running a:0 started 100
        r1 red notebook share 0.3 pending
    """)
    placed = [fact for fact in moves(schedule(world, Settings())) if fact[0] == "place"]
    assert placed == [place("r1", "a", after=("b1", "b2"))]


@st.composite
def _worlds(draw: st.DrawFn) -> Snapshot:
    names = ("red", "blue", "green")
    teams = [Team(name, None, draw(st.booleans())) for name in names]
    nodes = [
        Node(f"n{i}", "gpu", "gpu", 2, 16_000, 64_000, 256_000, takes_whole=whole, takes_shares=not whole or both)
        for i, (whole, both) in enumerate(
            draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=3))
        )
    ]
    asks = [
        ResourceRequest(share=Share(milli, WHOLE, 0)) if milli < WHOLE else ResourceRequest(gpus=1)
        for milli in draw(st.lists(st.sampled_from((200, 300, 500, WHOLE)), min_size=1, max_size=10))
    ]
    work = [
        Workload(
            f"w{i}", f"w{i}", draw(st.sampled_from(names)), Kind.NOTEBOOK, ask, seq=i, submitted_at=9.0, queued_at=9.0
        )
        for i, ask in enumerate(asks)
    ]
    return Snapshot.build(100.0, nodes, teams, [Quota(name, "gpu", WHOLE) for name in names], work)


@hypothesis_settings(deadline=None)  # the first example loads the compiled loops
@given(_worlds(), st.sampled_from(sorted(POLICIES)))
def test_never_do_shares_lie_where_they_may_not_under_any_policy(world: Snapshot, policy: str) -> None:
    allows = {team.name: team.shares_with_others for team in world.teams}
    nodes = {node.name: node for node in world.inventory.nodes}
    for _ in range(3):
        world = world.after(schedule(world, Settings(policy=policy)))
        tenants: dict[tuple[str, int], set[str]] = {}
        for workload in world.workloads.values():
            for worker in workload.placement:
                node = nodes[worker.node]
                assert node.takes_shares if workload.ask.share else node.takes_whole
                for gpu in worker.gpus:
                    tenants.setdefault((worker.node, gpu), set()).add(workload.team)
        assert all(len(teams) == 1 or all(allows[team] for team in teams) for teams in tenants.values())
    assert all(w.phase in (Phase.QUEUED, Phase.ADMITTED) for w in world.workloads.values())
