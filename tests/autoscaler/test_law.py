"""The law of replicas: what it learns from scrapes, and what it asks for."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import law
from autoscaler.observed import BUCKETS, NONE, Learned, Scrape, counted, learn, spread

OBJECTIVE, SECONDS, SLOTS = 3.0, 0.5, 4  # s, s of each request, requests that a replica takes at once


def steady(rate: float, count: int, first: float = 15.0) -> Iterator[Scrape]:
    """So many scrapes of a service that keeps up with this rate, one each 15 s."""
    for number in range(count):
        came = int(rate * 15 * (number + 1)) - int(rate * 15 * number)
        yield Scrape(
            at=first + 15.0 * number, seconds=15.0, arrived=came, answered_seconds=came * SECONDS,
            counts=counted(np.full(came, SECONDS)), waiting=0, running=round(rate * SECONDS), widest=SLOTS,
        )  # fmt: skip


def terms(constants: law.Constants = law.STANDBY) -> law.Terms:
    return law.Terms(OBJECTIVE, 30.0, constants)


def after(scrapes: Iterator[Scrape], on: int, constants: law.Constants = law.STANDBY) -> tuple[law.State, list[int]]:
    state, wanted = law.State(), []
    for scrape in scrapes:
        state, found = law.look(state, scrape, law.Fleet(on, on), terms(constants))
        wanted.append(found.replicas)
    return state, wanted


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
    (scrape,) = steady(5000 / 15, 1)
    now = learn(slow, scrape, 15.0, 1, OBJECTIVE)
    assert now.seconds / now.requests == pytest.approx((2.0 * 0.5 + SECONDS) / 1.5)


def test_scrapes_that_overlap_count_once() -> None:
    (scrape,) = steady(100.0, 1)
    minute = replace(
        scrape, seconds=60.0, arrived=6000.0, counts=counted(np.full(6000, SECONDS)), answered_seconds=3000.0
    )
    assert learn(Learned(), minute, 15.0, 1, OBJECTIVE).requests == pytest.approx(1500)


def test_slots_follow_from_the_time_in_service_only_while_answers_come_in_time() -> None:
    (scrape,) = steady(40.0, 1)
    untold = replace(scrape, widest=None, running=None)
    assert learn(Learned(), untold, 15.0, 5, OBJECTIVE).slots == 4  # twenty requests at once, on five replicas
    late = replace(untold, counts=counted(np.full(600, OBJECTIVE)))
    assert learn(Learned(), late, 15.0, 5, OBJECTIVE).slots == 1


@given(st.lists(st.floats(0.001, 5000.0), min_size=1, max_size=20, unique=True), st.data())
def test_counts_in_other_buckets_stay_as_many_and_in_order(bounds: list[float], data: st.DataObject) -> None:
    bounds = sorted(bounds)
    counts = [data.draw(st.floats(0, 1000)) for _ in bounds]
    ours = spread([*bounds[:-1], float("inf")], counts)
    assert sum(ours) == pytest.approx(sum(counts))
    assert min(ours) >= 0


def test_a_bucket_of_the_mesh_is_spread_over_ours() -> None:
    ours = Learned(spread([0.1, 0.25, 0.5, float("inf")], [0.0, 100.0, 0.0, 0.0]))
    assert 0.095 <= ours.quantile(0.02) < 0.13
    assert 0.22 < ours.quantile(0.98) <= 0.285


def test_before_the_first_answer_each_request_gets_a_slot() -> None:
    first = Scrape(15.0, 15.0, 9, 0.0, NONE, 7, 2, 2)
    state, wanted = law.look(law.State(), first, law.Fleet(1, 1), terms())
    assert (wanted.replicas, state.learned.slots) == (5, 2)  # nine requests, two at once were seen


def test_a_steady_rate_gets_the_slots_it_keeps_busy_and_room_on_top() -> None:
    state, _ = after(steady(40.0, 10), 9)
    room = 0.5 * law.wait_seconds(state.learned, OBJECTIVE)
    assert state.wanted[-1][1] == int(np.ceil((40 * SECONDS + SECONDS / room) / SLOTS))


def test_a_rise_is_seen_while_it_happens() -> None:
    rising = [replace(s, at=15.0 * (n + 1)) for n in range(10) for s in steady(10.0 + 5 * n, 1)]
    rising_state, _ = after(iter(rising), 20, law.ALONE)
    steady_state, _ = after(steady(55.0, 10), 20, law.ALONE)
    assert rising_state.wanted[-1][1] > steady_state.wanted[-1][1] >= 55 * SECONDS / SLOTS


def test_a_young_service_does_not_get_smaller() -> None:
    _, wanted = after(steady(4.0, 30), 9)
    assert set(wanted[:20]) == {9}
    assert wanted[-1] < 9


def test_a_fall_waits_until_it_was_wanted_for_three_starts_without_standby() -> None:
    busy, calm = steady(60.0, 40), steady(10.0, 12, first=615.0)
    _, wanted = after(iter([*busy, *calm]), 12, law.ALONE)
    before, low = wanted[39], min(wanted)
    fell = next(number for number, replicas in enumerate(wanted[40:]) if replicas < before)
    assert fell >= 90 / 15 - 1  # the first calm looks still see some of the busy minute
    assert low < before


@given(st.integers(0, 400), st.integers(0, 400))
def test_a_longer_queue_never_asks_for_less(one: int, other: int) -> None:
    *begun, last = steady(20.0, 8)
    state, _ = after(iter(begun), 4)
    few, many = (
        law.look(state, replace(last, waiting=n), law.Fleet(4, 4), terms())[1].replicas for n in sorted((one, other))
    )
    assert few <= many


def test_the_gateway_asks_at_once_when_a_queue_will_be_late_and_else_not() -> None:
    state, _ = after(steady(20.0, 8), 3)
    fleet = law.Fleet(3, 3)
    assert law.signal(state, 1, 20.0, fleet, 3, terms()) is None
    asked = law.signal(state, 60, 60.0, fleet, 3, terms())
    assert asked is not None
    assert asked * SLOTS >= 60 * SECONDS


def test_the_gateway_never_asks_for_fewer_than_there_are() -> None:
    state, _ = after(steady(20.0, 8), 30)
    assert law.signal(state, 5000, 0.0, law.Fleet(30, 30), 30, terms()) in (None, *range(30, 10_000))


def test_a_look_that_is_told_in_part_may_ask_for_more_and_is_no_reason_for_less() -> None:
    state, (*_, usual) = after(steady(400.0, 40), 1, law.ALONE)
    fleet = law.Fleet(usual, usual)
    for looks, is_partial, fewer in ((20, True, False), (20, False, True)):
        found = [usual]
        for scrape in steady(100.0, looks, first=state.points[-1][0] + 15.0):
            state, wanted = law.look(state, replace(scrape, is_partial=is_partial), fleet, terms(law.ALONE))
            found.append(wanted.replicas)
        assert (min(found) < usual) is fewer
    (more,) = steady(900.0, 1, first=state.points[-1][0] + 15.0)
    assert law.look(state, replace(more, is_partial=True), fleet, terms(law.ALONE))[1].replicas > usual


def test_looks_told_in_part_take_nothing_away_however_little_was_wanted_before_them() -> None:
    state, (*_, usual) = after(steady(400.0, 40), 1, law.ALONE)
    at = state.points[-1][0]
    for scrape in steady(10.0, 2, first=at + 15.0):  # a fall that has to be waited for
        state, _ = law.look(state, scrape, law.Fleet(usual, usual), terms(law.ALONE))
    for scrape in steady(10.0, 40, first=at + 45.0):
        state, wanted = law.look(state, replace(scrape, is_partial=True), law.Fleet(usual, usual), terms(law.ALONE))
        assert wanted.replicas >= usual


def test_a_look_over_no_time_that_can_be_told_says_nothing() -> None:
    (now,) = steady(400.0, 1, first=1.7e9)
    assert now.is_sound
    for seconds in (0.0, 1e-9, -1.0, float("nan")):
        assert not replace(now, seconds=seconds).is_sound


def test_headroom_is_on_top_of_what_is_needed_and_said() -> None:
    (now,) = steady(400.0, 1, first=315.0)
    state, _ = after(steady(400.0, 20), 1, law.ALONE)
    found, more = (
        law.look(state, now, law.Fleet(1, 1), terms(constants))[1]
        for constants in (law.ALONE, replace(law.ALONE, headroom=0.5))
    )
    assert found.exact is not None
    assert more.replicas == law.whole(1.5 * found.exact) > found.replicas
    assert more.why.endswith("headroom of 50 % included")
    assert "headroom" not in found.why
