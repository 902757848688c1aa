"""What Kubernetes' autoscaler is told of a service with `scaling: native`: kept by the scale loop, never made up."""

import pytest
from django.test import override_settings

from controlplane.adopted.native import IN_FLIGHT
from controlplane.loops import scale
from controlplane.models import Cycle, Event, ServiceScaler, ServiceState, Workload
from controlplane.queries.workloads import external
from controlplane.services.intake import natives
from controlplane.services.scheduling import scalers
from controlplane.services.scheduling.scalers import Told
from controlplane.services.workloads import workloads
from tests.autoscaler.services import look
from tests.controlplane.state import World
from tests.controlplane.test_loops_scale import Busy, replayed

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World(metrics=Busy())


def serve(world: World) -> Workload:
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 4}, scaling="native")
    world.run(service, "a")
    return service


def value(world: World, service: Workload, namespace: str = "") -> tuple[int, float] | None:
    return external.value(IN_FLIGHT, namespace or f"weft-{service.team.name}", str(service.pk))


@override_settings(CLUSTER="kubernetes", ADMISSION=True, EXTERNAL_METRICS=True)
def test_on_kubernetes_the_loop_keeps_the_load_and_leaves_the_replicas_alone(world: World) -> None:
    service = serve(world)
    assert value(world, service) is None
    world.metrics.told = look(world.cluster.at, 100.0, waiting=40, seconds=0.2)
    assert scale.run_once(world.wiring).did == 0
    assert Workload.objects.get(pk=service.pk).workers == 1
    row = ServiceScaler.objects.get(workload=service.pk)
    assert (row.at, row.in_flight, row.desired) == (world.cluster.at, 60_000, None)
    assert ServiceState.objects.filter(workload=service.pk).exists(), "what is learned of it is kept"


@override_settings(CLUSTER="kubernetes", ADMISSION=True, EXTERNAL_METRICS=True)
def test_the_load_is_told_to_its_own_namespace_while_it_is_new(world: World) -> None:
    service = serve(world)
    world.metrics.told = look(world.cluster.at, 100.0, waiting=40, seconds=0.2)
    scale.run_once(world.wiring)
    at = world.cluster.at
    assert value(world, service) == (60_000, at)
    assert value(world, service, "weft-other") is None
    assert external.value(IN_FLIGHT, f"weft-{service.team.name}", "no-uid") is None
    world.cluster.at += 200.0
    world.observe()
    assert value(world, service) is None
    ServiceScaler.objects.update(at=world.cluster.at, in_flight=None)
    assert value(world, service) is None, "not known is no value, never 0"


@override_settings(CLUSTER="kubernetes", ADMISSION=True, EXTERNAL_METRICS=True)
def test_a_target_stays_and_neither_loop_writes_what_the_other_one_says(world: World) -> None:
    service = serve(world)
    world.metrics.told = look(world.cluster.at, 100.0)
    scale.run_once(world.wiring)
    first = ServiceScaler.objects.get(workload=service.pk).target
    told = Told(2, 3, [["ScalingLimited", "True", "TooManyReplicas", ""]], "helm")
    scalers.keep({str(service.pk): told}, at=world.cluster.at, lease=world.lease("adopt"))
    world.cluster.at += 15.0
    world.metrics.told = look(world.cluster.at, 101.0)
    scale.run_once(world.wiring)
    row = ServiceScaler.objects.get(workload=service.pk)
    assert (row.target, row.current, row.desired, row.other_owner) == (first, 2, 3, "helm")
    assert row.at == world.cluster.at


def test_elsewhere_the_rule_is_played_and_a_round_of_it_is_decided_again_alike(world: World) -> None:
    service = serve(world)
    world.metrics.told = look(world.cluster.at, 100.0, waiting=40, seconds=0.2)
    assert scale.run_once(world.wiring).did == 1
    service.refresh_from_db()
    assert service.workers == ServiceScaler.objects.get(workload=service.pk).desired
    assert service.workers > 1
    cycle = Cycle.objects.latest("id")
    assert replayed(cycle.pk) == (0, f"Cycle {cycle.pk}: 1 decisions on 1 services, the same again.")


# --- rows that follow Deployments -----------------------------------------------------------------


def test_those_that_are_to_have_a_deployment_are_the_live_ones_with_their_target_and_bounds(world: World) -> None:
    service = serve(world)
    waiting = world.submit("more", kind="inference", replicas={"min": 2, "max": 4}, scaling="native")
    held = world.submit("held", kind="inference", scaling="native")
    workloads.suspend(workload=held, actor="alice")
    world.submit("plain", kind="inference")
    ServiceScaler.objects.create(workload=service.pk, target=6400, other_owner="helm")
    found = natives.wanted()
    assert set(found) == {str(service.pk), str(waiting.pk)}
    one = found[str(service.pk)]
    assert (one.least, one.most, one.target, one.other_owner) == (1, 4, 6400, "helm")
    assert found[str(waiting.pk)].target == 0


def test_a_row_follows_its_deployment_also_beyond_its_bounds_for_a_while(world: World) -> None:
    service = serve(world)
    uid = str(service.pk)

    def followed(replicas: int) -> tuple[int, int, int, int]:
        did = natives.follow({uid: replicas}, natives.wanted(), at=world.cluster.at, lease=world.lease("adopt"))
        service.refresh_from_db()
        return did, service.workers, service.workers_min, service.workers_max

    assert followed(3) == (1, 3, 1, 4)
    assert followed(3) == (0, 3, 1, 4)
    assert followed(5) == (1, 5, 1, 5), "one that is replaced runs beside its successor"
    assert followed(4) == (1, 4, 1, 4)
    assert Event.objects.filter(kind="Scaled").latest("id").data == {"before": 5, "after": 4}


def test_another_owner_is_told_once(world: World) -> None:
    uid = str(serve(world).pk)
    for _ in range(2):
        natives.tell_owners({uid: "helm"}, natives.wanted(), at=world.cluster.at, lease=world.lease("adopt"))
        told = Told(1, 1, [], "helm")
        scalers.keep({uid: told}, at=world.cluster.at, lease=world.lease("adopt"))
    (event,) = Event.objects.filter(kind="TwoOwnersOfReplicas")
    assert event.message == "helm writes spec.replicas beside the autoscaler. Leave replicas out of what it applies."
