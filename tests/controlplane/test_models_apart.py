"""Two models on one GPU through the product: only in a pool whose back-end enforces; else one waits and is told why."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from controlplane.models import NodePool, Placement, Workload
from controlplane.queries.workloads import workloads as queries
from controlplane.services.tenancy import quotas
from tests.controlplane.state import World
from tests.controlplane.test_standby import up

pytestmark = pytest.mark.django_db

WORDS = "hold another model, and what holds shares in node pool {pool} is advisory, so each GPU there takes one model"


def service(world: World, name: str) -> Workload:
    """One with a replica on a share of which a GPU would have room for three."""
    resources = {"gpu_share": {"guarantee": 0.3, "memory": "1Gi"}, "cpu": 1, "memory": "1Gi"}
    made = world.submit(name, kind="inference", resources=resources, replicas={"min": 1, "max": 1})
    up(world)
    made.refresh_from_db()
    return made


def places(made: Workload) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (node, tuple(gpus)) for node, gpus in Placement.objects.filter(workload=made.pk).values_list("node", "gpus")
    ]


def chosen(enforcer: str) -> None:
    for pool in NodePool.objects.all():
        quotas.change_pool(pool=pool, enforcer=enforcer, actor="root")


def filled(world: World) -> None:
    """One model on each GPU that there is."""
    chosen("time-slicing")
    for number in range(100):
        if not places(service(world, f"m{number}")):
            return
    raise AssertionError("there is no end of GPUs")


def test_the_simulated_cluster_enforces_so_models_lie_together_as_before() -> None:
    world = World()
    assert places(service(world, "chat")) == places(service(world, "search")) != []


def test_in_an_advisory_pool_each_model_has_a_gpu_of_its_own_and_the_next_one_waits_and_is_told_so() -> None:
    world = World()
    filled(world)
    taken = list(Placement.objects.values_list("node", "gpus"))
    assert len({(node, *gpus) for node, gpus in taken}) == len(taken) > 2
    waits = Workload.objects.get(phase="Queued")
    words = WORDS.format(pool=NodePool.objects.get().name)
    assert waits.reason == "WaitingForCapacity"
    assert words in waits.message
    assert "It needs a pool with a back-end that enforces shares, or whole GPUs." in waits.message
    root = get_user_model().objects.create_superuser("root")
    assert words in queries.explanation(root, waits)["message"]
    client = Client()
    client.force_login(root)
    assert words in client.get(reverse("frontend:workload", args=[waits.pk])).content.decode()


def test_it_starts_beside_another_model_once_the_pool_s_back_end_enforces() -> None:
    world = World()
    filled(world)
    waits = Workload.objects.get(phase="Queued")
    chosen("")  # what its nodes say, which the simulated ones do
    up(world)
    assert places(waits)
    assert Placement.objects.filter(node=places(waits)[0][0], gpus=list(places(waits)[0][1])).count() == 2
