"""A change on trial is kept when it helped, and rolled back when it did not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.experiment.verdict import DEFAULT, Verdict, judge

STEPS = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0]


def after(factor: float, count: int = 12) -> list[float]:
    return [step * factor for step in (STEPS * 4)[:count]]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.8, Verdict.KEEP), (1.0, Verdict.ROLL_BACK), (1.1, Verdict.ROLL_BACK)]
)
def test_a_gain_is_kept_and_the_rest_is_rolled_back(factor: float, verdict: Verdict) -> None:
    assert judge(STEPS, after(factor)).verdict is verdict


def test_too_few_windows_decide_nothing() -> None:
    assert judge(STEPS, after(0.5, DEFAULT.fewest - 1)).verdict is Verdict.UNDECIDED
    assert judge(STEPS[:1], after(0.5)).verdict is Verdict.UNDECIDED


@given(st.lists(st.floats(0.1, 10.0), min_size=40, max_size=60))
def test_a_trial_ends(times: list[float]) -> None:
    assert judge(STEPS, times).verdict is not Verdict.UNDECIDED
