"""The cluster map's three views of the same cells, and its figure of fragmentation."""

import pytest

from controlplane.models import Gpu, Node, Placement, Team, Workload
from controlplane.queries import cluster, teams
from scheduler.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document


def shared(world: World) -> Workload:
    w = world.add(document("notebook", "note", "nlp"), Phase.RUNNING)  # a quarter of the first GPU
    world.place(w, "Bound")
    return w


def test_what_is_free_of_shared_gpus_is_fragmented(bare: World, visit: Visit) -> None:
    whole = visit("mel").get("/map/").context["room"]
    assert whole.fragmented == 0
    shared(bare)
    room = visit("mel").get("/map/").context["room"]
    assert (room.free, room.whole, room.on_one_node) == (whole.free - 250, whole.whole - 1, 8)
    node = cluster.node("a100-00", None)
    assert node is not None
    assert node.fragmented == 1 - 7000 / 7750


def test_nothing_free_is_not_fragmented() -> None:
    assert cluster.fragmentation(0, 0) is None


def test_use_draws_how_much_computes_inside_what_is_held(bare: World, visit: Visit) -> None:
    shared(bare)
    place = Placement.objects.get()
    Gpu.objects.create(node=Node.objects.get(name=place.node), index=place.gpus[0], duty=0.5, memory_used=10)
    assert 'class="duty t0" x="4" y="9.0" width="5" height="9.0"' in visit("mel").get("/map/?show=use").content.decode()
    assert 'class="duty' not in visit("mel").get("/map/").content.decode()


@pytest.mark.parametrize(("page", "part"), [("/map/", 'class="panel rack"'), ("/teams/", "May borrow")])
def test_a_large_clusters_page_comes_at_once_and_fetches_its_large_part(
    bare: World, visit: Visit, page: str, part: str
) -> None:
    mel = visit("mel")
    assert part in mel.get(page).content.decode()
    a_node = Node.objects.all()[0]
    Node.objects.bulk_create(Node(name=f"n{i}", pool=a_node.pool, gpu_count=1) for i in range(cluster.MANY_NODES))
    Team.objects.bulk_create(Team(name=f"team-{i}") for i in range(teams.MANY_TEAMS))
    first = mel.get(page).content.decode()
    assert part not in first
    assert 'hx-trigger="load, live-' in first
    assert f'hx-get="{page}"' in first
    assert part in mel.get(page, headers={"HX-Request": "true"}).content.decode()
    assert '<a class="button" href="?whole=1">' in first  # for who has no scripts
    assert part in mel.get(f"{page}?whole=1").content.decode()


def test_room_tells_each_nodes_whole_gpus_and_fragmentation(bare: World, visit: Visit) -> None:
    shared(bare)
    text = visit("mel").get("/map/?show=room").content.decode()
    assert "7 whole, 9 % fragmented" in text
    assert "% fragmented</span></a>" not in visit("mel").get("/map/?show=odd").content.decode()
