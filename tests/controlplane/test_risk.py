"""A service at risk of missing its objective gets room: noted from its windows, and followed by the next round."""

import pytest

from controlplane.loops import schedule
from controlplane.models import Change, Event, Quota, ServiceWindow, Team, Workload
from controlplane.models import NodePool as Pool
from controlplane.queries.audit import audit
from controlplane.services.scheduling import changes
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
OBJECTIVE = {"p95_latency": "1s", "availability": 99.0, "window": "7d"}


@pytest.fixture
def world() -> World:
    """A service with one replica that wants another one, and a training of higher priority that has the rest."""
    made = World()
    Quota.objects.create(team=Team.objects.get(name="red"), pool=Pool.objects.get(), nominal=16_000)
    return made


@pytest.fixture
def chat(world: World) -> Workload:
    gpus = sum(node.gpus for node in world.cluster.nodes.values()) // len(world.cluster.nodes)
    service = world.submit("chat", kind="inference", gpus=gpus, replicas={"min": 1, "max": 2}, objective=OBJECTIVE)
    world.run(service, "a")
    train = world.submit("train", gpus=gpus, priority_class="high")
    world.run(train, "b")
    Workload.objects.filter(pk=service.pk).update(workers=2)
    changes.touch([service.pk])
    world.later(10_000.0)
    return service


def windows(world: World, chat: Workload, over: int, minutes: int = 90) -> None:
    """So many of 100 requests were late in each of the last minutes."""
    ServiceWindow.objects.filter(workload=chat.pk).delete()
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=chat.pk, start=world.cluster.at - 60 * n, requests=100, over=over, replicas=1)
        for n in range(1, minutes)
    )


def is_noted(world: World, chat: Workload) -> bool:
    world.observe()
    world.account()
    return Workload.objects.get(pk=chat.pk).at_risk


def test_how_a_service_stands_is_noted_and_the_scheduler_told_once_when_it_changes(
    world: World, chat: Workload
) -> None:
    windows(world, chat, over=0)
    assert is_noted(world, chat) is False
    Change.objects.all().delete()
    windows(world, chat, over=50)
    assert is_noted(world, chat) is True
    assert list(Change.objects.filter(workload=chat.pk).values_list("workload", flat=True)) == [chat.pk]
    Change.objects.all().delete()
    assert is_noted(world, chat) is True
    assert not Change.objects.filter(workload=chat.pk).exists()
    windows(world, chat, over=0)
    assert is_noted(world, chat) is False


def test_a_service_of_which_nothing_is_known_is_not_at_risk(world: World, chat: Workload) -> None:
    windows(world, chat, over=50)
    assert is_noted(world, chat) is True
    ServiceWindow.objects.all().delete()
    assert is_noted(world, chat) is False


def test_for_a_service_at_risk_a_training_of_its_team_leaves_whatever_its_priority(
    world: World, chat: Workload
) -> None:
    windows(world, chat, over=0)
    assert is_noted(world, chat) is False
    schedule.run_once(world.wiring)
    assert not Event.objects.filter(kind="Evicted").exists()
    windows(world, chat, over=50)
    assert is_noted(world, chat) is True
    schedule.run_once(world.wiring)
    evicted = Event.objects.get(kind="Evicted")
    assert (evicted.name, evicted.reason) == ("train", "Preempted")
    assert "which is at risk of missing its objective." in evicted.message
    assert evicted.data["terms"]["priority"] == 200
    assert evicted.data["terms"]["unsaved_seconds"] > 9_000  # the price
    assert audit.violations(last_rounds=2, pods=world.cluster.observe(None).pods) == ()
