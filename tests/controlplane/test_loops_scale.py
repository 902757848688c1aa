"""The scale loop: load beyond the objective brings replicas, and the schedule loop finds them places."""

import json
import uuid
import zlib
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import call_command

from autoscaler.law import State
from autoscaler.observed import Scrape, Signal
from controlplane.cluster.port import PodPhase
from controlplane.loops import scale, schedule
from controlplane.models import Cycle, ServiceState, Workload
from controlplane.services.scheduling import learned, leases, policy
from tests.autoscaler.services import look
from tests.controlplane.state import NoMetrics, World, phase, story

pytestmark = pytest.mark.django_db


class Busy(NoMetrics):
    told: Scrape | None = None

    def scrapes(self, workloads):
        return dict.fromkeys(workloads, self.told) if self.told else {}


@pytest.fixture
def world() -> World:
    return World(metrics=Busy())


def serve(world: World) -> Workload:
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 4})
    world.run(service, "a")
    return service


def test_a_service_over_its_objective_gets_more_replicas_and_they_are_placed(world):
    service = serve(world)
    world.metrics.told = look(world.cluster.at, 100.0, waiting=40, seconds=0.2)
    assert scale.run_once(world.wiring).did == 1
    service.refresh_from_db()
    assert service.workers > 1
    assert service.phase == "Scaling"
    schedule.run_once(world.wiring)
    world.actuate()
    world.pods(service, PodPhase.RUNNING)
    assert phase(service) == "Running"
    assert "Scaled" in story(service)


def test_without_services_no_snapshot_is_read(world, django_assert_max_num_queries):
    world.lease("scale")
    with django_assert_max_num_queries(1):
        assert scale.run_once(world.wiring).did == 0


def test_a_service_of_which_nothing_is_known_keeps_its_replicas(world):
    service = serve(world)
    assert scale.run_once(world.wiring).did == 0
    assert Workload.objects.get(pk=service.pk).workers == 1


def test_what_a_look_teaches_is_kept_for_the_next_one(world):
    service = serve(world)
    for number in range(2):
        world.metrics.told = look(world.cluster.at + 15.0 * number, 100.0)
        world.cluster.at += 15.0 * number
        scale.run_once(world.wiring)
        row = ServiceState.objects.get(workload=service.pk)
        assert (row.at, row.state["slots"]) == (world.cluster.at, 4)
        assert len(row.state["points"]) == 2 + number
        assert sum(count for _, count in row.state["counts"]) == pytest.approx(1500.0 * (1 + number), rel=0.3)


class Queues:
    """The port of the queues in front of services, as a test wants them."""

    def __init__(self) -> None:
        self.told: dict[str, Signal] = {}

    def signals(self):
        return self.told


def test_what_waits_at_a_gateway_brings_replicas_between_two_looks(world):
    service, queues = serve(world), Queues()
    wiring = replace(world.wiring, gateways=queues)
    world.metrics.told = look(world.cluster.at, 80.0)
    scale.run_once(wiring)
    before = Workload.objects.get(pk=service.pk).workers
    world.cluster.at += 1
    world.metrics.told = None  # not asked for again so soon
    assert scale.run_once(wiring).did == 0
    queues.told = {str(service.pk): Signal(500, 90.0), str(uuid.uuid4()): Signal(500, 90.0)}
    assert scale.run_once(wiring).did == 1
    service.refresh_from_db()
    assert service.workers > before
    cycle = Cycle.objects.filter(loop="scale").latest("pk")
    assert "500 requests wait, 90.0 requests/s come" in cycle.decisions[0]["message"]
    assert replayed(cycle.pk) == (0, f"Cycle {cycle.pk}: 1 decisions on 1 services, the same again.")


def test_a_worker_without_the_lease_writes_no_state(world):
    serve(world)
    world.metrics.told = look(world.cluster.at, 100.0)
    lease = leases.acquire(name="scale", holder="me")
    leases.acquire(name="scale", holder="me")
    assert lease is not None
    with pytest.raises(leases.LeaseLost):
        learned.keep({str(Workload.objects.get().pk): State()}, at=1.0, lease=lease)
    assert not ServiceState.objects.exists()


def scaled(world: World) -> Cycle:
    """A round that gave a service more replicas."""
    serve(world)
    world.metrics.told = look(world.cluster.at, 100.0, waiting=40, seconds=0.2)
    scale.run_once(world.wiring)
    return Cycle.objects.get(loop="scale")


def replayed(*number: object) -> tuple[int, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("replay", *number, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), (out.getvalue() + err.getvalue()).strip()
    return 0, (out.getvalue() + err.getvalue()).strip()


def test_a_stored_scaling_round_decides_the_same_again(world):
    cycle = scaled(world)
    assert replayed(cycle.pk) == (0, f"Cycle {cycle.pk}: 1 decisions on 1 services, the same again.")
    assert cycle.decisions[0]["workers"] == Workload.objects.get(name="chat").workers
    assert sorted(cycle.decisions[0]) == ["kind", "message", "terms", "version", "workers", "workload"]
    Cycle.objects.update(decisions=[{**cycle.decisions[0], "workers": 9}])
    status, told = replayed(cycle.pk)
    assert status == 1
    assert '"workers": 9' in told


def test_a_round_of_the_rule_before_says_that_it_cannot_be_decided_again(world):
    cycle = scaled(world)
    service = {"workload": str(Workload.objects.get().pk), "objective": None, "samples": [], "scaled_at": None}
    packed = zlib.compress(json.dumps([world.cluster.at, [], [service]]).encode())
    Cycle.objects.filter(pk=cycle.pk).update(input=packed)
    assert replayed(cycle.pk) == (2, "It was decided by the scaling rule of an earlier version of Weft.")


def test_a_number_that_is_no_round_is_answered_with_one_that_is(world):
    assert replayed() == (2, "No round is stored. Let Weft run until a round has decided something.")
    cycle = scaled(world)
    schedule.run_once(world.wiring)
    other = Cycle.objects.get(loop="schedule", input__isnull=False)
    newest = f"Take {other.pk} (scheduling) or {cycle.pk} (scaling), the newest."
    assert replayed(4711) == (2, f"There is no scheduling or scaling round 4711. {newest}")
    Cycle.objects.filter(pk=cycle.pk).update(input=None)
    assert replayed(cycle.pk) == (
        2,
        f"The input of round {cycle.pk} is not kept any more. Take {other.pk} (scheduling), the newest.",
    )


def test_other_settings_are_in_force_from_the_next_round_on(world):
    settings, version = policy.current()
    assert version is None
    changed = replace(settings, scaling=replace(settings.scaling, horizon_seconds=1.0))
    number = policy.save(policy=changed, author="admin", comment="calmer")
    assert policy.current() == (changed, number)
