"""Attainment, error budget, burn rate, and the word for them."""

import pytest

from autoscaler.metrics import Objective, Sample
from autoscaler.sla import Standing, attained, attainment, budget_left, burn_rate, standing

AT = 100_000.0


def minute(ago: float, over: int | None, requests: int | None = 1000) -> Sample:
    return Sample(AT - ago, 60.0, 2, None, None, requests=requests, over=over)


def test_attainment_counts_requests_not_minutes() -> None:
    samples = (minute(120, 10, 1000), minute(60, 0, 9000))
    assert attained(samples, AT, 3600.0) == pytest.approx(0.999)


def test_samples_outside_the_window_do_not_count() -> None:
    assert attained((minute(400, 1000), minute(60, 0), minute(-60, 1000)), AT, 300.0) == 1.0


def test_budget_left_is_what_the_late_requests_leave() -> None:
    assert budget_left(2000, 5, 0.99) == pytest.approx(0.75)  # 20 would use it up
    assert budget_left(2000, 30, 0.99) == pytest.approx(-0.5)


def test_a_burn_rate_of_one_uses_the_budget_exactly() -> None:
    assert burn_rate(1000, 10, 0.99) == pytest.approx(1.0)


def test_without_requests_nothing_is_known() -> None:
    assert (attainment(0, 0), budget_left(0, 0, 0.99), burn_rate(0, 0, 0.99)) == (None, None, None)
    assert attained((minute(60, None), minute(30, 0, 0)), AT, 300.0) is None


@pytest.mark.parametrize(
    ("left", "burn", "word"),
    [
        (None, None, Standing.UNKNOWN),
        (None, 9.0, Standing.UNKNOWN),
        (1.0, None, Standing.OK),
        (0.25, 4.0, Standing.OK),  # the edges of both thresholds
        (0.24, None, Standing.AT_RISK),
        (1.0, 4.1, Standing.AT_RISK),
        (0.0, 0.0, Standing.AT_RISK),
        (-0.01, None, Standing.VIOLATED),
    ],
)
def test_the_word_for_it(left: float | None, burn: float | None, word: Standing) -> None:
    assert standing(left, burn) is word


@pytest.mark.parametrize(("p95", "availability"), [(0.0, 0.99), (0.2, 1.0), (0.2, 0.0)])
def test_an_objective_that_cannot_be_is_refused(p95: float, availability: float) -> None:
    with pytest.raises(ValueError, match="objective"):
        Objective(p95, availability)
