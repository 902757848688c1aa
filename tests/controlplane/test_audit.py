"""The self-audit of a database: quiet when all is well, and it names what is not."""

import pytest
from django.db.models import F

from controlplane.cluster.port import PodPhase
from controlplane.loops import schedule
from controlplane.models import Cycle, Placement, Usage, Workload
from controlplane.queries import audit
from controlplane.queries.audit import decision_of
from scheduler.decision import Evict, EvictReason, Place, Reason, Shrink, Wait
from scheduler.workload import Assignment
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """One job has ended, one runs, one leaves for another, one waits, and all is accounted."""
    world = World()
    done, runs, victim = world.submit("done"), world.submit("runs", workers=2), world.submit("victim", gpus=8)
    world.run(done, "a")
    world.place(runs, "a", "a")
    Placement.objects.filter(workload=runs, rank=1).update(gpus=[1])  # `place` puts every rank on device 0
    world.actuate()
    world.pods(runs, PodPhase.RUNNING)
    world.run(victim, "b")
    world.later(100)
    world.pods(done, PodPhase.SUCCEEDED, exit_code=0)
    claimant = world.submit("claimant", gpus=8)
    world.evict(victim, by=claimant)
    world.place(claimant, "b", after=[victim])
    world.submit("waits", gpus=8, workers=2)
    schedule.run_once(world.wiring)
    world.account()
    return world


def broken(world: World | None = None) -> set[str]:
    pods = tuple(world.cluster.pods.values()) if world else None
    return {violation.name for violation in audit.violations(pods=pods)}


def test_a_sound_database_has_nothing_to_tell(world):
    assert audit.violations(pods=tuple(world.cluster.pods.values())) == ()
    assert Cycle.objects.filter(loop="schedule", input__isnull=False).exists()


def test_a_device_given_twice_is_s1(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[0])
    assert broken() == {"S1"}


def test_a_pod_elsewhere_than_its_placement_is_s2(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[2])
    assert broken(world) == {"S2"}


def test_a_gang_with_a_part_of_its_places_is_s4(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(state="Released", released_at=F("bound_at"))
    Usage.objects.filter(name="runs").update(held=F("held") / 2)
    assert broken() == {"S4"}


def test_a_worker_on_a_device_that_does_not_exist_is_s6(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[12])
    assert broken() == {"S6"}


def test_a_round_under_an_older_epoch_is_s7(world):
    newest = Cycle.objects.order_by("-pk").first()
    Cycle.objects.filter(pk=newest.pk).update(epoch=0)
    assert broken() == {"S7"}


def test_a_phase_that_no_event_tells_of_is_s12(world):
    Workload.objects.filter(name="waits").update(phase="Held")
    assert broken() == {"S12"}


def test_a_bill_that_does_not_add_up_is_s13(world):
    Usage.objects.filter(name="done").update(held=F("held") + 1)
    assert broken() == {"S13"}


@pytest.mark.parametrize(
    "decision",
    [
        Place("w", 3, (Assignment(0, "a", (1, 2)), Assignment(1, "b", ())), ("v",)),
        Evict("w", 3, EvictReason.RECLAIMED, "v", "why"),
        Shrink("w", 3, (1, 4), "why"),
        Wait("w", 3, Reason.FRAGMENTED, "why", (("free", 3), ("pool", "a"))),
    ],
)
def test_decisions_come_back_as_they_were_kept(decision):
    import json

    assert decision_of(json.loads(json.dumps(schedule.record(decision)))) == decision
