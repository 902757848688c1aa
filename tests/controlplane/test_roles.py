"""Gangs with several roles from the job file to the end: rows, places, pods, usage, what a failure and an end mean."""

from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain.cycle import workload_of, workload_text
from controlplane.jobspec import members
from controlplane.jobspec.podsets import recounted
from controlplane.jobspec.spec import SpecError, parse
from controlplane.models import Placement, Usage, Workload
from controlplane.queries.scheduling import snapshot
from controlplane.queries.scheduling.upcoming_pods import Upcoming, upcoming
from controlplane.queries.workloads import workloadrows
from controlplane.queries.workloads.workloads import placement
from controlplane.services.errors import Refused
from controlplane.services.workloads.actions import due
from gpushare.gpu import Share
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Place
from scheduler.model.settings import Settings
from scheduler.model.workload import Gang, ResourceRequest, Role
from tests.controlplane.state import World, held, job, phase, seen_by_scheduler

pytestmark = pytest.mark.django_db

PS = {"name": "ps", "count": 2, "resources": {"cpu": 4, "memory": "1Gi"}, "command": ["serve"]}
CHIEF = {"name": "chief", "resources": {"gpu_share": {"guarantee": 0.5, "memory": "8Gi"}, "cpu": 1, "memory": "1Gi"}}
RUNNING, SUCCEEDED, FAILED, GONE = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE


@pytest.fixture
def world() -> World:
    return World()


def gang(world: World, **asked: Any) -> Workload:
    """A gang of two servers (ranks 0, 1), a chief (2) and two workers (3, 4) with a GPU each; placed by a round."""
    made = world.submit("gang", workers=2, roles=[PS, CHIEF], **asked)
    place(world)
    return made


def place(world: World) -> None:
    decisions = schedule(snapshot.full(world.cluster.at), Settings())
    assert not world.decide(*(d for d in decisions if isinstance(d, Place))).stale


def run(world: World, made: Workload) -> None:
    world.actuate()
    world.cluster.set(made, RUNNING)
    world.observe()
    assert phase(made) == "Running"


def test_the_scheduler_reads_the_roles_that_the_job_file_has(world: World) -> None:
    made = world.submit("gang", workers={"count": 2, "min": 1}, roles=[PS, CHIEF])
    seen = seen_by_scheduler(made)
    assert seen.gang == Gang(2, 1, 2)
    assert seen.roles == (
        Role("ps", ResourceRequest(cpu_milli=4000, memory=1024), 2),
        Role("chief", ResourceRequest(share=Share(500, 500, 8192), cpu_milli=1000, memory=1024)),
    )
    assert workload_of(workload_text(seen)) == seen


def test_a_workload_without_roles_has_the_text_it_always_had(world: World) -> None:
    text = workload_text(seen_by_scheduler(world.submit("plain")))
    assert text.endswith("[]]]")  # the places are the last that is written
    assert workload_of(text).roles == ()


def test_each_place_holds_what_its_role_asks(world: World) -> None:
    made = gang(world)
    seats = Placement.objects.filter(workload=made).order_by("rank").values_list("rank", "milli")
    assert list(seats) == [(0, 0), (1, 0), (2, 500), (3, 1000), (4, 1000)]
    (start,) = [c for c in due(at=world.cluster.at) if c.verb == "start"]
    asked = [(p.rank, p.cpu_milli, p.milli, p.gpu_memory, p.size, len(p.gpus)) for p in start.pods]
    assert asked == [
        (0, 4000, 1000, 0, 5, 0), (1, 4000, 1000, 0, 5, 0), (2, 1000, 500, 8192, 5, 1),
        (3, 1000, 1000, 0, 5, 1), (4, 1000, 1000, 0, 5, 1),
    ]  # fmt: skip


def test_answers_count_workers_and_members_of_each_role_apart(world: World) -> None:
    made = gang(world)
    run(world, made)
    world.cluster.set(made, RUNNING, 0)
    made.refresh_from_db()
    shown = workloadrows.row(made)
    assert shown["workers"] == {"count": 2, "min": 2, "max": 2, "placed": 2, "running": 2}
    assert [(r["name"], r["count"], r["placed"], r["running"]) for r in shown["roles"]] == [
        ("ps", 2, 2, 2), ("chief", 1, 1, 1),
    ]  # fmt: skip
    assert shown["resources"]["milli_gpu"] == 2500
    assert [(w["role"], w["index"]) for w in placement(made)["workers"]] == [
        ("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0), ("worker", 1),
    ]  # fmt: skip


def test_usage_counts_what_each_member_holds(world: World) -> None:
    made = gang(world)
    run(world, made)
    world.later(100)
    world.pods(made, SUCCEEDED)
    world.account()
    seconds = {p.rank: int(p.released_at) - int(p.bound_at) for p in Placement.objects.filter(workload=made)}
    owed = 500 * seconds[2] + 1000 * (seconds[3] + seconds[4])
    assert sum(Usage.objects.values_list("held", flat=True)) == owed
    made.refresh_from_db()
    assert made.attained == owed


def test_a_role_member_that_fails_ends_the_gang_by_its_name(world: World) -> None:
    made = gang(world)
    run(world, made)
    world.pods(made, FAILED, 1, exit_code=3)
    world.pods(made, GONE, 0, 2, 3, 4)
    made.refresh_from_db()
    assert (made.phase, made.exit_code) == ("Failed", 3)
    assert made.message.startswith("Ps 1 on ")


def test_the_gang_is_done_when_its_workers_are_and_role_members_are_stopped_then(world: World) -> None:
    made = gang(world)
    run(world, made)
    world.pods(made, SUCCEEDED, 3)
    assert phase(made) == "Running"
    world.pods(made, SUCCEEDED, 4)
    assert (phase(made), held(made)) == ("Running", 3)
    world.actuate()
    assert ("stop", str(made.pk)) in world.cluster.calls
    world.pods(made, GONE, 0, 2)
    world.pods(made, FAILED, 1, exit_code=143)  # how a server ends that is stopped says nothing
    made.refresh_from_db()
    assert (made.phase, made.exit_code, held(made)) == ("Succeeded", 0, 0)


def test_a_role_member_that_is_done_early_leaves_the_others_at_work(world: World) -> None:
    made = gang(world)
    run(world, made)
    world.pods(made, SUCCEEDED, 2)
    assert (phase(made), held(made)) == ("Running", 4)
    world.pods(made, SUCCEEDED, 3, 4)
    world.pods(made, GONE, 0, 1)
    assert phase(made) == "Succeeded"


def test_work_that_was_done_while_it_was_stopped_has_succeeded_whatever_its_servers_say(world: World) -> None:
    made, other = gang(world), world.submit("other")
    run(world, made)
    world.evict(made, other)
    world.pods(made, GONE, 0, 1, 2)
    world.pods(made, SUCCEEDED, 3, 4)
    assert phase(made) == "Succeeded"


def test_a_role_that_no_node_could_hold_is_refused_by_its_field(world: World) -> None:
    with pytest.raises(Refused) as refused:
        world.submit("gang", roles=[{"name": "ps", "resources": {"cpu": 1000}}])
    assert refused.value.field == "roles.0.resources.cpu"


@pytest.mark.parametrize(
    ("roles", "field", "said"),
    [
        ([{"name": "ps"}], "roles.0.resources", "is missing"),
        ([{"name": "worker", "resources": {}}], "roles.0.name", "which the workers are called"),
        ([PS, PS], "roles.1.name", "is a role twice"),
        ([{**PS, "count": 0}], "roles.0.count", "at least 1"),
        ([{**PS, "min": 1}], "roles.0.min", "Only the workers are elastic"),
        ([{"name": "ps", "cpu": 4, "resources": {}}], "roles.0.cpu", "Write it inside resources"),
        ([{"name": "e", "resources": {"gpus": 1, "gpu_model": "T4"}}], "roles.0.resources.gpu_model", "of one model"),
        ([{"name": "e", "resources": {"gpus": 1, "gpu_share": {"guarantee": 0.5, "memory": "1Gi"}}}],
         "roles.0.resources.gpu_share", "are both given"),
        ([{"name": f"r{i}", "resources": {}} for i in range(9)], "roles", "at most 8"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_role_is_said_by_its_field(roles: list[Any], field: str, said: str) -> None:
    with pytest.raises(SpecError) as wrong:
        job("j", roles=roles, resources={"gpus": 1, "gpu_model": ["A100"]})
    assert [e.field for e in wrong.value.errors] == [field]
    assert said in wrong.value.errors[0].message


def test_a_document_with_roles_is_read_again_as_it_was() -> None:
    first = job("j", roles=[PS, CHIEF])
    again = parse(first.text)
    assert (again, again.text) == (first, first.text)
    assert [role["cpu_milli"] for role in first.document()["normalised"]["roles"]] == [4000, 1000]


def test_its_pods_have_as_many_members_of_a_role_as_its_row_says(world: World) -> None:
    made = world.submit("gang", workers=2, roles=[PS, CHIEF])
    Workload.objects.filter(pk=made.pk).update(roles=recounted(made.roles, (3, 1)))
    ahead = upcoming(world.cluster.at, 10, Upcoming())
    assert [members.role_of(pod.spec, pod.rank) for pod in ahead] == [
        ("ps", 0), ("ps", 1), ("ps", 2), ("chief", 0), ("worker", 0), ("worker", 1),
    ]  # fmt: skip
    assert {pod.size for pod in ahead} == {6}
    place(world)
    world.actuate()
    started = [pod for pod in world.cluster.started if pod.workload == str(made.pk)]
    assert [(pod.rank, members.role_of(pod.spec, pod.rank)[0]) for pod in started][2:4] == [(2, "ps"), (3, "chief")]
    assert len(started) == 6


def test_a_job_file_with_the_counts_that_it_has_is_the_same() -> None:
    document = job("gang", workers=2, roles=[PS, CHIEF]).document()
    values = [["ps", 2, []], ["chief", 1, []]]
    assert members.counted(document, values) is document
    more = members.counted(document, [["ps", 5, []], ["chief", 1, []]])
    assert [role["count"] for role in members.roles(more)] == [5, 1]
