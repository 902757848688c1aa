"""Two interpreters, one meaning: what commit leaves in the database is what Snapshot.after says."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.cluster.port import PodPhase
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Action, Cycle, Event, Placement, Workload
from controlplane.queries.scheduling.snapshot import full
from controlplane.services.scheduling import decisions
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import HeldLease, acquire
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place, Reason, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, LEAVING, Assignment, Kind, Phase
from tests import strategies
from tests.controlplane.state import World, open_actions, phase, seen_by_scheduler, story
from tests.controlplane.stored import renamed, store

pytestmark = pytest.mark.django_db

OTHER = "00000000-0000-0000-0000-00000000000f"  # a workload that is not in the world
PHASES = (Phase.QUEUED, Phase.RESERVED, *sorted(ACTIVE), *sorted(LEAVING), Phase.HELD, Phase.SUSPENDED)


class Undo(Exception):  # noqa: N818
    """Rolls an example's transaction back."""


def some_workload(draw: Any, world: World, number: int) -> Workload:
    kind = draw(st.sampled_from(list(Kind)))
    job = world.submit(f"w{number}", team=draw(st.sampled_from(["red", "blue"])), kind=kind.value)
    now = draw(st.sampled_from(PHASES))
    count = draw(st.integers(1, 3))
    attempt = draw(st.integers(1, 3)) if now != Phase.QUEUED else draw(st.integers(0, 3))
    first = draw(st.integers(0, 2)) if kind == Kind.INFERENCE else 0
    preempted = draw(st.lists(st.floats(world.cluster.at - 1000, world.cluster.at - 1), max_size=2))
    Workload.objects.filter(pk=job.pk).update(
        phase=now.value,
        workers=count,
        workers_max=4,
        version=draw(st.integers(1, 9)),
        attempt=attempt,
        attained=draw(st.integers(0, 10**9)),
        reason=draw(st.sampled_from(["", "WaitingForCapacity"])),
        preempted_at=preempted,
        preempted_by=[OTHER for _ in preempted],
        started_at=draw(st.sampled_from([None, world.cluster.at - 50])),
        not_before=draw(st.sampled_from([None, world.cluster.at + 50])),
        next_rank=0 if now == Phase.QUEUED and not attempt else first + count,
        reserved_after=[OTHER] if now == Phase.RESERVED else [],
    )
    if now in ACTIVE or now in LEAVING or now == Phase.RESERVED:
        for rank in range(first, first + count):
            _seat(draw, job, attempt, rank, now)
    job.refresh_from_db()
    return job


def _seat(draw: Any, job: Workload, attempt: int, rank: int, now: Phase) -> None:
    states = {Phase.RESERVED: ["Reserved"], Phase.CHECKPOINTING: ["Leaving"], Phase.STOPPING: ["Leaving"]}
    state = draw(st.sampled_from(states.get(now, ["Bound", "Bound", "Leaving", "Released"])))
    if job.kind == Kind.INFERENCE and state == "Bound":
        state = draw(st.sampled_from(["Bound", "Bound", "Reserved"]))
    Placement.objects.create(
        workload=job,
        attempt=attempt,
        rank=rank,
        node=draw(st.sampled_from(["a", "b"])),
        pool="main",
        gpus=[draw(st.integers(0, 7))],
        milli=1000,
        state=state,
        bound_at=None if state == "Reserved" else job.submitted_at,
        released_at=job.submitted_at + 5 if state == "Released" else None,
    )


def some_decision(draw: Any, snapshot: Snapshot, uid: str) -> Any:
    w = snapshot.workloads[uid]
    others = [other for other in snapshot.workloads if other != uid]
    after = tuple(draw(st.lists(st.sampled_from(others), max_size=2, unique=True))) if others else ()
    nodes = draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3))
    choices: list[Any] = [Wait(uid, w.version, Reason.FRAGMENTED, "text", (("free", 3),))]
    if w.phase == Phase.QUEUED:
        workers = tuple(Assignment(rank, node, (rank,)) for rank, node in enumerate(nodes))
        choices += [Place(uid, w.version, workers), Place(uid, w.version, workers, after)] * 2
    if w.phase in ACTIVE and w.kind == Kind.INFERENCE:
        workers = tuple(Assignment(w.next_rank + i, node, (i,)) for i, node in enumerate(nodes))
        choices += [Place(uid, w.version, workers), Place(uid, w.version, workers, after)]
    if w.phase in ACTIVE and w.placement:
        ranks = tuple(draw(st.lists(st.sampled_from([a.rank for a in w.placement]), min_size=1, unique=True)))
        choices.append(Shrink(uid, w.version, ranks, "less is wanted"))
    if w.phase in ACTIVE or w.phase == Phase.RESERVED:
        by = draw(st.sampled_from(others)) if others else OTHER
        choices.append(Evict(uid, w.version, draw(st.sampled_from(list(EvictReason))), by, "for another"))
    return draw(st.sampled_from(choices))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_commit_means_what_after_means(data, db):
    draw = data.draw
    try:
        with transaction.atomic():
            world = World()
            for number in range(draw(st.integers(1, 6))):
                some_workload(draw, world, number)
            keeper = SnapshotKeeper()
            taken = keeper.take(world.lease(), world.cluster.at)
            before = taken.snapshot
            chosen = draw(st.permutations(sorted(before.workloads)))[: draw(st.integers(1, 6))]
            made = tuple(
                some_decision(draw, before, uid)
                for uid in chosen
                if before.workloads[uid].phase in ACTIVE | {Phase.QUEUED, Phase.RESERVED}
            )
            committed = decisions.commit(
                made, lease=world.lease(), cycle=CycleInput("schedule", world.cluster.at), is_followed=True
            )
            assert set(committed.applied) | set(committed.stale) == set(made)
            assert not committed.stale
            expected = before.after(made)
            from_scratch = full(world.cluster.at)
            assert dict(from_scratch.workloads) == dict(expected.workloads)
            assert (from_scratch.columns.gpu == expected.columns.gpu).all()
            assert (from_scratch.columns.node == expected.columns.node).all()
            keeper.follow(committed.applied)
            followed = keeper.take(world.lease(), world.cluster.at)
            assert dict(followed.snapshot.workloads) == dict(expected.workloads)
            assert followed.digest == SnapshotKeeper().take(world.lease(), world.cluster.at).digest
            raise Undo
    except Undo:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=strategies.worlds())
def test_rounds_of_the_real_scheduler_leave_in_the_database_what_they_decided(world, db):
    try:
        with transaction.atomic():
            wanted = renamed(world)
            store(wanted)
            lease = acquire(name="schedule", holder="test")
            assert isinstance(lease, HeldLease)
            keeper = SnapshotKeeper()
            for step in range(3):
                seen = keeper.take(lease, wanted.at).snapshot
                assert dict(seen.workloads) == dict(wanted.workloads)
                made = schedule(seen, Settings())
                committed = decisions.commit(
                    made, lease=lease, cycle=CycleInput("schedule", wanted.at), is_followed=True
                )
                assert not committed.stale, step
                keeper.follow(committed.applied)
                wanted = seen.after(made).replace(at=wanted.at + 120)
                stored = full(wanted.at)
                assert dict(stored.workloads) == dict(wanted.workloads)
                assert (stored.columns.gpu == wanted.columns.gpu).all()
            raise Undo
    except Undo:
        pass


# --- what is stale ----------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    return World()


def test_a_decision_on_an_older_version_is_stale_and_writes_nothing(world):
    job = world.submit("job")
    Workload.objects.filter(pk=job.pk).update(version=5)
    made = world.decide(Place(str(job.pk), 1, (Assignment(0, "a", (0,)),)))
    assert (len(made.applied), len(made.stale)) == (0, 1)
    assert (phase(job), Placement.objects.count(), Action.objects.count()) == ("Queued", 0, 0)


def test_a_claimant_is_not_placed_when_one_of_its_victims_is_stale(world):
    victim, claimant, bystander = (world.submit(name) for name in ("victim", "claimant", "bystander"))
    world.run(victim, "a")
    victim.refresh_from_db()
    evict = Evict(str(victim.pk), victim.version - 1, EvictReason.PREEMPTED, str(claimant.pk))
    place = Place(str(claimant.pk), 1, (Assignment(0, "a", (0,)),), (str(victim.pk),))
    other = Place(str(bystander.pk), 1, (Assignment(0, "b", (0,)),))
    made = world.decide(evict, place, other)
    assert (made.applied, set(made.stale)) == ((other,), {evict, place})
    assert (phase(victim), phase(claimant), phase(bystander)) == ("Running", "Queued", "Admitted")


def test_no_victim_is_evicted_for_a_claimant_that_has_gone(world):
    one, two, claimant = (world.submit(name) for name in ("one", "two", "claimant"))
    for victim in (one, two):
        world.run(victim, "a")
        victim.refresh_from_db()
    Workload.objects.filter(pk=claimant.pk).update(phase="Stopped", version=2)
    evictions = [Evict(str(v.pk), v.version, EvictReason.PREEMPTED, str(claimant.pk)) for v in (one, two)]
    place = Place(str(claimant.pk), 1, (Assignment(0, "a", (0,)),), (str(one.pk), str(two.pk)))
    made = world.decide(*evictions, place)
    assert not made.applied
    assert (phase(one), phase(two), open_actions(one)) == ("Running", "Running", [])


def test_a_place_on_a_node_that_has_gone_is_stale(world):
    job = world.submit("job")
    made = world.decide(Place(str(job.pk), 1, (Assignment(0, "nowhere", (0,)),)))
    assert len(made.stale) == 1


def test_a_claimant_whose_victims_have_left_meanwhile_starts_with_the_next_observation(world):
    victim, claimant = (world.submit(name) for name in ("victim", "claimant"))
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    place = Place(str(claimant.pk), 1, (Assignment(0, "a", (0,)),), (str(victim.pk),))
    world.actuate()
    world.pods(victim, PodPhase.SUCCEEDED, 0)  # gone before the round that counted on it is committed
    assert len(world.decide(place).applied) == 1
    assert phase(claimant) == "Reserved"
    world.observe()
    assert phase(claimant) == "Admitted"


# --- what else is written ---------------------------------------------------------------------


def test_a_placed_job_has_a_start_action_an_event_with_the_places_and_the_cycle(world):
    job = world.submit("job", workers=2)
    world.place(job, "a", "b")
    action = Action.objects.get()
    assert (action.verb, action.attempt, action.payload) == ("start", 1, {"ranks": [0, 1]})
    event = Event.objects.get(kind="Admitted")
    assert event.data == {"workers": [[0, "a", [0]], [1, "b", [0]]], "attempt": 1}
    assert event.cycle == Cycle.objects.get().pk
    assert event.actor == "loop:schedule"


def test_a_reason_is_news_once_and_its_numbers_are_refreshed_in_silence(world):
    job = world.submit("job")
    for number in (1, 2):
        world.decide(Wait(str(job.pk), 1, Reason.FRAGMENTED, f"{number} free", (("free", number),)))
    seen = seen_by_scheduler(job)
    assert (seen.reason, seen.message, seen.version) == ("Fragmented", "2 free", 1)
    assert story(job) == ["Submitted", "Waiting"]


def test_a_reason_for_what_has_changed_or_leaves_meanwhile_is_stale(world):
    changed, leaving, gone = (world.submit(name) for name in ("changed", "leaving", "gone"))
    Workload.objects.filter(pk=changed.pk).update(version=2)
    Workload.objects.filter(pk=leaving.pk).update(phase="Stopping")
    waits = [Wait(str(job.pk), 1, Reason.FRAGMENTED, "text") for job in (changed, leaving, gone)]
    gone.delete()
    made = world.decide(*waits)
    assert (made.applied, made.stale) == ((), tuple(waits))
    assert set(Workload.objects.values_list("message", flat=True)) == {""}


def test_a_round_without_decisions_writes_nothing(world, django_assert_num_queries):
    lease = world.lease()
    with django_assert_num_queries(0):
        decisions.commit((), lease=lease, cycle=CycleInput("schedule", world.cluster.at))


def test_the_number_of_statements_does_not_grow_with_the_number_of_decisions(world, django_assert_max_num_queries):
    jobs = [world.submit(f"job-{n}", gpus=0) for n in range(60)]
    made = [Place(str(j.pk), 1, (Assignment(0, "a"),)) for j in jobs[:30]]
    made += [Wait(str(j.pk), 1, Reason.FRAGMENTED, "text") for j in jobs[30:]]
    lease = world.lease()
    # One asks for the cells in force. Two are on Postgres only: a turn, and it locks all rows in one order.
    with django_assert_max_num_queries(18):
        committed = decisions.commit(made, lease=lease, cycle=CycleInput("schedule", world.cluster.at))
    assert len(committed.applied) == 60
