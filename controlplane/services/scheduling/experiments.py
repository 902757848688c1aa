"""Changes of running trainings on trial: measured before, changed, measured after, then kept or taken back.

After each look (diagnoses.py) the window of a training is counted in its course (autoscaler/reallocate): twelve windows
before, the best change that keeps its budgets and is worth a try, four to forty windows after. What a team's setting
`reallocation` does not allow is only told. What is changed so far is the CPU of workers, in place; nothing restarts. A
person's hand goes first: what was changed by another meanwhile is not judged. docs/reallocation.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from django.db import transaction

from autoscaler.experiment.experiment import LIMITS, Decision, Experiment
from autoscaler.experiment.experiment import Phase as Step
from autoscaler.reallocate.candidates import Freedom
from autoscaler.reallocate.choice import Past, Training, consider, told
from autoscaler.reallocate.constants import DEFAULT, Constants
from autoscaler.reallocate.course import Course, Seen, again, follow, of_reports
from autoscaler.reallocate.rows import allocation_of
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.fit import fit
from controlplane.domain import coursestate
from controlplane.domain.coursestate import Kept
from controlplane.jobspec.spec import SpecError
from controlplane.lifecycle import resizing
from controlplane.models import Experiment as Row
from controlplane.models import ExperimentStatus as Status
from controlplane.models import Reallocation, TrainingDiagnosis, Workload
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import Hand
from controlplane.services.scheduling import allocations
from controlplane.services.scheduling.allocations import Offer, Place
from controlplane.services.scheduling.diagnoses import ACTOR, Looked
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import amending
from scheduler.model.workload import ENDED

OTHERS_HAND = "It was changed by another hand meanwhile, so it is not known what this change did."
NOTHING = Training(Freedom(), (), (), 0.0, 0.0)
UNASKED = Offer(NOTHING, NOTHING)  # where nothing is chosen in this window
OVER = "The training ended before the change was judged."
NOT_GIVEN = "Its node did not give it."


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
        now = allocations.of(workload, members.get(uid, ()))
        if now is not None and (row is not None or workload.team.reallocation != Reallocation.OFF):
            kept = coursestate.kept_of(courses[uid]) if courses[uid] else Kept(workload.attempt, Course(now))
            yield _Now(at, one, workload, members[uid], now, row, kept, constants)


def _counted(one: _Now) -> tuple[Kept, bool]:
    """The course after this window, and whether a change began or ended."""
    kept, named = one.kept, one.looked.diagnosis.bottleneck
    if one.now not in (kept.course.now, kept.course.wanted):
        _end(one.row, Status.UNJUDGED, one.at, OTHERS_HAND)
        kept = Kept(one.workload.attempt, Course(one.now, past=_overruled(one, kept.course)))
        one = replace(one, row=None)
    if kept.course.is_resting and kept.bottleneck is not named:
        kept = replace(kept, course=again(kept.course), bottleneck=None)
    return _followed(one, kept)


def _overruled(one: _Now, course: Course) -> Past:
    """What was tried so far: also the change that another hand ended, which is not tried again."""
    if one.row is None:
        return course.past
    return Past(course.past.tabu | {course.now, course.wanted}, course.past.moves + 1)


def take_back(*, workload: Workload, actor: str, hand: Hand) -> None:
    """Have its workers get what they had before its newest change. Raises Refused 409 where there is none.

    The loop sees another hand in that: it judges a change on trial no further, and does not try it again.
    """
    found = Row.objects.filter(workload=workload, status__in=(Status.ON_TRIAL, Status.KEPT)).order_by("-id").first()
    cpu_milli, _ = resizing.wanted(workload)
    if found is None or not coursestate.has(found.after, cpu_milli):
        message = (
            f"{workload.name} has no change of Weft's that could be taken back: none was made, or it is gone again."
        )
        raise Refused(409, "NothingToTakeBack", "", message)
    event = ("ChangeTakenBack", f"Taken back: {found.message}."[:400])
    _resize(workload, allocation_of(found.before), actor=actor, event=event, hand=hand)


def _followed(one: _Now, kept: Kept) -> tuple[Kept, bool]:
    before, named = kept.course, one.looked.diagnosis.bottleneck
    offer, measured = UNASKED, before.experiment
    if measured.phase is Step.BEFORE and len(measured.before) + 1 >= LIMITS.terms.before:
        offer = allocations.offer(one.workload, one.now, one.members, one.at, named)
    course, decision = follow(before, _seen(one, kept), offer.in_place, constants=one.constants)
    if course.seen and (decision is Decision.CHANGE or (course.is_resting and not before.is_resting)):
        found = consider(before.now, fit(course.seen), offer.anywhere, before.past, one.constants)
        kept = replace(kept, told=tuple(told(each, before.now) for each in coursestate.best(found)))
    kept = replace(kept, course=course, bottleneck=named if course.is_resting else None)
    if decision is Decision.CHANGE:
        return _begin(one, replace(kept, course=before), course)
    if decision is Decision.WAIT or one.row is None:
        return kept, False
    _finish(one, one.row, before, course, decision)
    return kept, True


def _finish(one: _Now, row: Row, before: Course, course: Course, decision: Decision) -> None:
    """Write what became of a change, and take it back unless it is kept."""
    ended = course.ended or Experiment()
    row.windows = len(ended.after)
    if ended.after:
        row.gain, row.gain_error = ended.judged.gain, ended.judged.error
    if decision is Decision.KEEP:
        _end(row, Status.KEPT, one.at, row.message)
        _tell(one, "ChangeKept")
    elif before.experiment.phase is Step.CHANGING and one.now == before.now:
        _end(row, Status.REFUSED, one.at, NOT_GIVEN)
    else:
        _end(row, Status.ROLLED_BACK, one.at, row.message)
        _give(one, course.now, "ChangeRolledBack")


def _seen(one: _Now, kept: Kept) -> Seen:
    """The window as the course counts it. While nodes change its size it is known neither as before nor as after."""
    course, is_resizing = kept.course, one.workload.resize is not None
    not_given = course.experiment.phase is Step.CHANGING and not is_resizing and one.now == course.now
    is_stopped = one.mode != Reallocation.AUTOMATIC or kept.attempt != one.workload.attempt or not_given
    has_failed = one.row is not None and is_stopped
    if is_resizing:
        return Seen(course.now, None, has_failed=has_failed)
    return replace(of_reports(one.looked.window, one.now), has_failed=has_failed)


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
        expected=change.gain.value, expected_error=change.gain.error, message=told(change, before.now)[:400],
    )  # fmt: skip
    refused = _give(replace(one, row=row), change.candidate.allocation, "ChangeTried")
    if refused:
        past = Past(before.past.tabu | {change.candidate.allocation}, before.past.moves)
        _end(row, Status.REFUSED, one.at, refused)
        return replace(kept, course=_fresh(replace(before, past=past))), True
    row.save()
    return replace(kept, course=course), True


def _give(one: _Now, wanted: Allocation, kind: str) -> str:
    """Have its workers get this; the answer is why not, empty if it was begun."""
    try:
        with transaction.atomic():
            _resize(one.workload, wanted, actor=ACTOR, event=(kind, _words(one)), hand=Hand.LOOP)
    except Refused as refused:
        return refused.message
    except SpecError as wrong:
        return str(wrong)
    return ""


def _resize(workload: Workload, wanted: Allocation, *, actor: str, event: tuple[str, str], hand: Hand) -> None:
    resources = {**workload.spec["resources"], "cpu": allocations.cores(wanted.cpu)}
    changes = {"resources": resources}
    amending.patch(workload=workload, changes=changes, version=None, actor=actor, event=event, hand=hand)


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
