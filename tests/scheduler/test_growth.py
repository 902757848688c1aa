"""What holds in every world of elastic gangs that grow beyond their count: nothing waits for what they were lent."""

from dataclasses import replace

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.fit.claim import fits
from scheduler.model.decision import Decision, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot
from scheduler.model.workload import Kind, Phase, Workload, most, surplus
from scheduler.quota.tree import Tree, Usage
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import moves, parse, place

# Planned starts are made early, so that some wait for one of another workload only.
RULES = Settings(surplus_after_seconds=120.0, reservation_after_seconds=10.0, reservation_after_waits=0.0)
# Late fits on a once `gone` has left; it waits only because it would delay head, which needs one GPU of a and one of b.
ONE_IDLE_ONE_LEAVING = """
    node a,b,c 2 gpus cpu 64   team red nominal 8
    gone red training 1 leaving a
    x red training 1 x 2 firm running b b started 90000
    y red training 1 firm running c
    gang red training 1 x 1..1..2 running c started 90000
    head red training 1 cpu 40 x 2 pending since 90000
    late red training 2 pending since 99000
"""
# The same, where gang has room on d as well, which is too small for late; but there is quota for only one of them.
QUOTA_FOR_ONE = ONE_IDLE_ONE_LEAVING.replace("nominal 8", "nominal 6 borrowing 0   node d 2 gpus cpu 4").replace(
    "training 2 pending", "training 2 cpu 40 pending"
)
many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def elastic() -> st.SearchStrategy[Snapshot]:
    """Worlds in which each running gang can use more workers and has run for long: most can grow or give back."""
    return worlds().map(_with_room_to_grow)


def _with_room_to_grow(world: Snapshot) -> Snapshot:
    running = [w for w in world.workloads.values() if w.kind is Kind.TRAINING and w.phase is Phase.RUNNING]
    changed = (replace(w, gang=replace(w.gang, max=most(w) + 2), started_at=world.at - 5000) for w in running)
    return world.replace(changed=changed)


def growth(world: Snapshot, decisions: tuple[Decision, ...]) -> list[Place]:
    """The decisions that give a running gang more workers."""
    placed = [d for d in decisions if isinstance(d, Place)]
    return [d for d in placed if (w := world.workloads[d.workload]).placement and w.kind is Kind.TRAINING]


def could_start(world: Snapshot) -> set[str]:
    """Claimants that have a place now or once all that leaves has left, each asked by itself and without its turn."""
    session = Session(world, RULES)
    waiting = [w for w in world.workloads.values() if w.is_waiting and not w.unmet and w.not_before is None]
    return {w.id for w in waiting if any(fits(session, w, when) for when in (IDLE, FUTURE_IDLE))}


def test_one_idle_gpu_stays_for_a_claimant_that_needs_it_beside_one_that_leaves() -> None:
    world = parse(ONE_IDLE_ONE_LEAVING)
    assert moves(schedule(world, RULES)) == []
    alone = world.replace(gone=["late"])
    assert moves(schedule(alone, RULES)) == [place("gang", "a")]


def test_the_quota_of_a_claimant_that_could_start_stays_free_wherever_a_gang_would_grow() -> None:
    assert moves(schedule(parse(QUOTA_FOR_ONE), RULES)) == []
    enough = parse(QUOTA_FOR_ONE.replace("nominal 6", "nominal 7"))
    assert moves(schedule(enough, RULES)) == [place("gang", "d")]


@many
@given(elastic())
@example(parse(ONE_IDLE_ONE_LEAVING))
@example(parse(QUOTA_FOR_ONE))
def test_no_gang_grows_into_what_a_waiting_claimant_could_start_on(world: Snapshot) -> None:
    decisions = schedule(world, RULES)
    grown = growth(world, decisions)
    event(f"grown: {min(2, len(grown))}")
    without = world.after([d for d in decisions if d not in grown])
    taken = could_start(without) - could_start(world.after(decisions))
    assert not taken


@many
@given(elastic())
def test_growth_stays_within_the_most_that_a_gang_can_use_its_quota_and_what_it_may_borrow(world: Snapshot) -> None:
    decisions = schedule(world, RULES)
    grown = growth(world, decisions)
    without, after = (
        held_by(w) for w in (world.after([d for d in decisions if d not in grown]), world.after(decisions))
    )
    for decision in grown:
        before = world.workloads[decision.workload]
        assert before.gang.min < most(before)
        assert len(before.placement) - before.role_members + len(decision.workers) <= most(before)
        assert not decision.after
    for (team, pool), node in after.tree.quota_nodes.items():
        for when in (IDLE, FUTURE_IDLE):
            if after.total[when][team, pool] > without.total[when][team, pool] and node.most is not None:
                assert after.total[when][team, pool] <= node.most


def held_by(world: Snapshot) -> Usage:
    out = Usage(Tree(world), {n.name: n.pool for n in world.inventory.nodes})
    out.count_all(world.workloads.values())
    return out


@many
@given(elastic())
def test_what_was_lent_is_given_back_to_the_claimant_that_is_placed_there(world: Snapshot) -> None:
    decisions = schedule(world, RULES)
    placed = {d.workload: d for d in decisions if isinstance(d, Place)}
    shrunk = [d for d in decisions if isinstance(d, Shrink)]
    for decision in shrunk:
        gang, claim = world.workloads[decision.workload], placed[decision.by]
        event(f"of the surplus: {len(decision.ranks) <= surplus(gang)}")
        assert gang.id in claim.after


@many
@given(elastic())
def test_a_world_at_rest_stays_so_and_what_grew_does_not_shrink_again(world: Snapshot) -> None:
    grown: set[str] = set()
    for number in range(5):
        decisions = [d for d in schedule(world, RULES) if not isinstance(d, Wait)]
        shrunk = {d.workload for d in decisions if isinstance(d, Shrink)}
        assert not shrunk & grown  # no round wants back what a round before it gave, as nothing else happened
        if not any(isinstance(d, Place) for d in decisions):  # what starts now may be what others want room of next
            grown |= {d.workload for d in growth(world, tuple(decisions))}
        world = came_up(world.after(decisions))
        if number > 3:
            assert decisions == []


def came_up(world: Snapshot) -> Snapshot:
    """The same world once what was placed at once runs; the clock stands still."""
    changed: list[Workload] = []
    for workload in world.workloads.values():
        if workload.phase in (Phase.ADMITTED, Phase.SCALING) and not workload.after:
            started = world.at if workload.phase is Phase.ADMITTED else workload.started_at
            changed.append(replace(workload, phase=Phase.RUNNING, started_at=started))
    return world.replace(changed=changed)
