"""How a service stands against its objective: attainment, error budget, burn rate, and one word for it.

The error budget is the part of requests that may be late or fail, 1 - availability. The burn rate is how many times
faster than evenly the budget is used: 1 uses it up exactly at the end of the window. None = not known.
Source: Site Reliability Workbook, chapter 5 (burn rates); the thresholds are ours.
"""

from collections.abc import Sequence
from enum import StrEnum

from autoscaler.metrics import Sample

AT_RISK = 0.25  # part of the error budget left at which people want to know
RECENT_SECONDS = 3600.0  # over which the present burn rate is told


class Standing(StrEnum):
    """How a service stands: a word for each state that needs another action."""

    OK = "ok"
    AT_RISK = "at risk"
    VIOLATED = "violated"
    UNKNOWN = "not known"


def attained(samples: Sequence[Sample], at: float, seconds: float) -> float | None:
    """The part of the last seconds' requests within the objective, 0..1."""
    known = [s for s in samples if at - seconds < s.at <= at and s.requests and s.over is not None]
    return attainment(sum(s.requests or 0 for s in known), sum(s.over or 0 for s in known))


def attainment(requests: int, over: int) -> float | None:
    """The part of these requests that met the objective, 0..1; `over` were late or failed."""
    return 1 - over / requests if requests else None


def budget_left(requests: int, over: int, availability: float) -> float | None:
    """The part of the error budget that is left; below 0 when more went wrong than may."""
    return 1 - over / (requests * (1 - availability)) if requests else None


def burn_rate(requests: int, over: int, availability: float) -> float | None:
    """How many times faster than evenly these requests used the budget."""
    return over / requests / (1 - availability) if requests else None


def standing(left: float | None, recent_burn: float | None) -> Standing:
    """One word: at risk when little of the budget is left, or when it is used so fast that little will be left soon."""
    if left is None:
        return Standing.UNKNOWN
    if left < 0:
        return Standing.VIOLATED
    is_burning = recent_burn is not None and recent_burn > 1 / AT_RISK
    return Standing.AT_RISK if left < AT_RISK or is_burning else Standing.OK
