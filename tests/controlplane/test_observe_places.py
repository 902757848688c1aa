"""What the cluster shows of places that are promised, and of services that grow and shrink."""

import pytest

from autoscaler.scale import resized
from controlplane.cluster.port import PodPhase
from controlplane.models import Action, Placement, Workload
from controlplane.services.workloads import workloads
from tests.controlplane.state import World, held, open_actions, phase, seen_by_scheduler

pytestmark = pytest.mark.django_db

RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    return World()


# --- reserved places --------------------------------------------------------------------------


def reserve(world: World) -> tuple[Workload, Workload]:
    victim, claimant = world.submit("victim"), world.submit("claimant")
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[victim])
    return victim, claimant


def test_a_claimant_starts_when_its_victims_have_left_and_not_before(world):
    victim, claimant = reserve(world)
    assert phase(claimant) == "Reserved"
    world.actuate()
    world.observe()
    assert (phase(claimant), open_actions(claimant)) == ("Reserved", [])
    world.pods(victim, GONE)
    assert (phase(victim), phase(claimant), open_actions(claimant)) == ("Queued", "Admitted", ["start"])
    place = Placement.objects.get(workload=claimant)
    assert (place.state, place.bound_at) == ("Bound", world.cluster.at)


def test_a_claimant_that_got_its_place_no_longer_says_why_it_waited(world):
    victim, claimant = reserve(world)
    Workload.objects.filter(pk=claimant.pk).update(reason="WaitingForPreemptedWorkloads", message="Has its place.")
    world.actuate()
    world.pods(victim, GONE)
    assert Workload.objects.values_list("phase", "reason", "message").get(pk=claimant.pk) == ("Admitted", "", "")


def test_a_claimant_waits_for_all_of_its_victims(world):
    one, two, claimant = world.submit("one"), world.submit("two"), world.submit("claimant", gpus=2)
    for victim in (one, two):
        world.run(victim, "a")
    for victim in (one, two):
        world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[one, two])
    world.actuate()
    world.pods(one, GONE)
    assert phase(claimant) == "Reserved"
    world.pods(two, GONE)
    assert phase(claimant) == "Admitted"


@pytest.mark.parametrize("what", ["lost", "not ready", "cordoned"])
def test_a_reserved_place_on_a_node_that_goes_out_of_use_is_given_up(world, what):
    _, claimant = reserve(world)
    if what == "lost":
        world.cluster.lose("a")
    else:
        world.cluster.change("a", **({"ready": False} if what == "not ready" else {"schedulable": False}))
    world.observe()
    assert phase(claimant) == "Queued"
    assert held(claimant) == 0


def test_a_claimant_stopped_while_reserved_holds_nothing_and_its_victim_is_queued_again(world):
    victim, claimant = reserve(world)
    workloads.stop(workload=claimant, actor="alice")
    assert (phase(claimant), held(claimant)) == ("Stopped", 0)
    world.actuate()
    world.pods(victim, GONE)
    assert phase(victim) == "Queued"


def test_a_service_that_grows_into_a_reserved_place_keeps_serving(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    victim = world.submit("victim")
    world.run(service, "b")
    world.run(victim, "a")
    Workload.objects.filter(pk=service.pk).update(workers=2)
    world.evict(victim, by=service)
    world.place(service, "a", after=[victim])
    assert phase(service) == "Scaling"
    assert [a.reserved for a in seen_by_scheduler(service).placement] == [False, True]
    world.actuate()
    world.pods(victim, GONE)
    assert open_actions(service) == ["start"]
    world.actuate()
    world.pods(service, RUNNING)
    assert phase(service) == "Running"


def test_a_promised_place_on_a_device_that_is_lost_is_given_up(world):
    victim, claimant = world.submit("victim", gpus=8), world.submit("claimant", gpus=2)
    world.run(victim, "a")
    world.evict(victim, claimant)
    world.place(claimant, "a", after=[victim])
    world.cluster.change("a", lost=(1,))
    world.observe()
    assert phase(claimant) == "Queued"
    assert not Placement.objects.exclude(state="Released").filter(workload=claimant).exists()


def test_a_promised_place_beside_a_device_that_is_lost_is_kept(world):
    victim, claimant = world.submit("victim", gpus=8), world.submit("claimant", gpus=2)
    world.run(victim, "a")
    world.evict(victim, claimant)
    world.place(claimant, "a", after=[victim])
    world.cluster.change("a", lost=(5,))
    world.observe()
    assert phase(claimant) == "Reserved"


# --- services ---------------------------------------------------------------------------------


def test_a_replica_that_dies_leaves_a_gap_that_a_new_rank_fills(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 3})
    world.run(service, "a", "b")
    world.pods(service, FAILED, 0, exit_code=1)
    service.refresh_from_db()
    assert (service.phase, service.failures) == ("Degraded", 1)
    seen = seen_by_scheduler(service)
    assert (seen.missing, seen.is_waiting, seen.next_rank) == (1, True, 2)
    world.place(service, "a")
    world.actuate()
    world.pods(service, RUNNING, 2)
    assert phase(service) == "Running"
    assert sorted(Placement.objects.filter(state="Bound").values_list("rank", flat=True)) == [1, 2]


def test_a_service_is_scaling_while_some_replicas_run_and_others_come(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 3})
    world.place(service, "a", "b")
    world.actuate()
    world.pods(service, RUNNING, 0)
    assert phase(service) == "Scaling"
    world.pods(service, RUNNING, 1)
    assert phase(service) == "Running"


def test_a_service_that_grows_into_the_place_of_its_own_leaving_replica_waits_until_that_is_gone(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    Workload.objects.filter(pk=service.pk).update(workers=2)
    world.run(service, "a", "b")
    service.refresh_from_db()
    assert world.decide(resized(seen_by_scheduler(service), 1, "")).applied
    world.actuate()
    world.place(service, "b", after=[service])
    world.observe_all()
    states = {p.rank: p.state for p in Placement.objects.filter(workload=service)}
    assert states == {0: "Bound", 1: "Leaving", 2: "Reserved"}
    world.pods(service, GONE, 1)
    assert Placement.objects.get(workload=service, rank=2).state == "Bound"


def test_a_service_scaled_in_loses_its_highest_ranks_and_keeps_running(world):
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 3})
    Workload.objects.filter(pk=service.pk).update(workers=3)
    world.run(service, "a", "b", "b")
    service.refresh_from_db()
    assert not world.decide(resized(seen_by_scheduler(service), 1, "less load")).stale
    assert Action.objects.get(verb="stop").payload["ranks"] == [1, 2]
    world.actuate()
    world.pods(service, GONE, 1, 2)
    assert (phase(service), held(service)) == ("Running", 1)
