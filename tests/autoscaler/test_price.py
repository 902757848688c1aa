"""What an objective costs: the law's own number for each minute, kept as long as the law keeps it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.law import ALONE, Fleet, State, Terms, look
from autoscaler.observed import Learned, Scrape, counted
from autoscaler.price import price

SERVICE = np.full(2000, 0.1)  # s of each request
LEARNED = Learned(counted(SERVICE), float(SERVICE.sum()), slots=4)
DAY = [20.0] * 720 + [60.0] * 720  # requests/s in each minute


def terms(objective: float) -> Terms:
    return Terms(objective, 60.0, ALONE)


def test_a_tighter_objective_costs_more() -> None:
    prices = [price(LEARNED, DAY, terms(objective), 1, 100) for objective in (0.15, 0.2, 0.3, 0.6, 2.0)]
    means = [one.mean for one in prices if one is not None]
    assert means == sorted(means, reverse=True)
    assert means[0] > 2 * means[-1]
    assert means[-1] == pytest.approx(1.5, abs=0.01), "with all the time in the world: 2 and 6 slots of work, by 4 each"


def test_it_is_what_the_law_decides_at_a_steady_rate() -> None:
    state, at, on = State(learned=LEARNED), 0.0, 1
    for _ in range(40):
        at += 15.0
        now = Scrape(at, 15.0, 900.0, 90.0, counted(np.full(900, 0.1)), waiting=0, running=6, widest=4)
        state, wanted = look(state, now, Fleet(on, on), terms(0.3))
        on = wanted.replicas
    found = price(LEARNED, [60.0] * 60, terms(0.3), 1, 100)
    assert found is not None
    assert found.most == on


def test_the_bounds_hold_and_what_they_leave_short_is_told() -> None:
    found = price(LEARNED, DAY, terms(0.2), 3, 4)
    assert found is not None
    assert (found.most, found.short) == (4, 1.0 if found.mean == 4 else 0.5)
    idle = price(LEARNED, [0.0] * 60, terms(2.0), 3, 4)
    assert idle is not None
    assert (idle.mean, idle.most, idle.short) == (3.0, 3, 0.0)


def test_a_fall_is_kept_for_the_laws_window() -> None:
    spike = [0.0] * 30 + [200.0] + [0.0] * 29
    found = price(LEARNED, spike, terms(0.6), 1, 100)
    flat = price(LEARNED, [0.0] * 60, terms(0.6), 1, 100)
    assert found is not None
    assert flat is not None
    minutes = math.ceil(3 * 60.0 / 60.0)
    assert found.mean == pytest.approx((found.most * minutes + flat.most * (60 - minutes)) / 60)


def test_replicas_on_standby_hold_their_gpus_too_up_to_the_most() -> None:
    without, some, all_of_them = (price(LEARNED, DAY, terms(0.6), 1, 6, standby) for standby in (0, 2, 6))
    assert without is not None
    assert some is not None
    assert all_of_them is not None
    assert (some.mean, some.most) == (without.mean + 2, without.most + 2)
    assert (all_of_them.mean, all_of_them.most, all_of_them.short) == (6.0, 6, without.short)


def test_of_what_is_not_known_there_is_no_price() -> None:
    assert price(Learned(), DAY, terms(0.2), 1, 4) is None
    assert price(LEARNED, [], terms(0.2), 1, 4) is None


@given(st.lists(st.floats(0.0, 1e12), min_size=1, max_size=200), st.floats(0.001, 100.0))
def test_whatever_the_load_it_stays_within_the_bounds(rates: list[float], objective: float) -> None:
    found = price(LEARNED, rates, terms(objective), 2, 9)
    assert found is not None
    assert 2 <= found.mean <= found.most <= 9
    assert 0 <= found.short <= 1
