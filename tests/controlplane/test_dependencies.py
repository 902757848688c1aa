"""A step after one that went another way ends at once, and comes back with it."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.models import Dependency, Event, PriorityClass, Workload
from controlplane.queries.audit.eventlog import Place
from controlplane.queries.notifications import event_types
from controlplane.services.errors import Refused
from controlplane.services.scheduling import timeouts
from controlplane.services.workloads import workloads
from controlplane.simulator.chaos.store import Record, Store
from controlplane.simulator.replay import turn
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase
from tests.controlplane.state import World, phase, seen_by_scheduler, story
from tests.worlds import parse

FAILED, RUNNING, SUCCEEDED = PodPhase.FAILED, PodPhase.RUNNING, PodPhase.SUCCEEDED


@pytest.fixture
def world(db) -> World:
    return World()


def fail(world: World, job: Workload) -> None:
    world.run(job, "a")
    world.pods(job, FAILED, exit_code=1)
    assert phase(job) == "Failed"


def again(world: World, name: str, **asked) -> Workload:
    """Submit a name again; by then its workload has ended."""
    world.later()
    return world.submit(name, **asked)


def newest(name: str) -> Workload:
    return Workload.objects.filter(name=name).latest("seq")


def test_steps_after_a_failed_one_end_at_once_and_leave_the_queue(world):
    prepare, train, probe = world.submit("prepare"), world.submit("train", after=["prepare"]), None
    probe = world.submit("probe", after=["train"])
    workloads.suspend(workload=probe, actor="ann")
    fail(world, prepare)
    for step, before, how in ((train, "prepare", "failed"), (probe, "train", "was stopped")):
        step.refresh_from_db()
        assert (step.phase, step.reason, step.ended_at) == ("Stopped", "DependencyFailed", world.cluster.at)
        assert step.message.startswith(f"It starts after {before} has succeeded, but {before} {how}.")
        assert seen_by_scheduler(step) is None
    assert story(train) == ["Submitted", "Stopped"]


def test_a_step_after_a_stopped_one_ends_at_once(world):
    prepare, train = world.submit("prepare"), world.submit("train", after=["prepare"])
    workloads.stop(workload=prepare, actor="ann")
    train.refresh_from_db()
    assert (train.phase, train.reason) == ("Stopped", "DependencyFailed")


@pytest.mark.parametrize(
    ("when", "end", "phases"),
    [
        ("failed", FAILED, ["Queued", "Queued"]),
        ("failed", SUCCEEDED, ["Stopped", "Queued"]),
        ("ended", FAILED, ["Queued", "Queued"]),
        ("succeeded", SUCCEEDED, ["Queued", "Queued"]),
        ("healthy", FAILED, ["Queued", "Queued"]),
    ],
)
def test_a_rule_of_its_own_decides_whether_a_step_starts(world, when, end, phases):
    prepare = world.submit("prepare")
    step = world.submit("step", after=[{"name": "prepare", "when": when}])
    other = world.submit("other", after=[{"name": "prepare", "when": "ended"}])
    assert Dependency.objects.get(workload=step).when == when
    world.run(prepare, "a")
    world.pods(prepare, end, exit_code=0 if end is SUCCEEDED else 1)
    for one in (step, other):
        one.refresh_from_db()
    assert [step.phase, other.phase] == phases
    assert [one.unmet for one in (step, other) if one.phase == "Queued"] == [[]] * phases.count("Queued")


def test_a_step_that_started_is_left_alone_when_what_it_started_after_ends(world):
    chat = world.submit("chat", kind="inference")
    probe = world.submit("probe", after=["chat"])
    world.run(chat, "a")
    world.run(probe, "b")
    workloads.stop(workload=chat, actor="ann")
    world.pods(chat, PodPhase.GONE)
    assert (phase(chat), phase(probe)) == ("Stopped", "Running")


def test_steps_come_back_with_what_they_start_after(world):
    fail_first = world.submit("prepare")
    for name, before in (("train", "prepare"), ("probe", "train")):
        world.submit(name, after=[before], labels={"of": "nightly"})
    fail(world, fail_first)
    again(world, "prepare")
    assert Workload.objects.filter(phase="Queued").count() == 3
    train, probe = newest("train"), newest("probe")
    assert (train.unmet, probe.unmet, train.spec["labels"]) == (["prepare"], ["train"], {"of": "nightly"})
    told = Event.objects.get(workload=train.pk, kind="Submitted")
    assert told.message == "Submitted again by alice, with what it starts after."
    fail(world, newest("prepare"))
    assert [phase(newest(name)) for name in ("prepare", "train", "probe")] == ["Failed", "Stopped", "Stopped"]


def test_a_step_that_ended_for_another_reason_does_not_come_back(world):
    prepare, train = world.submit("prepare"), world.submit("train", after=["prepare"])
    workloads.stop(workload=train, actor="ann")
    fail(world, prepare)
    again(world, "prepare")
    assert Workload.objects.filter(name="train").count() == 1


def test_a_step_that_was_submitted_anew_meanwhile_does_not_come_back_beside_it(world):
    fail_first = world.submit("prepare")
    world.submit("train", after=["prepare"])
    fail(world, fail_first)
    alone = world.submit("train")
    workloads.stop(workload=alone, actor="ann")
    again(world, "prepare")
    assert newest("train").pk == alone.pk


def test_a_pipeline_that_is_submitted_again_step_by_step_replaces_what_came_back(world):
    fail_first = world.submit("prepare")
    world.submit("train", after=["prepare"])
    fail(world, fail_first)
    again(world, "prepare")
    came_back = newest("train")
    mine = world.submit("train", after=["prepare"])
    came_back.refresh_from_db()
    assert (came_back.phase, came_back.reason) == ("Stopped", "Replaced")
    assert came_back.message == "alice has submitted it anew."
    with pytest.raises(Refused, match="has a live workload named train"):
        world.submit("train")
    assert newest("train").pk == mine.pk


def test_a_step_that_may_not_come_back_says_why_and_keeps_nothing_else_from_it(world):
    PriorityClass.objects.create(name="gone", value=1)
    fail_first = world.submit("prepare")
    train = world.submit("train", after=["prepare"], priority_class="gone")
    fail(world, fail_first)
    Workload.objects.filter(pk=train.pk).update(priority_class=PriorityClass.objects.get(name="normal"))
    PriorityClass.objects.get(name="gone").delete()
    again(world, "prepare")
    assert newest("train").pk == train.pk
    told = Event.objects.get(workload=train.pk, kind="NotSubmittedAgain")
    assert "There is no priority class gone" in told.message


def test_a_step_that_was_left_waiting_by_an_older_version_ends_with_the_next_sweep(world):
    prepare = world.submit("prepare")
    other = world.submit("other")
    train = world.submit("train", after=["prepare", "other"])
    Workload.objects.filter(pk=prepare.pk).update(phase="Failed")
    world.later(31)
    world.observe()
    train.refresh_from_db()
    assert (train.phase, train.reason, train.unmet) == ("Stopped", "DependencyFailed", ["prepare", "other"])
    assert phase(other) == "Queued"
    assert not timeouts.is_due(at=world.cluster.at, gang_timeout_seconds=300.0)


def test_whoever_is_told_of_ends_reads_that_it_can_never_start(world):
    prepare = world.submit("prepare")
    world.submit("train", after=["prepare"])
    fail(world, prepare)
    found, _ = event_types.happened(Place(0), now=0.0)
    said = next(one.said for one in found if one.said.name == "train")
    assert said.title == "train can never start"
    assert (said.data["phase"], said.data["reason"]) == ("Stopped", "DependencyFailed")


def test_the_books_of_the_simulator_end_steps_as_the_services_do():
    gated = parse("""
        node a 4 gpus
        team red nominal 4
        prepare red training 1 pending
        train red training 1 unmet prepare pending
        probe red training 1 unmet train pending
        clean red training 1 unmet prepare pending
    """)
    store = Store(Snapshot.build(gated.at, gated.inventory.nodes, gated.teams, gated.quotas, ()))
    for one in gated.workloads.values():
        store.add(one, Record({}, after={"prepare": "ended"} if one.name == "clean" else {}), "user")
    store.flush()
    (prepare,) = (w for w in store.living() if w.name == "prepare")
    turn.stop(store, prepare.id, "user")
    assert {store.records[w.id] is not None and w.name: w.unmet for w in store.living()} == {"clean": ()}
    assert sorted(store.ended.values()) == [Phase.STOPPED] * 3
