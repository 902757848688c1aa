"""Weights that wait in host memory, through the product: asked for, moved, seen, woken, refused, told everywhere."""

import pytest

from controlplane.cluster.port import ON_DEVICE, ON_HOST, REFUSED, PodPhase
from controlplane.jobspec.spec import SpecError
from controlplane.loops import scale, schedule
from controlplane.models import Action, Event, Placement, Workload
from controlplane.queries.workloads import details
from controlplane.queries.workloads import workloads as queries
from controlplane.services.scheduling import policy
from controlplane.services.workloads import workloads as services
from scheduler.model.workload import Weights
from tests.autoscaler.services import look
from tests.controlplane.state import World, job
from tests.controlplane.test_standby import WHOLE, service, started, up, world

__all__ = ["world"]
pytestmark = pytest.mark.django_db


def replicas(made: Workload) -> dict[int, str]:
    """Where the weights of each replica are, by rank."""
    live = made.placements.exclude(state="Released").order_by("rank")
    return dict(live.values_list("rank", "weights"))


def moved(world: World, made: Workload, where: str, *ranks: int, why: str = "") -> None:
    """What is seen of the weights of these replicas."""
    world.later(10)
    told = {"weights": where, "weights_at": world.cluster.at, "weights_message": why}
    world.pods(made, PodPhase.RUNNING, *ranks, **told)


def waiting(world: World) -> tuple[Workload, Workload]:
    """A service with two replicas on standby, and a training that needs more of a device than their model leaves."""
    made = service(world, standby_memory="host")
    asked = {"gpus": 1, "gpu_memory": "78Gi", "cpu": 1, "memory": "1Gi"}  # of 80 GiB, where the model takes 6
    gang = world.submit("elastic", resources=asked, workers={"count": 1, "max": 3})
    world.submit("full", resources={"gpus": 1, "cpu": 1, "memory": "1Gi"}, workers={"count": 12})
    turns(world, 3)
    return made, gang


def turns(world: World, count: int) -> None:
    """The loops have so many turns, and what waits is placed and runs."""
    for _ in range(count):
        world.later(10)
        up(world)


def test_a_service_says_that_its_server_can_do_it() -> None:
    asked = {"replicas": {"max": 3}, "resources": WHOLE, "objective": {"p95_latency": "1s"}, "standby": 1}
    assert job("chat", kind="inference", **asked, standby_memory="host").offloads
    assert not job("chat", kind="inference", **asked, standby_memory="device").offloads
    assert not job("chat", kind="inference", **asked).offloads
    with pytest.raises(SpecError, match="standby_memory"):
        job("chat", kind="inference", **asked, standby_memory="disk")


def test_weights_move_before_the_worker_starts_and_come_back_before_requests_do(world) -> None:
    made, gang = waiting(world)
    assert replicas(made) == {0: "", 1: Weights.TO_HOST, 2: Weights.TO_HOST}
    assert world.cluster.calls[-1] == ("offload", f"{made.pk}-1", (1, 2), 1024, 6144, True)
    assert [pod.rank for pod in started(world, gang)] == [0], "no worker starts while weights are on the device"
    moved(world, made, ON_HOST, 1, 2)
    assert replicas(made) == {0: "", 1: Weights.HOST, 2: Weights.HOST}
    turns(world, 2)
    lent = [pod for pod in started(world, gang) if pod.is_lent]
    assert [(pod.rank, pod.gpu_memory) for pod in lent] == [(1, 79872), (2, 79872)]

    world.wiring.metrics.told = look(world.cluster.at, 100.0, waiting=400, seconds=0.2)
    scale.run_once(world.wiring)
    world.actuate()
    said = Event.objects.filter(workload=made.pk, kind="Scaled").latest("id").message
    assert "2 in 10 s, from host memory" in said
    assert not [call for call in world.cluster.calls if call[0] == "rotate" and call[3]], "not before they are back"
    world.pods(gang, PodPhase.GONE, 1, 2)
    schedule.run_once(world.wiring)
    world.actuate()
    assert replicas(made) == {0: "", 1: Weights.TO_DEVICE, 2: Weights.TO_DEVICE}
    assert world.cluster.calls[-1] == ("offload", f"{made.pk}-1", (1, 2), 1024, 6144, False)
    moved(world, made, ON_DEVICE, 1, 2)
    world.actuate()
    assert replicas(made) == {0: "", 1: "", 2: ""}
    woken = [rank for call in world.cluster.calls if call[0] == "rotate" and call[3] for rank in call[2]]
    assert woken == [1, 2]


def test_what_was_seen_before_weights_were_told_to_move_says_nothing(world) -> None:
    made, _ = waiting(world)
    old = {"weights": ON_HOST, "weights_at": world.cluster.at - 100}
    world.pods(made, PodPhase.RUNNING, 1, **old)
    assert replicas(made)[1] == Weights.TO_HOST


def test_a_server_that_does_not_move_them_keeps_them_and_is_not_asked_again(world) -> None:
    made, gang = waiting(world)
    moved(world, made, REFUSED, 1, 2, why="404 Not Found")
    assert replicas(made) == {0: "", 1: Weights.FIXED, 2: Weights.FIXED}
    told = Event.objects.filter(workload=made.pk, kind="OffloadRefused").latest("id")
    assert "stay on the GPU, as the server did not move them: 404 Not Found" in told.message
    turns(world, 2)
    assert replicas(made) == {0: "", 1: Weights.FIXED, 2: Weights.FIXED}
    assert [pod.rank for pod in started(world, gang)] == [0]


def test_what_is_long_on_its_way_is_told_again(world) -> None:
    made, _ = waiting(world)
    told = len([call for call in world.cluster.calls if call[0] == "offload"])
    for seconds, times in ((60, 0), (200, 1)):
        world.later(seconds)
        world.observe_all()
        world.actuate()
        calls = [call for call in world.cluster.calls if call[0] == "offload"][told:]
        assert calls == [("offload", f"{made.pk}-1", (1, 2), 1024, 6144, True)] * times


def test_a_replica_that_cannot_bring_them_back_is_replaced(world) -> None:
    made, gang = waiting(world)
    moved(world, made, ON_HOST, 1, 2)
    services.stop(workload=gang, actor="nora")
    world.actuate()
    world.pods(gang, PodPhase.GONE)
    schedule.run_once(world.wiring)
    world.actuate()
    assert replicas(made) == {0: "", 1: Weights.TO_DEVICE, 2: Weights.TO_DEVICE}
    moved(world, made, REFUSED, 1, why="out of memory")
    assert Placement.objects.get(workload=made.pk, rank=1).state == "Leaving"
    assert Action.objects.filter(workload=made.pk, verb="stop").latest("id").payload["ranks"] == [1]
    world.actuate()
    world.pods(made, PodPhase.GONE, 1)
    schedule.run_once(world.wiring)
    assert max(replicas(made)) == 3, "another one starts"


def test_it_may_be_changed_while_the_service_runs(world) -> None:
    made = service(world)
    services.patch(workload=made, changes={"standby_memory": "host"}, version=None, actor="alice")
    assert Workload.objects.get(pk=made.pk).offloads
    services.patch(
        workload=Workload.objects.get(pk=made.pk), changes={"standby_memory": None}, version=None, actor="al"
    )
    assert not Workload.objects.get(pk=made.pk).offloads


def test_answers_say_of_each_replica_where_its_weights_are_and_how_soon_it_wakes(world) -> None:
    made, _ = waiting(world)
    moved(world, made, ON_HOST, 2)
    made.refresh_from_db()
    told = [(w["weights"], w["wake_seconds"]) for w in queries.placement(made)["workers"]]
    assert told == [(None, None), ("to host", 10.0), ("host", 10.0)]
    kept = details.autoscaling(made, world.cluster.at)["standby"]
    assert (kept["asleep"], kept["on_host"], kept["wake_seconds"], kept["host_wake_seconds"]) == (2, 2, 2.0, 10.0)
    policy.change(changes={"scaling": {"host_wake_seconds": 25}}, author="root")
    assert queries.placement(made)["workers"][2]["wake_seconds"] == 25.0
