"""The scaling curve of a training: what its model says of other numbers of workers, and how sure that is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import curve, packed
from autoscaler.throughput.observation import Observation

NOW = Allocation((2, 2), 4, 1, 2.0)


def seconds(workers: int) -> float:
    """Of a step: a fifth of a second of exchange for each doubling."""
    return 1.0 + 0.2 * math.log2(workers)


def seen(*counts: int, **more: float) -> tuple[Observation, ...]:
    return tuple(Observation(packed(NOW, count, 4), seconds(count), error=0.02, **more) for count in counts)


def test_before_a_step_was_seen_there_is_no_curve() -> None:
    assert curve((), NOW, (1, 2, 4), 4) == ()
    lent = tuple(Observation(NOW, 1.0, is_lent=True) for _ in range(2))
    assert curve(lent, NOW, (1, 2, 4), 4) == ()


def test_what_was_measured_stands_beside_and_lies_in_the_band() -> None:
    found = curve(seen(1, 2, 4, 8), NOW, (1, 2, 4, 8, 16), 4)
    assert [one.workers for one in found] == [1, 2, 4, 8, 16]
    now = next(one for one in found if one.workers == 4)
    assert (now.speed, now.low, now.high, now.measured) == (1.0, 1.0, 1.0, 1.0)
    for one in found[:-1]:
        truth = one.workers / seconds(one.workers) / (4 / seconds(4))
        assert one.measured == pytest.approx(truth)
        assert one.low * 0.97 <= truth <= one.high * 1.03
    assert found[-1].measured is None
    assert found[-1].high / found[-1].low > found[-2].high / found[-2].low, "what was not tried is less sure"


def test_what_was_not_seen_now_has_no_measured_ratio() -> None:
    found = curve(seen(2, 8), NOW, (2, 8), 4)
    assert [one.measured for one in found] == [None, None, None]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([(1, 8), (2, 8), (4, 4), (1, 3)]), st.integers(1, 40))
def test_workers_are_packed_whole_onto_as_few_nodes_as_hold_them(shape: tuple[int, int], workers: int) -> None:
    of_worker, of_node = shape
    now = Allocation((of_worker,), 1, 2, 4.0, servers=3, server_cpu=1.0)
    found = packed(now, workers, of_node)
    assert (found.total, found.of_worker, found.workers, found.batch, found.cpu) == (
        workers * of_worker, of_worker, workers, 2, 4.0,
    )  # fmt: skip
    if workers > 1:
        assert len(found.gpus) == -(-workers // max(1, of_node // of_worker))
        assert max(found.gpus) <= max(of_node, of_worker)
        assert found.servers == min(3, workers)


def test_a_worker_larger_than_a_node_has_a_node_of_its_own() -> None:
    assert packed(Allocation((4,), 1, 1), 3, 2).gpus == (4, 4, 4)


def test_the_curve_of_made_steps_is_monotone_where_they_are() -> None:
    rng = np.random.default_rng(2)
    noisy = tuple(
        Observation(one.allocation, one.step * float(np.exp(rng.normal(0, 0.02))), error=0.02)
        for one in seen(1, 2, 4, 8)
    )
    speeds = [one.speed for one in curve(noisy, NOW, (1, 2, 4, 8), 4)]
    assert speeds == sorted(speeds)
