"""Invariants of the autoscaler: bounds and steps (S16), what is unknown holds, stationary noise does not flap (P13)."""

import math
from itertools import pairwise

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from autoscaler.metrics import Sample
from autoscaler.settings import Settings
from scheduler.model.workload import Gang
from tests.autoscaler.services import AT, decide, sample, steady

SETTINGS = Settings()
maybe_rate = st.none() | st.floats(0, 5000)
maybe_latency = st.none() | st.floats(0, 60)


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Any samples at all, in order of time."""
    gaps = draw(st.lists(st.floats(1, 120), max_size=40))
    return [
        Sample(
            at=AT - sum(gaps[i:]) + draw(st.floats(0, 1)),
            seconds=15.0,
            replicas=draw(st.none() | st.integers(0, 12)),
            requests_per_second=draw(maybe_rate),
            p95_seconds=draw(maybe_latency),
            queue=draw(st.none() | st.integers(0, 10_000)),
        )
        for i in range(1, len(gaps))
    ]


@given(histories(), st.integers(0, 30), st.integers(0, 10), st.integers(0, 10), st.none() | st.floats(0, 900))
def test_a_decision_stays_within_bounds_and_steps(
    history: list[Sample], current: int, least: int, more: int, since: float | None
) -> None:
    gang = Gang(current, least, least + more)
    decision = decide(history, current, None if since is None else AT - since, gang=gang)
    wanted = current if decision is None else decision.workers
    clamped = max(least, min(least + more, current))
    assert least <= wanted <= least + more
    assert wanted <= clamped + max(SETTINGS.up_count, math.ceil(current * SETTINGS.up_ratio))


@settings(deadline=None)  # the first example compiles the simulator
@given(histories(), st.integers(1, 10), st.integers(0, 19))
def test_a_window_with_something_unknown_never_makes_a_service_smaller(
    history: list[Sample], current: int, unknown: int
) -> None:
    quiet = list(steady(1.0, 300.0, replicas=current))
    quiet[unknown] = Sample(quiet[unknown].at, 15.0, current, None, None)
    decision = decide([*(h for h in history if h.at < quiet[0].at), *quiet], current, gang=Gang(current, 1, 10))
    assert decision is None or decision.workers >= current


# No shrinking: one example is an hour of scaling, and a shorter one would say no more.
@settings(deadline=None, max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    level=st.floats(20, 500),
    noise=st.lists(st.integers(-8, 8), min_size=100, max_size=100),
    start=st.integers(1, 10),
)
def test_noise_around_a_steady_load_does_not_flap(level: float, noise: list[int], start: int) -> None:
    """A model may err once; what it learnt from that holds for an hour, so a fall is taken back at most once."""
    current, changed_at, history, changes = start, None, [], []
    for i, part in enumerate(noise * 2):  # 50 minutes
        at = AT + 15.0 * i
        history = [*history[-240:], sample(at, level * (1 + part / 100), current)]
        decision = decide(history, current, changed_at, at=at, gang=Gang(current, 1, 12))
        if decision is not None:
            changes.append((i, decision.workers - current))
            current, changed_at = decision.workers, at
    taken_back = sum(before < 0 < after for (_, before), (_, after) in pairwise(changes))
    assert taken_back <= 1, changes
