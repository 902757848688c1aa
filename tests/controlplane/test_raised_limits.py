"""The limit of a service's replicas on shares through the product: what may be asked, the command, what is told."""

import json
from dataclasses import replace

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain import lawstate
from controlplane.jobspec.spec import SpecError, parse
from controlplane.loops import scale
from controlplane.models import Action, Cycle, Event, Node, NodePool, Placement, ServiceState, Workload
from controlplane.queries.scheduling import rooms
from controlplane.queries.workloads import details, limits
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy
from controlplane.services.workloads import workloads as services
from tests.autoscaler.services import look
from tests.controlplane.state import World, job
from tests.controlplane.test_loops_scale import replayed
from tests.controlplane.test_standby import Busy, up

pytestmark = pytest.mark.django_db

SHARE = {"guarantee": 0.3, "memory": "6Gi", "max_limit": 0.9}


def shares(**given: object) -> dict[str, object]:
    return {"gpu_share": SHARE | given, "cpu": 1, "memory": "1Gi"}


@pytest.fixture
def world() -> World:
    policy.change(changes={"scaling": {"young_seconds": 0, "fall_seconds": 1}}, author="root")
    return World(metrics=Busy())


def service(world: World, name: str = "chat", **file: object) -> Workload:
    values = {"replicas": {"min": 1, "max": 3}, "resources": shares(), "objective": {"p95_latency": "1s"}}
    made = world.submit(name, kind="inference", **values | file)
    up(world)
    made.refresh_from_db()
    return made


def looked(world: World, rate: float, seconds: float = 0.05) -> None:
    """A look of the autoscaler at so many requests a second, and what follows."""
    world.cluster.at += 15
    world.metrics.told = replace(look(world.cluster.at, rate, seconds=seconds), widest=4)
    scale.run_once(world.wiring)


@pytest.mark.parametrize(
    ("file", "field", "says"),
    [
        ({"objective": None}, "resources.gpu_share.max_limit", "there is no objective to raise the limit by"),
        ({"resources": shares(max_limit=0.2)}, "resources.gpu_share.limit", "Set limit to at most 0.2."),
        ({"resources": shares(limit=0.95)}, "resources.gpu_share.limit", "Set limit to at most 0.9."),
        ({"resources": shares(max_limit=1.2)}, "resources.gpu_share.max_limit", "1"),
    ],
)
def test_what_limit_cannot_be_raised_is_refused_with_the_field_and_the_fix(file, field, says):
    asked = {"replicas": {"max": 3}, "resources": shares(), "objective": {"p95_latency": "1s"}} | file
    given = {"type": "inference", "name": "chat", "team": "nlp", "image": "registry.example/chat:1"}
    with pytest.raises(SpecError) as refused:
        parse(given | {name: value for name, value in asked.items() if value is not None})
    assert [(one.field, says in one.message) for one in refused.value.errors] == [(field, True)]


def test_only_a_services_limit_is_raised():
    with pytest.raises(SpecError, match="Only a service's limit is raised"):
        job("t", "nlp", "training", resources=shares())


def test_the_limit_is_raised_before_another_replica_and_told_to_those_that_run(world):
    made = service(world)
    assert (made.share_limit, made.workers) == (300, 1)
    assert [pod.limit for pod in world.cluster.started] == [300]
    looked(world, 40.0)
    looked(world, 150.0)
    made.refresh_from_db()
    assert made.workers == 1
    assert 300 < made.share_limit <= 900
    event = Event.objects.filter(workload=made.pk, kind="Scaled").latest("id")
    assert event.data == {"before": 1, "after": 1, "limit_before": 300, "limit": made.share_limit}
    assert event.message.startswith(f"The replicas may use {made.share_limit / 1000:g} of their GPU in place of 0.3: ")
    assert Action.objects.filter(verb="limit", done_at=None).values_list("payload", flat=True).get() == {"ranks": [0]}
    world.actuate()
    assert ("limit", f"{made.pk}-1", (0,), made.share_limit) in world.cluster.calls

    looked(world, 1000.0)
    up(world)
    made.refresh_from_db()
    assert made.workers > 1
    assert {pod.limit for pod in world.cluster.started[1:]} == {900}  # new ones start with it
    assert made.spec["normalised"]["gpu_share"]["limit"] == 300  # the job file is as it was


def test_the_room_is_what_the_device_does_not_guarantee_to_others(world):
    made = service(world, replicas={"min": 2, "max": 3})
    (first, second) = Placement.objects.filter(workload=made.pk).order_by("rank")
    bounds = rooms.raised(made.spec["normalised"])
    assert bounds == (300, 900)
    both = 1000 - 300 if (first.node, first.gpus) == (second.node, second.gpus) else 1000
    assert rooms.limits({made.pk: bounds})[str(made.pk)].room == both
    Placement.objects.filter(pk=first.pk).update(node=second.node, gpus=second.gpus)
    other = service(world, "other", resources={"gpu_share": {"guarantee": 0.35, "memory": "1Gi"}, "cpu": 1})
    Placement.objects.filter(workload=other.pk).update(node=second.node, gpus=second.gpus)
    found = rooms.limits({made.pk: bounds})[str(made.pk)]
    assert (found.room, found.cap, found.advisory) == (350, 350, "")
    Placement.objects.filter(workload=other.pk).update(state="Released")
    assert rooms.limits({made.pk: bounds})[str(made.pk)].cap == 700
    Node.objects.filter(name=second.node).update(enforces_limits=False)
    found = rooms.limits({made.pk: bounds})[str(made.pk)]
    assert (found.cap, found.advisory) == (300, second.node)


def test_where_no_node_holds_a_share_to_its_limit_such_a_service_is_refused_as_advisory(world):
    Node.objects.update(enforces_limits=False)
    with pytest.raises(Refused) as refused:
        world.submit("chat", kind="inference", resources=shares(), objective={"p95_latency": "1s"})
    assert (refused.value.code, refused.value.field) == ("Advisory", "resources.gpu_share.max_limit")
    assert "holds a share to its limit (advisory)" in str(refused.value.message)
    made = world.submit("plain", kind="inference", resources={"gpu_share": {"guarantee": 0.3, "memory": "6Gi"}})
    assert made.share_limit == 300


def test_the_bound_may_be_changed_while_it_runs(world):
    made = service(world)
    looked(world, 40.0)
    looked(world, 150.0)
    up(world)
    services.patch(workload=made, changes={"resources": shares(max_limit=0.4)}, version=None, actor="alice")
    looked(world, 10.0)
    made.refresh_from_db()
    assert made.share_limit <= 400
    assert all(p.pod_phase == PodPhase.RUNNING.value for p in Placement.objects.filter(workload=made.pk))


def test_the_answer_and_the_sentence_say_what_the_limit_is_and_what_holds_it(world):
    made = service(world)
    told = details.autoscaling(made, world.cluster.at)["raised_limit"]
    assert told == {
        "now_milli": 300, "least_milli": 300, "most_milli": 900, "cap_milli": 900, "enforced_by": "back-end",
        "sentence": "0.3 of a GPU, between 0.3 and 0.9",
    }  # fmt: skip
    other = service(world, "other", resources={"gpu_share": {"guarantee": 0.5, "memory": "1Gi"}, "cpu": 1})
    assert details.autoscaling(other, world.cluster.at)["raised_limit"] is None
    seat = Placement.objects.get(workload=made.pk)
    Placement.objects.filter(workload=other.pk).update(node=seat.node, gpus=seat.gpus)
    found = limits.of_service(made)
    assert found.sentence == "0.3 of a GPU, between 0.3 and 0.9; its GPUs have room for 0.5 beside other guarantees"
    Node.objects.update(enforces_limits=False)
    found = limits.of_service(made)
    assert (
        found.sentence == f"0.3 of a GPU; not raised to 0.9, as nothing on {seat.node} holds a share to it (advisory)"
    )
    assert found.shown()["enforced_by"] == "advisory"
    NodePool.objects.update(enforcer="mps")
    found = limits.of_service(made)
    assert found.sentence == f"0.3 of a GPU; not raised to 0.9, as mps on {seat.node} follows no limit that changes"
    assert found.shown()["enforced_by"] == "mps"


def test_a_stored_round_that_raised_a_limit_decides_the_same_again(world):
    """With what it saw of limits, and what was remembered of the looks before."""
    service(world)
    for rate in (40.0, 60.0, 250.0):
        looked(world, rate)
        world.actuate()
    cycles = list(Cycle.objects.filter(loop="scale").order_by("pk"))
    assert [cycle.decisions[0]["limit"] for cycle in cycles][-1] == 900
    for cycle in cycles:
        assert replayed(cycle.pk) == (0, f"Cycle {cycle.pk}: 1 decisions on 1 services, the same again.")
    state = ServiceState.objects.get().state
    assert json.loads(json.dumps(lawstate.plain(lawstate.state_of(state)))) == state


def test_several_models_lie_on_one_gpu_by_memory_and_by_the_time_that_each_is_guaranteed(world):
    """80 GiB: three models of 26 GiB leave 0.1 of the time and 2 GiB."""

    def place(name: str, guarantee: float, memory: str) -> tuple[str, list[int]]:
        share = {"gpu_share": {"guarantee": guarantee, "memory": memory}, "cpu": 1, "memory": "1Gi"}
        seat = Placement.objects.get(workload=service(world, name, resources=share, replicas={"min": 1}).pk)
        return seat.node, seat.gpus

    first = place("chat", 0.3, "26Gi")
    assert [place(name, 0.3, "26Gi") for name in ("rank", "tag")] == [first, first]
    assert place("large", 0.1, "6Gi") != first  # its memory does not fit
    assert place("busy", 0.2, "1Gi") != first  # its time does not fit
    assert place("small", 0.1, "1Gi") == first
