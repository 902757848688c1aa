from dataclasses import replace

import pytest

from gpushare.gpu import WHOLE
from scheduler.cycle.schedule import schedule
from scheduler.model.demand import Demand
from scheduler.model.settings import Placement, Settings
from scheduler.model.snapshot import COMPUTE, Snapshot
from scheduler.model.workload import ResourceRequest
from scheduler.placement.forecast import forecast
from tests.scheduler.placement.fleets import share
from tests.worlds import moves, parse, place

WORTH, BEST, FIRST, FGD = (Settings(placement=placement) for placement in Placement)


def known(text, counts):
    """A world whose demand is known."""
    world = parse(text)
    return replace(world, demand=forecast(counts, world))


TWO_HOLES = """
    node a,b 2 gpus
    team red nominal 4
    r1 red training 1 running a:0
    r2 red notebook share 0.2 running a:1
    r3 red training 1 running b:0
    r4 red notebook share 0.5 running b:1
    n1 red notebook share 0.3 pending
"""


def test_a_share_goes_where_packable_capacity_says_once_demand_is_known():
    counts = {share(800): 60, share(300): 40}
    assert moves(schedule(known(TWO_HOLES, counts), WORTH)) == [place("n1", "b")]


def test_without_a_demand_places_are_best_fit():
    world = parse(TWO_HOLES)
    assert world.demand == Demand()
    assert schedule(world, WORTH) == schedule(world, BEST)
    assert schedule(world, FGD) == schedule(world, BEST)


def test_first_fit_needs_no_demand():
    assert moves(schedule(parse(TWO_HOLES), FIRST)) == [place("n1", "a")]


@pytest.mark.parametrize("settings", [WORTH, BEST, FIRST, FGD], ids=lambda settings: settings.placement)
def test_work_waits_for_the_first_node_also_when_demand_is_known(settings):
    """As a process finds a cluster of which it has seen no node yet, and that had work before."""
    world = parse("team red nominal 4\nt1 red training 1 pending")
    demand = known(TWO_HOLES, {share(800): 60, share(300): 40}).demand
    assert moves(schedule(replace(world, demand=demand), settings)) == []


@pytest.mark.parametrize("settings", [WORTH, BEST, FIRST, FGD], ids=lambda settings: settings.placement)
def test_every_scorer_places_all_that_fits_and_nothing_else(settings):
    world = known(
        """
        node a 4 gpus   cpu-node c
        node b 4 gpus model h100
        team red nominal 100
        s1 red inference 1 x 9 pending
        t1 red training 2 models h100 pending
        n1 red notebook share 0.5 pending
        c1 red training 0 cpu 4 pending
        """,
        {ResourceRequest(gpus=1): 60, ResourceRequest(gpus=2, models=("h100",)): 10},
    )
    decided = schedule(world, settings)
    after = world.after(decided)
    # The service takes all that is left of it; what the others find no place for waits.
    assert len(after.workloads["s1"].placement) == 8
    assert {w.id for w in after.workloads.values() if w.placement} == {"s1", "c1"}
    assert (after.columns.gpu[:, COMPUTE] <= WHOLE).all()


def test_work_without_gpus_goes_to_nodes_without_gpus_even_if_they_come_last():
    text = """
        node a 8 gpus cpu 64
        cpu-node c cpu 64
        team red nominal 8
        c1 red training 0 cpu 32 pending
    """
    counts = {ResourceRequest(gpus=1, cpu_milli=8000): 60, ResourceRequest(gpus=2, cpu_milli=16_000): 60}
    assert moves(schedule(known(text, counts), WORTH)) == [place("c1", "c")]


def test_replicas_of_a_service_leave_whole_nodes_whole():
    text = """
        node a,b,c 8 gpus
        team red nominal 24
        r1 red training 4 running b
        s1 red inference 1 x 3 pending
    """
    counts = {ResourceRequest(gpus=8): 50, ResourceRequest(gpus=1): 50}
    assert moves(schedule(known(text, counts), WORTH)) == [place("s1", "b", "b", "b")]


def test_a_worker_with_several_gpus_stays_within_one_nvlink_domain_if_it_can():
    text = """
        node a 4 gpus nvlink 2
        node b 4 gpus nvlink 2
        team red nominal 8
        r1 red training 1 running a:0
        r2 red training 1 running a:2
        t1 red training 2 pending
    """
    assert moves(schedule(known(text, {ResourceRequest(gpus=4): 60}), WORTH)) == [place("t1", "b")]


def test_a_gang_keeps_together_whatever_the_scorer():
    text = """
        node a,b 4 gpus
        team red nominal 8
        g1 red training 2 x 2 pending
    """
    assert moves(schedule(known(text, {ResourceRequest(gpus=1): 60}), WORTH)) == [place("g1", "a", "a")]


def test_what_is_kept_between_rounds_changes_no_decision():
    counts = {share(300): 60, share(800): 30, ResourceRequest(gpus=2): 10}
    world = known(TWO_HOLES, counts)
    for turn in range(4):
        parts = (world.inventory.nodes, world.teams, world.quotas, world.workloads.values())
        fresh = Snapshot.build(world.at, *parts, demand=world.demand)
        decided = schedule(world, WORTH)
        assert decided == schedule(fresh, WORTH)
        world = world.after(decided)
        gone = [w.id for w in world.workloads.values() if w.placement][:1]
        again = replace(parse(TWO_HOLES).workloads["n1"], id=f"n{turn + 2}", seq=20 + turn)
        world = world.replace(gone=gone, changed=(again,))
