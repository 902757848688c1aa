"""Which replicas serve, which are on standby, and whose workers leave for that."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.bounds import Bounds
from autoscaler.law import STANDBY, Wanted
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.observed import Signal
from autoscaler.scale import scale
from autoscaler.settings import Settings
from autoscaler.standby import borrowed, rearranged, taken_back, wakes_slowly
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment
from tests.worlds import parse

SERVICE = """
    node a 6 gpus memory 40000
    team red nominal 6
    s1 red inference share 1 smem 20000 x 1..4..6 standby 3 awake 1 asleep 1,2,3 running a:0 a:1 a:2 a:3
"""
LENT = SERVICE + "g1 red training 1 gpumem 16000 x 1..1..3 lent s1 1,2 running a:5 a:1 a:3"


def told(world: str, replicas: int, loaded: tuple[int, ...] = (0, 1, 2, 3)) -> tuple[object, ...]:
    """(replicas in all, serving, ranks asleep, ranks that leave) once so many are wanted; () for no change."""
    snapshot = parse(world)
    lent = borrowed(snapshot.workloads.values()).get("s1", {})
    found = rearranged(snapshot.workloads["s1"], Wanted(replicas), loaded, lent)
    return (found.workers, found.awake, found.asleep, found.leaving) if found else ()


@pytest.mark.parametrize(
    ("replicas", "found"),
    [
        (1, ()),
        (2, (5, 2, (1, 3), ())),  # 2 is lent to nobody; one more is started to be on standby
        (3, (6, 3, (3,), ())),  # of the two that are lent, the one with the lower rank
        (4, (6, 4, (), ())),
        (9, (6, 6, (), ())),  # its bounds hold
    ],
)
def test_those_wake_first_that_are_lent_to_no_gang(replicas: int, found: tuple[object, ...]) -> None:
    assert told(LENT, replicas) == found


def test_one_that_still_loads_wakes_last() -> None:
    assert told(LENT, 2, loaded=(0, 1, 3)) == (5, 2, (2, 3), ())


@pytest.mark.parametrize(
    ("standby", "replicas", "found"),
    [
        ("standby 3 awake 4", 2, (5, 2, (2, 3), ())),
        ("standby 1 awake 4", 2, (3, 2, (2,), (3,))),
        ("standby 0 awake 4", 3, (3, 3, (), (3,))),
    ],
)
def test_a_fall_puts_to_sleep_what_standby_wants_and_lets_the_rest_go(
    standby: str, replicas: int, found: tuple[object, ...]
) -> None:
    assert told(SERVICE.replace("standby 3 awake 1 asleep 1,2,3", standby), replicas) == found


def test_a_service_that_is_to_have_less_standby_lets_those_go_first_that_are_lent_to_no_gang() -> None:
    assert told(LENT.replace("standby 3 awake 1", "standby 1 awake 1"), 1) == (2, 1, (1,), (2, 3))


def test_a_replica_that_was_lost_is_replaced_by_one_on_standby() -> None:
    lost = SERVICE.replace("awake 1 asleep 1,2,3", "awake 2 asleep 1,2,3")
    assert told(lost, 2) == (5, 2, (2, 3), ())


def test_borrowers_leave_the_replicas_that_wake() -> None:
    world = parse(LENT)
    change = rearranged(world.workloads["s1"], Wanted(3), (0, 1, 2, 3), {("a", (1,)): True, ("a", (3,)): True})
    assert change is not None
    (shrunk,) = taken_back([change], world.workloads, world.at)
    assert (shrunk.workload, shrunk.ranks, shrunk.by) == ("g1", (1,), "s1")
    assert shrunk.message == "Gives 1 worker back to [[w:s1]], whose GPU it was; goes on with 2."


def test_a_signal_wakes_within_the_second() -> None:
    """What waits at the gateway is enough: no scrape is needed."""
    world, state = parse(LENT), _learned()
    service = ServiceMetrics(
        "s1", Objective(0.5), state=state, ready=1, signal=Signal(40, 30.0), loaded=(0, 1, 2, 3), start_seconds=300.0
    )
    first, *others = scale(world, Metrics({"s1": service}), Settings()).decisions
    assert (first.workload, first.awake > 1) == ("s1", True)  # type: ignore[union-attr, operator]
    assert [one.workload for one in others] == ["g1"]


def _learned():  # type: ignore[no-untyped-def]
    from autoscaler.law import State
    from autoscaler.observed import NONE, Learned

    counts = list(NONE)
    counts[25] = 1000.0  # about .1 s each
    return State(Learned(tuple(counts), 100.0, slots=2))


def test_the_constants_are_those_with_standby_and_the_policy_says_the_rest() -> None:
    found = Settings(young_seconds=5.0, stale_seconds=7.0).constants(has_standby=True)
    assert found == replace(STANDBY, young=5.0, gap=7.0)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8),
    st.integers(0, 8), st.integers(0, 12), st.integers(1, 4), st.integers(0, 4),
)  # fmt: skip
def test_as_many_serve_as_are_wanted_or_there_and_none_is_in_two_places(
    seats: list[tuple[bool, bool, bool]], standby: int, replicas: int, least: int, more: int
) -> None:
    world = _world(seats, standby, least, least + more)
    service = world.workloads["s1"]
    loaded = [rank for rank, (_, is_loaded, _) in enumerate(seats) if is_loaded]
    lent = {("a", (rank,)): rank % 2 == 0 for rank, (_, _, is_lent) in enumerate(seats) if is_lent}
    change = rearranged(service, Wanted(replicas), loaded, lent)
    wanted = Bounds(least, least + more).clamp(replicas)
    if change is None:
        assert service.awake == wanted
        return
    staying = {a.rank for a in service.placement} - set(change.leaving)
    assert change.awake == wanted
    assert least <= change.workers <= least + more
    assert set(change.asleep) <= staying
    assert len(staying) <= max(change.workers, 0)
    assert len(staying - set(change.asleep)) == min(wanted, len(staying))


def _world(seats: list[tuple[bool, bool, bool]], standby: int, least: int, most: int) -> Snapshot:
    world = parse(SERVICE)
    placement = tuple(
        Assignment(rank, "a", (rank,), asleep_at=0.0 if is_asleep else None)
        for rank, (is_asleep, _, _) in enumerate(seats)
    )
    service = world.workloads["s1"]
    gang = replace(service.gang, count=max(least, len(seats)), min=least, max=most)
    return world.replace(changed=[replace(service, placement=placement, standby=standby, gang=gang, awake=least)])


# --- weights in host memory ------------------------------------------------------------------------

ON_HOST = LENT.replace("asleep 1,2,3", "asleep 1,2,3 offloads host 2")  # 2, which is lent to no gang, waits there


def test_replicas_with_weights_in_host_memory_wake_last_and_the_decision_says_how_soon() -> None:
    assert told(ON_HOST, 2) == (5, 2, (2, 3), ()), "1 leaves its device to no borrower, but its borrower's gang goes on"
    assert told(ON_HOST, 3) == (6, 3, (2,), ())
    world = parse(ON_HOST)
    lent = borrowed(world.workloads.values()).get("s1", {})
    change = rearranged(world.workloads["s1"], Wanted(4, "more came"), (0, 1, 2, 3), lent)
    assert change is not None
    assert change.message == (
        "1 to 4 replicas, 2 on standby: more came. Of those that wake, 2 in 2 s and 1 in 10 s, from host memory."
    )
    slower = Settings(host_wake_seconds=25.0)
    change = rearranged(world.workloads["s1"], Wanted(4, "more came"), (0, 1, 2, 3), lent, slower)
    assert change is not None
    assert "1 in 25 s, from host memory" in change.message


def test_a_service_with_less_standby_lets_those_go_first_that_would_wake_slowly() -> None:
    world = SERVICE.replace("standby 3 awake 1", "standby 1 awake 1").replace("asleep 1,2,3", "asleep 1,2,3 host 1")
    assert told(world, 1) == (2, 1, (2,), (1, 3))


def test_the_law_looks_further_ahead_where_the_next_replica_wakes_slowly() -> None:
    near, far = parse(SERVICE), parse(SERVICE.replace("asleep 1,2,3", "asleep 1,2,3 host 1,2,3"))
    mixed = parse(ON_HOST)
    found = [wakes_slowly(world.workloads["s1"], (0, 1, 2, 3)) for world in (near, far, mixed)]
    assert found == [False, True, False]
    settings = Settings(wake_seconds=2.0, host_wake_seconds=10.0)
    assert settings.constants(has_standby=True).horizon == STANDBY.horizon
    assert settings.constants(has_standby=True, is_slow=True).horizon == STANDBY.horizon + 8.0
