"""How many workers each elastic training has: those of one team on one GPU model share what they hold and what is idle.

The scheduler grows an elastic gang wherever no workload waits for the room, in the order of its turns. Where a team
wants changes (`reallocation: automatic`), the plan of autoscaler/elasticity divides the same GPUs by what each training
gains from them, as its measured steps tell, and writes for each with how many workers it runs at most
(`workers_planned`). The scheduler then gives up and grows workers in place as always, so quotas, weights and turns of
all teams hold: what is planned of a team takes nothing from another. While any workload waits for such GPUs nothing is
planned.
docs/reallocation.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import exp

from django.db import transaction

from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.workers import Elastic, gained, workers
from autoscaler.reallocate.candidates import Freedom, Room, candidates
from autoscaler.reallocate.constants import DEFAULT
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import packed
from autoscaler.throughput.estimate import gains
from autoscaler.throughput.fit import fit
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation
from controlplane.domain import coursestate, diagnosisstate
from controlplane.models import Experiment, ExperimentStatus, Node, Reallocation, TrainingDiagnosis, Workload
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.training import allocations, lending, moving
from controlplane.services.training.allocations import Place
from controlplane.services.training.diagnoses import ACTOR
from scheduler.model.decision import Reason
from scheduler.model.mention import counted
from scheduler.model.workload import ACTIVE, Kind, Phase
from scheduler.preemption.growth import GATED

_ACTIVE = tuple(phase.value for phase in ACTIVE)
MOST = 256  # workers that a plan reckons with
# Waits that no idle GPU would end: they are no reason to leave GPUs as they are.
NOT_FOR_ROOM = GATED | {
    Reason.SUSPENDED,
    Reason.NON_PREEMPTIBLE_OVER_QUOTA,
    Reason.WAITING_FOR_QUOTA,
    Reason.OVER_LIMIT,
}
Speed = Callable[[int], float]  # of so many workers
Group = tuple[int, str]  # a team, and a GPU model
Memories = MutableMapping[Group, Memory]


@dataclass(frozen=True, slots=True)
class Floor:
    """The nodes of one GPU model: how many GPUs are idle, and how many most of them have."""

    idle: int
    of_node: int


def look(*, at: float, memories: Memories, lease: HeldLease) -> int:
    """Plan anew, and tell how many trainings are to have another number of workers. Raises LeaseLost.

    memories: what earlier plans remember, by group; a new leader begins without. Some ten queries, and four for each
    training that is elastic.
    """
    found = _groups()
    changed = 0
    for group in sorted(found):
        trainings = found[group]
        if len(trainings) < 2:  # what one does with its GPUs is for experiments (experiments.py)
            changed += _write([(one.workload, None, "It shares its GPUs with no other") for one in trainings], lease)
        elif not any(one.is_scaling for one in trainings) and not _is_waited_for(group[1]):
            changed += _plan(at, group, trainings, memories.setdefault(group, Memory()), lease)
    for group in set(memories) - set(found):
        del memories[group]
    return changed + _write([(row, None, "Its team plans no workers") for row in _unwanted()], lease)


@dataclass(frozen=True, slots=True)
class Training:
    """is_on_trial: an experiment changes it now, so it keeps what it has."""

    workload: Workload
    members: Sequence[Place]
    now: Allocation
    is_on_trial: bool

    @property
    def is_scaling(self) -> bool:
        """Whether its workers come or go."""
        return self.workload.phase != Phase.RUNNING


def _groups() -> Mapping[Group, list[Training]]:
    """The elastic trainings that are active on whole GPUs of one model each, of teams that want changes, by group."""
    rows = Workload.objects.filter(kind=Kind.TRAINING, phase__in=_ACTIVE, managed_by="", intent="")
    rows = rows.filter(team__reallocation=Reallocation.AUTOMATIC, share_guarantee=0, finishing=False)
    elastic = [row for row in rows.order_by("seq") if row.workers_min < row.workers_max]
    tried = Experiment.objects.filter(status=ExperimentStatus.ON_TRIAL, workload__among=[row.pk for row in elastic])
    on_trial = set(tried.values_list("workload", flat=True))
    members = allocations.places([row.pk for row in elastic])
    models = dict(Node.objects.values_list("name", "gpu_model")) if elastic else {}
    found: dict[Group, list[Training]] = defaultdict(list)
    for row in elastic:
        seats = members.get(row.pk, ())
        now = allocations.of(row, seats)
        on = {models.get(seat.node, "") for seat in seats}
        if now is not None and len(on) == 1:
            is_changing = row.pk in on_trial or bool(row.goes_to) or row.resize is not None
            found[row.team_id, on.pop()].append(Training(row, seats, now, is_changing))
    return found


def _unwanted() -> Iterator[Workload]:
    """Those with a plan of a team that wants none any more."""
    planned = Workload.objects.filter(workers_planned__isnull=False, phase=Phase.RUNNING)
    yield from planned.exclude(team__reallocation=Reallocation.AUTOMATIC)


def _is_waited_for(model: str) -> bool:
    """Whether any workload waits for GPUs of this model, or has a planned start."""
    rows = Workload.objects.filter(phase__in=(Phase.QUEUED, Phase.RESERVED)).exclude(gpus=0, share_guarantee=0)
    waiting = rows.values_list("phase", "reason", "gpu_models")
    return any(
        (phase == Phase.RESERVED or reason not in NOT_FOR_ROOM) and (not models or model in models)
        for phase, reason, models in waiting
    )


def _plan(at: float, group: Group, trainings: Sequence[Training], memory: Memory, lease: HeldLease) -> int:
    floor = _floor(group[1])
    free = [one for one in trainings if not one.is_on_trial]
    elastic = {one.workload.pk: told for one in free if (told := _elastic(at, one, floor)) is not None}
    if len(elastic) < 2 or all(one.is_settling for one in elastic.values()):
        return 0
    found = workers(at, floor.idle, floor.of_node, list(elastic.values()), memory)
    message = _message(len(elastic), group[1], gained(found, list(elastic.values())))
    wanted = []
    for one in trainings:
        told = elastic.get(one.workload.pk)
        if told is not None and not told.is_settling:
            count = found[told.id]
            # Up to its most it needs no plan: it grows by itself, as far as there is room.
            wanted.append((one.workload, count if count < told.most else None, message))
    return _write(wanted, lease)


def _message(count: int, model: str, gain: float) -> str:
    return f"By the plan of its team's {count} elastic trainings on {model}, all together {100 * gain:+.0f} % faster"


def _write(wanted: Sequence[tuple[Workload, int | None, str]], lease: HeldLease) -> int:
    changed = 0
    for workload, count, why in wanted:
        if workload.workers_planned == count:
            continue
        most = "as many workers as it may have" if count is None else f"at most {counted(count, 'worker')}"
        with transaction.atomic():
            lease.check()
            changed += moving.plan(workload=workload, workers=count, actor=ACTOR, message=f"{why}: {most}.")
    return changed


def _floor(model: str) -> Floor:
    columns = ("name", "gpu_count", "lost_gpus", "ready", "schedulable")
    rows = list(Node.objects.filter(gpu_model=model).values_list(*columns))
    lost = {name: gpus for name, _, gpus, *_ in rows}
    taken = allocations.not_idle(lost, allocations.held(lost))
    idle = sum(gpus - len(taken[name]) for name, gpus, _, ready, schedulable in rows if ready and schedulable)
    return Floor(idle, max(Counter(gpus for _, gpus, *_ in rows).items(), key=lambda one: (one[1], one[0]))[0])


def _elastic(at: float, one: Training, floor: Floor) -> Elastic | None:
    """As the plan takes it; None before its steps were measured."""
    row, now = one.workload, one.now
    own = lending.own(row)
    if not own:
        return None
    kind = lending.key(row, one.members[-1].node)
    open_to = batches_of(one)
    most = min(row.workers_max, MOST)
    if row.workers_cap is not None:  # as an experiment found it to be faster
        most = min(most, max(row.workers_cap, row.workers_min))
    speed, hope = speeds(
        now, [*own, *lending.lent(row, one.members[-1].node)], {*range(row.workers_min, most + 1)}, floor, open_to
    )
    seen = {each.allocation.workers for each in own}
    age = at - row.submitted_at
    return Elastic(
        row.pk, kind, row.submitted_at, age, now.workers, row.workers_min, max(most, now.workers), now.of_worker,
        speed, hope, is_settling=now.workers not in seen,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of all workers that a training could have, examples; None: that of one GPU stays. noise: of its
    gradients; None: each example counts alike."""

    sizes: tuple[int | None, ...] = (None,)
    noise: Gradients | None = None


def batches_of(one: Training) -> Batches:
    """The one that it has, and those that would be tried next (experiments.py), if any may be. A query, if so."""
    row = one.workload
    if row.batch is None:
        return Batches()
    bounds = allocations.batches(row, one.now)
    found = TrainingDiagnosis.objects.filter(pk=row.pk, attempt=row.attempt).first() if bounds else None
    noise = diagnosisstate.gradients_of(found.state) if found is not None else None
    is_open = found is not None and found.course and coursestate.kept_of(found.course).course.past.moves < DEFAULT.moves
    if noise is None or bounds is None or not is_open or not allocations.may_move(row):
        return Batches((row.batch,))
    others = candidates(one.now, Freedom(can_move=False, batch=bounds), [Room(gpus) for gpus in one.now.gpus])
    return Batches((row.batch, *(other.allocation.examples for other in others)), noise)


def speeds(
    now: Allocation, seen: Sequence[Observation], counts: set[int], floor: Floor, open_to: Batches
) -> tuple[Speed, Speed]:
    """Of its workers, packed onto as few nodes as hold them, over one GPU of it; and the same with its error on top.

    With each number of workers by the batch whose goodput is best.
    """
    ordered = sorted({1, now.workers, *counts})
    asked = [packed(now, count, floor.of_node, size) for count in ordered for size in open_to.sizes]
    found = gains(fit(seen), now, asked, open_to.noise)
    each = len(open_to.sizes)
    best = [max(found[at : at + each], key=lambda gain: gain.value) for at in range(0, len(found), each)]
    by_count = dict(zip(ordered, best, strict=True))
    one = by_count[1].value

    def speed(count: int) -> float:
        return now.of_worker * exp(by_count[count].value - one)

    def hope(count: int) -> float:
        return speed(count) * exp(by_count[count].error)

    return speed, hope
