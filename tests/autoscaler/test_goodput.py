"""How much of an example's work counts with a larger batch, by the noise of the gradients."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import curve, packed
from autoscaler.throughput.goodput import Gradients, seen
from autoscaler.throughput.observation import Observation

NOW = Allocation((1,), 1, 1)
SEEN = tuple(Observation(packed(NOW, count, 8), 1.0 + 0.1 * count, error=0.02) for count in (1, 2, 4))
sizes = st.floats(1.0, 1e6)


def test_as_much_noise_as_the_batch_makes_twice_the_batch_count_for_two_thirds() -> None:
    assert Gradients(noise=64, batch=64).efficiency(128) == pytest.approx(2 / 3)


@given(sizes, sizes, sizes, sizes)
def test_a_larger_batch_counts_less_and_never_so_little_that_it_teaches_less(
    noise: float, batch: float, one: float, other: float
) -> None:
    gradients, less, more = Gradients(noise, batch), min(one, other), max(one, other)
    assert gradients.efficiency(batch) == 1.0
    assert gradients.efficiency(more) <= gradients.efficiency(less)
    assert more * gradients.efficiency(more) >= less * gradients.efficiency(less) * (1 - 1e-9)


@given(sizes, st.integers(1, 4096), st.integers(1, 4096))
def test_it_is_the_efficiency_of_a_change_of_the_batch(noise: float, batch: int, other: int) -> None:
    squared, variance, scale = 1.0, noise / batch, other / batch  # of the gradients with this batch; Pollux' equation
    of_change = (variance + squared) / (variance / scale + squared) / scale
    assert Gradients(noise, batch).efficiency(other) == pytest.approx(of_change)


def test_a_curve_has_goodput_where_the_noise_is_known() -> None:
    assert [one.goodput for one in curve(SEEN, NOW, (1, 2, 4), 8)] == [None] * 3
    quiet, loud = (
        [one.goodput for one in curve(SEEN, NOW, (1, 2, 4), 8, Gradients(noise, 32))] for noise in (3.2, 3.2e6)
    )
    speeds = [one.speed for one in curve(SEEN, NOW, (1, 2, 4), 8)]
    assert loud == pytest.approx(speeds, rel=1e-3)
    assert quiet[0] == 1.0
    assert quiet[2] is not None and quiet[2] < 1.0 < speeds[2], "four workers do more, and it teaches less"


def test_what_is_not_told_leaves_what_was_known_and_one_look_changes_it_by_a_fifth() -> None:
    known = seen(None, 100.0, 32.0)
    assert known == Gradients(100.0, 32.0)
    for noise, batch in ((None, 32.0), (50.0, None), (0.0, 32.0), (-1.0, -1.0), (math.inf, 1.0), (math.nan, 1.0)):
        assert seen(known, noise, batch) == known
    later = seen(known, 3200.0, 32.0)
    assert later is not None
    assert later.noise == pytest.approx(200.0)
