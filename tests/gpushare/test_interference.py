"""How much slower a tenant is beside others: the law, what is learned, and what is chosen by it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.interference import Interference, Load, choose, learned, slowdown, unlearned

PARTS = st.floats(0, 1)
LOADS = st.builds(Load, PARTS, PARTS, PARTS)
BUSY, LIGHT = Load(1.0, 0.5, 0.5), Load(0.1, 0.05, 0.05)


def drawn(draw: np.random.Generator, low: float = 0.0) -> Load:
    return Load(*draw.uniform(low, 1, 3).tolist())


def truth(weights: Sequence[float], own: Load, others: Sequence[Load]) -> float:
    return 1 + sum(
        w * part * sum(one[k] for one in others) for k, (w, part) in enumerate(zip(weights, own, strict=True))
    )


def taught(weights: Sequence[float], seed: int, count: int, noise: float) -> Interference:
    """After so many steps under the law, each measured with some noise."""
    draw, known = np.random.default_rng(seed), unlearned()
    for _ in range(count):
        own, others = drawn(draw), [drawn(draw) for _ in range(draw.integers(1, 4))]
        beside = truth(weights, own, others) * (1 + noise * draw.standard_normal())
        known = learned(known, own, others, 0.2, 0.2 * max(beside, 0.01))
    return known


def test_before_anything_is_measured_it_is_what_time_slices_do() -> None:
    assert slowdown(unlearned(), BUSY, [BUSY]).expected == pytest.approx(2)
    assert slowdown(unlearned(), BUSY, [BUSY, BUSY]).expected == pytest.approx(3)
    assert slowdown(unlearned(), BUSY, [LIGHT]).expected == pytest.approx(1.1)


@given(LOADS)
def test_alone_nothing_is_slower(own: Load) -> None:
    assert slowdown(taught((0.3, 0.6, 0.2), 0, 20, 0.05), own, []) == (1, 1, 1)


@pytest.mark.parametrize("seed", range(5, 10))
@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.2, 0.9, 0.4), (0.0, 0.3, 1.2)])
def test_the_weights_are_found_again(weights: tuple[float, float, float], seed: int) -> None:
    assert taught(weights, seed, 400, 0.1).weights == pytest.approx(weights, abs=0.15)


@pytest.mark.parametrize("count", [0, 5, 50, 500])
def test_nine_of_ten_true_slowdowns_lie_within_what_is_told(count: int) -> None:
    """Weights are drawn as the prior says that they are; at 500 measurements nearly all that is unsure is gone."""
    draw, hits, asked = np.random.default_rng(count + 5), 0, 0
    for seed in range(5, 65):
        weights = np.abs(np.array([1.0, 0.0, 0.0]) + 0.5 * draw.standard_normal(3)).tolist()
        known = taught(weights, seed, count, 0.05)
        for _ in range(5):
            own, other = drawn(draw), drawn(draw)
            told = slowdown(known, own, [other])
            hits += told.low <= truth(weights, own, [other]) <= told.high
            asked += 1
    assert hits / asked >= 0.85


def test_it_grows_surer_with_each_measurement() -> None:
    widths = [
        told.high - told.low
        for n in (0, 5, 50, 500)
        for told in [slowdown(taught((0.5,) * 3, 7, n, 0.05), BUSY, [BUSY])]
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 10


@given(st.permutations(range(6)))
def test_the_order_of_measurements_is_all_one(order: list[int]) -> None:
    draw = np.random.default_rng(3)
    steps = [(drawn(draw), [drawn(draw)], 1.0, 1.0 + draw.random()) for _ in range(6)]
    known, other = unlearned(), unlearned()
    for at, step in zip(order, steps, strict=True):
        known, other = learned(known, *step), learned(other, *steps[at])
    assert known.weights == pytest.approx(other.weights)
    assert known.noise == pytest.approx(other.noise)


@given(LOADS, st.lists(LOADS, max_size=4))
def test_the_expected_lies_between_the_bounds_and_none_is_faster_than_alone(own: Load, others: list[Load]) -> None:
    told = slowdown(taught((0.4, 0.4, 0.4), 5, 30, 0.1), own, others)
    assert 1 <= told.low <= told.expected <= told.high


def test_pairs_that_are_surely_bad_are_refused_and_good_ones_come_first() -> None:
    known = taught((1.0, 0.3, 0.3), 6, 300, 0.05)
    assert choose(known, BUSY, [[BUSY], [LIGHT], [], [LIGHT, LIGHT, LIGHT]], 1.25) == [2, 1]
    assert choose(known, BUSY, [[BUSY], [BUSY, LIGHT]], 1.25) == []


def test_a_newcomer_is_refused_also_for_the_sake_of_those_that_are_there() -> None:
    known = taught((1.0, 0.3, 0.3), 6, 300, 0.05)
    for tenants in ([LIGHT], [LIGHT, BUSY]):
        assert choose(known, BUSY, [tenants], 1.05) == []  # the light one would be slowed by a tenth


def test_what_is_not_known_well_enough_is_tried_after_what_is() -> None:
    doubtful, sure = [Load(0.4, 0.5, 0.5)], [Load(0.02, 0.0, 0.0)]
    assert choose(unlearned(), Load(0.5, 0.5, 0.5), [doubtful, sure], 1.25) == [1, 0]


@given(LOADS, st.lists(st.lists(LOADS, max_size=3), max_size=5), st.floats(1, 3))
def test_no_device_is_chosen_on_which_somebody_is_surely_slower_than_the_bound(
    newcomer: Load, devices: list[list[Load]], bound: float
) -> None:
    known = taught((0.6, 0.6, 0.2), 8, 60, 0.1)
    for number in choose(known, newcomer, devices, bound):
        tenants = devices[number]
        assert slowdown(known, newcomer, tenants).low <= bound
        for at, one in enumerate(tenants):
            assert slowdown(known, one, [*tenants[:at], *tenants[at + 1 :], newcomer]).low <= bound


@pytest.mark.parametrize(
    ("own", "alone", "beside", "told"),
    [
        (Load(1.5, 0, 0), 1.0, 1.0, "not 0 to 1"),
        (Load(float("nan"), 0, 0), 1.0, 1.0, "not 0 to 1"),
        (BUSY, 0.0, 1.0, "must be above 0"),
        (BUSY, 1.0, float("inf"), "must be above 0"),
    ],
)
def test_what_is_no_measurement_is_refused(own: Load, alone: float, beside: float, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        learned(unlearned(), own, [BUSY], alone, beside)
