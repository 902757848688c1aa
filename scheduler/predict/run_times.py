"""When running work is expected to end: from what its user said or from history, given how long it runs already.

A running time is a distribution, known at `history.LEVELS`. Work that outlives all of it is expected to run once more
as long as it has (the tail of a heavy-tailed distribution, Pareto with index 1), so an estimate that was wrong grows,
and only a logarithmic number of times.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from scheduler.model.history import LEVELS, STEPS, History, Values
from scheduler.model.settings import Settings
from scheduler.model.workload import Kind, Workload

LOW, MEDIAN, HIGH, ALL = 0.1, 0.5, 0.9, 1.0
_MIDDLE = STEPS // 2
_GROWS = 1.05  # an estimate that has passed grows at least so much: a loop that ends
_TOP = 0.95  # levels above this of an unbounded tail say nothing


@dataclass(frozen=True, slots=True)
class Spread:
    """A time with its uncertainty: one in ten is below `low`, half are below `median`, nine in ten below `high`."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long something runs in all: `scale` times one of `values`, which are at LEVELS, and no more than `most`."""

    scale: float
    values: Values
    most: float = math.inf  # s, where no run of its group ever got: users who fear to be stopped say far too much

    @property
    def median(self) -> float:
        """Seconds that half of all runs exceed."""
        return min(self.most, self.scale * self.values[_MIDDLE])

    def given(self, ran: float, level: float) -> float:
        """The running time, of all that run longer than `ran`, that this part of them does not exceed."""
        if not self.scale:
            return ran
        if ran >= self.most:
            return ran / (1.0 - min(level, _TOP))
        return min(self.most, self.scale * _given(self.values, ran / self.scale, level))


ENDLESS = RunTime(1.0, (math.inf,) * len(LEVELS))


def run_time(workload: Workload, history: History, settings: Settings) -> RunTime:
    """How long the workload runs in all; endless for a service, which is not expected to end."""
    if workload.kind is Kind.INFERENCE:
        return ENDLESS
    known = history.run_seconds(workload.kind, workload.team, workload.whole_milli)
    expected = workload.expected_seconds
    if expected is None:
        return RunTime(1.0, known) if known else RunTime(settings.run_seconds, _guessed(settings.run_margin))
    ratios = history.ratios or _guessed(settings.estimate_margin)
    return RunTime(expected, ratios, known[-1] if known else math.inf)


def age(workload: Workload, at: float) -> float:
    """Seconds it has run so far, earlier attempts included."""
    milli = workload.whole_milli
    before = workload.attained / milli if milli else 0.0
    return before + (0.0 if workload.started_at is None else max(0.0, at - workload.started_at))


def expected_end(workload: Workload, at: float, history: History, settings: Settings) -> Spread:
    """When it is expected to end if it runs from now on without a break; inf for what does not end by itself."""
    run, ran = run_time(workload, history, settings), age(workload, at)
    low, median, high = (at - ran + run.given(ran, level) for level in (LOW, MEDIAN, HIGH))
    return Spread(low, median, high)


def left(workload: Workload, at: float, history: History, settings: Settings) -> tuple[float, float]:
    """Seconds for which it runs on at most: in nine of ten cases, and as far as is known."""
    run, ran = run_time(workload, history, settings), age(workload, at)
    return run.given(ran, HIGH) - ran, run.given(ran, ALL) - ran


def planned_total(run: RunTime, ran: float) -> float:
    """The running time in all as rounds plan with it: it moves only when it has passed, not with every second.

    So the head of the queue keeps its nodes as long as nothing happened.
    """
    return _beyond(run, _totals(run), ran)


class Course(NamedTuple):
    """One workload's run as rounds plan with it: what stays the same as long as it runs."""

    workload: Workload
    began: float  # when it would have begun without a break
    run: RunTime
    totals: list[float]


class RunTimes:
    """What one history and the settings say of running times, remembered by workload (scheduler/state/memo.py).

    The same rounds ask in each round, and the answer stays as long as the history and the workload do.
    """

    def __init__(self, history: History, settings: Settings) -> None:
        self.history, self.settings = history, settings
        self._courses: dict[str, Course] = {}
        self._left: dict[str, tuple[Workload, tuple[float, float]]] = {}

    def holds_for(self, history: History, settings: Settings) -> bool:
        """Whether what was worked out is right for this history under these settings."""
        return self.history is history and _rules(self.settings) == _rules(settings)

    def planned_end(self, workload: Workload, at: float) -> tuple[float, float]:
        """When rounds expect it to end, and how long it then ran in all (as expected, or so far)."""
        history, settings = self.history, self.settings
        if workload.started_at is None or at < workload.started_at:
            run, ran = run_time(workload, history, settings), age(workload, at)
            return at - ran + planned_total(run, ran), max(ran, run.median)
        known = self._courses.get(workload.id)
        if known is None or known.workload is not workload:
            run, began = run_time(workload, history, settings), workload.started_at - age(workload, workload.started_at)
            known = self._courses[workload.id] = Course(workload, began, run, _totals(run))
        ran = at - known.began
        return known.began + _beyond(known.run, known.totals, ran), max(ran, known.run.median)

    def left(self, workload: Workload, at: float) -> tuple[float, float]:
        """`left` of the workload, remembered for what has not started."""
        known = self._left.get(workload.id)
        if known is None or known[0] is not workload:
            known = workload, left(workload, at, self.history, self.settings)
            if workload.started_at is None:
                self._left[workload.id] = known
        return known[1]


def runs_alike(one: Workload, other: Workload) -> bool:
    """Whether two states of a workload run on as long, for all that is known."""
    said = (one.attained, one.expected_seconds, one.kind, one.team, one.started_at, one.whole_milli)
    return said == (
        *(other.attained, other.expected_seconds, other.kind, other.team, other.started_at, other.whole_milli),
    )


def _rules(settings: Settings) -> tuple[float, ...]:
    """The settings on which running times depend."""
    return settings.run_seconds, settings.run_margin, settings.estimate_margin


def _beyond(run: RunTime, totals: list[float], ran: float) -> float:
    while (last := totals[-1]) <= ran:
        totals.append(max(run.given(last, MEDIAN), 1.0, _GROWS * last))
    return totals[bisect_right(totals, ran)]


@lru_cache(maxsize=4096)
def _totals(run: RunTime) -> list[float]:
    """What rounds plan with one after the other, ascending, as far as was requested: it depends on nothing else."""
    return [run.median]


def _given(values: Values, ran: float, level: float) -> float:
    if ran >= values[-1]:
        return ran / (1.0 - min(level, _TOP))
    passed = _level_of(values, ran)
    return max(ran, _value_at(values, passed + level * (1.0 - passed)))


def _level_of(values: Values, seconds: float) -> float:
    """Which part of all is at most so long; 0 below the first value."""
    high = bisect_right(values, seconds)
    if high == 0:
        return 0.0
    below, above = values[high - 1], values[high]
    return (high - 1 + (seconds - below) / (above - below)) / STEPS


def _value_at(values: Values, level: float) -> float:
    """The value at a level from 0 to 1, linear between the known ones."""
    place = level * STEPS
    low = min(int(place), STEPS - 1)
    below, above = values[low], values[low + 1]
    return below if below == above else below + (above - below) * (place - low)


@cache
def _guessed(margin: float) -> Values:
    """Ratios around 1 of which one in ten is below 1 / margin and one in ten above margin (log-linear)."""
    return tuple(max(1.0, margin) ** ((level - MEDIAN) / (HIGH - MEDIAN)) for level in LEVELS)
