"""The law of replicas: what it learns from scrapes, and what it asks for."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import law
from autoscaler.observed import BUCKETS, Learned, Scrape, counted, learn

OBJECTIVE, SECONDS, SLOTS = 3.0, 0.5, 4  # s, s of each request, requests that a replica takes at once


def steady(rate: float, count: int, on: int, first: float = 15.0) -> Iterator[Scrape]:
    """So many scrapes of a service that keeps up with this rate, one each 15 s."""
    for number in range(count):
        came = int(rate * 15 * (number + 1))
        answered = int(rate * 15 * (number + 1)) - int(rate * 15 * number)
        yield Scrape(
            at=first + 15.0 * number, arrived=came, answered=came, seconds=came * SECONDS, busy=came * SECONDS,
            waiting=0, running=round(rate * SECONDS), widest=SLOTS, on=on, ready=on,
            counts=counted(np.full(answered, SECONDS)),
        )  # fmt: skip


def after(scrapes: Iterator[Scrape], constants: law.Constants = law.STANDBY) -> tuple[law.State, list[int]]:
    state, wanted = law.State(OBJECTIVE, 30.0, constants), []
    for scrape in scrapes:
        state, number = law.look(state, scrape)
        wanted.append(number)
    return state, wanted


def queued(scrape: Scrape, waiting: int) -> Scrape:
    return Scrape(*(getattr(scrape, name) if name != "waiting" else waiting for name in Scrape.__slots__))


@given(st.lists(st.floats(0.002, 900.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(seconds: list[float], part: float) -> None:
    known = Learned(counted(np.array(seconds)), sum(seconds))
    true = float(np.quantile(seconds, part, method="inverted_cdf"))
    place = int(np.searchsorted(BUCKETS, true))
    assert (BUCKETS[place - 1] if place else 0.0) <= known.quantile(part) <= BUCKETS[place] * 1.000001


def test_a_mean_of_few_requests_is_taken_higher() -> None:
    few, many = (counted(np.array([0.1, 1.0] * n)) for n in (2, 2000))
    assert Learned(few, 2.2).mean == pytest.approx(0.55 + 0.45 / 2, rel=0.1)
    assert Learned(many, 2200.0).mean == pytest.approx(0.55, rel=0.02)


def test_what_was_learned_is_forgotten_half_by_5000_requests() -> None:
    slow = Learned(counted(np.full(5000, 2.0)), 10_000.0)
    (scrape,) = steady(5000 / 15, 1, 1)
    now = learn(slow, scrape, 5000 * SECONDS)
    assert now.seconds / now.requests == pytest.approx((2.0 * 0.5 + SECONDS) / 1.5)


def test_before_the_first_answer_each_request_gets_a_slot() -> None:
    none = counted(np.array([]))
    first = Scrape(15.0, 9, 0, 0.0, 0.0, 7, 2, 2, 1, 1, none)
    state, wanted = law.look(law.State(OBJECTIVE, 30.0, law.STANDBY), first)
    assert (wanted, state.learned.slots) == (5, 2)  # nine requests, two at once were seen


def test_a_steady_rate_gets_the_slots_it_keeps_busy_and_room_on_top() -> None:
    state, _ = after(steady(40.0, 10, 9))
    room = 0.5 * state.wait_seconds
    assert state.wanted[-1][1] == int(np.ceil((40 * SECONDS + SECONDS / room) / SLOTS))


def test_a_rise_is_seen_while_it_happens() -> None:
    rising = [scrape for rate in range(10, 60, 5) for scrape in steady(float(rate), 1, 20)]
    came, scrapes = 0, []
    for number, scrape in enumerate(rising):
        came += scrape.arrived
        values = {name: getattr(scrape, name) for name in Scrape.__slots__}
        counters = {"arrived": came, "answered": came, "seconds": came * SECONDS, "busy": came * SECONDS}
        scrapes.append(Scrape(**{**values, **counters, "at": 15.0 * (number + 1)}))
    rising_state, _ = after(iter(scrapes), law.ALONE)
    steady_state, _ = after(steady(55.0, 10, 20), law.ALONE)
    assert rising_state.wanted[-1][1] > steady_state.wanted[-1][1] >= 55 * SECONDS / SLOTS


def test_a_young_service_does_not_get_smaller() -> None:
    _, wanted = after(steady(4.0, 30, 9))
    assert set(wanted[:20]) == {9}
    assert wanted[-1] < 9


def test_a_fall_waits_until_it_was_wanted_for_three_starts_without_standby() -> None:
    busy, calm = list(steady(60.0, 40, 12)), list(steady(10.0, 12, 12, first=615.0))
    base = busy[-1]
    later = [
        Scrape(
            s.at, base.arrived + s.arrived, base.answered + s.answered, base.seconds + s.seconds, base.busy + s.busy,
            0, s.running, SLOTS, 12, 12, s.counts,
        )
        for s in calm
    ]  # fmt: skip
    _, wanted = after(iter([*busy, *later]), law.ALONE)
    before, low = wanted[39], min(wanted)
    fell = next(number for number, replicas in enumerate(wanted[40:]) if replicas < before)
    assert fell >= 90 / 15 - 1  # the first calm looks still see some of the busy minute
    assert low < before


@given(st.integers(0, 400), st.integers(0, 400))
def test_a_longer_queue_never_asks_for_less(one: int, other: int) -> None:
    *begun, last = steady(20.0, 8, 4)
    state, _ = after(iter(begun))
    few, many = (law.look(state, queued(last, n))[1] for n in sorted((one, other)))
    assert few <= many


def test_the_gateway_asks_at_once_when_a_queue_will_be_late_and_else_not() -> None:
    state, _ = after(steady(20.0, 8, 3))
    assert law.signal(state, waiting=1, rate=20.0, on=3, soon=3) is None
    asked = law.signal(state, waiting=60, rate=60.0, on=3, soon=3)
    assert asked is not None
    assert asked * SLOTS >= 60 * SECONDS


def test_the_gateway_never_asks_for_fewer_than_there_are() -> None:
    state, _ = after(steady(20.0, 8, 30))
    assert law.signal(state, waiting=5000, rate=0.0, on=30, soon=30) in (None, *range(30, 10_000))
