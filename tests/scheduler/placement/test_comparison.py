"""Which of several flavors a workload takes, where the scorer compares them."""

from dataclasses import replace

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.settings import Placement, Settings
from scheduler.model.workload import ResourceRequest
from scheduler.placement.forecast import forecast
from tests.worlds import moves, parse, place

FOR_T4 = {
    ResourceRequest(gpus=1, models=("t4",)): 60,
    ResourceRequest(gpus=1): 40,
}  # most of what comes may use t4 only
TWO_MODELS = """
    node a 4 gpus model t4 memory 16000
    node b 4 gpus model h100 memory 80000
"""


def decided(text, counts, settings=None):
    """What a round decides once this demand is known."""
    world = parse(text)
    return moves(schedule(replace(world, demand=forecast(counts, world)), settings or Settings()))


@pytest.mark.parametrize("line", ["r1 red training 1 pending", "r1 red notebook share 0.5 pending"])
def test_work_that_may_use_any_model_leaves_the_scarce_one_though_it_is_smaller(line):
    assert decided(f"{TWO_MODELS} team red nominal 8\n{line}", FOR_T4) == [place("r1", "b")]


def test_the_order_of_the_models_asked_does_not_outweigh_the_score():
    text = f"{TWO_MODELS} team red nominal 8\nr1 red training 1 models t4,h100 pending"
    assert decided(text, FOR_T4) == [place("r1", "b")]


def test_a_gang_leaves_the_scarce_model_too():
    text = f"{TWO_MODELS} team red nominal 8\ng1 red training 1 x 2 pending"
    assert decided(text, FOR_T4) == [place("g1", "b", "b")]
    assert decided(text, FOR_T4, Settings(placement=Placement.FIRST_FIT)) == [place("g1", "a", "a")]


def test_a_gang_with_role_members_leaves_the_scarce_model_too():
    text = f"{TWO_MODELS} team red nominal 8\ng1 red training 1 x 2 role ps*1/cpu=1/gpus=1 pending"
    assert decided(text, FOR_T4) == [place("g1", "b", "b", "b")]


def test_a_gang_goes_where_the_most_of_its_workers_fit():
    text = f"{TWO_MODELS} team red nominal 8\nx red training 3 firm running b\ng1 red training 1 x 1..3 pending"
    assert decided(text, FOR_T4) == [place("g1", "a", "a", "a")]


def test_a_gang_that_says_how_close_goes_where_it_is_closest():
    text = """
        node a 4 gpus model t4 memory 16000
        node b,c 1 gpus model h100 memory 80000
        team red nominal 8
        g1 red training 1 x 2 {} pending
    """
    assert decided(text.format("prefer node"), FOR_T4) == [place("g1", "a", "a")]
    assert decided(text.format(""), FOR_T4) == [place("g1", "b", "c")]


@pytest.mark.parametrize("workers", ["", "x 2"])
def test_what_the_team_owns_goes_before_what_it_would_borrow(workers):
    text = f"{TWO_MODELS} team red\nquota red pool t4 nominal 4\nr1 red training 1 {workers} pending"
    count = 2 if workers else 1
    assert decided(text, FOR_T4) == [place("r1", *["a"] * count)]


def test_replicas_stay_within_the_quota_of_each_pool():
    text = f"""{TWO_MODELS}
        team red
        quota red pool t4 nominal 2 borrowing 0
        quota red pool h100 nominal 1 borrowing 0
        s1 red inference 1 x 4 pending
    """
    assert decided(text, FOR_T4) == [place("s1", "b", "a", "a")]


def test_models_of_one_pool_share_its_quota():
    text = """
        node a 4 gpus model t4 pool p memory 16000
        node b 4 gpus model h100 pool p memory 80000
        team red
        quota red pool p nominal 2 borrowing 0
        s1 red inference 1 x 4 pending
    """
    assert decided(text, FOR_T4) == [place("s1", "b", "b")]
