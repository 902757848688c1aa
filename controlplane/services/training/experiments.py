"""Changes of running trainings on trial: measured before, changed, measured after, then kept or taken back.

After each look (diagnoses.py) the window of a training is counted in its course (autoscaler/reallocate): twelve windows
before, the best change that keeps its budgets and is worth a try, four to forty windows after. What a team's setting
`reallocation` does not allow is only told. CPU changes in place; other places are asked for, and the scheduler decides
them (changing.py): a training that moves saves its work, leaves and starts again there. A person's hand goes first:
what was changed by another meanwhile is not judged. docs/reallocation.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from django.db import transaction

from autoscaler.bottleneck.hypothesis import hypotheses
from autoscaler.bottleneck.window import Bottleneck
from autoscaler.experiment.experiment import LIMITS, Decision, Experiment
from autoscaler.experiment.experiment import Phase as Step
from autoscaler.reallocate.candidates import Axis, Freedom
from autoscaler.reallocate.choice import Past, Training, consider, told
from autoscaler.reallocate.constants import DEFAULT, Constants
from autoscaler.reallocate.course import Course, Seen, again, fitted, follow, of_levels, of_reports
from autoscaler.reallocate.rows import allocation_of
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.observation import Observation
from controlplane.domain import coursestate
from controlplane.domain.coursestate import MOVES, Kept
from controlplane.models import Experiment as Row
from controlplane.models import ExperimentStatus as Status
from controlplane.models import Reallocation, TrainingDiagnosis, Workload
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from controlplane.services.intake.ownership import Hand
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.training import allocations, changing, lending, moving
from controlplane.services.training.allocations import Found, Offer, Place
from controlplane.services.training.diagnoses import ACTOR, Looked
from scheduler.model.workload import ENDED

OTHERS_HAND = "It was changed by another hand meanwhile, so it is not known what this change did."
NOTHING = Training(Freedom(), (), (), 0.0, 0.0)
UNASKED = Offer(NOTHING, NOTHING)  # where nothing is chosen in this window
OVER = "The training ended before the change was judged."
NOT_GIVEN = "Its node did not give it."
NO_PLACES = "No such places were free for it, beside what waits and what is planned."
ELSEWHERE = "It started again elsewhere, so it is not known what this change did."
UNWANTED = "Its team wants no changes any more; it stays where it is."
OTHER_UNIT = "Its program began to report its steps, or ceased to, so it is not known what this change did."
FELL_BACK = "{}; it failed with that, and runs as before"
NO_WAY_BACK = "; not moved back, as no room for that remained"
NO_SLOWER = "; it stays, as it is no slower there and to go back is another restart"
PROBED = Bottleneck.INPUT_CPU  # the hypothesis that more CPU in place probes
PATIENCE = 5  # windows in which places that it asks for may become free


def look(*, at: float, seen: Sequence[Looked], period: float, lease: HeldLease) -> int:
    """Count a window of each, of so many s, and do what follows; tells how many changes began or ended. LeaseLost."""
    constants, count = replace(DEFAULT, window=period), 0
    for one in _read(at, seen, constants):
        kept = one.kept
        with transaction.atomic():  # of its own, as what follows may change the training
            lease.check()
            kept, has_done = _counted(one)
            values = coursestate.plain(replace(kept, attempt=one.workload.attempt))
            TrainingDiagnosis.objects.filter(pk=one.workload.pk).update(course=values)
            count += has_done
    with transaction.atomic():
        lease.check()
        over = Row.objects.filter(status=Status.ON_TRIAL, workload__phase__in=[phase.value for phase in ENDED])
        return count + over.update(status=Status.UNJUDGED, ended_at=at, message=OVER)


@dataclass(frozen=True, slots=True)
class _Now:
    """One training at one look. row: its change on trial; now: what its workers are to have."""

    at: float
    looked: Looked
    workload: Workload
    members: Sequence[Place]
    now: Allocation
    row: Row | None
    kept: Kept
    constants: Constants
    actual: Allocation
    is_withdrawn: bool = False  # it asked for other places in vain, and asks no more

    @property
    def is_silent(self) -> bool:
        """Whether nothing reports its steps."""
        return not self.looked.window.workers

    @property
    def named(self) -> Bottleneck | None:
        """What is diagnosed; where nothing reports its steps, what a change in place can probe, else nothing to try."""
        if not self.is_silent:
            return self.looked.diagnosis.bottleneck
        known, refuted = self.looked.diagnosis.levels, frozenset(self.kept.refuted)
        is_possible = PROBED in hypotheses(known, self.looked.window.nodes, refuted)
        return PROBED if is_possible else Bottleneck.GPU_COMPUTE

    @property
    def is_moved(self) -> bool:
        """Whether the change on trial is one for which it starts again elsewhere."""
        return self.row is not None and self.row.axis in MOVES

    @property
    def mode(self) -> str:
        """What its team wants."""
        return self.workload.team.reallocation


def _read(at: float, seen: Sequence[Looked], constants: Constants) -> Iterator[_Now]:
    """Those with whole GPUs, alike for each worker, whose teams want it. Five queries."""
    uids = [one.training.uid for one in seen]
    if not uids:
        return
    rows = Row.objects.filter(status=Status.ON_TRIAL, workload__among=uids)
    on_trial = {row.workload_id: row for row in rows}
    found = Workload.objects.filter(pk__among=uids).select_related("team").in_bulk()
    courses = dict(TrainingDiagnosis.objects.filter(pk__among=uids).values_list("workload", "course"))
    members = allocations.places(uids)
    for one in seen:
        uid = one.training.uid
        workload, row = found[uid], on_trial.get(uid)
        kept = coursestate.kept_of(courses[uid]) if courses[uid] else None
        now = _now(workload, members.get(uid, ()), kept)
        if now is not None and (row is not None or workload.goes_to or workload.team.reallocation != Reallocation.OFF):
            kept = Kept(workload.attempt, Course(now)) if kept is None else kept
            yield _Now(at, one, workload, members[uid], _as_tried(workload, now, row), row, kept, constants, now)


def _now(workload: Workload, members: Sequence[Place], kept: Kept | None) -> Allocation | None:
    known = () if kept is None else (*kept.course.now.off, *kept.course.wanted.off)
    return allocations.of(workload, members, known)


def _as_tried(workload: Workload, now: Allocation, row: Row | None) -> Allocation:
    """What an elastic gang comes to counts as what was tried, wherever its workers are.

    One that left a slow node grows where there is room; one that is to have fewer gives those up that are loosest.
    """
    if row is None or row.axis not in (Axis.NODE, Axis.WORKERS):
        return now
    after = allocation_of(row.after)
    if row.axis == Axis.WORKERS and workload.workers_cap == after.workers < now.workers:
        return after  # on its way there
    return after if replace(now, gpus=after.gpus) == after else now


def _counted(one: _Now) -> tuple[Kept, bool]:
    """The course after this window, and whether a change began or ended."""
    one = _patient(one)
    if one.is_silent is not one.kept.is_silent:  # what was measured so far has another unit
        _end(one.row, Status.UNJUDGED, one.at, OTHER_UNIT)
        anew = Kept(
            one.workload.attempt, Course(one.now, past=_overruled(one, one.kept.course)), is_silent=one.is_silent
        )
        one = replace(one, row=None, kept=anew)
    kept, named = one.kept, one.named
    if _fell_back(one):
        _end(one.row, Status.ROLLED_BACK, one.at, FELL_BACK.format(one.row.message if one.row else ""))
        kept = replace(kept, course=Course(one.now, past=_overruled(one, kept.course)), told=(), bottleneck=None)
        one = replace(one, row=None, kept=kept)
    if _is_overruled(one):
        if one.row is not None and one.row.axis == Axis.WORKERS and one.workload.workers_cap is not None:
            changing.grow_again(one.workload, actor=ACTOR, event=("ChangeRolledBack", _words(one)))
        has_moved = one.is_moved and kept.attempt != one.workload.attempt
        _end(one.row, Status.UNJUDGED, one.at, ELSEWHERE if has_moved else OTHERS_HAND)
        kept = replace(kept, attempt=one.workload.attempt, told=(), bottleneck=None)
        kept = replace(kept, course=Course(one.now, past=_overruled(one, one.kept.course)))
        one = replace(one, row=None, kept=kept)
    if kept.course.is_resting and kept.bottleneck is not named:
        kept = replace(kept, course=again(kept.course), bottleneck=None)
    return _followed(one, kept)


def _patient(one: _Now) -> _Now:
    """Where it has asked for other places in vain for long enough, or its team no longer has it moved, it stays."""
    workload, kept = one.workload, replace(one.kept, asked=one.kept.asked + 1 if one.workload.goes_to else 0)
    is_unwanted = one.is_moved and one.mode != Reallocation.AUTOMATIC
    if not workload.goes_to or workload.moving or not (kept.asked > PATIENCE or is_unwanted):
        return replace(one, kept=kept)
    if not moving.withdraw(workload=workload, actor=ACTOR):
        return replace(one, kept=kept)
    workload.refresh_from_db()
    now = _now(workload, one.members, kept)
    assert now is not None  # noqa: S101 - it was told before, from the same places
    if one.row is None:
        newest = Row.objects.filter(workload=workload, axis__in=MOVES).order_by("-id").first()
        if newest is not None and newest.status == Status.ROLLED_BACK:
            _end(newest, Status.STAYED, one.at, newest.message + NO_WAY_BACK)
    return replace(one, kept=replace(kept, asked=0), now=now, actual=now, is_withdrawn=True)


def _fell_back(one: _Now) -> bool:
    """Whether the attempt with a batch on trial has failed: it has the one before again by lifecycle/gangs.py."""
    row = one.row
    if row is None or row.axis != Axis.BATCH or one.workload.goes_to or one.workload.attempt <= row.attempt + 1:
        return False
    return one.now.batch == allocation_of(row.before).batch


def _is_overruled(one: _Now) -> bool:
    """Whether it has something else than it is to have, or again what it had before a change that ran."""
    course = one.kept.course
    is_undone = course.experiment.phase in (Step.SETTLING, Step.JUDGING) and one.now == course.now
    was_asked_back = course.experiment.phase is Step.CHANGING and one.is_moved and _is_unasked(one)
    return one.now not in (course.now, course.wanted) or is_undone or was_asked_back


def _is_unasked(one: _Now) -> bool:
    """Whether another hand had it stay where it is."""
    is_same = one.kept.attempt == one.workload.attempt and one.now == one.kept.course.now
    return is_same and not one.workload.goes_to and not one.is_withdrawn


def _overruled(one: _Now, course: Course) -> Past:
    """What was tried so far: also the change that another hand ended, which is not tried again."""
    if one.row is None:
        return course.past
    return Past(course.past.tabu | {course.now, course.wanted}, course.past.moves + 1)


def _followed(one: _Now, kept: Kept) -> tuple[Kept, bool]:
    before, named = kept.course, one.named
    offer, measured = UNASKED, before.experiment
    lent: tuple[Observation, ...] = ()
    if measured.phase is Step.BEFORE and len(measured.before) + 1 >= LIMITS.terms.before:
        found_now = Found(named, _slow(one), one.is_silent, one.looked.gradients)
        offer = allocations.offer(one.workload, one.now, one.members, one.at, found_now)
        lent = () if one.is_silent else lending.lent(one.workload, one.members[-1].node)
    course, decision = follow(before, _seen(one, kept), offer.by_loop, lent, constants=one.constants)
    _lend(one, before, course)
    if course.seen and (decision is Decision.CHANGE or (course.is_resting and not before.is_resting)):
        model = fitted(course, lent)
        found = consider(before.now, model, offer.anywhere, before.past, one.constants)
        kept = replace(kept, told=tuple(told(each, before.now) for each in coursestate.best(found)))
    kept = replace(kept, course=course, bottleneck=named if course.is_resting else None)
    if decision is Decision.CHANGE:
        return _begin(one, replace(kept, course=before), course)
    if decision is Decision.WAIT or one.row is None:
        return kept, False
    if one.is_silent and decision is Decision.ROLL_BACK and course.ended is not None and course.ended.after:
        kept = replace(kept, refuted=(*kept.refuted, PROBED))
    return replace(kept, course=_finish(one, one.row, before, course, decision)), True


def _lend(one: _Now, before: Course, course: Course) -> None:
    """Keep what is new of what it saw, for others like it; not while one of its workers is slow."""
    new = [seen for seen in course.seen if seen not in before.seen]
    if new and not one.is_silent and one.looked.diagnosis.slow_worker is None:
        lending.note(workload=one.workload, node=one.members[-1].node, at=one.at, seen=new)


def _slow(one: _Now) -> tuple[str, float] | None:
    """The node of the worker that was named as slow, and the part of a step that would go without it."""
    diagnosis = one.looked.diagnosis
    rank, known = diagnosis.slow_worker, diagnosis.evidence.get(Bottleneck.STRAGGLER)
    node = next((place.node for place in one.members if place.rank == rank), None)
    return None if node is None or known is None else (node, known.removable)


def _finish(one: _Now, row: Row, before: Course, course: Course, decision: Decision) -> Course:
    """Write what became of a change, and take it back unless it is kept; the course from then on."""
    ended = course.ended or Experiment()
    row.windows = len(ended.after)
    if ended.after:
        row.gain, row.gain_error = ended.judged.gain, ended.judged.error
    if decision is Decision.KEEP:
        _end(row, Status.KEPT, one.at, row.message)
        moving.settle(workload=one.workload, actor=ACTOR)
        _tell(one, "ChangeKept")
        return replace(course, now=one.actual)
    if one.is_moved and one.mode != Reallocation.AUTOMATIC:
        _end(row, Status.UNJUDGED, one.at, UNWANTED)
        return replace(course, now=one.actual)
    if before.experiment.phase is Step.CHANGING and one.now == before.now:
        _end(row, Status.REFUSED, one.at, NO_PLACES if one.is_moved else NOT_GIVEN)
    elif row.axis == Axis.NODE and ended.after and ended.judged.gain >= 0:
        _end(row, Status.STAYED, one.at, row.message + NO_SLOWER)
        return replace(course, now=one.actual)
    else:
        _end(row, Status.ROLLED_BACK, one.at, row.message)
        if refused := _give(one, course.now, "ChangeRolledBack"):
            _end(row, Status.ROLLED_BACK, one.at, f"{row.message}; {refused}")
    return course


def _seen(one: _Now, kept: Kept) -> Seen:
    """The window as the course counts it. While nodes change its size it is known neither as before nor as after."""
    course, is_changing = kept.course, one.workload.resize is not None or bool(one.workload.goes_to)
    is_changing = is_changing or one.actual.workers != one.now.workers
    comes_up = course.experiment.phase is Step.CHANGING
    not_given = comes_up and not is_changing and one.now == course.now
    has_restarted = kept.attempt != one.workload.attempt and not (one.is_moved and comes_up)
    is_stopped = one.mode != Reallocation.AUTOMATIC or has_restarted or not_given
    has_failed = one.row is not None and is_stopped
    if is_changing:
        return Seen(course.now, None, has_failed=has_failed)
    read = of_levels if one.is_silent else of_reports
    return replace(read(one.looked.window, one.now), has_failed=has_failed)


def _begin(one: _Now, kept: Kept, course: Course) -> tuple[Kept, bool]:
    """Try the change, where that is allowed; else it was told, and is measured anew."""
    change, before = course.change, kept.course
    assert change is not None  # noqa: S101 - `follow` decided so
    if one.mode != Reallocation.AUTOMATIC or one.workload.managed_by:
        return replace(kept, course=_fresh(before)), False
    row = Row(
        workload=one.workload, attempt=one.workload.attempt, axis=change.candidate.axis.value, status=Status.ON_TRIAL,
        begun_at=one.at, before=asdict(before.now),
        after=asdict(change.candidate.allocation),
        expected=change.gain.value, expected_error=change.gain.error, message=told(change, before.now)[:300],
        node=", ".join(sorted({*change.candidate.allocation.off} - {*before.now.off}))[:253],
    )  # fmt: skip
    refused = _give(replace(one, row=row), change.candidate.allocation, "ChangeTried", on_trial=True)
    if refused:
        past = Past(before.past.tabu | {change.candidate.allocation}, before.past.moves)
        _end(row, Status.REFUSED, one.at, refused)
        return replace(kept, course=_fresh(replace(before, past=past))), True
    row.save()
    return replace(kept, course=course), True


def _give(one: _Now, wanted: Allocation, kind: str, *, on_trial: bool = False) -> str:
    """Have its workers get this; the answer is why not, empty if it was begun."""
    told = kind, _words(one)
    return changing.given(one.workload, one.now, wanted, actor=ACTOR, event=told, hand=Hand.LOOP, on_trial=on_trial)


def _tell(one: _Now, kind: str) -> None:
    workload = one.workload
    who = workload.team.name, workload.pk, workload.name
    events.write([Entry(one.at, ACTOR, kind, *who, workload.phase, "", _words(one))])


def _words(one: _Now) -> str:
    """What is tried, and what was measured of it so far."""
    row = one.row
    assert row is not None  # noqa: S101 - a change is on trial or begins
    if row.gain is None or row.gain_error is None:
        return row.message
    return f"{row.message}. Measured {100 * math.expm1(row.gain):+.0f} % over {row.windows} windows."


def _end(row: Row | None, status: Status, at: float, message: str) -> None:
    if row is not None:
        row.status, row.ended_at, row.message = status, at, message[:400]
        row.save()


def _fresh(course: Course) -> Course:
    """Measured anew, with what was seen and tried so far."""
    return replace(course, experiment=Experiment(), change=None, windows=())
