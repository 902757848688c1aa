"""Elastic trainings of one team share their GPUs by what each gains from them, in place; turns and quotas hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from autoscaler.bottleneck.detect import Diagnosis
from autoscaler.reallocate.course import Course
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import packed
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation
from controlplane.domain import coursestate, diagnosisstate
from controlplane.models import Event, TrainingDiagnosis, Workload
from controlplane.queries.scheduling.snapshot import full
from controlplane.queries.workloads import reallocated
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import allocations, planning
from controlplane.services.workloads import amending
from scheduler.model.workload import Gang
from tests.controlplane.moved import LONG, Steps, pass_minutes, turn, want, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db

ALL = 32  # GPUs of the world


@dataclass
class ByWorkers(Steps):
    """How long a step of each takes follows from how many workers it has: one example of each worker a step.

    Where more workers do hardly more, the exchange is nearly all of a step, as its workers report.
    """

    by: Mapping[str, Callable[[int], float]] = field(default_factory=dict)

    def _of(self, uid: str) -> Any:
        name = Workload.objects.values_list("name", flat=True).get(pk=uid)
        count = len([pod for pod in self.cluster.pods.values() if pod.workload == uid and pod.phase == "Running"])
        self.seconds, self.sync = lambda _: self.by[name](count), 0.9 if self.by[name] is FLAT else 0.05
        return super()._of(uid)


LINE: Callable[[int], float] = lambda count: 1.0  # noqa: E731 - twice the workers do twice as much
FLAT: Callable[[int], float] = lambda count: 0.2 + 0.5 * count  # noqa: E731 - more workers do hardly more


@pytest.fixture
def world() -> World:
    return world_of(ByWorkers(by={"line": LINE, "flat": FLAT, "other": LINE}))


def elastic(world: World, name: str, **asked: Any) -> Workload:
    """Eight workers on a node, and as many more as the scheduler lets it have."""
    workers = {"count": 8, "min": 2, "max": 24}
    asked = {"workers": workers, "resources": {"gpus": 1, "cpu": 1, "memory": "1Gi"}, "image": f"{name}:1", **asked}
    made = world.submit(name, **asked)
    turn(world)
    made.refresh_from_db()
    assert made.phase == "Running"
    return made


def running(world: World, workload: Workload) -> int:
    workload.refresh_from_db()
    return len([p for p in world.cluster.pods.values() if p.workload == str(workload.pk) and p.phase == "Running"])


def test_what_gains_from_workers_has_those_that_do_nothing_for_another(world: World) -> None:
    flat, line = elastic(world, "flat"), elastic(world, "line")
    world.later(LONG)
    pass_minutes(world, 60)
    assert running(world, flat) <= 8  # of 24, which it grew to at first
    assert running(world, line) == 24
    assert flat.workers_planned is not None and line.workers_planned is None
    assert flat.attempt == line.attempt == 1  # in place
    assert "WorkersPlanned" in story(flat)
    told = Event.objects.filter(workload=flat.pk, kind="WorkersPlanned").latest("id").message
    assert "2 elastic trainings on" in told and "at most" in told


def test_where_its_team_only_wants_to_be_told_it_grows_as_before(world: World) -> None:
    want("recommend")
    flat, line = elastic(world, "flat"), elastic(world, "line")
    world.later(LONG)
    pass_minutes(world, 40)
    assert flat.workers_planned is line.workers_planned is None
    assert running(world, flat) + running(world, line) == ALL


def test_a_team_that_wants_it_no_more_has_its_trainings_grow_again(world: World) -> None:
    flat, line = elastic(world, "flat"), elastic(world, "line")
    world.later(LONG)
    pass_minutes(world, 60)
    flat.refresh_from_db()
    assert flat.workers_planned is not None
    want("off")
    pass_minutes(world, 12)
    assert running(world, flat) + running(world, line) == ALL
    assert flat.workers_planned is None


def test_while_anything_waits_for_such_gpus_nothing_is_planned(world: World) -> None:
    flat, line = elastic(world, "flat"), elastic(world, "line")
    world.later(LONG)
    wide = world.submit("wide", workers=ALL, resources={"gpus": 1, "cpu": 1, "memory": "1Gi"})
    pass_minutes(world, 40)
    wide.refresh_from_db()
    assert wide.phase in ("Queued", "Reserved")
    flat.refresh_from_db()
    line.refresh_from_db()
    assert flat.workers_planned is line.workers_planned is None


def test_what_starts_again_has_the_workers_that_it_asked_for(world: World) -> None:
    flat, _ = elastic(world, "flat"), elastic(world, "line")
    Workload.objects.filter(pk=flat.pk).update(workers_planned=4)
    assert full(at=world.cluster.at).workloads[str(flat.pk)].gang == Gang(4, 2, 4)
    Workload.objects.filter(pk=flat.pk).update(phase="Queued")
    assert full(at=world.cluster.at).workloads[str(flat.pk)].gang == Gang(8, 2, 24)


def test_a_persons_number_of_workers_goes_first(world: World) -> None:
    flat = world.submit("flat", workers={"count": 8, "min": 2, "max": 24})
    Workload.objects.filter(pk=flat.pk).update(workers_planned=4)
    flat.refresh_from_db()
    changes = {"workers": {"count": 20, "min": 20, "max": 24}}
    amending.patch(workload=flat, changes=changes, version=None, actor="alice", hand=Hand.PERSON)
    flat.refresh_from_db()
    assert flat.workers_planned is None


def test_why_says_that_the_plan_holds_it_and_how_to_undo_it(world: World) -> None:
    flat, _ = elastic(world, "flat"), elastic(world, "line")
    world.later(LONG)
    pass_minutes(world, 60)
    flat.refresh_from_db()
    (told,) = reallocated.of(flat)
    assert (told["axis"], told["status"]) == ("workers", "planned")
    assert f"at most {flat.workers_planned} workers of the 24" in told["message"]
    assert "reallocation" in told["undo"]


# --- with a batch of its own --------------------------------------------------------------------

NOW = Allocation((8,), 8, 8, 1.0)  # 64 examples
SEEN = (Observation(NOW, 0.4, 0.25, 0.0, 0.02), Observation(packed(NOW, 16, 8, 64), 0.35, 0.25, 0.0, 0.02))
FLOOR = planning.Floor(16, 8)


def gain_of(open_to: planning.Batches, count: int = 24) -> float:
    """Of so many workers over eight, as the plan takes it."""
    speed, _ = planning.speeds(NOW, SEEN, {8, count}, FLOOR, open_to)
    return speed(count) / speed(8)


def test_the_plan_takes_each_number_of_workers_with_the_batch_whose_goodput_is_best() -> None:
    fixed = gain_of(planning.Batches((64,)))
    assert gain_of(planning.Batches((64, 128), Gradients(1e6, 64))) > 1.1 * fixed
    assert gain_of(planning.Batches((64, 128), Gradients(1.0, 64))) == pytest.approx(fixed)


def test_a_batch_that_is_named_stays_the_same_with_more_workers() -> None:
    """So more of them do less than where each keeps its own examples."""
    assert gain_of(planning.Batches((64,))) < 0.7 * gain_of(planning.Batches())


def planned_with(world: World, **asked: Any) -> planning.Batches:
    made = elastic(world, "line", checkpoint={"interval": "10m"}, **asked)
    now = allocations.of(made, seats := allocations.places([made.pk])[made.pk])
    assert now is not None
    state = diagnosisstate.plain(Diagnosis(9), Gradients(1e6, 64))
    kept = coursestate.plain(coursestate.Kept(made.attempt, Course(now)))
    row = {"attempt": made.attempt, "at": 0.0, "since": 0.0, "bottleneck": ""}
    TrainingDiagnosis.objects.update_or_create(workload=made.pk, defaults={"state": state, "course": kept, **row})
    return planning.batches_of(planning.Training(made, seats, now, is_on_trial=False))


def test_it_counts_on_the_batches_that_would_be_tried_next(world: World) -> None:
    found = planned_with(world, batch={"size": 64, "min": 48, "max": 512})
    assert found.sizes == (64, 48, 128)
    assert found.noise == Gradients(1e6, 64)


def test_without_a_batch_or_with_a_fixed_one_it_counts_on_none(world: World) -> None:
    assert planned_with(world) == planning.Batches()
    Workload.objects.all().delete()
    assert planned_with(world, batch={"size": 64}) == planning.Batches((64,))
