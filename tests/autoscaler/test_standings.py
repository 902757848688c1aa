"""How a service stood in each minute: the same word as the rule for now says, and what a report keeps of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import sla, standings
from autoscaler.sla import SILENT_SECONDS, SPANS, Standing
from autoscaler.standings import MINUTE, Moment, Promise, Window

HOUR, DAY = 3600.0, 86_400.0
START = 10 * DAY
TWO_DAYS = Promise(0.99, 2 * DAY)


def by_hand(windows: list[Window], at: float, promise: Promise, *, is_up: bool) -> Moment:
    """The rule for one moment, summed window by window."""
    since = promise.since if promise.since is not None and promise.since <= at else float("-inf")
    known = [one for one in windows if since <= one.start <= at - MINUTE]

    def over(seconds: float) -> tuple[int, int]:
        mine = [one for one in known if one.start >= at - seconds]
        return sum(one.requests for one in mine), sum(one.over for one in mine)

    left = sla.budget_left(*over(promise.window_seconds), promise.availability)
    rates = {span: sla.burn_rate(*over(span), promise.availability) for span in SPANS}
    is_silent = is_up and not over(SILENT_SECONDS)[0]
    return Moment(at, left, sla.standing(left, rates, is_silent=is_silent))


@st.composite
def pasts(draw: st.DrawFn) -> list[Window]:
    """Windows of three days, some of them missing or without requests."""
    minutes = draw(st.lists(st.integers(0, 3 * 1440 - 1), max_size=60, unique=True))
    counts = st.integers(0, 2000)
    found = []
    for minute in sorted(minutes):
        requests = draw(counts)
        found.append(Window(START + 60 * minute, requests, draw(st.integers(0, requests // draw(st.integers(1, 50))))))
    return found


@given(
    windows=pasts(),
    since=st.none() | st.integers(0, 3 * 1440).map(lambda minute: START + 60.0 * minute),
    days=st.sampled_from((0.1, 1.0, 2.0)),
    begin=st.integers(1440, 2 * 1440),
    up=st.booleans(),
)
def test_each_minute_is_judged_as_the_rule_for_now_judged_it_then(
    windows: list[Window], since: float | None, days: float, begin: int, *, up: bool
) -> None:
    promise = Promise(0.99, days * DAY, since)
    ends = [START + 60.0 * (begin + k) for k in range(1, 91)]
    expected = tuple(by_hand(windows, at, promise, is_up=up) for at in ends)
    assert standings.moments(windows, ends, promise, [up] * len(ends)) == expected


@given(
    windows=pasts(),
    promised=st.none() | st.integers(0, 3 * 1440).map(lambda minute: START + 60.0 * minute),
    days=st.sampled_from((0.1, 0.5, 1.0)),
    begin=st.integers(1440, 2 * 1440),
    hours=st.integers(1, 24),
)
def test_what_lies_between_what_leaves_and_what_is_new_may_be_one_sum(
    windows: list[Window], promised: float | None, days: float, begin: int, hours: int
) -> None:
    promise = Promise(0.99, days * DAY, promised)
    since = START + 60.0 * begin
    ends = [since + 60.0 * (k + 1) for k in range(60 * hours)]
    (first, last), (low, high) = standings.needed(promise, since, ends[-1])
    middle = [one for one in windows if low <= one.start < high]
    some = [one for one in windows if first <= one.start < last]
    some += [Window(low, sum(one.requests for one in middle), sum(one.over for one in middle))] if middle else []
    some += [one for one in windows if max(high, first) <= one.start]
    up = [True] * len(ends)
    assert standings.moments(some, ends, promise, up) == standings.moments(windows, ends, promise, up)


def test_a_bad_hour_shows_in_the_minutes_of_each_standing() -> None:
    calm = [Window(START + 60 * k, 1000, 0) for k in range(1440)]
    bad = [Window(START + DAY + 60 * k, 1000, 200) for k in range(60)]
    after = [Window(START + DAY + HOUR + 60 * k, 1000, 0) for k in range(60)]
    windows = calm + bad + after
    ends = [START + DAY + 60.0 * (k + 1) for k in range(120)]
    found = standings.moments(windows, ends, TWO_DAYS, [True] * 120)
    kept = standings.tally(found, windows, START + DAY, START + DAY + 2 * HOUR)
    assert (kept.requests, kept.over) == (120_000, 12_000)
    assert sum(kept.minutes.values()) == 120
    assert kept.minutes[Standing.UNKNOWN] == 0
    # It burns at 20x: above 14.4x over an hour from its 44th minute on, and over 5 minutes until one after its end.
    assert kept.minutes[Standing.AT_RISK] == 18
    assert kept.minutes[Standing.MET] == 102
    assert kept.minutes[Standing.VIOLATED] == 0
    assert kept.budget_left == pytest.approx(1 - 12_000 / (1_560_000 * 0.01))
    assert kept.worst == Window(START + DAY, 1000, 200), "the first of those that are as bad"


def test_a_service_that_is_up_and_silent_is_not_known_and_one_that_is_down_keeps_its_word() -> None:
    windows = [Window(START + 60 * k, 1000, 0) for k in range(60)]
    ends = [START + HOUR + 60.0 * k for k in range(1, 31)]
    words = [one.standing for one in standings.moments(windows, ends, TWO_DAYS, [True] * 30)]
    assert words == [Standing.MET] * 14 + [Standing.UNKNOWN] * 16
    words = [one.standing for one in standings.moments(windows, ends, TWO_DAYS, [False] * 30)]
    assert words == [Standing.MET] * 30


def test_without_any_window_nothing_is_known_and_nothing_was_worst() -> None:
    found = standings.moments([], [START + 60.0, START + 120.0], TWO_DAYS, [False, False])
    kept = standings.tally(found, [], START, START + 120.0)
    assert kept.minutes[Standing.UNKNOWN] == 2
    assert (kept.budget_left, kept.worst, kept.requests) == (None, None, 0)
    assert standings.tally([], [], START, START).budget_left is None
