"""How a service stands against its objective: attainment, error budget, burn rate.

The error budget is the part of requests that may be late or fail, 1 - availability. The burn rate is how many times
faster than evenly the budget is used: 1 uses it up exactly at the end of the window.
Source: Site Reliability Workbook, chapter 5 (multi-window burn rates); thresholds are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.metrics import Objective, Sample

SHORT_SECONDS, LONG_SECONDS = 300.0, 3600.0
AT_RISK_BURN = 6.0  # both windows: the month's budget would be gone in five days


class Verdict(StrEnum):
    """A service's standing in one word."""

    HEALTHY = "Healthy"
    AT_RISK = "AtRisk"
    VIOLATING = "Violating"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a service stands. Parts are 0..1; budget_left is below 0 when it is overdrawn; None = not known."""

    verdict: Verdict
    attainment: float | None
    budget_left: float | None
    burn_short: float | None
    burn_long: float | None


def standing(samples: Sequence[Sample], objective: Objective, at: float) -> Standing:
    """The standing at this time; samples outside the objective's window do not count."""
    attainment = attained(samples, at, objective.window_seconds)
    short = burn_rate(samples, objective, at, SHORT_SECONDS)
    long = burn_rate(samples, objective, at, LONG_SECONDS)
    left = None if attainment is None else 1.0 - (1.0 - attainment) / (1.0 - objective.availability)
    return Standing(_verdict(left, short, long), attainment, left, short, long)


def attained(samples: Sequence[Sample], at: float, seconds: float) -> float | None:
    """The part of the last seconds' requests within the objective. None when no request was measured."""
    known = [s for s in samples if at - seconds < s.at <= at and s.requests and s.over is not None]
    requests = sum(s.requests or 0 for s in known)
    return 1.0 - sum(s.over or 0 for s in known) / requests if requests else None


def burn_rate(samples: Sequence[Sample], objective: Objective, at: float, seconds: float) -> float | None:
    """How fast the error budget was used over the last seconds; None when nothing was measured."""
    attainment = attained(samples, at, seconds)
    return None if attainment is None else (1.0 - attainment) / (1.0 - objective.availability)


def _verdict(left: float | None, short: float | None, long: float | None) -> Verdict:
    if left is None or short is None:
        return Verdict.UNKNOWN
    if left < 0:
        return Verdict.VIOLATING
    if short >= AT_RISK_BURN and (long or 0.0) >= AT_RISK_BURN:
        return Verdict.AT_RISK
    return Verdict.HEALTHY
