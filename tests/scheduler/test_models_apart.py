"""Two models never lie on one GPU where nothing says that it holds shares to their parts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpushare.backends.catalogue import is_advisory
from gpushare.gpu import WHOLE, Enforcer, Share
from scheduler.cycle.schedule import decide as round_of
from scheduler.cycle.schedule import schedule
from scheduler.explain.explanation import explain, submitted
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Gang, Kind, Phase, ResourceRequest, Workload, least
from scheduler.policies import POLICIES, decide
from scheduler.shortcuts import NONE
from scheduler.state.plan import Plan
from tests.scheduler.test_shortcuts import sorted_waits
from tests.worlds import messages, moves, parse, place, reasons

TEAMS = "team red nominal 8   team blue nominal 8\n"
CHAT = "r1 red inference share 0.3 smem 4000 running a:0\n"


def gpus_of(world: Snapshot) -> dict[str, list[tuple[str, int]]]:
    """Where a round puts shares: node and device by workload."""
    placed = [d for d in schedule(world, Settings()) if isinstance(d, Place)]
    return {d.workload: [(w.node, w.gpus[0]) for w in d.workers] for d in placed}


def test_only_what_says_that_it_holds_something_of_a_share_is_not_advisory() -> None:
    assert {one for one in Enforcer if is_advisory(one)} == {Enforcer.ADVISORY, Enforcer.TIME_SLICING}


@pytest.mark.parametrize("held", ["advisory", "by time-slicing"])
def test_a_second_model_goes_to_another_gpu_where_shares_are_advisory(held: str) -> None:
    world = parse(TEAMS + f"node a 2 gpus {held}\n{CHAT} r2 red inference share 0.3 smem 4000 pending")
    assert gpus_of(world) == {"r2": [("a", 1)]}


@pytest.mark.parametrize("held", ["", "by weft", "by hami", "by mps", "by mig model A100 memory 40960"])
def test_two_models_lie_on_one_gpu_where_something_holds_shares(held: str) -> None:
    world = parse(
        TEAMS
        + f"""
        node a 2 gpus {held}
        r1 red inference share 0.28 smem 9728 running a:0
        r2 red inference share 0.28 smem 9728 pending
    """.replace("9728", "9728" if "mig" in held else "4000").replace("0.28", "0.285" if "mig" in held else "0.28")
    )
    assert gpus_of(world) == {"r2": [("a", 0)]}


def test_a_model_without_a_gpu_of_its_own_waits_and_is_told_that_shares_are_advisory_where_and_what_helps() -> None:
    world = parse(TEAMS + f"node a 1 gpus advisory pool old\n{CHAT} b1 blue inference share 0.3 smem 4000 pending")
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"b1": Reason.WAITING_FOR_CAPACITY}
    assert messages(decisions)["b1"] == (
        "Needs a worker of 0.3 of a GPU with 4000 MiB; GPUs that have it free hold another model, and what holds "
        "shares in node pool old is advisory, so each GPU there takes one model. It needs a pool with a back-end that "
        "enforces shares, or whole GPUs."
    )


def test_a_model_goes_beside_another_in_a_pool_that_enforces_rather_than_wait() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus advisory pool old
        node b 1 gpus by weft pool new
        r1 red inference share 0.3 running a:0
        r2 red inference share 0.3 running b:0
        r3 red inference share 0.3 pending
    """
    )
    assert gpus_of(world) == {"r3": [("b", 0)]}


def test_other_kinds_of_shares_and_replicas_of_one_service_lie_together_as_before() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus advisory
        r1 red inference x 1..3..3 share 0.2 running a:0
        r2 red notebook share 0.2 pending
        r3 red training share 0.2 pending
    """
    )
    placed = gpus_of(world)
    assert placed == {"r1": [("a", 0), ("a", 0)], "r2": [("a", 0)], "r3": [("a", 0)]}


def test_two_models_that_wait_do_not_start_on_one_gpu_in_one_round() -> None:
    asks = "   ".join(f"r{i} red inference share 0.3 pending" for i in range(3))
    placed = gpus_of(parse(TEAMS + f"node a 2 gpus advisory\n{asks}"))
    assert sorted(placed.values()) == [[("a", 0)], [("a", 1)]]


def test_beside_a_model_that_still_leaves_the_next_one_starts_only_after_it() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus advisory
        r1 red inference share 0.3 leaving a:0
        r2 red inference share 0.3 pending
    """
    )
    assert moves(schedule(world, Settings())) == [place("r2", "a", after=("r1",))]


def test_a_team_that_gets_its_quota_back_makes_another_model_leave_that_is_in_its_way() -> None:
    world = parse("""
        team red nominal 1   team blue nominal 0
        node a 1 gpus advisory
        b1 blue inference share 0.3 running a:0 started 100
        r1 red inference share 0.3 pending
    """)
    placed = [fact for fact in moves(schedule(world, Settings())) if fact[0] == "place"]
    assert placed == [place("r1", "a", after=("b1",))]


def test_a_service_grows_on_its_own_gpu_while_another_that_asks_the_same_waits_for_one() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus advisory
        r1 red inference x 1..1..3 share 0.3 pending since 10
        r2 red inference x 1..2..3 share 0.3 running a:0
    """
    )
    decisions = schedule(world, Settings())
    assert gpus_of(world) == {"r2": [("a", 0)]}
    assert "advisory" in messages(decisions)["r1"]


@pytest.mark.parametrize(("held", "starts"), [("advisory", True), ("", False)])
def test_no_planned_start_keeps_room_for_a_model_beside_another_which_never_ends(held: str, starts: bool) -> None:
    world = parse(
        TEAMS
        + f"""
        node a 1 gpus {held}
        r1 red inference share 0.3 running a:0
        b1 blue training share 0.5 running a:0 started 90000
        r2 red inference share 0.7 pending since 10
        b2 blue notebook share 0.2 pending
    """
    )
    assert (place("b2", "a") in moves(schedule(world, Settings()))) is starts


def test_a_preview_says_what_a_model_would_wait_for() -> None:
    world = parse(TEAMS + f"node a 1 gpus advisory\n{CHAT}")
    asked = Workload("new", "new", "blue", Kind.INFERENCE, ResourceRequest(share=Share(300, WHOLE, 0)))
    told = explain(submitted(world, asked), "new", Settings())
    assert told.reason is Reason.WAITING_FOR_CAPACITY
    assert ("advisory", "gpu") in told.numbers
    assert "is advisory, so each GPU there takes one model" in told.message


def test_with_one_model_or_where_all_nodes_enforce_a_plan_follows_no_tenants() -> None:
    assert Plan(parse(TEAMS + "node a 1 gpus advisory   r1 red inference share 0.3 pending")).tenants is None
    two = "r1 red inference share 0.3 pending   r2 red inference share 0.3 pending"
    assert Plan(parse(TEAMS + f"node a 1 gpus   {two}")).tenants is None
    assert Plan(parse(TEAMS + f"node a 1 gpus advisory   {two}")).tenants is not None


# --- at random ------------------------------------------------------------------------------------


@st.composite
def _worlds(draw: st.DrawFn) -> Snapshot:
    """A few GPUs, held by this and that, for services, notebooks and trainings that ask much the same."""
    teams = [Team("red", None, True), Team("blue", None, draw(st.booleans()))]
    held = st.sampled_from(("", "time-slicing", "weft"))
    nodes = [
        Node(
            f"n{i}", "gpu", "gpu", draw(st.integers(1, 3)), 16_000, draw(st.sampled_from((4, 64))) * 1000, 256_000,
            enforces_limits=draw(st.booleans()), enforcer=draw(held),
        )
        for i in range(draw(st.integers(1, 3)))
    ]  # fmt: skip
    kinds = st.sampled_from((Kind.INFERENCE, Kind.INFERENCE, Kind.INFERENCE, Kind.NOTEBOOK, Kind.TRAINING))
    sizes = st.tuples(st.sampled_from((200, 300, 300, 500)), st.integers(1, 3))
    work = [
        Workload(
            f"w{i}", f"w{i}", draw(st.sampled_from(("red", "blue"))), draw(kinds),
            ResourceRequest(share=Share(milli, WHOLE, draw(st.sampled_from((0, 4000)))), cpu_milli=1000),
            gang=Gang(count, draw(st.integers(1, count)), count), seq=i, submitted_at=9.0,
            queued_at=draw(st.sampled_from((9.0, 90_000.0))), priority=draw(st.sampled_from((0, 0, 1))),
            spread=draw(st.sampled_from(("", "gpu", "node"))),
        )
        for i, (milli, count) in enumerate(draw(st.lists(sizes, min_size=2, max_size=9)))
    ]  # fmt: skip
    quotas = [Quota(team, "gpu", draw(st.sampled_from((0, WHOLE, 3 * WHOLE)))) for team in ("red", "blue")]
    return Snapshot.build(100_000.0, nodes, teams, quotas, work)


def _next(world: Snapshot, grow: frozenset[str]) -> Snapshot:
    """As if all that was admitted ran by now, and some services were to have a replica more."""
    ran = [
        replace(w, phase=Phase.RUNNING, started_at=world.at) if w.phase is Phase.ADMITTED else w
        for w in world.workloads.values()
    ]
    more = [
        replace(w, gang=replace(w.gang, count=w.gang.count + 1, max=w.gang.count + 1))
        if w.id in grow and w.kind is Kind.INFERENCE
        else w
        for w in ran
    ]
    return Snapshot.build(world.at + 3600.0, world.inventory.nodes, world.teams, world.quotas, more)


def _models(world: Snapshot, *, is_later: bool) -> dict[tuple[str, int], set[str]]:
    """The services on each advisory device: once those that leave have left, or before what waits for that is there."""
    found: dict[tuple[str, int], set[str]] = {}
    nodes = {node.name: node for node in world.inventory.nodes}
    for workload in world.workloads.values():
        for worker in workload.placement if workload.kind is Kind.INFERENCE else ():
            waits = worker.reserved or workload.phase is Phase.RESERVED
            if nodes[worker.node].is_advisory and not (worker.leaving if is_later else waits):
                found.setdefault((worker.node, worker.gpus[0]), set()).add(workload.id)
    return found


@hypothesis_settings(deadline=None)  # the first example loads the compiled loops
@given(_worlds(), st.sampled_from(sorted(POLICIES)), st.data())
def test_no_policy_ever_puts_two_models_on_one_advisory_gpu(world: Snapshot, policy: str, data: st.DataObject) -> None:
    for _ in range(3):
        world = world.after(decide(world, Settings(policy=policy)))
        for is_later in (False, True):
            assert all(len(models) == 1 for models in _models(world, is_later=is_later).values())
        world = _next(world, frozenset(data.draw(st.sets(st.sampled_from(sorted(world.workloads))))))


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_worlds(), st.data())
def test_a_round_without_shortcuts_decides_and_says_the_same_of_models(world: Snapshot, data: st.DataObject) -> None:
    for _ in range(3):
        decisions, starts = round_of(world, Settings())
        plain, plain_starts = round_of(world, Settings(), shortcuts=NONE)
        assert sorted_waits(decisions) == sorted_waits(plain)
        assert starts == plain_starts
        event(f"told: {any('advisory' in text for text in messages(decisions).values())}")
        world = _next(world.after(decisions), frozenset(data.draw(st.sets(st.sampled_from(sorted(world.workloads))))))


@hypothesis_settings(deadline=None)
@given(_worlds())
def test_taking_a_decision_back_leaves_all_open_that_was(world: Snapshot) -> None:
    plan = Plan(world)
    asking = [w for w in world.workloads.values() if w.kind is Kind.INFERENCE]

    def seen() -> list[list[int]]:
        if plan.tenants is None:
            return []
        return [plan.tenants.closed_to_model(w, when).tolist() for w in asking for when in (IDLE, FUTURE_IDLE)]

    before, mark = seen(), plan.mark()
    for workload in asking:
        free = plan.open_to(workload, plan.free[IDLE], IDLE)
        places = find_places(
            world.inventory, workload, Goal(least(workload), workload.missing), free, world.inventory.flavors[0]
        )
        if places is not None:
            plan.place(workload, places)
    assert np.any(seen()) == any(_models(world.after(plan.decisions), is_later=True)) or len(asking) < 2
    plan.rollback(mark)
    assert seen() == before
