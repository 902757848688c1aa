"""The map of a large cluster reads its racks alone: the same sums as of all their nodes, on both databases."""

import pytest

from controlplane.models import Node
from controlplane.queries.scheduling import cluster
from tests.controlplane.state import World, node


@pytest.mark.django_db
def test_what_racks_have_free_is_what_their_nodes_have() -> None:
    world = World()
    count = cluster.RACK_PART + 3
    for i in range(count):
        world.cluster.nodes[f"n{i:02}"] = node(f"n{i:02}", zone="z", rack="r")
    world.observe_all()
    world.run(
        world.submit("quarter", resources={"gpu_share": {"guarantee": 0.25, "limit": 1.0, "memory": "8Gi"}}), "n00"
    )
    world.run(world.submit("three", gpus=3, workers=1), "n01")
    Node.objects.filter(name="n02").update(schedulable=False)
    Node.objects.filter(name="n03").update(lost_gpus=[0, 3])
    sums, room = cluster.rack_sums()
    racks = cluster.racks(None)
    assert sums == tuple(part for rack in racks for part in cluster.sums_of(rack))
    assert room == cluster.room(racks)
    assert [(one.zone, one.nodes, one.whole_free) for one in sums] == [
        ("", 2, 16),
        ("z", 60, 60 * 8 - 14),
        ("z", 3, 24),
    ]
    assert room.free == 16_000 + 24_000 + 60 * 8000 - 3250 - 8000 - 2000
