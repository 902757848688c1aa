"""The scale loop: load beyond the objective brings replicas, and the schedule loop finds them places."""

from dataclasses import replace

import pytest

from controlplane.cluster.port import PodPhase, ServiceUse
from controlplane.cycle import unpack_scaling
from controlplane.loops import scale, schedule
from controlplane.models import Cycle, Workload
from controlplane.services import policy
from tests.controlplane.state import NoMetrics, World, phase, story

pytestmark = pytest.mark.django_db


class Busy(NoMetrics):
    use: ServiceUse | None = None

    def services(self, workloads):
        return (self.use,) if self.use else ()


@pytest.fixture
def world() -> World:
    return World(metrics=Busy())


def serve(world: World) -> Workload:
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 4})
    world.run(service, "a")
    return service


def test_a_service_over_its_objective_gets_more_replicas_and_they_are_placed(world):
    service = serve(world)
    world.metrics.use = ServiceUse(str(service.pk), world.cluster.at, 60.0, 100.0, 0.5, 3000, 6000, 40)
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


def test_a_stored_scaling_round_decides_the_same_again(world):
    from autoscaler.scale import scale as decide

    service = serve(world)
    world.metrics.use = ServiceUse(str(service.pk), world.cluster.at, 60.0, 100.0, 0.5, 3000, 6000, 40)
    scale.run_once(world.wiring)
    cycle = Cycle.objects.get(loop="scale")
    snapshot, metrics = unpack_scaling(bytes(cycle.input))
    (again,) = decide(snapshot, metrics, policy.current()[0].scaling)
    assert again.workers == cycle.decisions[0]["workers"] == Workload.objects.get(pk=service.pk).workers


def test_other_settings_are_in_force_from_the_next_round_on(world):
    settings, version = policy.current()
    assert version is None
    changed = replace(settings, scaling=replace(settings.scaling, up_count=1))
    number = policy.save(policy=changed, author="admin", comment="calmer")
    assert policy.current() == (changed, number)
