"""How a service stands against its objective: attainment, error budget, burn rates, and one word for it.

The error budget is the part of requests that may be late or fail, 1 - availability. The burn rate is how many times
faster than evenly the budget is used: 1 uses it up exactly at the end of the window. None = not known.
Source: Site Reliability Workbook, chapter 5 (multiwindow, multi-burn-rate alerts); docs/objectives.md tells it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.metrics import Sample

LITTLE = 0.1  # part of the error budget left below which a service is at risk, however slowly it burns
RECENT_SECONDS = 3600.0  # over which the present burn rate is told
SILENT_SECONDS = 900.0  # without one measured request for so long, it is not known how a running service stands


@dataclass(frozen=True, slots=True)
class Alert:
    """A burn rate that counts when both spans (s) are above it: the long one is no blip, the short one is still so."""

    burn_rate: float
    long_seconds: float
    short_seconds: float


# Of a window of 28 days, 14.4x for an hour uses 2 % of the budget, 6x for six hours 5 %.
ALERTS = (Alert(14.4, RECENT_SECONDS, 300.0), Alert(6.0, 21_600.0, 1800.0))
SPANS = tuple(sorted({span for alert in ALERTS for span in (alert.long_seconds, alert.short_seconds)}))


class Standing(StrEnum):
    """How a service stands: a word for each state that needs another action."""

    MET = "met"
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


def standing(
    left: float | None, burn_rates: Mapping[float, float | None], *, is_silent: bool, has_slept: bool = False
) -> Standing:
    """One word, the first that applies of: violated, at risk, not known, met.

    left: part of the error budget left; burn_rates: by span in seconds, all of SPANS; is_silent: replicas are up, and
    no request of the last SILENT_SECONDS was measured; has_slept: in these it had no replica, as no request came
    (zero.py): then that nothing was measured is known, and nothing went wrong.
    """
    if left is None:
        return Standing.MET if has_slept else Standing.UNKNOWN
    if left < 0:
        return Standing.VIOLATED
    if left < LITTLE or any(_rings(alert, burn_rates) for alert in ALERTS):
        return Standing.AT_RISK
    return Standing.UNKNOWN if is_silent and not has_slept else Standing.MET


def _rings(alert: Alert, burn_rates: Mapping[float, float | None]) -> bool:
    rates = burn_rates[alert.long_seconds], burn_rates[alert.short_seconds]
    return all(rate is not None and rate > alert.burn_rate for rate in rates)
