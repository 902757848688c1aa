"""What people do with workloads, in every phase, once and twice."""

import pytest
from django.db import connection

from controlplane.cluster.port import PodPhase
from controlplane.jobspec.quantities import iso
from controlplane.jobspec.spec import SpecError
from controlplane.models import Change, Dependency, Event, Placement, PriorityClass, Workload
from controlplane.services.errors import Refused
from controlplane.services.workloads import submission, workloads
from controlplane.services.workloads.submission import Submission
from scheduler.model.decision import Reason
from scheduler.model.workload import ENDED, LEAVING, Phase
from tests.controlplane.state import START, World, job, node, open_actions, phase, seen_by_scheduler, story

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def refusal(call, **asked) -> Refused:
    with pytest.raises(Refused) as caught:
        call(**asked)
    return caught.value


# --- submit -----------------------------------------------------------------------------------


def test_a_submitted_job_is_queued_with_an_event_and_a_hint(world):
    Change.objects.all().delete()
    made = submission.submit(spec=job("hello", retries=2, gpus=4), user=None, actor="ci", at=START + 5)
    row = Workload.objects.get()
    assert (row.pk, row.phase, row.gpus, row.retries, row.submitted_at) == (made.pk, "Queued", 4, 2, START + 5)
    assert (row.priority, row.preemptible, row.priority_class.name) == (100, True, "normal")
    event = Event.objects.get(workload=row.pk)
    assert (event.kind, event.actor, event.team, event.phase) == ("Submitted", "ci", "red", "Queued")
    assert Change.objects.get().workload == row.pk


def test_submissions_are_numbered_in_order(world):
    submission.submit_many(specs=[job(f"job-{n}") for n in range(3)], user=None, at=START)
    submission.submit(spec=job("last"), user=None, at=START)
    assert [w.name for w in Workload.objects.order_by("seq")] == ["job-0", "job-1", "job-2", "last"]
    assert list(Workload.objects.order_by("seq").values_list("seq", flat=True)) == [1, 2, 3, 4]


def test_a_job_without_a_time_gets_the_clusters_clock(world):
    world.later(77)
    world.observe()
    assert submission.submit(spec=job("job"), user=None).submitted_at == world.cluster.at


def test_the_number_of_statements_does_not_grow_with_the_number_of_jobs(world, django_assert_max_num_queries):
    specs = [job(f"job-{n}") for n in range(200)]
    with django_assert_max_num_queries(14):
        submission.submit_many(specs=specs, user=None, at=START)
    assert Workload.objects.count() == 200


def test_a_name_is_taken_while_its_workload_lives_and_free_afterwards(world):
    first = world.submit("job")
    no = refusal(world.submit, name="job")
    assert (no.status, no.code, no.field) == (409, "NameTaken", "name")
    assert world.submit("job", team="blue").name == "job"
    workloads.stop(workload=first, actor="alice")
    assert world.submit("job").name == "job"


def test_two_of_one_name_in_one_submission_are_refused_and_nothing_is_kept(world):
    no = refusal(submission.submit_many, specs=[job("a"), job("b"), job("a")], user=None)
    assert no.code == "NameTaken"
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        ({"gpus": 9}, "resources.gpus", "no node has more than 8"),
        ({"resources": {"gpus": 1, "gpu_model": ["H100"]}}, "resources.gpu_model", "there are: A100"),
        ({"resources": {"gpus": 1, "gpu_memory": "100Gi"}}, "resources.gpu_memory", "MiB of GPU memory"),
        ({"resources": {"gpus": 1, "cpu": 100}}, "resources.cpu", "1/1000 cores"),
        ({"resources": {"gpus": 1, "memory": "999Gi"}}, "resources.memory", "MiB of memory"),
        ({"gpus": 8, "workers": 3}, "workers", "at most 2 such workers fit in the cluster"),
        ({"gpus": 8, "workers": 2, "topology": {"require": "node"}}, "topology.require", "within one node"),
        ({"resources": {"gpu_share": {"guarantee": 0.5, "memory": "90Gi"}}}, "resources.gpu_memory", "no node"),
    ],
)
def test_what_could_never_be_placed_is_refused_with_the_field_and_the_fix(world, asked, field, says):
    no = refusal(world.submit, name="job", **asked)
    assert (no.status, no.code, no.field) == (422, "NeverPlaceable", field)
    assert says in no.message
    assert not Workload.objects.exists()


def test_a_node_that_is_broken_today_still_counts_as_a_place(world):
    for name in ("a", "b"):
        world.cluster.change(name, ready=False)
    world.observe()
    assert world.submit("job", gpus=8).phase == "Queued"


def test_workers_that_must_be_in_one_rack_are_counted_by_rack(world):
    world.cluster.nodes = {n: node(n, rack=f"rack-{n}") for n in ("a", "b")}
    world.observe_all()
    asked = {"gpus": 8, "workers": 2, "topology": {"require": "rack"}}
    assert refusal(world.submit, name="job", **asked).field == "topology.require"
    world.cluster.nodes["c"] = node("c", rack="rack-a")
    world.observe_all()
    assert world.submit("job", **asked).phase == "Queued"


@pytest.mark.parametrize(
    ("asked", "code"), [({"team": "green"}, "UnknownTeam"), ({"priority_class": "royal"}, "UnknownPriorityClass")]
)
def test_an_unknown_team_or_class_is_refused(world, asked, code):
    assert refusal(world.submit, name="job", **asked).code == code


def test_without_a_default_class_one_must_be_named(world):
    PriorityClass.objects.update(is_default=False)
    assert refusal(world.submit, name="job").code == "NoDefaultPriorityClass"
    assert world.submit("job", priority_class="high").priority == 200


# --- dependencies -----------------------------------------------------------------------------


def test_a_pipeline_is_resolved_in_any_order_and_met_step_by_step(world):
    serve, train, explore = submission.submit_many(
        specs=[
            job("serve", kind="inference", after=["train"]),
            job("train", after=["explore"]),
            job("explore", kind="notebook"),
        ],
        user=None,
        at=START,
    )
    assert (serve.unmet, train.unmet, explore.unmet) == (["train"], ["explore"], [])
    assert Dependency.objects.count() == 2
    world.run(explore, "a")
    workloads.stop(workload=explore, actor="alice")
    world.actuate()
    world.pods(explore, PodPhase.GONE)
    assert seen_by_scheduler(train).unmet == ()
    world.run(train, "a")
    assert seen_by_scheduler(serve).unmet == ("train",)
    world.pods(train, PodPhase.SUCCEEDED, exit_code=0)
    assert seen_by_scheduler(serve).unmet == ()


def test_a_service_is_waited_for_until_it_is_healthy(world):
    service = world.submit("chat", kind="inference")
    probe = world.submit("probe", after=["chat"])
    world.run(service, "a")
    assert seen_by_scheduler(probe).unmet == ()


def test_what_has_happened_already_is_met_at_once(world):
    train = world.submit("train")
    world.run(train, "a")
    world.pods(train, PodPhase.SUCCEEDED, exit_code=0)
    assert world.submit("serve", after=["train"]).unmet == []


def test_a_dependency_that_is_unknown_or_has_failed_is_refused(world):
    assert refusal(world.submit, name="job", after=["nobody"]).code == "UnknownDependency"
    train = world.submit("train")
    workloads.stop(workload=train, actor="alice")
    assert refusal(world.submit, name="job", after=["train"]).code == "FailedDependency"


def test_another_teams_workload_cannot_be_waited_for(world):
    world.submit("train", team="blue")
    assert refusal(world.submit, name="job", after=["train"]).code == "UnknownDependency"


def test_a_circle_is_refused_and_told(world):
    specs = [job("a", after=["b"]), job("b", after=["c"]), job("c", after=["a"])]
    no = refusal(submission.submit_many, specs=specs, user=None)
    assert (no.code, no.field) == ("DependencyCycle", "after")
    assert "dependency cycle: a -> b -> c -> a" in no.message


# --- stop, suspend, resume, requeue -----------------------------------------------------------

ALL = [p for p in Phase if p not in (Phase.SUBMITTED, Phase.PREEMPTED, Phase.REJECTED)]


def in_phase(world: World, now: Phase) -> Workload:
    """A workload in this phase, with the placement that goes with it."""
    made = world.submit("job")
    if now in (Phase.QUEUED, Phase.HELD, Phase.SUSPENDED) or now in ENDED:
        Workload.objects.filter(pk=made.pk).update(phase=now.value)
        return made
    state = "Reserved" if now == Phase.RESERVED else "Leaving" if now in LEAVING else "Bound"
    Workload.objects.filter(pk=made.pk).update(phase=now.value, attempt=1, next_rank=1)
    Placement.objects.create(
        workload=made, attempt=1, rank=0, node="a", pool="main", gpus=[0], milli=1000, state=state,
        bound_at=None if state == "Reserved" else START,
    )  # fmt: skip
    return made


STOP = {now: now if now in ENDED else Phase.STOPPING for now in ALL} | {
    now: Phase.STOPPED for now in (Phase.QUEUED, Phase.HELD, Phase.RESERVED, Phase.SUSPENDED)
}


@pytest.mark.parametrize("now", ALL)
def test_stop_in_every_phase(world, now):
    made = in_phase(world, now)
    workloads.stop(workload=made, actor="alice")
    assert phase(made) == STOP[now]
    told = story(made)
    workloads.stop(workload=made, actor="alice")
    workloads.delete(workload=made, actor="alice")
    assert story(made) == told


@pytest.mark.parametrize("now", ALL)
def test_suspend_in_every_phase(world, now):
    made = in_phase(world, now)
    if now in ENDED or now in (Phase.CHECKPOINTING, Phase.STOPPING):
        assert refusal(workloads.suspend, workload=made, actor="alice").status == 409
        assert phase(made) == now
        return
    workloads.suspend(workload=made, actor="alice")
    waits = {Phase.QUEUED: Phase.HELD, Phase.RESERVED: Phase.HELD, Phase.HELD: Phase.HELD}
    assert phase(made) == waits.get(now, Phase.SUSPENDED if now == Phase.SUSPENDED else Phase.SUSPENDING)
    told = story(made)
    workloads.suspend(workload=made, actor="alice")
    assert story(made) == told


def test_who_is_held_is_told_that_it_is_suspended(world):
    made = in_phase(world, Phase.QUEUED)
    workloads.suspend(workload=made, actor="alice")
    made.refresh_from_db()
    assert (made.reason, made.message) == (Reason.SUSPENDED.value, "Suspended by alice.")


@pytest.mark.parametrize("now", ALL)
def test_resume_in_every_phase(world, now):
    made = in_phase(world, now)
    if now in ENDED or now in LEAVING:
        assert refusal(workloads.resume, workload=made, actor="alice").status == 409
        return
    workloads.resume(workload=made, actor="alice")
    assert phase(made) == (Phase.QUEUED if now in (Phase.HELD, Phase.SUSPENDED) else now)


@pytest.mark.parametrize("now", ALL)
def test_requeue_in_every_phase(world, now):
    made = in_phase(world, now)
    if now in ENDED or now in LEAVING or now in (Phase.HELD, Phase.SUSPENDED):
        assert refusal(workloads.requeue, workload=made, actor="alice").status == 409
        return
    workloads.requeue(workload=made, actor="alice")
    assert phase(made) == (Phase.QUEUED if now in (Phase.QUEUED, Phase.RESERVED) else Phase.SUSPENDING)


def test_stopping_what_is_already_leaving_asks_the_cluster_only_once(world):
    made, other = world.submit("job"), world.submit("other")
    world.run(made, "a")
    world.evict(made, by=other)
    workloads.stop(workload=made, actor="alice")
    assert (phase(made), open_actions(made)) == ("Stopping", ["stop"])
    world.actuate()
    world.pods(made, PodPhase.GONE)
    assert phase(made) == "Stopped"


def test_a_resumed_job_does_not_overtake_those_that_waited(world):
    held = world.submit("held")
    workloads.suspend(workload=held, actor="alice")
    world.later(500)
    world.observe()
    workloads.resume(workload=held, actor="alice")
    held.refresh_from_db()
    assert held.queued_at == world.cluster.at


# --- patch ------------------------------------------------------------------------------------


def test_a_patch_changes_the_columns_and_the_stored_job_file(world):
    made = world.submit("job", workers=2)
    changes = {"priority_class": "high", "workers": {"count": 4, "min": 2, "max": 4}, "expected_duration": "2h"}
    workloads.patch(workload=made, changes=changes, version=1, actor="alice")
    made.refresh_from_db()
    assert (made.priority, made.workers, made.workers_min, made.expected_seconds) == (200, 4, 2, 7200)
    assert (made.spec["workers"]["count"], made.spec["normalised"]["expected_seconds"]) == (4, 7200)
    assert (made.version, story(made)) == (2, ["Submitted", "Patched"])
    assert seen_by_scheduler(made).gang.count == 4


def test_a_patch_of_an_older_version_is_refused(world):
    made = world.submit("job")
    workloads.patch(workload=made, changes={"expected_duration": "1h"}, version=1, actor="alice")
    no = refusal(workloads.patch, workload=made, changes={"expected_duration": "2h"}, version=1, actor="bob")
    assert (no.status, no.field) == (412, "version")
    made.refresh_from_db()
    assert made.expected_seconds == 3600


def test_an_empty_patch_writes_nothing(world):
    made = world.submit("job")
    workloads.patch(workload=made, changes={}, version=1, actor="alice")
    made.refresh_from_db()
    assert (made.version, story(made)) == (1, ["Submitted"])


def test_a_name_cannot_be_patched(world):
    made = world.submit("job")
    with pytest.raises(SpecError, match="cannot change after the submission"):
        workloads.patch(workload=made, changes={"name": "other"}, version=None, actor="alice")


def test_workers_of_what_runs_cannot_be_patched_but_a_services_bounds_can(world):
    made = world.submit("job")
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 2})
    world.run(made, "a")
    world.run(service, "a")
    no = refusal(workloads.patch, workload=made, changes={"workers": {"count": 2, "max": 2}}, version=None, actor="x")
    assert (no.status, no.code) == (409, "NotWaiting")
    workloads.patch(workload=service, changes={"replicas": {"min": 2, "max": 5}}, version=None, actor="x")
    service.refresh_from_db()
    assert (service.workers, service.workers_min, service.workers_max) == (2, 2, 5)
    assert seen_by_scheduler(service).is_waiting


def test_another_least_of_a_service_is_guarded_from_evictions_at_once(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 4})

    def bound(**replicas):
        workloads.patch(workload=service, changes={"replicas": replicas}, version=None, actor="x")

    bound(min=3, max=4)
    assert open_actions(service) == []  # what starts says itself how many are its least
    bound(min=2, max=4)
    world.run(service, "a", "b", "a")
    bound(min=2, max=6)
    assert open_actions(service) == []
    for least in (1, 3, 1):
        bound(min=least, max=6)
    assert open_actions(service) == ["guard"] * 3
    world.cluster.calls.clear()
    world.actuate()
    assert world.cluster.calls == [("guard", str(service.pk), 1)] * 3, "the last word, however late it is carried out"


def test_the_least_of_a_service_that_no_longer_runs_is_guarded_no_more(world):
    service = world.submit("chat", kind="inference", replicas={"min": 2, "max": 4})
    world.run(service, "a", "b")
    workloads.patch(workload=service, changes={"replicas": {"min": 1, "max": 4}}, version=None, actor="x")
    workloads.stop(workload=service, actor="alice")
    world.cluster.calls.clear()
    world.actuate()
    assert [call for call in world.cluster.calls if call[0] == "guard"] == []
    assert open_actions(service) == []


def test_what_has_ended_cannot_be_patched(world):
    made = world.submit("job")
    workloads.stop(workload=made, actor="alice")
    assert (
        refusal(workloads.patch, workload=made, changes={"labels": {"a": "b"}}, version=None, actor="x").status == 409
    )


def test_these_tests_run_on_the_database_that_was_asked_for(world, pytestconfig):
    asked_for = {"sqlite": "sqlite", "postgres": "postgresql"}[pytestconfig.getoption("--database")]
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()" if asked_for == "postgresql" else "SELECT sqlite_version()")
        (version,) = cursor.fetchone()
    assert connection.vendor == asked_for
    assert version.startswith("PostgreSQL " if asked_for == "postgresql" else "3.")


def test_a_presets_job_keeps_the_uid_it_was_given(world):
    import uuid

    uid = uuid.UUID(int=7)
    (made,) = submission.submit_all([Submission(job("job"), actor="preset", at=START, uid=uid)])
    assert Workload.objects.get().pk == uid == made.pk


def test_a_deadline_lies_after_the_moment_of_the_submission(world):
    now = iso(world.cluster.at)
    assert refusal(world.submit, name="late", deadline=now).message == (
        f"deadline is past: the cluster's clock is {now}. Set a later one."
    )
    assert world.submit("in-time", deadline=iso(world.cluster.at + 1)).phase == "Queued"
