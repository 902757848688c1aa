"""An objective of the time to the first token: what the law learns for it, and what it then asks for."""

import json
from dataclasses import replace

import numpy as np
import pytest

from autoscaler import law
from autoscaler.crowding import CLEAR
from autoscaler.latency import ANSWER, FIRST_TOKEN
from autoscaler.law import ALONE, STANDBY, Fleet, State, Terms
from autoscaler.metrics import Objective
from autoscaler.native import Native, load
from autoscaler.observed import BUCKETS, FirstToken, Learned, Scrape, counted, learn
from autoscaler.price import price
from autoscaler.vertical import relearned
from controlplane.domain import lawstate
from controlplane.simulator.worlds.profiles import named
from tests.autoscaler.test_closed_loop import RISING, STARTED, Loop

WITHIN, ANSWERED, FIRST = 0.5, 4.0, 0.1  # s: promised of the first token; a whole answer; its first token
TERMS = Terms(WITHIN, 60.0, ALONE, 0.999, FIRST_TOKEN)
SEEN = counted(np.full(2000, ANSWERED))
KNOWN = Learned(SEEN, 2000 * ANSWERED, 8, first=FirstToken(counted(np.full(2000, FIRST))))


def scrape(at: float, rate: float = 10.0, first: bool = True) -> Scrape:
    came = round(15.0 * rate)
    firsts = counted(np.full(came, FIRST)) if first else None
    running = round(rate * ANSWERED)
    return Scrape(at, 15.0, came, came * ANSWERED, counted(np.full(came, ANSWERED)), 0, running, 8, firsts)


def looked(looks: int, *, first: bool = True, terms: Terms = TERMS, on: int = 2) -> tuple[State, int]:
    state, wanted = State(), on
    for number in range(looks):
        state, found = law.look(state, scrape(15.0 * (number + 1), first=first), Fleet(wanted, wanted), terms)
        wanted = found.replicas
    return state, wanted


def test_what_a_request_may_wait_follows_from_its_first_token_and_a_slot_is_busy_for_the_whole_answer() -> None:
    assert KNOWN.quantile(0.99, FIRST_TOKEN) == pytest.approx(FIRST, rel=0.2)
    assert law.wait_seconds(KNOWN, WITHIN, FIRST_TOKEN) == pytest.approx(WITHIN - FIRST, rel=0.1)
    assert law.wait_seconds(KNOWN, WITHIN) == pytest.approx(0.02 * WITHIN), "an answer of 4 s leaves no wait"
    assert KNOWN.mean == pytest.approx(ANSWERED, rel=0.01)
    assert law.steady(KNOWN, ANSWERED, 10.0, TERMS) > 10.0 * ANSWERED


def test_a_short_wait_asks_for_as_many_free_slots_as_keep_waits_away() -> None:
    """S/(K W) is for requests that wait: 175 slots here, where 20 on top of 40 leave one in 500 to wait."""
    busy, tail = 10.0 * ANSWERED, ALONE.tail * ANSWERED / (ALONE.part * law.wait_seconds(KNOWN, WITHIN, FIRST_TOKEN))
    on_top = law.steady(KNOWN, ANSWERED, 10.0, TERMS) - busy
    assert on_top == pytest.approx(3 * busy**0.5 + 1)
    assert tail > 5 * on_top
    assert _erlang_c(round(busy + on_top), busy) < 0.0025


def test_where_the_tail_is_the_smaller_one_it_counts_as_for_answers() -> None:
    patient = replace(TERMS, objective=60.0)
    answers = replace(patient, of=ANSWER)
    quick = replace(KNOWN, first=FirstToken(KNOWN.counts))  # the first token comes with the answer
    assert law.steady(quick, ANSWERED, 10.0, patient) == law.steady(quick, ANSWERED, 10.0, answers)


def test_a_look_teaches_first_tokens_beside_answers_and_asks_for_replicas_by_both() -> None:
    state, wanted = looked(20)
    assert state.learned.quantile(0.95, FIRST_TOKEN) == pytest.approx(FIRST, rel=0.2)
    assert state.learned.mean == pytest.approx(ANSWERED, rel=0.1)
    assert wanted == 8, "10/s of 4 s are 40 slots, 8 in a replica: 5, and 3 for waits"


def test_a_service_whose_first_tokens_nobody_tells_of_keeps_its_replicas() -> None:
    state, wanted = looked(20, first=False)
    assert wanted == 2
    assert not any(state.learned.first.counts)
    state, _ = law.look(State(), scrape(15.0, first=False), Fleet(2, 2), replace(TERMS, of=ANSWER, objective=9.0))
    told = load(scrape(30.0, first=False), state.learned, Native(), 1, TERMS)
    assert told.target == pytest.approx(0.7 * 8), "nor has Kubernetes' autoscaler another target than at first"
    assert price(state.learned, [10.0], TERMS, 1, 8) is None


def test_what_is_told_of_first_tokens_changes_nothing_for_a_service_that_promises_answers() -> None:
    terms = Terms(9.0, 60.0, ALONE)
    with_first, without = (looked(40, first=first, terms=terms) for first in (True, False))
    assert with_first[1] == without[1]
    assert replace(with_first[0].learned, first=FirstToken()) == without[0].learned


def test_slots_that_nobody_tells_follow_while_first_tokens_are_well_within_the_objective() -> None:
    untold = replace(scrape(15.0), widest=None)
    assert learn(Learned(), untold, 15.0, 5, WITHIN, FIRST_TOKEN).slots == 8
    assert learn(Learned(), untold, 15.0, 5, WITHIN).slots == 1, "as an answer takes longer than 500 ms"


def test_first_tokens_that_share_a_replica_and_are_late_for_it_have_fewer_share_one() -> None:
    rng, known = np.random.default_rng(3), Learned()
    for number in range(120):
        running = 8 + 4 * rng.integers(0, 10)
        each = FIRST * (1 + 0.2 * running / 4)  # of 4 replicas
        firsts = counted(np.full(150, each))
        seen = Scrape(15.0 * number, 15.0, 150, 150 * ANSWERED, SEEN_OF_A_LOOK, 0, int(running), 12, firsts)
        known = learn(known, seen, 15.0, 4, WITHIN, FIRST_TOKEN)
    assert known.first.crowding.growth(CLEAR) > 0
    assert known.crowding.growth(CLEAR) == 0, "answers take as long however many share a replica"
    assert known.at_once(0.25, 0.999, FIRST_TOKEN) < known.slots == known.at_once(0.25, 0.999)


SEEN_OF_A_LOOK = counted(np.full(150, ANSWERED))


def test_with_another_limit_first_tokens_are_a_guess_as_answers_are() -> None:
    state = relearned(relearned(State(KNOWN), 500), 1000)
    assert state.learned.quantile(0.5, FIRST_TOKEN) == pytest.approx(FIRST / 2, rel=0.3)
    assert state.learned.quantile(0.5) == pytest.approx(ANSWERED / 2, rel=0.3)


def test_what_is_learned_of_first_tokens_is_stored_with_the_rest_and_nothing_is_where_none_is_told() -> None:
    state, _ = looked(3)
    assert lawstate.state_of(json.loads(json.dumps(lawstate.plain(state)))) == state
    assert lawstate.scrape_of(json.loads(json.dumps(lawstate.plain_scrape(scrape(1.0))))) == scrape(1.0)
    plain, _ = looked(3, first=False)
    assert "first" not in lawstate.plain(plain)
    assert len(lawstate.plain_scrape(scrape(1.0, first=False))) == 8, "as it always was"


@pytest.mark.parametrize("wrong", [(1.0,), (-1.0, *[0.0] * 89), (float("nan"), *[0.0] * 89)])
def test_a_histogram_that_cannot_be_true_changes_nothing(wrong: tuple[float, ...]) -> None:
    state, _ = looked(3)
    told = replace(scrape(60.0), first=wrong)
    assert len(BUCKETS) == 90
    assert not told.is_sound
    assert law.look(state, told, Fleet(2, 2), TERMS)[0] == state


def test_an_objective_is_of_answers_or_of_first_tokens() -> None:
    with pytest.raises(ValueError, match="of sound, must be of answer or first_token"):
        Objective(0.2, of="sound")


@pytest.mark.parametrize(("profile", "within"), [("chat-like", 0.09), ("vision-like", 0.03)])
def test_a_service_keeps_an_objective_of_first_tokens_while_load_rises_and_falls(profile: str, within: float) -> None:
    rate = {**RISING, "base": 2.0 * named(profile).max_per_second}
    objective = Objective(within, 0.99, of=FIRST_TOKEN)
    loop = Loop(rate, replicas=2, most=12, profile=profile, objective=objective)
    loop.run(7200.0)
    numbers = [workers for _, workers in loop.changes]
    assert loop.attained(STARTED) > 0.99, loop.changes
    assert max(numbers) < 12
    assert loop.gang.count < max(numbers), "and it goes back when the load does"


def test_standby_and_the_signal_of_a_gateway_go_by_the_first_token_too() -> None:
    state, terms = State(KNOWN), replace(TERMS, constants=STANDBY)
    assert law.signal(state, 8, 10.0, Fleet(6, 6), 6, terms) is not None
    assert law.signal(state, 1, 10.0, Fleet(6, 6), 6, terms) is None, "one that waits does not last half of W"


def _erlang_c(slots: int, busy: float) -> float:
    """The part of requests that wait, of Poisson arrivals and exponential times."""
    lost = 1.0
    for n in range(1, slots + 1):
        lost = busy * lost / (n + busy * lost)
    return lost / (1 - busy / slots * (1 - lost))
