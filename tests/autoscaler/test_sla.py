"""Attainment, error budget, burn rate, and the word for them."""

import pytest

from autoscaler.metrics import Objective, Sample
from autoscaler.sla import SPANS, Standing, attained, attainment, budget_left, burn_rate, standing

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


def stands(left: float | None, *, silent: bool = False, **rates: float) -> Standing:
    """The word for what is left and these burn rates, by span: m5, m30, h1, h6; 0 where none is given."""
    spans = {"m5": 300.0, "m30": 1800.0, "h1": 3600.0, "h6": 21_600.0}
    return standing(left, {seconds: rates.get(span, 0.0) for span, seconds in spans.items()}, is_silent=silent)


def test_the_spans_are_those_of_the_two_alerts() -> None:
    assert SPANS == (300.0, 1800.0, 3600.0, 21_600.0)


@pytest.mark.parametrize(
    ("word", "left", "rates"),
    [
        (Standing.MET, 1.0, {}),
        (Standing.MET, 0.1, {"h1": 14.4, "m5": 14.4, "h6": 6.0, "m30": 6.0}),  # the edges of all thresholds
        (Standing.AT_RISK, 0.0999, {}),
        (Standing.AT_RISK, 1.0, {"h1": 14.5, "m5": 14.5}),
        (Standing.MET, 1.0, {"h1": 99.0, "m5": 14.4}),  # it was so, and is over
        (Standing.MET, 1.0, {"h1": 14.4, "m5": 99.0}),  # a blip
        (Standing.AT_RISK, 1.0, {"h6": 6.1, "m30": 6.1}),
        (Standing.MET, 1.0, {"h6": 6.1, "m30": 6.0}),
        (Standing.AT_RISK, 0.0, {}),  # used up exactly
        (Standing.VIOLATED, -0.001, {}),
        (Standing.VIOLATED, -66.0, {"h1": 67.0, "m5": 67.0}),
        (Standing.UNKNOWN, None, {"h1": 99.0, "m5": 99.0}),
    ],
)
def test_the_word_for_it(word: Standing, left: float | None, rates: dict[str, float]) -> None:
    assert stands(left, **rates) is word


def test_a_service_that_is_up_and_measured_by_nothing_is_not_known_unless_it_is_in_trouble() -> None:
    assert stands(1.0, silent=True) is Standing.UNKNOWN
    assert stands(0.05, silent=True) is Standing.AT_RISK
    assert stands(-0.05, silent=True) is Standing.VIOLATED


def test_a_burn_rate_that_is_not_known_is_no_alarm() -> None:
    assert standing(0.5, dict.fromkeys(SPANS), is_silent=False) is Standing.MET


@pytest.mark.parametrize(("p95", "availability"), [(0.0, 0.99), (0.2, 1.0), (0.2, 0.0)])
def test_an_objective_that_cannot_be_is_refused(p95: float, availability: float) -> None:
    with pytest.raises(ValueError, match="objective"):
        Objective(p95, availability)
