"""The scheduler's snapshot: from scratch and by what changed, always the same; and replayable."""

from collections.abc import Iterator

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain.cycle import digest_of, rebuild, workload_of, workload_text
from controlplane.loops import schedule
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Change, Cycle, NodePool, Quota, Team, Workload
from controlplane.queries.scheduling.cycles import snapshot_of
from controlplane.queries.scheduling.history import episode
from controlplane.queries.scheduling.snapshot import full
from controlplane.services.scheduling import changes, leases
from controlplane.services.scheduling.cycles import prune
from controlplane.services.scheduling.leases import LeaseLost
from controlplane.services.tenancy import quotas
from controlplane.services.workloads import workloads
from scheduler.cycle.schedule import schedule as decide
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.state.recount import LedgerDiffersError
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    world = World()
    for team in Team.objects.all():
        Quota.objects.create(team=team, pool=NodePool.objects.get(), nominal=8000)
    return world


def same(one: Snapshot, other: Snapshot) -> bool:
    return (
        dict(one.workloads) == dict(other.workloads)
        and one.inventory.nodes == other.inventory.nodes
        and (one.teams, one.quotas) == (other.teams, other.quotas)
        and (one.columns.gpu == other.columns.gpu).all()
        and (one.columns.node == other.columns.node).all()
    )


def a_day(world: World):
    """A little of everything, step by step."""
    first = world.submit("first", gpus=8)
    yield
    world.run(first, "a")
    yield
    second = world.submit("second", gpus=4, team="blue", workers=2)
    service = world.submit("chat", kind="inference", team="blue")
    yield
    world.evict(first, by=second)
    yield
    world.actuate()
    world.pods(first, PodPhase.GONE)
    yield
    world.cluster.change("b", lost=(1, 2))
    world.observe()
    yield
    workloads.suspend(workload=first, actor="alice")
    world.run(service, "b")
    yield
    quotas.save(team=Team.objects.get(name="red"), pool=NodePool.objects.get(), nominal=4000, actor="admin")
    workloads.stop(workload=second, actor="alice")
    yield
    workloads.resume(workload=first, actor="alice")
    world.cluster.lose("b")
    world.observe()
    yield


def test_the_kept_snapshot_is_the_one_read_from_scratch_after_every_step(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    keeper.take(lease, world.cluster.at)
    for _ in a_day(world):
        taken = keeper.take(lease, world.cluster.at)
        scratch = full(world.cluster.at)
        assert same(taken.snapshot, scratch)
        assert taken.digest == digest_of(scratch)
        assert not Change.objects.exists()


def test_what_changed_is_what_a_replay_needs(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    inputs = [keeper.take(lease, world.cluster.at).changed.pack()]
    for _ in a_day(world):
        taken = keeper.take(lease, world.cluster.at)
        inputs.append(taken.changed.pack())
        assert same(rebuild(inputs), taken.snapshot)


def test_stored_rounds_decide_the_same_again(world):
    jobs = []
    for number in range(6):
        jobs.append(world.submit(f"job-{number}", gpus=6 + number % 3, team=("red", "blue")[number % 2]))
        world.later(60)
        schedule.run_once(world.wiring)
        world.actuate()
        world.observe()
        if number == 3:
            world.pods(jobs[0], PodPhase.SUCCEEDED, exit_code=0)
    inputs = []
    stored = Cycle.objects.filter(loop="schedule").order_by("id")
    assert len(stored) > 3
    for cycle in stored:
        inputs = [bytes(cycle.input)] if cycle.is_base else [*inputs, bytes(cycle.input)]
        snapshot = rebuild(inputs)
        assert digest_of(snapshot) == cycle.digest
        again = [schedule.record(decision) for decision in decide(snapshot, Settings())]
        assert [d["workload"] for d in again] == [d["workload"] for d in cycle.decisions]
        assert [d["kind"] for d in again] == [d["kind"] for d in cycle.decisions]


def a_busy_day(world: World, *, base_every: int) -> Iterator[None]:
    """Rounds of one small job each, which ends before the next comes."""
    world.wiring.kept["journal"] = schedule.Journal(base_every)
    for number in range(4):
        job = world.submit(f"job-{number}")
        schedule.run_once(world.wiring)
        yield
        world.actuate()
        world.observe()
        world.pods(job, PodPhase.SUCCEEDED, exit_code=0)


def bases() -> list[bool]:
    for cycle in Cycle.objects.filter(loop="schedule"):
        assert digest_of(snapshot_of(cycle)) == cycle.digest
    return list(Cycle.objects.filter(loop="schedule").order_by("id").values_list("is_base", flat=True))


@pytest.mark.parametrize("tries_everybody", [False, True])
def test_a_whole_input_is_packed_when_a_round_has_nothing_to_decide(world, tries_everybody):
    found = []
    for _ in a_busy_day(world, base_every=2):
        found.append(bases())
        if tries_everybody:
            world.wiring.kept["timer"].unsettled()
        schedule.run_once(world.wiring)
        found.append(bases())
    assert found[-3:] == [[True, False, False], [True, False, False, False], [True, False, False, True]]


def test_a_loop_that_always_has_something_to_decide_packs_one_in_the_end(world):
    for _ in a_busy_day(world, base_every=1):
        pass
    assert bases() == [True, False, True, False]


def test_whoever_left_in_the_round_of_a_whole_input_is_known_to_have_left(world):
    for _ in a_busy_day(world, base_every=1):
        pass
    jobs = {job.workload.name: job for job in episode(4).jobs}
    assert {name for name, job in jobs.items() if job.seconds is not None} == {"job-0", "job-1", "job-2"}


def test_a_round_that_decides_nothing_writes_nothing(world, django_assert_max_num_queries):
    world.submit("job")
    schedule.run_once(world.wiring)
    schedule.run_once(world.wiring)
    before = Cycle.objects.count()
    with django_assert_max_num_queries(2):
        assert schedule.run_once(world.wiring).did == 0
    assert Cycle.objects.count() == before


def test_whoever_lost_the_lease_consumes_no_hints(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    keeper.take(lease, world.cluster.at)
    world.submit("job")
    leases.acquire(name="schedule", holder="test")
    with pytest.raises(LeaseLost):
        keeper.take(lease, world.cluster.at)
    assert Change.objects.exists()


def test_a_new_epoch_starts_from_scratch(world):
    keeper = SnapshotKeeper()
    keeper.take(world.lease(), world.cluster.at)
    job = world.submit("job")
    Change.objects.all().delete()  # another holder has read it meanwhile
    again = leases.acquire(name="schedule", holder="test")
    taken = keeper.take(again, world.cluster.at)
    assert taken.is_base
    assert str(job.pk) in taken.snapshot.workloads


def test_hints_written_while_reading_are_kept_for_the_next_round(world):
    keeper, lease = SnapshotKeeper(), world.lease()
    keeper.take(lease, world.cluster.at)
    world.submit("job")
    keeper.take(lease, world.cluster.at)
    changes.touch(Workload.objects.values_list("pk", flat=True))
    assert Change.objects.count() == 1


def test_a_workload_survives_its_text(world):
    world.run(
        world.submit("job", resources={"gpu_share": {"guarantee": 0.5, "memory": "4Gi"}}, topology={"require": "rack"}),
        "a",
    )
    for workload in full().workloads.values():
        assert workload_of(workload_text(workload)) == workload


def test_old_inputs_are_dropped_but_never_a_base_that_is_needed(world):
    for number in range(12):
        Cycle.objects.create(
            loop="schedule", at="2026-01-01T00:00:00Z", cluster_at=number, took_ms=1, epoch=1, digest="",
            is_base=number % 5 == 0, input=b"x",
        )  # fmt: skip
    assert prune(loop="schedule", keep=4) == 5
    kept = Cycle.objects.exclude(input=None).order_by("cluster_at")
    assert [cycle.cluster_at for cycle in kept] == [5, 6, 7, 8, 9, 10, 11]
    assert kept[0].is_base


def test_a_ledger_that_differs_from_a_recount_breaks_the_round_off_and_the_next_begins_from_scratch(world):
    first = world.submit("first", gpus=8)
    assert schedule.run_once(world.wiring).did == 1
    keeper = world.wiring.kept["keeper"]
    ledger, _ = keeper.memo.ledgers.last
    ledger.usage.charge("red", NodePool.objects.get().name, 0, 1000)
    second = world.submit("second", gpus=1, team="blue")
    with pytest.raises(LedgerDiffersError, match=r"usage\.total"):
        schedule.run_once(world.wiring)
    assert "keeper" not in world.wiring.kept
    third = world.submit("third", gpus=1, team="blue")
    assert schedule.run_once(world.wiring).did > 0
    assert world.wiring.kept["keeper"] is not keeper
    assert {Workload.objects.get(pk=one.pk).phase for one in (first, second, third)} == {"Admitted"}
