"""Where replicas of a service go, through the product: asked for, kept, changed and told."""

import pytest

from controlplane.jobspec.spec import SpecError
from controlplane.models import Placement, Workload
from controlplane.queries.workloads import details, serving
from controlplane.services.workloads import workloads as services
from tests.controlplane.state import World, job, seen_by_scheduler
from tests.controlplane.test_standby import up

pytestmark = pytest.mark.django_db

HALF = {"gpu_share": {"guarantee": 0.5, "memory": "6Gi"}, "cpu": 1, "memory": "1Gi"}


def places(made: Workload) -> list[tuple[str, list[int]]]:
    return list(Placement.objects.filter(workload=made.pk).order_by("rank").values_list("node", "gpus"))


@pytest.mark.parametrize(("over", "gpus", "nodes"), [(None, 1, 1), ("pack", 1, 1), ("gpu", 2, 1), ("node", 2, 2)])
def test_two_replicas_lie_on_one_gpu_unless_the_job_file_says_otherwise(over: str, gpus: int, nodes: int) -> None:
    world = World()
    replicas = {"min": 2, "max": 4} | ({"spread": over} if over else {})
    made = world.submit("chat", kind="inference", replicas=replicas, resources=HALF)
    up(world)
    made.refresh_from_db()
    assert made.phase == "Running"
    there = places(made)
    assert (len({(node, *on) for node, on in there}), len({node for node, _ in there})) == (gpus, nodes)
    told = details.autoscaling(made, world.cluster.at)
    assert (told["running"], told["on_gpus"], told["on_nodes"]) == (2, gpus, nodes)
    assert serving.where(made.pk) == (gpus, nodes)


def test_it_may_be_changed_while_the_service_runs_and_counts_from_the_next_replica_on() -> None:
    world = World()
    made = world.submit("chat", kind="inference", replicas={"min": 2, "max": 4}, resources=HALF)
    up(world)
    made.refresh_from_db()
    services.patch(
        workload=made, changes={"replicas": {"min": 3, "max": 4, "spread": "node"}}, version=None, actor="alice"
    )
    assert seen_by_scheduler(made).spread == "node"
    world.later(10)
    up(world)
    (first, second, third) = places(made)
    assert first == second
    assert third[0] != first[0]


def test_over_what_replicas_are_spread_is_one_of_five() -> None:
    with pytest.raises(SpecError, match=r"replicas\.spread"):
        job("chat", kind="inference", replicas={"max": 2, "spread": "host"})
