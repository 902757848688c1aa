"""What was asked for of late: counted seldom, kept with the rounds, and enough to decide again."""

import json
import zlib

import pytest

from controlplane.benchmarks.scheduling.podrounds import Rounds
from controlplane.domain.cycle import demand_of_text, demand_text, rebuild, unpack
from controlplane.domain.policy import Policy, PolicyError
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import NodePool, Quota, Team
from controlplane.queries.scheduling.demand import asked_of_late
from controlplane.queries.scheduling.snapshot import full
from gpushare.gpu import Share
from scheduler.model.demand import Demand, Shape
from scheduler.model.settings import Placement
from scheduler.model.workload import ResourceRequest
from scheduler.placement.forecast import ENOUGH
from tests.controlplane.state import World


@pytest.fixture
def world(db) -> World:
    world = World()
    for team in Team.objects.all():
        Quota.objects.create(team=team, pool=NodePool.objects.get(), nominal=8000)
    return world


def test_demand_is_known_once_enough_work_with_gpus_was_submitted(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    inputs = [keeper.take(lease, world.cluster.at).changed.pack()]
    for number in range(ENOUGH - 1):
        world.submit(f"job-{number}", gpus=1 + number % 2, workers=1)
    taken = keeper.take(lease, world.cluster.at)
    inputs.append(taken.changed.pack())
    assert taken.snapshot.demand == Demand()
    world.submit("last", gpus=2)
    taken = keeper.take(lease, world.cluster.at)
    inputs.append(taken.changed.pack())
    counts = {shape.ask.gpus: shape.count for shape in taken.snapshot.demand.shapes}
    assert sum(counts.values()) == ENOUGH
    assert counts[1] == ENOUGH // 2
    assert taken.snapshot.demand == full(world.cluster.at).demand
    assert rebuild(inputs).demand == taken.snapshot.demand
    world.submit("one-more", gpus=2)
    again = keeper.take(lease, world.cluster.at)
    assert again.changed.demand is None
    assert again.snapshot.demand == taken.snapshot.demand


def test_the_benchmark_counts_demand_with_the_same_submissions_as_the_loop(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    rounds = Rounds(keeper.take(lease, world.cluster.at).snapshot.inventory.nodes)
    counted = []
    for together in (ENOUGH - 1, 1, 1, ENOUGH - 2, 1, 1):
        for number in range(together):
            world.submit(f"job-{len(counted)}-{number}", gpus=1, workers=1)
        rounds.place([ResourceRequest(gpus=1)] * together)
        counted.append((keeper.take(lease, world.cluster.at).snapshot.demand.count, rounds.snapshot.demand.count))
    assert counted == [(0, 0), (ENOUGH, ENOUGH), (ENOUGH, ENOUGH), (ENOUGH, ENOUGH)] + [(2 * ENOUGH, 2 * ENOUGH)] * 2


def test_slots_are_places_that_are_free(world):
    for number in range(ENOUGH):
        world.submit(f"job-{number}", gpus=2)
    before, _ = asked_of_late(full(world.cluster.at))
    first = world.submit("first", gpus=4)
    world.run(first, "a")
    after, last = asked_of_late(full(world.cluster.at))
    slots = [{shape.ask.gpus: shape.slots for shape in demand.shapes}[2] for demand in (before, after)]
    assert slots[0] - slots[1] == 2
    assert last == ENOUGH + 1


def test_a_demand_survives_as_text():
    demand = Demand(
        (
            Shape(ResourceRequest(gpus=2, models=("h100",)), 3, 4),
            Shape(ResourceRequest(share=Share(200, 200, 4000)), 5, 6),
        )
    )
    assert demand_of_text(demand_text(demand)) == demand


def test_inputs_of_old_have_no_demand_and_no_scope():
    packed = zlib.compress(json.dumps([5.0, [], [], None]).encode())
    assert unpack(packed) == (5.0, [], [], None, None, None)


def test_a_policy_names_the_placement():
    policy = Policy.from_dict({"scheduling": {"placement": "fgd"}})
    assert policy.scheduling.placement is Placement.FGD
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    with pytest.raises(PolicyError, match="scheduling.placement is 'best'. Use one of worth, best-fit"):
        Policy.from_dict({"scheduling": {"placement": "best"}})
