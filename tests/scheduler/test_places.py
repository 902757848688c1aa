"""Places in the queue are counted over what a round looks at; what waits for something else has none."""

from hypothesis import given, settings

from scheduler.explain import places
from scheduler.explain.explanation import explain
from scheduler.model.decision import Evict
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase
from scheduler.policies import outcomes
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import parse

PIPELINE = """
    node a 2 gpus
    team red nominal 2
    first red training 2 running a
    second red training 1 unmet first   third red training 1 unmet second
    late red training 1 notbefore 200000
    n1 red training 2   n2 red training 2
"""


def test_what_waits_for_other_work_or_a_back_off_takes_no_place() -> None:
    world = parse(PIPELINE)
    told = {w.id: position for position, w, _ in places.numbered(outcomes(Session(world, Settings())))}
    assert told == {"n1": 1, "n2": 2, "second": None, "third": None, "late": None}
    assert places.length(Session(world, Settings())) == 2


def test_the_order_check_and_the_place_agree() -> None:
    world = parse(PIPELINE)
    first, second = (explain(world, uid, Settings()) for uid in ("n1", "n2"))
    order = next(check.message for check in first.checks if check.name == "Order")
    assert (first.position, first.in_queue) == (1, 2)
    assert order == "0 ahead of it in the queue, 0 of them of team red."
    assert (second.position, second.in_queue) == (2, 2)
    assert explain(world, "third", Settings()).position is None


@given(worlds())
@settings(deadline=None)
def test_places_are_the_numbers_from_one_to_the_length_of_the_queue(world: Snapshot) -> None:
    rules = Settings(max_changes=10_000)
    session = Session(world, rules)
    plan = session.plan
    waited = set(plan.ledger.waiting)
    told = list(places.numbered(outcomes(session)))
    leaving = {d.workload for d in plan.decisions if isinstance(d, Evict)}
    without_turn = (waited & leaving) - {workload.id for _, workload, _ in told}
    turns = places.length(Session(world, rules)) - len(without_turn)
    assert [place for place, _, _ in told if place is not None] == list(range(1, turns + 1))
    for place, workload, _ in told:
        if workload.phase is Phase.QUEUED:
            found = explain(world, workload.id, rules)
            assert (found.position, found.in_queue) == (place, places.length(Session(world, rules)))
            order = [
                check.message for check in found.checks if check.name == "Order" and "ahead of it" in check.message
            ]
            assert all(text.startswith(f"{(place or 0) - 1} ahead of it") for text in order)
