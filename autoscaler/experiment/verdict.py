"""A change on trial: was the training faster after it? A sequential test on the log of its speed, window by window.

The test is Wald's (1945) for no gain against `gain`, on the difference of the means before and after. Windows are
correlated, so the variance is that of an AR(1) process; the mean before the change is an estimate too, so its error
counts. What stays undecided is kept only if the gain is sure to be above zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What becomes of a change."""

    UNDECIDED = "undecided"
    KEEP = "keep"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a trial asks for. Counts are windows."""

    before: int = 12
    fewest: int = 4
    most: int = 40
    gain: float = math.log(1.05)  # of the log speed
    alpha: float = 0.01  # a change without gain is kept
    beta: float = 0.05  # a change with this gain is rolled back
    sure: float = 2.33  # standard errors above zero for what stayed undecided: 1 %, one-sided
    correlation: float = 0.5  # what windows have, until they were seen
    weight: float = 20.0  # windows that this expectation counts for


DEFAULT = Terms()


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of a trial. gain and error: of the log speed."""

    verdict: Verdict
    gain: float = 0.0
    error: float = math.inf


def judge(before: Sequence[float], after: Sequence[float], terms: Terms = DEFAULT) -> Judged:
    """Judge a change by the step times before and after it, seconds, oldest first."""
    base = [-math.log(one) for one in before]
    now = [-math.log(one) for one in after[: terms.most]]
    if len(base) < 2 or len(now) < terms.fewest:
        return Judged(Verdict.UNDECIDED)
    gain = _mean(now) - _mean(base)
    error = math.sqrt(_variance(base, now, terms) * (1 / len(base) + 1 / len(now)))
    ratio = (terms.gain * gain - terms.gain**2 / 2) / error**2
    if ratio >= math.log((1 - terms.beta) / terms.alpha):
        return Judged(Verdict.KEEP, gain, error)
    if ratio <= math.log(terms.beta / (1 - terms.alpha)):
        return Judged(Verdict.ROLL_BACK, gain, error)
    if len(now) < terms.most:
        return Judged(Verdict.UNDECIDED, gain, error)
    is_sure = gain - terms.sure * error > 0
    return Judged(Verdict.KEEP if is_sure else Verdict.ROLL_BACK, gain, error)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(base: Sequence[float], now: Sequence[float], terms: Terms) -> float:
    """The variance of one window, times what their correlation adds to that of a mean."""
    rests = [[one - _mean(part) for one in part] for part in (base, now)]
    count = len(base) + len(now) - 2
    variance = max(sum(rest * rest for part in rests for rest in part) / count, 1e-8)
    products = [one * other for part in rests for one, other in zip(part, part[1:], strict=False)]
    seen = sum(products) / len(products) / variance
    part = len(products) / (len(products) + terms.weight)
    correlation = min(max(part * seen + (1 - part) * terms.correlation, 0.0), 0.9)
    return variance * (1 + correlation) / (1 - correlation)
