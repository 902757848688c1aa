"""S8 of evictions for a team's share: the alarm rings for what may not be taken from others."""

from controlplane.invariants.eviction import s8_legality
from controlplane.invariants.state import Round, State
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.worlds import parse

RULES = Settings()
WORLD = """
    node a 4 gpus   team red nominal {nominal}   team blue
    r1 red training 1 running a   r2 red training 1 running a   r3 red training 1 running a
    r4 red training 1 running a {started}
    b1 blue training 1 pending
"""


def broken(world: Snapshot, reason: EvictReason = EvictReason.FAIR_SHARE) -> list[str]:
    """What S8 says of taking r4 for b1."""
    place = world.workloads["r4"].placement
    decisions = (
        Evict("r4", 1, reason, "b1"),
        Place("b1", 1, place, ("r4",)),
    )
    state = State(world.after(decisions), round=Round(world, decisions, RULES, schedule))
    return [violation.message for violation in s8_legality(state)]


def test_who_borrows_long_enough_may_be_asked() -> None:
    world = parse(WORLD.format(nominal=0, started="started 1000"))
    assert broken(world) == []
    assert [d.workload for d in schedule(world, RULES) if isinstance(d, Evict)] == ["r4"]


def test_what_a_team_owns_may_not_be_taken_for_another_to_borrow() -> None:
    found = broken(parse(WORLD.format(nominal=4, started="started 1000")))
    assert found == ["It has to leave for b1, but team red owns what it holds in gpu."]


def test_what_was_borrowed_a_moment_ago_may_not_be_taken() -> None:
    found = broken(parse(WORLD.format(nominal=0, started="started 99000")))
    assert found == ["It has to leave for b1, but it has not run for 3600 s yet."]


FAMILY = """
    node a 4 gpus   team research nominal {nominal}   team nlp nominal 1 parent research
    r1 research training 1 running a started 1000   r2 research training 1 running a started 1000
    r3 research training 1 running a started 1000   r4 research training 1 running a started 1000
    b1 nlp training 1 pending
"""


def test_a_parents_own_work_gives_what_it_holds_of_its_childrens() -> None:
    assert broken(parse(FAMILY.format(nominal=4)), EvictReason.RECLAIMED) == []


def test_what_no_child_owns_may_not_be_taken_from_the_parent() -> None:
    found = broken(parse(FAMILY.format(nominal=5)), EvictReason.RECLAIMED)
    assert found == ["It has to leave for b1, but team nlp is not owed what it holds in gpu."]
