"""A service of the simulated cluster that sleeps: its requests are held, tell when they come, and are answered."""

from pathlib import Path

import pytest

from controlplane.cluster.port import Address
from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.models import Event
from tests.controlplane.played import play
from tests.controlplane.simulation import cluster, pod, to_running

ADDRESS = Address("s", "chat", "nlp")


def file(base: float, waiting: int = 100) -> dict[str, object]:
    return {
        "type": "inference",
        "replicas": {"min": 0, "max": 1},
        "objective": {"p95_latency": "500ms"},
        "gateway": {"slots": 4, "waiting": waiting},
        "simulated": {"rate": {"base": base, "amplitude": 0.0, "burst_part": 0.0, "noise": 0.0}},
    }


def asleep(world: SimulatedCluster, spec: dict[str, object]) -> None:
    """Its only replica has run and left, and its address stays."""
    world.start([pod("s", spec)])
    to_running(world, "s-1-0")
    world.advance(world.now() + 30.0)
    world.keep_address(ADDRESS, on=True)
    world.stop("s", 1, [0], 5.0)
    world.advance(world.now() + 60.0)


def counted(world: SimulatedCluster) -> tuple[int, int, int]:
    """Requests answered, refused and failed since it began."""
    totals = world.answered(["s"])["s"]
    return totals.answered, totals.refused, totals.failed


def waiting(world: SimulatedCluster) -> int | None:
    return world.scrapes(["s"])["s"].waiting


def test_what_comes_while_it_sleeps_is_held_and_answered_once_a_replica_runs() -> None:
    world = cluster()
    asleep(world, file(0.05))
    world.advance(world.now() + 400.0)
    held, (done, _, _) = waiting(world), counted(world)
    assert held
    assert world.signals()["s"].waiting == held
    world.start([pod("s", file(0.05), rank=1)])
    to_running(world, "s-1-1")
    assert world.has_address("s")
    world.advance(world.now() + 5.0)
    answered, refused, failed = counted(world)
    assert answered >= done + held
    assert (refused, failed) == (0, 0)
    assert world.signals() == {}


def test_no_more_wait_than_may_and_what_has_waited_too_long_leaves() -> None:
    world = cluster()
    asleep(world, file(2.0, waiting=7))
    before = counted(world)[1]
    assert waiting(world) == 7
    world.advance(world.now() + 100.0)
    assert waiting(world) == 7
    assert counted(world)[1] > before + 100
    world.advance(world.now() + 950.0)  # all that waited first have left, and others wait
    assert waiting(world) == 7


def test_it_makes_no_difference_what_looks_nor_how_often_the_cluster_is_restarted(tmp_path: Path) -> None:
    told = []
    for steps in (1, 40):
        store = ClusterStore(tmp_path / f"{steps}.sqlite3")
        world = cluster(store)
        asleep(world, file(0.5, waiting=20))
        for _ in range(steps):
            world.advance(world.now() + 1200.0 / steps)
            if steps > 1:
                world.services(["s"])
                world = cluster(store)
        told.append((world.scrapes(["s"]), world.services(["s"]), counted(world)))
        store.close()
    assert told[0] == told[1]


def test_without_its_address_nothing_comes_to_it_any_more() -> None:
    world = cluster()
    asleep(world, file(1.0))
    world.keep_address(ADDRESS, on=False)
    assert not world.has_address("s")
    assert world.signals() == {}
    world.advance(world.now() + 5000.0)
    before = counted(world)
    world.advance(world.now() + 5000.0)
    assert counted(world) == before


def test_the_next_event_is_the_first_request_and_then_no_other() -> None:
    world = cluster()
    asleep(world, file(0.002))
    while not world.signals():
        event = world.next_event()
        if event is None:  # not within the hour that is looked ahead
            event = world.now() + 3600.0
        world.advance(event)  # to a whole second, so it may still be a moment away
        world.advance(world.now() + 1.0)
    assert world.signals()["s"].waiting == 1
    assert world.next_event() is None


# --- with the loops -------------------------------------------------------------------------------


@pytest.mark.django_db
def test_with_the_loops_it_sleeps_and_wakes_in_the_slot_of_the_first_request() -> None:
    document = file(0.003) | {
        "name": "chat", "team": "nlp", "image": "registry.example/chat:1", "resources": {"gpus": 1},
        "replicas": {"min": 0, "max": 2, "scale_to_zero_after": "1m"},
    }  # fmt: skip
    world, service = play(document, 3600.0)
    scaled = list(Event.objects.filter(workload=service.pk, kind="Scaled").order_by("id"))
    fell = [one for one in scaled if one.data["after"] == 0]
    woke = [one for one in scaled if one.data["before"] == 0]
    assert len(fell) >= 2
    assert len(woke) >= 2
    totals = world.answered([str(service.pk)])[str(service.pk)]
    assert totals.answered > 3
    assert (totals.refused, totals.failed) == (0, 0)
    assert all("1 request waits" in one.message for one in woke), "within a slot there is only the first"
