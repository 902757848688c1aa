"""Services that Kubernetes' own autoscaler scales: what it is told, the target of their objective, and its rule."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.bounds import Bounds
from autoscaler.decision import Scale
from autoscaler.law import ALONE, State, Terms, replicas, steady
from autoscaler.metrics import Metrics, ServiceMetrics
from autoscaler.native import FALL_SECONDS, TOO_FAST, TOO_MANY, Advice, Load, Native, advise, in_flight, target
from autoscaler.observed import Learned, Scrape, counted
from autoscaler.scale import Scaling, scale
from autoscaler.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang
from tests.autoscaler.services import AT, OBJECTIVE, SERVICE, SLOTS, look

TERMS = Terms(OBJECTIVE.p95_seconds, 60.0, ALONE)


def learned(seconds: float, slots: int, requests: int = 4000) -> Learned:
    return Learned(counted(np.full(requests, seconds)), seconds * requests, slots)


def round_of(
    scrape: Scrape | None, native: Native, state: State | None = None, current: int = 2, at: float | None = None
) -> Scaling:
    service = replace(SERVICE, gang=Gang(current, 1, 8))
    known = ServiceMetrics("s", OBJECTIVE, scrape, state, current, native=native)
    moment = at if at is not None else AT if scrape is None else scrape.at
    return scale(Snapshot.build(moment, (), (), (), (service,)), Metrics({"s": known}), Settings())


def load(in_flight: float | None, target: float = 2.0, at: float = AT) -> Load:
    return Load(at, in_flight, target)


# --- what it is told ------------------------------------------------------------------------------


def test_on_kubernetes_a_round_tells_the_load_and_decides_nothing() -> None:
    found = round_of(look(AT, 200.0, waiting=40), Native())
    assert found.decisions == ()
    assert found.advice == {}
    told = found.loads["s"]
    assert (told.at, told.in_flight) == (AT, 50.0)
    assert found.states["s"].learned.slots == SLOTS


@pytest.mark.parametrize("current", [0, 1, 8, 20])
def test_on_kubernetes_nothing_of_ours_brings_it_into_its_bounds(current: int) -> None:
    assert round_of(look(AT, 200.0, waiting=40), Native(), current=current).decisions == ()


def test_what_is_not_known_is_told_to_nothing() -> None:
    assert round_of(None, Native(is_played=True), at=AT) == Scaling()
    old = look(AT - 3600.0, 200.0)
    assert round_of(old, Native(is_played=True), at=AT).loads == {}


def test_requests_in_flight_follow_from_littles_law_where_nothing_counts_them() -> None:
    known = learned(0.05, 4)
    scrape = replace(look(AT, 100.0, waiting=3), running=None)
    assert in_flight(scrape, known) == pytest.approx(100.0 * 0.05 + 3, rel=0.05)
    assert in_flight(scrape, Learned()) is None


def test_the_target_is_a_part_of_the_slots_and_smaller_for_a_stricter_objective() -> None:
    known = learned(0.05, 20)
    strict, mild = (target(known, None, 1, replace(TERMS, objective=o)) for o in (0.15, 2.0))
    assert 0.3 * 20 <= strict < mild <= 0.9 * 20
    assert target(Learned(), 10, 1, TERMS) == 7.0, "before an answer, seven of ten slots"


def test_the_slots_of_a_queue_count_however_few_of_them_were_used_until_now() -> None:
    assert target(learned(0.001, 1), 10, 1, TERMS) == target(learned(0.001, 10), 10, 1, TERMS) == 9.0


def test_a_target_stays_while_another_one_would_be_much_the_same() -> None:
    first = round_of(look(AT, 100.0), Native()).loads["s"].target
    assert round_of(look(AT, 100.0), Native(target=1.05 * first)).loads["s"].target == 1.05 * first
    assert round_of(look(AT, 100.0), Native(target=2.0 * first)).loads["s"].target == first


@given(
    rate=st.floats(1.0, 2000.0), seconds=st.floats(0.01, 2.0), slots=st.integers(1, 64), objective=st.floats(0.05, 10.0)
)
def test_at_a_steady_load_it_wants_no_fewer_replicas_than_the_law(
    rate: float, seconds: float, slots: int, objective: float
) -> None:
    known, terms = learned(seconds, slots), replace(TERMS, objective=objective)
    each = target(known, None, 1, terms)
    wanted = math.ceil(rate * (known.mean or 0.0) / each)
    busy = rate * (known.mean or 0.0)
    need = math.ceil(replicas(steady(known, known.mean or 0.0, rate, terms), busy, known, terms))
    is_held = each == pytest.approx(0.3 * slots)  # the law's room is larger than the part that may be left free
    assert is_held or wanted >= need


# --- its rule -------------------------------------------------------------------------------------


def test_it_goes_to_as_many_as_the_target_asks_for_and_not_within_a_tenth_of_it() -> None:
    assert advise(3, load(11.0), Bounds(1, 10), ()).replicas == 6
    assert advise(5, load(11.0), Bounds(1, 10), ()).replicas == 5, "1.1 times the target"
    assert advise(3, load(None), Bounds(1, 10), ()) == Advice(3, "", ())


def test_it_rises_by_four_or_to_twice_as_many_in_a_look_and_says_what_holds_it() -> None:
    assert advise(1, load(100.0), Bounds(1, 80), ()) == Advice(5, TOO_FAST, ((AT, 1), (AT, 50)))
    assert advise(8, load(100.0), Bounds(1, 80), ()).replicas == 16
    held = advise(8, load(100.0), Bounds(1, 10), ())
    assert (held.replicas, held.limited) == (10, TOO_MANY)


def test_it_falls_once_fewer_were_wanted_for_five_minutes() -> None:
    advised: tuple[tuple[float, int], ...] = ()
    for number in range(40):
        at = AT + 15.0 * number
        found = advise(6, load(2.0, at=at), Bounds(1, 8), advised)
        advised = found.advised
        if found.replicas < 6:
            assert (found.replicas, at - AT) == (1, FALL_SECONDS)
            return
    raise AssertionError("it never fell")


def test_out_of_bounds_it_goes_to_the_nearest_whatever_the_load_is() -> None:
    assert advise(1, load(None), Bounds(3, 8), ()).replicas == 3
    assert advise(12, load(900.0), Bounds(3, 8), ()).replicas == 8


@given(
    current=st.integers(1, 200),
    flights=st.none() | st.floats(0.0, 1e6),
    each=st.floats(0.001, 1e4),
    least=st.integers(1, 50),
    more=st.integers(0, 150),
    history=st.lists(st.tuples(st.floats(0.0, 600.0), st.integers(1, 10_000)), max_size=5),
)
def test_what_it_wants_is_within_the_bounds_and_never_falls_below_what_was_advised(
    current: int, flights: float | None, each: float, least: int, more: int, history: list[tuple[float, int]]
) -> None:
    bounds = Bounds(least, least + more)
    advised = tuple((AT - before, count) for before, count in history)
    found = advise(current, load(flights, each), bounds, advised)
    assert bounds.least <= found.replicas <= bounds.most
    if bounds.least <= current <= bounds.most:
        recent = [count for at, count in advised if AT - at < FALL_SECONDS]
        if recent or not advised:
            assert found.replicas >= min(current, max(recent, default=current))
        assert found.replicas <= max(2 * current, current + 4)


def test_where_the_rule_is_played_the_round_scales_by_it() -> None:
    found = round_of(look(AT, 200.0, waiting=30), Native(is_played=True))
    (decision,) = found.decisions
    assert isinstance(decision, Scale)
    assert decision.workers == found.advice["s"].replicas > 2
    assert "40.0 requests are in flight, and a replica is to have " in decision.message
    assert found.states["s"].advised
