"""Attainment, error budget and burn rate."""

import pytest

from autoscaler.metrics import Objective, Sample
from autoscaler.sla import Verdict, attained, burn_rate, standing

AT = 100_000.0
OBJECTIVE = Objective(p95_seconds=0.2, availability=0.99, window_seconds=86_400.0)


def minute(ago: float, over: int | None, requests: int | None = 1000) -> Sample:
    return Sample(AT - ago, 60.0, 2, None, None, requests=requests, over=over)


def test_attainment_counts_requests_not_minutes() -> None:
    samples = (minute(120, 10, 1000), minute(60, 0, 9000))
    assert attained(samples, AT, 3600.0) == pytest.approx(0.999)


def test_budget_left_is_what_the_late_requests_leave() -> None:
    samples = (minute(120, 5), minute(60, 0))  # 5 of 2000 late; 20 would use up the budget
    assert standing(samples, OBJECTIVE, AT).budget_left == pytest.approx(0.75)


def test_a_burn_rate_of_one_uses_the_budget_exactly() -> None:
    assert burn_rate((minute(60, 10),), OBJECTIVE, AT, 300.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ((minute(7000, 0, 100_000), minute(60, 0)), Verdict.HEALTHY),
        ((minute(7000, 0, 100_000), minute(1000, 80), minute(60, 80)), Verdict.AT_RISK),
        ((minute(7000, 0, 100_000), minute(60, 30)), Verdict.HEALTHY),  # burns 3 times too fast: not yet a risk
        ((minute(7000, 900, 10_000), minute(60, 0)), Verdict.VIOLATING),
        ((), Verdict.UNKNOWN),
        ((minute(7000, 0), minute(60, None)), Verdict.UNKNOWN),
        ((minute(7000, 0), minute(60, 0, 0)), Verdict.UNKNOWN),
    ],
)
def test_the_verdict(samples: tuple[Sample, ...], verdict: Verdict) -> None:
    assert standing(samples, OBJECTIVE, AT).verdict == verdict


def test_samples_outside_the_window_do_not_count() -> None:
    assert attained((minute(400, 1000), minute(60, 0), minute(-60, 1000)), AT, 300.0) == 1.0


def test_what_was_not_measured_is_not_known() -> None:
    unknown = standing((minute(60, None),), OBJECTIVE, AT)
    assert (unknown.attainment, unknown.budget_left, unknown.burn_short) == (None, None, None)


@pytest.mark.parametrize(("p95", "availability"), [(0.0, 0.99), (0.2, 1.0), (0.2, 0.0)])
def test_an_objective_that_cannot_be_is_refused(p95: float, availability: float) -> None:
    with pytest.raises(ValueError, match="objective"):
        Objective(p95, availability)
