"""A service that may have no replica: when it falls asleep, what wakes it, and what is never taken for quiet."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.decision import Scale
from autoscaler.law import State
from autoscaler.metrics import Metrics, ServiceMetrics
from autoscaler.observed import NONE, Scrape, Signal
from autoscaler.scale import Scaling, scale
from autoscaler.settings import Settings
from autoscaler.sla import SPANS, Standing, standing
from autoscaler.zero import is_quiet
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang
from tests.autoscaler.services import AT, OBJECTIVE, SERVICE, look

IDLE = 120.0  # s
EAGER = Settings(young_seconds=0.0)


def quiet(at: float) -> Scrape:
    """A look at which nothing came, waits or runs."""
    return Scrape(at, 15.0, 0.0, 0.0, NONE, 0, 0, 0)


def round_of(
    scrape: Scrape | None, state: State | None, current: int, *, at: float | None = None, signal: Signal | None = None,
    idle_after: float | None = IDLE, ready: int | None = None,
) -> Scaling:  # fmt: skip
    """What a round says of a service with no least."""
    service = replace(SERVICE, gang=Gang(current, 0, 8))
    at = at if at is not None else AT if scrape is None else scrape.at
    up = current if ready is None else ready
    known = ServiceMetrics("s", OBJECTIVE, scrape, state, up, 42.0, signal, idle_after)
    return scale(Snapshot.build(at, (), (), (), (service,)), Metrics({"s": known}), EAGER)


def count(found: Scaling, current: int) -> int:
    """The replicas from now on."""
    return next((one.workers for one in found.decisions if isinstance(one, Scale)), current)


def slept_at(looks: list[Scrape | None], current: int = 1, *, ready: int | None = None) -> float | None:
    """Seconds after the first look when it has no replica; None: it has one at the end. None among looks: nothing told.

    Rounds are 15 s apart.
    """
    state: State | None = None
    for number, scrape in enumerate(looks):
        at = AT + 15.0 * number
        found = round_of(scrape, state, current, at=at, ready=ready)
        state = found.states.get("s", state)
        current = count(found, current)
        if current == 0:
            return at - AT
    return None


def test_it_falls_asleep_once_no_request_came_for_as_long_as_it_says() -> None:
    assert slept_at([quiet(AT + 15.0 * n) for n in range(40)]) == IDLE


def test_it_says_for_how_long_nothing_came_and_what_the_next_request_waits() -> None:
    state = State(points=((AT - 15.0, 0.0),), idle_since=AT - 600.0, began=AT - 5000.0)
    (decision,) = round_of(quiet(AT), state, 1).decisions
    assert isinstance(decision, Scale)
    assert decision.message == (
        "1 to 0 replicas: no request came for 10 min; the next one waits about 42 s for a replica to start."
    )
    assert dict(decision.terms) == {"idle_seconds": 600.0, "cold_start_seconds": 42.0}


def test_one_request_begins_the_span_anew() -> None:
    looks: list[Scrape | None] = [quiet(AT + 15.0 * n) for n in range(40)]
    looks[5] = replace(quiet(AT + 75.0), arrived=1.0)
    assert slept_at(looks) == 6 * 15.0 + IDLE


@pytest.mark.parametrize(
    "changes",
    [
        {"arrived": 0.5},
        {"waiting": 1},
        {"running": 1},
        {"waiting": None},
        {"running": None},
        {"arrived": float("nan")},
        {"running": -1},
    ],
)
def test_what_is_not_known_to_be_quiet_never_lets_it_fall_asleep(changes: dict[str, float | None]) -> None:
    assert slept_at([replace(quiet(AT + 15.0 * n), **changes) for n in range(60)]) is None


def test_metrics_that_are_missing_never_let_it_fall_asleep() -> None:
    assert slept_at([quiet(AT), *[None] * 60]) is None


def test_a_look_that_is_told_again_and_again_never_lets_it_fall_asleep() -> None:
    assert slept_at([quiet(AT)] * 60) is None


def test_after_a_gap_the_span_begins_anew() -> None:
    looks: list[Scrape | None] = [quiet(AT + 15.0 * n) for n in range(40)]
    looks[4:10] = [None] * 6  # 105 s without a look
    assert slept_at(looks) == 10 * 15.0 + IDLE


def test_the_span_is_of_a_service_that_could_have_answered() -> None:
    assert slept_at([quiet(AT + 15.0 * n) for n in range(60)], ready=0) is None


def test_one_that_must_not_sleep_keeps_a_replica() -> None:
    state = State(points=((AT - 15.0, 0.0),), idle_since=AT - 5000.0, began=AT - 5000.0)
    assert round_of(quiet(AT), state, 1, idle_after=None).decisions == ()


def test_asleep_it_stays_so_while_nothing_waits() -> None:
    state: State | None = None
    for number in range(40):
        found = round_of(quiet(AT + 15.0 * number), state, 0)
        assert found.decisions == ()
        state = found.states.get("s", state)
    assert round_of(None, state, 0, at=AT + 10_000.0).decisions == ()


def test_a_request_that_waits_wakes_it_at_once_with_nothing_but_the_queues_signal() -> None:
    (decision,) = round_of(None, None, 0, signal=Signal(1, 0.2)).decisions
    assert isinstance(decision, Scale)
    assert (decision.workers, decision.message) == (
        1,
        "0 to 1 replicas: 1 request waits; the first one waits about 42 s for a replica to start.",
    )


def test_a_look_that_says_that_a_request_waits_wakes_it_too_unless_it_is_old() -> None:
    scrape = replace(quiet(AT), waiting=1)
    assert count(round_of(scrape, None, 0), 0) == 1
    assert round_of(scrape, None, 0, at=AT + 600.0).decisions == ()


def test_it_wakes_to_as_many_as_what_waits_needs_within_its_most() -> None:
    state = State(began=AT - 5000.0)
    state = round_of(look(AT - 15.0, 80.0), state, 2).states["s"]
    assert 1 < count(round_of(None, state, 0, signal=Signal(2000, 80.0)), 0) <= 8


def test_a_signal_of_a_waiting_request_keeps_it_awake() -> None:
    state = State(points=((AT - 15.0, 0.0),), idle_since=AT - 5000.0, began=AT - 5000.0)
    assert count(round_of(quiet(AT), state, 1), 1) == 0
    assert count(round_of(quiet(AT), state, 1, signal=Signal(1, 0.2)), 1) >= 1


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.tuples(
                st.sampled_from([0.0, 1.0, float("nan")]), st.sampled_from([0, 1, None]), st.sampled_from([0, 1, None])
            ),
        ),
        max_size=60,
    )
)
def test_it_sleeps_only_after_a_span_in_which_every_look_was_quiet(
    told: list[tuple[float, int | None, int | None] | None],
) -> None:
    looks = [
        None if one is None else Scrape(AT + 15.0 * n, 15.0, one[0], 0.0, NONE, one[1], one[2], 0)
        for n, one in enumerate(told)
    ]
    at = slept_at(looks)
    if at is not None:
        last = round(at / 15.0)
        needed = round(IDLE / 15.0)
        assert last >= needed
        known = [one for one in looks[last - needed : last + 1] if one is not None and one.is_sound]
        assert all(is_quiet(one) for one in known)
        times = [one.at for one in known]
        assert all(b - a <= EAGER.stale_seconds for a, b in zip(times, times[1:], strict=False))
        assert times[-1] == AT + at


@pytest.mark.parametrize(
    ("left", "has_slept", "word"),
    [
        (1.0, True, Standing.MET),
        (1.0, False, Standing.UNKNOWN),
        (None, True, Standing.MET),
        (None, False, Standing.UNKNOWN),
        (0.05, True, Standing.AT_RISK),
        (-0.1, True, Standing.VIOLATED),
    ],
)
def test_silence_of_a_service_that_slept_is_known_and_what_went_wrong_before_still_counts(
    left: float | None, has_slept: bool, word: Standing
) -> None:
    assert standing(left, dict.fromkeys(SPANS), is_silent=True, has_slept=has_slept) is word
