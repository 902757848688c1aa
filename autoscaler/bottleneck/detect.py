"""The diagnosis of one training, window by window: what its steps are bound by, with the evidence of every class."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.bottleneck.constants import DEFAULT, Constants
from autoscaler.bottleneck.evidence import removable, shares
from autoscaler.bottleneck.straggler import Pace, follow
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, smoothed

LATELY = 30  # windows that are shown: half an hour of looks


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one class.

    odds: its log odds; removable: the part of the step it takes, smoothed, 0..1; lately: the same of each of the newest
    windows that told it, unsmoothed, oldest first, at most LATELY.
    """

    odds: float = 0.0
    removable: float = 0.0
    lately: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known after some windows. windows: those that had a report."""

    windows: int = 0
    levels: Levels = Levels()
    evidence: Mapping[Bottleneck, Evidence] = field(default_factory=dict)
    pace: Pace = Pace()
    bottleneck: Bottleneck | None = None  # None: too few windows to say
    slow_worker: int | None = None  # with a straggler, its rank

    @property
    def slowed_by(self) -> Bottleneck | None:
        """What slows it; None where nothing does, or too little is known."""
        return None if self.bottleneck is Bottleneck.GPU_COMPUTE else self.bottleneck


def observe(diagnosis: Diagnosis, window: Window | None, constants: Constants = DEFAULT) -> Diagnosis:
    """Count one window; None is a scrape that was lost, and changes nothing."""
    if window is None:
        return diagnosis
    levels = smoothed(diagnosis.levels, window.levels, constants)
    if shares(window) is None:
        return Diagnosis(
            diagnosis.windows, levels, diagnosis.evidence, diagnosis.pace, diagnosis.bottleneck, diagnosis.slow_worker
        )
    windows = diagnosis.windows + 1
    evidence = dict(diagnosis.evidence)
    for one, excess in removable(window, levels, constants).items():
        evidence[one] = _added(evidence.get(one, Evidence()), excess, _least(one, constants), windows, constants)
    pace = diagnosis.pace
    own = tuple(worker.own or 0.0 for worker in window.workers)
    if len(own) > 1 and min(own) > 0:
        pace = follow(pace, own, constants)
        before = evidence.get(Bottleneck.STRAGGLER, Evidence())
        odds = constants.alarm if pace.is_slow else 0.0
        evidence[Bottleneck.STRAGGLER] = Evidence(odds, pace.excess, _lately(before, pace.excess))
    named = _named(evidence, windows, constants)
    slow = pace.slowest if named is Bottleneck.STRAGGLER else None
    if slow is not None and len(window.ranks) == len(own):
        slow = window.ranks[slow]
    return Diagnosis(windows, levels, evidence, pace, named, slow)


def _added(before: Evidence, excess: float, least: float, windows: int, constants: Constants) -> Evidence:
    gain = excess * constants.effect / constants.deviation**2
    odds = max(constants.floor, before.odds + min(max(gain, -constants.step), constants.step))
    part, now = max(constants.smooth, 1.0 / windows), max(excess + least, 0.0)
    return Evidence(odds, before.removable + part * (now - before.removable), _lately(before, now))


def _lately(before: Evidence, now: float) -> tuple[float, ...]:
    return (*before.lately, now)[-LATELY:]


def _least(one: Bottleneck, constants: Constants) -> float:
    if one in (Bottleneck.INPUT_CPU, Bottleneck.STORAGE):
        return constants.least_wait
    return constants.least_idle if one is Bottleneck.TOO_SMALL else constants.least_sync


def _named(evidence: Mapping[Bottleneck, Evidence], windows: int, constants: Constants) -> Bottleneck | None:
    """The class whose removable part is the largest, of those whose odds are high enough."""
    if windows < constants.windows:
        return None
    sure = [one for one, known in evidence.items() if known.odds >= constants.alarm]
    return max(sure, key=lambda one: (evidence[one].removable, one), default=Bottleneck.GPU_COMPUTE)
