"""Requests that share a replica make each other slower: when that is believed, and what follows from it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import law
from autoscaler.crowding import CLEAR, CLEAR_LATE, Crowding
from autoscaler.law import STANDBY, Fleet, State, Terms
from autoscaler.observed import Learned, Scrape, counted, learn
from controlplane.domain import lawstate

SLOTS = 8
READY = 4


def looked(growth: float, looks: int, *, crowds: tuple[int, int] = (1, SLOTS), seed: int = 0) -> Learned:
    """What is learned of a service whose replicas run so many requests, each slower by `growth` for each other one."""
    rng, known = np.random.default_rng(seed), Learned()
    for number in range(looks):
        crowd = rng.integers(crowds[0], crowds[1] + 1)
        alone = rng.lognormal(0.0, 0.1, 200) * (1 + 0.05 * rng.standard_normal())
        took = alone * (1 + growth * (crowd - 1))
        scrape = Scrape(
            15.0 * (number + 1), 15.0, 200.0, float(took.sum()), counted(took), 0, int(crowd) * READY, SLOTS
        )  # fmt: skip
        known = learn(known, scrape, 15.0, READY, 3.0)
    return known


def test_what_each_further_request_costs_is_learned() -> None:
    known = looked(0.1, 200)
    slower = 1 + 0.1 * (known.crowding.mean - 1)  # at the crowd that there was on average
    assert known.crowding.growth() == pytest.approx(0.1 / slower, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_where_it_makes_no_difference_all_slots_are_used(seed: int) -> None:
    known = looked(0.0, 200, seed=seed)
    assert known.crowding.growth() == 0.0
    assert known.at_once(0.9, 0.999) == SLOTS, "late they are, but fewer in each would not help"


def test_a_few_looks_are_not_believed() -> None:
    assert looked(0.1, 40).crowding.growth() == 0.0
    assert looked(0.1, 60).crowding.growth() > 0.0


def test_where_requests_are_late_that_did_not_wait_less_is_enough_to_believe_it() -> None:
    known = looked(0.011, 60)
    assert known.crowding.growth(CLEAR) == 0.0
    assert known.crowding.growth(CLEAR_LATE) > 0.0
    assert known.at_once(3.0, 0.999) == SLOTS, "they are on time, so it may be noise"
    assert known.at_once(0.9, 0.999) < SLOTS


@pytest.mark.parametrize("crowd", [3, 5, 7])
def test_as_many_share_a_replica_as_keeps_them_on_time(crowd: int) -> None:
    rng = np.random.default_rng(1)
    alone = rng.lognormal(0.0, 0.1, 200_000) * (1 + 0.05 * rng.standard_normal(200_000))
    slow = float(np.quantile(alone, 0.999))
    known = looked(0.1, 400, crowds=(4, 6))
    allowed = known.at_once(slow * (1 + 0.1 * (crowd - 1)), 0.999)
    assert crowd - 1.5 <= allowed <= crowd + 0.5, "the slowest are of the fullest replicas, so it is careful"


def test_no_replica_is_kept_emptier_than_a_quarter() -> None:
    known = looked(0.1, 200)
    assert known.at_once(100.0, 0.999) == SLOTS
    assert known.at_once(0.01, 0.999) == SLOTS / 4


def test_a_lower_availability_lets_more_share_a_replica() -> None:
    known = looked(0.1, 200)
    assert known.at_once(1.6, 0.9) > known.at_once(1.6, 0.999)


@given(
    st.lists(st.tuples(st.floats(0, 64), st.floats(1e-3, 1e3), st.floats(1, 1e4)), max_size=80),
    st.floats(1e-3, 1e3),
    st.floats(0.5, 0.9999),
)
def test_whatever_is_told_it_is_between_a_quarter_of_the_slots_and_all(
    looks: list[tuple[float, float, float]], objective: float, availability: float
) -> None:
    known = Learned(counted(np.full(2000, 1.0)), 2000.0, SLOTS)
    crowding = Crowding()
    for crowd, seconds, answered in looks:
        crowding = crowding.seen(crowd, seconds, answered)
    assert SLOTS / 4 <= replace(known, crowding=crowding).at_once(objective, availability) <= SLOTS


def test_the_law_wants_more_replicas_with_fewer_requests_in_each_and_says_why() -> None:
    def wanted(known: Learned) -> law.Wanted:
        terms, points = Terms(1.5, 2.0, replace(STANDBY, tail=1.0)), tuple((15.0 * n, 480.0 * n) for n in range(20))
        now = Scrape(300.0, 15.0, 480.0, 0.0, counted(np.zeros(0)), 0, 32, SLOTS)
        return law.look(State(known, points, began=0.0), now, Fleet(READY, READY), terms)[1]

    crowded = looked(0.1, 200)
    usual = wanted(replace(crowded, crowding=Crowding()))
    fewer = wanted(crowded)
    assert fewer.replicas > usual.replicas
    assert fewer.exact is not None
    assert fewer.replicas == np.ceil(fewer.exact)
    assert fewer.why.endswith("and fewer in each, as those that share a replica are late")
    assert "fewer in each" not in usual.why


def test_it_is_remembered_with_the_service() -> None:
    state = State(looked(0.1, 50))
    assert lawstate.state_of(lawstate.plain(state)) == state
    assert "crowding" not in lawstate.plain(State(Learned()))
