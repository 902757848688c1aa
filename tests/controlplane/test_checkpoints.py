"""What programs say of their checkpoints reaches the row and the scheduler, and never goes back."""

from dataclasses import dataclass, field

import pytest

from controlplane.cluster.port import Saved
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Workload
from controlplane.services.workloads import week
from scheduler.model.settings import Settings
from scheduler.preemption.cost import cost
from tests.controlplane.state import NoMetrics, World, seen_by_scheduler

pytestmark = pytest.mark.django_db


@dataclass
class Programs(NoMetrics):
    """Say what the test says."""

    said: list[Saved] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def checkpoints(self, workloads):
        self.asked = list(workloads)
        return tuple(self.said)


@pytest.fixture
def world() -> World:
    return World(metrics=Programs())


@pytest.fixture
def job(world: World) -> Workload:
    job = world.submit("job")
    world.run(job, "a")
    world.later(3600)
    world.observe()
    return job


def tell(world: World, job: Workload, at: float | None, progress: float | None = None, attempt: int = 1) -> Workload:
    world.metrics.said = [Saved(str(job.pk), attempt, at, progress)]
    world.account()
    return Workload.objects.get(pk=job.pk)


def test_a_checkpoint_makes_it_cheaper_to_make_a_job_leave(world, job):
    now = world.cluster.at
    before = cost(seen_by_scheduler(job), now, Settings())
    row = tell(world, job, now - 60, 0.5)
    assert (row.checkpointed_at, row.progress) == (now - 60, 0.5)
    assert cost(seen_by_scheduler(job), now, Settings()) == (60 + Settings().restart_seconds) * 1000 < before


def test_the_schedule_loop_learns_of_it_without_reading_everything_again(world, job):
    keeper = SnapshotKeeper()
    keeper.take(world.lease())
    tell(world, job, world.cluster.at - 60)
    taken = keeper.take(world.lease())
    assert not taken.is_base
    assert taken.snapshot.workloads[str(job.pk)].checkpointed_at == world.cluster.at - 60


def test_what_is_not_known_changes_nothing_and_what_is_known_never_goes_back(world, job):
    now = world.cluster.at
    tell(world, job, now - 60, 0.5)
    for at, progress in ((None, None), (now - 600, 0.25)):
        row = tell(world, job, at, progress)
        assert (row.checkpointed_at, row.progress) == (now - 60, 0.5)


def test_another_attempts_checkpoint_is_not_taken_for_this_ones(world, job):
    assert tell(world, job, world.cluster.at - 60, attempt=2).checkpointed_at is None


def test_it_fences_off_nobodys_edit(world, job):
    version = Workload.objects.get(pk=job.pk).version
    assert tell(world, job, world.cluster.at - 60).version == version


def test_only_trainings_that_have_pods_are_asked_for(world, job):
    world.submit("waits")
    notebook = world.submit("explore", kind="notebook")
    world.run(notebook, "b")
    world.account()
    assert world.metrics.asked == [str(job.pk)]


def test_a_stranger_in_the_answer_is_left_out(world, job):
    world.metrics.said = [Saved("no uid", 1, 5.0, None), Saved("00000000-0000-0000-0000-000000000000", 1, 5.0, None)]
    world.account()
    assert Workload.objects.get(pk=job.pk).checkpointed_at is None


@pytest.mark.parametrize(("ran", "done"), [(400.0, 0.3), (999.5, 0.899), (50.0, None)])
def test_a_training_of_the_week_goes_on_from_what_it_had_done_and_ends_no_earlier_than_it_did(world, job, ran, done):
    spec = {**job.spec, "simulated": {"duration": 1000.0}}
    at = world.cluster.at
    Workload.objects.update(spec=spec, started_at=at - ran, first_started_at=at - ran, progress=None)
    found = week.checkpoints(at, 100.0)
    assert found == ({} if done is None else {job.pk: (pytest.approx(done), at - 100)})
