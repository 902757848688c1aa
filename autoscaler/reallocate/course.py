"""The course of one training: measure, choose a change, try it, keep it or roll it back, and again, window by window.

Pure: `follow` takes what is known and one window, and says what the training is to have. The caller gives it that, and
says with each window what it had in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autoscaler.bottleneck.evidence import shares
from autoscaler.bottleneck.window import Window as Reports
from autoscaler.experiment.experiment import LIMITS, Decision, Experiment, Limits, Phase, Window, step
from autoscaler.reallocate.choice import Considered, Past, Training, chosen, consider
from autoscaler.reallocate.constants import DEFAULT, Constants
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.fit import Fitted, fit
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation, observed


@dataclass(frozen=True, slots=True)
class Seen:
    """One window: what it had, and the means of a step, s. None: not known; step None: nothing was seen."""

    allocation: Allocation
    step: float | None
    exchange: float | None = None
    wait: float | None = None
    has_failed: bool = False


def of_reports(window: Reports, allocation: Allocation) -> Seen:
    """What the reporters of a window of the diagnosis say: the mean step, the exchange itself and the wait for data."""
    parts = shares(window)
    if parts is None:
        return Seen(allocation, None)
    steps = [worker.step for worker in window.workers if worker.step > 0]
    step = sum(steps) / len(steps)
    exchange, wait = (None if part is None else part * step for part in (parts.sync, parts.data_wait))
    return Seen(allocation, step, exchange, wait)


def of_levels(window: Reports, allocation: Allocation) -> Seen:
    """Where nothing reports steps: by how busy its GPUs are, as the slower a training is the more they wait.

    Its step has no unit, so it is compared with others of the same training only.
    """
    busy = window.levels.gpu
    return Seen(allocation, 1.0 / busy if busy else None)


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of a training. now: what it has unless a change is on trial; windows: of this phase.

    ended: the change that was kept or rolled back by the newest window; else None. noise: of its gradients when the
    change on trial was chosen, by which another batch is judged; None: each example counts alike.
    """

    now: Allocation
    experiment: Experiment = Experiment()
    change: Considered | None = None  # on trial
    windows: tuple[Seen, ...] = ()
    seen: tuple[Observation, ...] = ()  # one for each allocation, the latest
    past: Past = field(default_factory=Past)
    is_resting: bool = False  # there is nothing to try
    ended: Experiment | None = None
    noise: Gradients | None = None

    @property
    def wanted(self) -> Allocation:
        """What the training is to have."""
        is_changed = self.change is not None and self.experiment.phase is not Phase.BEFORE
        return self.change.candidate.allocation if self.change and is_changed else self.now


def follow(
    course: Course,
    window: Seen,
    training: Training,
    lent: Sequence[Observation] = (),
    limits: Limits = LIMITS,
    constants: Constants = DEFAULT,
) -> tuple[Course, Decision]:
    """Count one window. lent: observations of other trainings of the same template."""
    course = replace(course, ended=None)
    if course.is_resting:
        return course, Decision.WAIT
    wanted = course.wanted
    is_changed = wanted != course.now and window.allocation == wanted
    has_step = window.step is not None and window.allocation == wanted
    counted = Window(
        _for_as_much(window, course) if window.allocation in (course.now, wanted) else None,
        window.exchange, window.wait, is_changed, window.has_failed,
    )  # fmt: skip
    phase = course.experiment.phase
    experiment, decision = step(course.experiment, counted, limits)
    if has_step and phase in (Phase.BEFORE, Phase.JUDGING):
        course = replace(course, windows=(*course.windows, window))
    course = replace(course, experiment=experiment)
    if decision is Decision.CHANGE:
        return _begun(_remembered(course, limits.terms.before), training, lent, constants)
    if not experiment.has_ended:
        return course, decision
    if course.change is None:  # too few windows told anything
        return replace(course, is_resting=True), Decision.WAIT
    return _ended(_remembered(course), course.change, decision), decision


def fitted(course: Course, lent: Sequence[Observation] = ()) -> Fitted:
    """How long its steps last, by what was seen of it and is lent; not by what was seen with a worker that was slow."""
    return fit([*(one for one in course.seen if one.allocation.off == course.now.off), *lent])


def again(course: Course) -> Course:
    """One that rests measures anew, as after nodes have become free; what was tried stays tried."""
    return replace(course, experiment=Experiment(), windows=(), is_resting=False) if course.is_resting else course


def _for_as_much(window: Seen, course: Course) -> float | None:
    """s in which it learns as much as in one step now: a step of fewer workers is shorter, and does less.

    With a larger batch each example counts for less, by the noise of the gradients as it was when the trial began: a
    trial is judged by one measure, whatever the noise does meanwhile.
    """
    if window.step is None:
        return None
    before, after = course.now.examples, window.allocation.examples
    worth = 1.0 if course.noise is None else course.noise.advantage(before, after)
    return window.step * before / (after * worth)


def _begun(
    course: Course, training: Training, lent: Sequence[Observation], constants: Constants
) -> tuple[Course, Decision]:
    change = chosen(consider(course.now, fitted(course, lent), training, course.past, constants), constants)
    if change is None:
        return replace(course, is_resting=True), Decision.WAIT
    return replace(course, change=change, windows=(), noise=training.noise), Decision.CHANGE


def _ended(course: Course, change: Considered, decision: Decision) -> Course:
    tried = change.candidate.allocation
    past = Past(course.past.tabu | {tried, course.now}, course.past.moves + 1)
    now = tried if decision is Decision.KEEP else course.now
    return Course(now, seen=course.seen, past=past, ended=course.experiment)


def _remembered(course: Course, last: int | None = None) -> Course:
    """With an observation of the windows of this phase, the last so many."""
    windows = course.windows[-last:] if last else course.windows
    told = [(one.step, one.exchange, one.wait) for one in windows if one.step is not None]
    if not told:
        return course
    new = observed(windows[0].allocation, told)
    return replace(course, seen=(*(one for one in course.seen if one.allocation != new.allocation), new))
