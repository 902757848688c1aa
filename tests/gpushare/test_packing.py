"""Best fit of shares and whole GPUs on the devices of a cluster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Share
from gpushare.packing import COMPUTE, MEMORY, best_device, shares_that_fit, take_whole


def devices(*free: tuple[int, int]) -> np.ndarray:
    return np.array(free, dtype=np.int64).T.copy()


def best(
    free: np.ndarray, share: Share, fresh: list[int] | None = None, allowed: list[bool] | None = None
) -> int | None:
    count = free.shape[1]
    return best_device(free, share, np.array(allowed or [True] * count), np.array(fresh or [0] * count))


def test_a_share_goes_where_the_least_is_left() -> None:
    assert best(devices((800, 16000), (300, 16000), (400, 16000)), Share(300, 1000, 1000)) == 1


def test_a_shared_gpu_comes_before_a_fresh_one() -> None:
    assert best(devices((1000, 16000), (900, 16000)), Share(500, 1000, 0)) == 1


def test_a_fresh_gpu_is_opened_only_when_no_shared_one_fits() -> None:
    assert best(devices((400, 16000), (1000, 16000)), Share(500, 1000, 0)) == 1


def test_the_fresh_gpu_is_taken_where_few_are_idle() -> None:
    assert best(devices((1000, 16000), (1000, 16000)), Share(500, 1000, 0), fresh=[8, 2]) == 1


def test_memory_is_a_hard_limit() -> None:
    assert best(devices((600, 2000), (1000, 16000)), Share(500, 1000, 4000)) == 1
    assert best(devices((600, 2000)), Share(500, 1000, 4000)) is None


def test_equal_compute_left_goes_to_less_memory_then_the_lower_index() -> None:
    assert best(devices((500, 9000), (500, 5000), (500, 5000)), Share(500, 500, 4000)) == 1


def test_a_lost_gpu_takes_no_share() -> None:
    assert best(devices((0, 0)), Share(1, 1, 0)) is None
    assert shares_that_fit(devices((0, 0), (-300, -1)), Share(100, 100, 100)).tolist() == [0, 0]


def test_a_gpu_that_holds_more_memory_than_it_has_takes_no_share_at_all() -> None:
    assert best(devices((600, -2000)), Share(100, 1000, 0)) is None
    assert shares_that_fit(devices((600, -2000)), Share(100, 1000, 0)).tolist() == [0]


def test_a_gpu_that_is_not_allowed_takes_no_share() -> None:
    assert best(devices((500, 100), (1000, 100)), Share(500, 500, 0), allowed=[False, True]) == 1


def test_shares_are_counted_by_compute_and_by_memory() -> None:
    assert shares_that_fit(devices((1000, 16000), (1000, 5000)), Share(300, 1000, 2000)).tolist() == [3, 2]


def test_whole_gpus_come_from_the_smallest_nvlink_domain_that_holds_them() -> None:
    idle = np.array([0, 1, 2, 4, 5])
    assert take_whole(idle, np.array([0, 0, 0, 1, 1]), 2) == (4, 5)


def test_whole_gpus_span_as_few_domains_as_can_be() -> None:
    idle = np.array([0, 1, 2, 4, 5, 7])
    assert take_whole(idle, np.array([0, 0, 0, 1, 1, 2]), 4) == (0, 1, 2, 7)


def test_where_no_domain_holds_all_the_largest_comes_first() -> None:
    assert take_whole([0, 1, 2, 3, 4, 5], [0, 1, 1, 2, 2, 2], 5) == (1, 2, 3, 4, 5)


def test_too_few_idle_gpus_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 whole GPUs wanted, 1 idle"):
        take_whole(np.array([3]), np.array([0]), 2)


def test_a_share_must_be_guaranteed_more_than_nothing_and_at_most_a_gpu() -> None:
    for wrong in ((0, 10, 0), (500, 400, 0), (10, 1001, 0)):
        with pytest.raises(ValueError, match="share: need"):
            Share(*wrong)
    with pytest.raises(ValueError, match="memory is -1"):
        Share(1, 1, -1)


@given(
    st.lists(st.tuples(st.integers(-WHOLE, WHOLE), st.integers(-5000, 16000)), min_size=1, max_size=6),
    st.integers(1, WHOLE),
    st.integers(0, 16000),
)
def test_packing_is_exact_whatever_is_free(free: list[tuple[int, int]], milli: int, memory: int) -> None:
    """As many shares as are counted fit one after the other, no more, and no device goes below zero."""
    left, share = devices(*free), Share(milli, WHOLE, memory)
    count = int(shares_that_fit(left, share).sum())
    for _ in range(count):
        device = best(left, share)
        assert device is not None
        left[COMPUTE, device] -= milli
        left[MEMORY, device] -= memory
    assert (left >= np.minimum(devices(*free), 0)).all()
    assert best(left, share) is None
