"""What an owner says of a service's requests: a start, and no more than that."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import law
from autoscaler.law import ALONE, Fleet, State, Terms
from autoscaler.observed import BOUNDS, NONE, Learned, Scrape, counted, learn
from autoscaler.profile import GONE, WEIGHT, Profile
from controlplane.domain import lawstate

MEAN, SLOW, SLOTS = 0.25, 0.6, 4
TERMS = Terms(1.0, 60.0, ALONE)
RATE = 20.0
TIMES = np.exp(np.random.default_rng(2).normal(np.log(MEAN) - 0.2, 0.63, 60_000))


def looks(rate: float, many: int, most: int = SLOTS) -> list[Scrape]:
    """What really comes: requests of .25 s, of which a replica runs four at once; the rest waits."""
    found, n = [], round(15 * rate)
    for k in range(many):
        some = TIMES[k * n % 50_000 :][:n]
        running = rate * MEAN
        found.append(
            Scrape(
                15.0 * (k + 1), 15.0, n, float(some.sum()), counted(some), 0, round(running), min(most, round(running))
            )
        )
    return found


def wanted_after(seconds: float, profile: Profile | None, rate: float = RATE, on: int = 1) -> list[int]:
    """Replicas wanted at each look; they are there at the next one. What does not fit into slots waits."""
    state, found = State(Learned.told(profile)), []
    for scrape in looks(rate, round(seconds / 15)):
        waits = max(0, round(rate * MEAN) - SLOTS * on)
        now = replace(scrape, waiting=waits, running=min(round(rate * MEAN), SLOTS * on))
        state, wanted = law.look(state, now, Fleet(on, on), TERMS)
        on = wanted.replicas
        found.append(on)
    return found


@given(st.floats(0.001, 100.0), st.floats(1.0, 3.8))
def test_its_histogram_has_its_mean_and_its_p95(mean: float, ratio: float) -> None:
    known = Learned.told(Profile(mean, ratio * mean))
    assert known.quantile(0.95) == pytest.approx(ratio * mean, rel=0.2)
    assert sum(Profile(mean, ratio * mean).counts(BOUNDS)) == pytest.approx(1.0)
    assert known.mean is not None
    assert mean <= known.mean <= 2 * mean, "with a standard error of so few requests on top"


def test_it_counts_for_few_requests_and_for_nothing_once_enough_were_answered() -> None:
    told = Profile(MEAN, SLOW, SLOTS)
    assert (told.weight(0), told.weight(GONE / 2), told.weight(GONE)) == (WEIGHT, WEIGHT / 2, 0)
    first = looks(2.0, 1)[0]
    known = learn(Learned.told(told), first, 15.0, 1, 1.0)
    assert known.profile is not None
    assert known.requests == pytest.approx(30 + WEIGHT * (1 - 30 / GONE))
    for _ in range(6):
        known = learn(known, first, 15.0, 1, 1.0)
    assert known.profile is None
    assert known.requests == pytest.approx(210, rel=0.05)


def test_with_a_true_profile_it_is_known_before_the_first_answer_what_is_needed() -> None:
    nothing = replace(looks(RATE, 1)[0], counts=NONE, answered_seconds=0.0, running=4, waiting=1)
    wanted = {
        said: law.look(State(Learned.told(said)), nothing, Fleet(1, 1), TERMS)[1].replicas
        for said in (None, Profile(MEAN, SLOW, SLOTS))
    }
    told, later = wanted[Profile(MEAN, SLOW, SLOTS)], wanted_after(300, None)[-1]
    assert abs(told - later) <= 0.2 * later
    assert wanted[None] < told, "without it as many as are here, of which some wait, are all that is known"


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_service_times_ten_times_off_are_overruled_within_a_minute(factor: float) -> None:
    lie = Profile(MEAN * factor, SLOW * factor, SLOTS)
    state = State(Learned.told(lie))
    for scrape in looks(RATE, 4):
        state, _ = law.look(state, scrape, Fleet(2, 2), TERMS)
    assert state.learned.profile is None
    assert state.learned.mean == pytest.approx(MEAN, rel=0.1)
    assert state.learned.quantile(0.95) == pytest.approx(SLOW, rel=0.25)


@pytest.mark.parametrize("slots", [40, 1])
def test_slots_ten_times_off_are_overruled_within_two_minutes(slots: int) -> None:
    truth = wanted_after(900, None)[-1]
    found = wanted_after(900, Profile(MEAN, SLOW, slots))
    assert found[-1] == truth
    assert found[8] >= truth, "of too many slots too: requests wait although no replica runs so many"


def test_slots_are_overruled_by_one_look_at_which_requests_wait_although_no_replica_runs_so_many() -> None:
    few = looks(2.0, 1)[0]
    said = Learned.told(Profile(MEAN, SLOW, 40))
    assert learn(said, few, 15.0, 1, 1.0).slots == 40, "nothing waits, so it may be true"
    known = learn(said, replace(few, waiting=3, widest=4), 15.0, 1, 1.0)
    assert known.slots == 4
    assert known.profile is not None, "of its times nothing is known yet"
    assert learn(known, replace(few, widest=6), 15.0, 1, 1.0).slots == 6, "more are learned as ever"
    untold = learn(said, replace(few, waiting=3, widest=None), 15.0, 1, 1.0)
    assert untold.slots == 40, "where nobody tells what a replica runs, waiting alone says nothing of it"


def test_all_of_it_ten_times_off_is_overruled_within_minutes_both_ways() -> None:
    truth = wanted_after(1800, None)[-1]
    too_fast = wanted_after(1800, Profile(MEAN / 10, SLOW / 10, 40))
    too_slow = wanted_after(1800, Profile(MEAN * 10, SLOW * 10, 1))
    assert too_fast[8:] == [max(truth, one) for one in too_fast[8:]], "no fewer than are needed after two minutes"
    assert too_fast[-1] == too_slow[-1] == truth
    assert too_slow[0] > truth, "and what it said was a start"


def test_what_is_left_of_it_is_remembered_with_the_rest() -> None:
    state, _ = law.look(State(Learned.told(Profile(MEAN, SLOW, 8))), looks(2.0, 1)[0], Fleet(1, 1), TERMS)
    assert state.learned.profile is not None
    assert lawstate.state_of(json.loads(json.dumps(lawstate.plain(state)))) == state
    assert "profile" not in lawstate.plain(State())
