"""The cluster map's three views of the same cells, its figure of fragmentation, and the map as it was."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Event, Gpu, Node, Placement, Team, Workload
from controlplane.queries.scheduling import cluster, pastmap
from controlplane.queries.tenancy import teams
from frontend.words import iso
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document

HOUR = 3600.0


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


def test_teams_of_a_large_cluster_come_at_once_and_fetch_their_large_part(bare: World, visit: Visit) -> None:
    mel, page, part = visit("mel"), "/teams/", "May borrow"
    assert part in mel.get(page).content.decode()
    Team.objects.bulk_create(Team(name=f"team-{i}") for i in range(teams.MANY_TEAMS))
    first = mel.get(page).content.decode()
    assert part not in first
    assert 'hx-trigger="load, live-' in first
    assert f'hx-get="{page}"' in first
    assert part in mel.get(page, headers={"HX-Request": "true"}).content.decode()
    assert '<a class="button" href="?whole=1">' in first  # for a browser without scripts
    assert part in mel.get(f"{page}?whole=1").content.decode()


def many_nodes(count: int = cluster.MANY_NODES, **columns: Any) -> None:
    pool = Node.objects.all()[0].pool
    usable = {"gpu_count": 1, "ready": True, "schedulable": True}
    Node.objects.bulk_create(Node(name=f"n{i:04}", pool=pool, **usable, **columns) for i in range(count))


def test_a_large_cluster_has_its_racks_and_their_nodes_come_when_they_are_looked_at(bare: World, visit: Visit) -> None:
    shared(bare)
    mel = visit("mel")
    small = mel.get("/map/")
    assert "data-rack" not in small.content.decode()
    many_nodes(zone="z", rack="far & away")
    page = mel.get("/map/")
    text = page.content.decode()
    assert 'class="node"' not in text
    assert "racks.js" in text
    sums, links = zip(*page.context["parts"], strict=True)
    assert sum(one.nodes for one in sums) == Node.objects.count()
    assert all(f'data-rack="{url}"'.replace("&", "&amp;") in text for url in links)
    assert all(f'<a href="{url}">'.replace("&", "&amp;") in text for url in links)  # for a browser without scripts
    seen = {node.name for url in links for node in mel.get(url).context["rack"].nodes}
    assert seen == set(Node.objects.values_list("name", flat=True))
    assert page.context["room"] == cluster.room(cluster.racks(None))


def test_what_is_free_in_a_rack_is_the_same_with_and_without_its_nodes(bare: World, visit: Visit) -> None:
    bare.fill(40)
    shared(bare)
    Node.objects.filter(name="a100-01").update(schedulable=False)
    Node.objects.filter(name="a100-02").update(lost_gpus=[0, 3])
    many_nodes(cluster.RACK_PART + 5)
    sums, room = cluster.rack_sums()
    racks = cluster.racks(None)
    assert room == cluster.room(racks)
    assert sums == tuple(part for rack in racks for part in cluster.sums_of(rack))
    free: dict[tuple[str, str], int] = {}
    for one in sums:
        free[one.zone, one.name] = free.get((one.zone, one.name), 0) + one.whole_free
    assert free == {(rack.zone, rack.name): rack.whole_free for rack in racks}


def test_a_rack_of_many_nodes_comes_in_parts(bare: World, visit: Visit) -> None:
    many_nodes(cluster.MANY_NODES, zone="", rack="")
    mel = visit("mel")
    parts = [(one, url) for one, url in mel.get("/map/").context["parts"] if one.name == ""]
    assert [one.nodes for one, _ in parts] == [60, 60, 60, 20]
    assert (parts[1][0].first, parts[1][0].last) == ("n0060", "n0119")
    answer = mel.get(parts[1][1], headers={"HX-Request": "true"})
    assert [node.name for node in answer.context["rack"].nodes][::59] == ["n0060", "n0119"]
    assert "n0060 to n0119" in answer.content.decode()


def test_a_rack_has_a_page_of_its_own_and_what_htmx_swaps_is_the_rack_alone(bare: World, visit: Visit) -> None:
    shared(bare)
    first = Node.objects.get(name="a100-00")
    where = {"zone": first.zone, "rack": first.rack, "show": "room"}
    mel = visit("mel")
    page = mel.get("/map/rack/", where).content.decode()
    assert "All racks" in page
    assert "7 whole, 9 % fragmented" in page
    part = mel.get("/map/rack/", where, headers={"HX-Request": "true"}).content.decode()
    assert "All racks" not in part
    assert part.strip().startswith("<header>")
    assert 'class="node"' not in mel.get("/map/rack/", {"rack": "no such rack"}).content.decode()


def test_on_a_rack_other_teams_work_has_no_name(bare: World, visit: Visit) -> None:
    w = shared(bare)
    first = Node.objects.get(name=Placement.objects.get().node)
    where = {"zone": first.zone, "rack": first.rack}
    assert w.name in visit("mel").get("/map/rack/", where).content.decode()
    assert f"{w.team.name}/{w.name}" not in visit("out").get("/map/rack/", where).content.decode()


def test_room_tells_each_nodes_whole_gpus_and_fragmentation(bare: World, visit: Visit) -> None:
    shared(bare)
    text = visit("mel").get("/map/?show=room").content.decode()
    assert "7 whole, 9 % fragmented" in text
    assert "% fragmented</span></a>" not in visit("mel").get("/map/?show=odd").content.decode()


# --- as it was --------------------------------------------------------------------------------


@pytest.fixture
def day(bare: World) -> World:
    """Weft has run for ten hours; two whole GPUs of a100-00 were held for an hour, until two hours ago."""
    happened("ClusterSeen", "", NOW - 10 * HOUR)
    held(bare, "gone", NOW - 3 * HOUR, NOW - 2 * HOUR)
    return bare


def happened(kind: str, name: str, at: float, **data: Any) -> None:
    Event.objects.create(at=datetime.now(UTC), cluster_at=at, actor="loop:observe", kind=kind, name=name, data=data)


def held(world: World, name: str, since: float, until: float, team: str = "nlp") -> Workload:
    """A training that held two GPUs; the devices are free again."""
    w = world.add(document("training", name, team, resources={"gpus": 2, "cpu": 1, "memory": "1Gi"}), Phase.SUCCEEDED)
    free = list(world.free)
    world.place(w, "Bound")
    world.free = free
    Placement.objects.filter(workload=w).update(state="Released", bound_at=since, released_at=until)
    return w


def node_at(moment: float, name: str = "a100-00") -> cluster.NodeRow | None:
    rows = [node for rack in pastmap.at(moment, None).racks for node in rack.nodes]
    return next((row for row in rows if row.name == name), None)


@pytest.mark.parametrize(("hours", "milli"), [(3.1, 0), (3, 2000), (2.5, 2000), (2, 0), (1, 0)])
def test_a_gpu_was_held_from_its_placement_until_its_release(day: World, hours: float, milli: int) -> None:
    past = pastmap.at(NOW - hours * HOUR, None)
    assert (past.held, past.held_elsewhere) == (milli, 0)
    row = node_at(NOW - hours * HOUR)
    assert row is not None
    assert row.held == milli


def test_what_still_holds_held_then_as_well_and_nobody_was_leaving(day: World) -> None:
    w = day.add(document("training", "long", "nlp"), Phase.CHECKPOINTING)
    day.place(w, "Leaving")
    Placement.objects.filter(workload=w).update(bound_at=NOW - HOUR)
    row = node_at(NOW - 60)
    assert row is not None
    (tenant,) = row.gpus[0].tenants
    assert (tenant.name, tenant.is_leaving) == ("long", False)
    assert pastmap.at(NOW - 1.1 * HOUR, None).held == 0


def test_a_machine_is_shown_as_it_stood(day: World) -> None:
    """Today: a100-02 has lost GPU 3, a100-06 is cordoned, l40s-03 is not ready; a100-01 came an hour ago."""
    happened("NodeChanged", "a100-02", NOW - HOUR, lost_gpus=[[], [3]])
    happened("Cordoned", "a100-06", NOW - HOUR)
    happened("NodeChanged", "l40s-03", NOW - HOUR, ready=[True, False])
    happened("NodeSeen", "a100-01", NOW - HOUR)
    before, after = NOW - 2 * HOUR, NOW - 0.5 * HOUR
    for name, was in (("a100-02", 8000), ("a100-06", 8000), ("l40s-03", 4000)):
        then, now = node_at(before, name), node_at(after, name)
        assert then is not None
        assert now is not None
        assert (then.free, now.free < was) == (was, True)
    assert node_at(before, "a100-01") is None
    assert node_at(after, "a100-01") is not None


def test_what_was_held_on_machines_that_are_gone_is_counted(day: World, visit: Visit) -> None:
    Node.objects.filter(name="a100-00").delete()
    assert pastmap.at(NOW - 2.5 * HOUR, None).held_elsewhere == 2000
    page = visit("mel").get("/map/", {"at": iso(NOW - 2.5 * HOUR)}).content.decode()
    assert "and 2 more on nodes that are gone now" in page


def test_the_address_carries_the_time_and_the_page_does_not_move_on(day: World, visit: Visit) -> None:
    page = visit("mel").get("/map/", {"at": iso(NOW - 2.5 * HOUR), "show": "use"})
    text = page.content.decode()
    assert "2.0 of 120 GPUs allocated" in text
    assert "nlp/gone" in text
    assert 'hx-trigger="live-workloads from:body throttle:3s" data-live' not in text.split('id="racks"')[1]
    assert page.context["show"] == ""  # what computed then is not kept
    assert f"at={iso(NOW - 3.5 * HOUR).replace(':', '%3A')}" in text  # an hour earlier


def test_without_a_time_it_is_now_and_live(day: World, visit: Visit) -> None:
    page = visit("mel").get("/map/")
    text = page.content.decode()
    assert page.context["past"] is None
    assert "data-live" in text.split('id="racks"')[1]
    slider = page.context["slider"]
    assert (slider["value"], slider["later"]) == (slider["max"], "")
    assert slider["min"] >= NOW - 10 * HOUR
    now = visit("mel").get("/map/", {"at": slider["max"]})  # what a browser without JavaScript sends
    assert (now.context["past"], now.context["fault"]) == (None, "")


def test_who_may_not_see_a_team_does_not_read_its_names_in_the_past_either(day: World, visit: Visit) -> None:
    text = visit("out").get("/map/", {"at": iso(NOW - 2.5 * HOUR)}).content.decode()
    assert "team nlp 1" in text
    assert "gone;" not in text


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("yesterday", "Give a time such as 2026-01-01T07:02:10Z."),
        ("9" * 400, "Give a time such as"),
        ("2026-01-01T05:00:00+99:00", "Give a time such as"),
        ("2030-01-01", "2030-01-01 00:00:00 is in the future."),
        ("2025-12-31T20:00:00Z", "the map goes back to 2025-12-31 22:02:10 UTC."),
    ],
)
def test_a_time_that_cannot_be_shown_gets_a_sentence(day: World, visit: Visit, at: str, said: str) -> None:
    page = visit("mel").get("/map/", {"at": at})
    assert page.status_code == 200
    assert said in page.context["fault"]
    assert page.context["past"] is None


def test_the_past_costs_the_same_number_of_queries_whatever_there_was(day: World, visit: Visit) -> None:
    def cost() -> int:
        client, asked = visit("mel"), {"at": iso(NOW - 2.5 * HOUR)}
        client.get("/map/", asked)
        with CaptureQueriesContext(connection) as seen:
            assert client.get("/map/", asked).status_code == 200
        return len(seen)

    few = cost()
    for i in range(20):
        held(day, f"more-{i}", NOW - 3 * HOUR, NOW - 2 * HOUR, team="vision")
        happened("NodeChanged", "a100-02", NOW - HOUR, lost_gpus=[[], [3]])
    assert cost() == few
