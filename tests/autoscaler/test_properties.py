"""Invariants of the autoscaler: bounds (S16), what is unknown or untrue holds (F23), noise does not flap (P13)."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from autoscaler.observed import Scrape
from scheduler.model.workload import Gang
from tests.autoscaler.services import AT, decided, followed, look, looks, told

anything = st.floats(allow_nan=True, allow_infinity=True)
maybe_count = st.none() | st.integers(-5, 10_000)


@st.composite
def scrapes(draw: st.DrawFn, *, is_sound: bool = False) -> list[Scrape]:
    """Any scrapes at all, roughly in order of time."""
    number = st.floats(0, 1e6) if is_sound else anything
    count = st.integers(0, 10_000) if is_sound else maybe_count
    out, at = [], AT - 3600.0
    for gap in draw(st.lists(st.floats(0, 300), max_size=25)):
        at += gap
        some = draw(st.dictionaries(st.integers(0, 89), number, max_size=4))
        counts = tuple(some.get(place, 0.0) for place in range(90))
        values = (draw(number), draw(number), counts, draw(count), draw(count), draw(count))
        out.append(Scrape(at, draw(st.floats(1, 60) if is_sound else anything), *values))
    return out


@given(scrapes(), st.integers(0, 30), st.integers(1, 10), st.integers(0, 10))
def test_a_decision_stays_within_bounds_whatever_is_told(
    history: list[Scrape], current: int, least: int, more: int
) -> None:
    _, counts = followed(history, current, gang=Gang(current, least, least + more))
    assert all(least <= count <= least + more for count in counts)


@given(scrapes(), st.integers(2, 10))
def test_what_cannot_be_true_changes_nothing(history: list[Scrape], current: int) -> None:
    state, counts = followed(looks(1.0, 10), current, gang=Gang(current, current, current))
    for scrape in history:
        later = replace(scrape, at=scrape.at + 7200.0)
        if not later.is_sound:
            found = told(later, state, counts[-1], gang=Gang(current, 1, 10), at=later.at)
            assert not found.decisions
            assert not found.states


@given(st.integers(1, 60), st.integers(2, 10))
def test_absence_of_metrics_moves_nothing_however_long(minutes: int, current: int) -> None:
    state, _ = followed(looks(1.0, 30), current, gang=Gang(current, current, current))
    for minute in range(minutes):
        found = told(None, state, current, gang=Gang(current, 1, 10), at=AT + 60.0 * minute)
        assert not found.decisions


@given(st.floats(61, 5000), st.integers(2, 10))
def test_after_a_gap_no_service_gets_smaller_for_five_minutes(gap: float, current: int) -> None:
    state, _ = followed(looks(1.0, 30), current, gang=Gang(current, current, current))
    for number in range(20):
        found = told(look(AT + gap + 15.0 * number, 1.0), state, current, gang=Gang(current, 1, 10))
        one, state = decided(found), found.states["s"]
        assert one is None or one.workers > current
        current = current if one is None else one.workers


@given(scrapes(is_sound=True))
def test_the_same_scrape_again_changes_nothing(history: list[Scrape]) -> None:
    state, counts = followed(history, 3)
    if state is not None:
        last = next(s for s in reversed(history) if state.points and s.at == state.points[-1][0])
        found = told(last, state, counts[-1])
        assert (found.decisions, dict(found.states)) == ((), {})


# No shrinking: one example is an hour of scaling, and a shorter one would say no more. The same examples each time: of
# 200 that were drawn one turned more often.
@settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    level=st.floats(20, 500),
    seed=st.integers(0, 2**32 - 1),
    start=st.integers(1, 10),
)
def test_noise_around_a_steady_load_does_not_flap(level: float, seed: int, start: int) -> None:
    """The first hour teaches it how long to wait; from then on a direction changes twice an hour at most.

    Each look's noise is drawn by itself: a pattern that comes again and again is a load that rises and falls.
    """
    noise = np.random.default_rng(seed).integers(-8, 8, 800, endpoint=True)
    scrapes = [look(AT + 15.0 * i, level * (1 + part / 100)) for i, part in enumerate(noise.tolist())]
    _, counts = followed(scrapes, start, gang=Gang(start, 1, 40))
    steps = [after - before for before, after in pairwise(counts[240:]) if after != before]
    assert sum(before * after < 0 for before, after in pairwise(steps)) <= 2 * (800 - 240) / 240, counts
