"""What a restart of a training costs is learned from those that were seen: by their middle, within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.reallocate.restarts import BEGIN, FEW, LEAVE, NEWEST, Restart, learned

TIMES = st.floats(0.0, 1e6)
RESTARTS = st.builds(Restart, st.none() | TIMES, TIMES)


def of(*begins: float, leave: float | None = 20.0) -> list[Restart]:
    return [Restart(leave, begin) for begin in begins]


def test_before_any_was_seen_it_is_taken_to_cost_two_minutes() -> None:
    found = learned([])
    assert found.seconds == pytest.approx(120.0)
    assert (found.own, found.lent) == (0, 0)


def test_after_a_few_it_is_what_they_took() -> None:
    assert learned(of(10, 10)).begin == pytest.approx(10.0)
    assert learned(of(9, 10, 11)).begin == pytest.approx(110**0.5)  # between 10 and 11: the start value counts as one
    assert learned(of(10, 10, leave=5.0)).leave == pytest.approx(5.0)


def test_one_alone_moves_it_half_the_way_and_an_outlier_among_several_hardly() -> None:
    assert learned(of(1e9)).begin == pytest.approx((100.0 * BEGIN.most) ** 0.5)
    assert learned(of(25)).begin == pytest.approx(50.0)
    without, with_one = learned(of(10, 10, 10, 10)), learned(of(1e9, 10, 10, 10, 10))
    assert with_one.begin == pytest.approx(without.begin)


def test_one_that_was_not_told_to_leave_says_nothing_of_how_long_leaving_takes() -> None:
    found = learned(of(10, 10, 10, leave=None))
    assert found.leave == pytest.approx(LEAVE.start)
    assert found.begin == pytest.approx(10.0)


def test_those_of_others_count_until_it_has_a_few_of_its_own() -> None:
    lent = of(*[30.0] * 9)
    few = learned(of(10), lent)
    assert (few.own, few.lent) == (1, NEWEST - 1)
    assert few.begin == pytest.approx(30.0)
    own = learned(of(*[10.0] * FEW), lent)
    assert (own.own, own.lent) == (FEW, 0)
    assert own.begin == pytest.approx(10.0)


def test_only_the_newest_count() -> None:
    assert learned(of(*[10.0] * NEWEST, *[1000.0] * 20)).begin == pytest.approx(10.0)


@given(own=st.lists(RESTARTS, max_size=8), lent=st.lists(RESTARTS, max_size=8))
def test_whatever_was_seen_each_part_stays_within_its_bounds(own: list[Restart], lent: list[Restart]) -> None:
    found = learned(own, lent)
    assert LEAVE.least * 0.999 <= found.leave <= LEAVE.most * 1.001
    assert BEGIN.least * 0.999 <= found.begin <= BEGIN.most * 1.001
    assert found.own + found.lent <= NEWEST


@given(usual=st.floats(10.0, 600.0), outlier=TIMES)
def test_with_three_alike_an_outlier_moves_it_no_further_than_between_them_and_the_start(
    usual: float, outlier: float
) -> None:
    found = learned(of(outlier, usual, usual, usual)).begin
    assert found == pytest.approx(usual)
