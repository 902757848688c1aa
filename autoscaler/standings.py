"""How a service stood in each minute of the past, by the rule of `sla.py`, and what a report keeps of it.

A moment knows the windows that were over by then. Times are cluster-clock seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler import sla
from autoscaler.sla import SILENT_SECONDS, SPANS, Standing

MINUTE = 60.0  # s that a window is about
REACH = max(*SPANS, SILENT_SECONDS)  # s before a moment of which single windows count

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """What was measured in the minute from `start` on: requests, and those that were late or failed."""

    start: float
    requests: int
    over: int


@dataclass(frozen=True, slots=True)
class Promise:
    """Which part of the requests has to be on time, over which time. since: when it became so; None: from the first."""

    availability: float
    window_seconds: float
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """How a service stood at the end of a minute."""

    at: float
    budget_left: float | None
    standing: Standing


@dataclass(frozen=True, slots=True)
class Tally:
    """What is kept of a stretch of minutes. worst: the minute with the most late requests; None: none was late."""

    requests: int
    over: int
    minutes: Mapping[Standing, int]
    budget_left: float | None  # at the end
    worst: Window | None


def needed(promise: Promise, since: float, until: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of which times `moments` needs single windows for [since, until], and the time between that may be one window.

    (first, last) of the windows that leave the objective's window meanwhile, and (from, to) of what lies between
    those and the newest: its sum may stand at its beginning. What was before the promise is in neither.
    """
    begun = promise.since if promise.since is not None and promise.since <= since else -np.inf
    first = max(begun, since - promise.window_seconds)
    last = max(first, min(until - promise.window_seconds, since - REACH))
    return (first, last), (last, max(last, since - REACH))


def moments(
    windows: Sequence[Window],
    ends: Sequence[float],
    promise: Promise,
    is_up: Sequence[bool],
    slept: Sequence[bool] | None = None,
) -> tuple[Moment, ...]:
    """How it stood at each of these moments. windows: ascending. is_up: whether replicas were up, shape of ends.

    slept: whether it was asleep within SILENT_SECONDS before, shape of ends; None: never.

    Before `promise.since` all windows count: what was promised then is not known any more.
    """
    ats: Floats = np.array(ends, dtype=np.float64)
    sums = _Sums(windows)
    since = None if promise.since is None else np.where(ats >= promise.since, promise.since, -np.inf)
    whole = sums.over_the_last(promise.window_seconds, ats, since)
    recent = {span: sums.over_the_last(span, ats, since) for span in (*SPANS, SILENT_SECONDS)}
    found = []
    for i, at in enumerate(ends):
        left = sla.budget_left(*_at(whole, i), promise.availability)
        rates = {span: sla.burn_rate(*_at(recent[span], i), promise.availability) for span in SPANS}
        is_silent = is_up[i] and not recent[SILENT_SECONDS][0][i]
        has_slept = slept is not None and slept[i]
        found.append(Moment(at, left, sla.standing(left, rates, is_silent=is_silent, has_slept=has_slept)))
    return tuple(found)


def tally(found: Sequence[Moment], windows: Sequence[Window], since: float, until: float) -> Tally:
    """What is kept of [since, until), which ends with the last of these moments."""
    mine = [one for one in windows if since <= one.start < until]
    late = [one for one in mine if one.over]
    words = [one.standing for one in found]
    return Tally(
        requests=sum(one.requests for one in mine),
        over=sum(one.over for one in mine),
        minutes={word: words.count(word) for word in Standing},
        budget_left=found[-1].budget_left if found else None,
        worst=max(late, key=lambda one: (one.over, -one.start)) if late else None,
    )


class _Sums:
    """Requests and late ones of windows, summed over any time before each of some moments."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._starts: Floats = np.array([one.start for one in windows], dtype=np.float64)
        self._requests = _summed([one.requests for one in windows])
        self._over = _summed([one.over for one in windows])

    def over_the_last(self, seconds: float, ats: Floats, since: Floats | None) -> tuple[Ints, Ints]:
        """(requests, over), both of the shape of ats; only windows from `since` on."""
        begins = ats - seconds if since is None else np.maximum(ats - seconds, since)
        first = np.searchsorted(self._starts, begins, side="left")
        end = np.maximum(first, np.searchsorted(self._starts, ats - MINUTE, side="right"))
        return self._requests[end] - self._requests[first], self._over[end] - self._over[first]


def _summed(values: Sequence[int]) -> Ints:
    """The sum of the first 0, 1, ... values."""
    out: Ints = np.concatenate(([0], np.cumsum(np.array(values, dtype=np.int64))))
    return out


def _at(pair: tuple[Ints, Ints], place: int) -> tuple[int, int]:
    return int(pair[0][place]), int(pair[1][place])
