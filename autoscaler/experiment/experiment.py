"""A change on trial, window by window: measure before, change, settle, judge, then keep it or roll it back.

Plain data in, plain data out: `step` takes what is known and one window, and gives what is known now and what to do.
The caller changes the training and says in each window whether the change runs. It ends after `Limits.longest` windows
at most, whatever they say. The test is `verdict.judge`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from autoscaler.experiment.verdict import DEFAULT, Judged, Terms, Verdict, judge


class Phase(StrEnum):
    """Where an experiment is."""

    BEFORE = "before"  # measures what is to be changed
    CHANGING = "changing"  # until the change runs
    SETTLING = "settling"  # it runs, and its first windows are not counted
    JUDGING = "judging"
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"


ENDED = (Phase.KEPT, Phase.ROLLED_BACK)


class Decision(StrEnum):
    """What to do after a window."""

    WAIT = "wait"
    CHANGE = "change"
    KEEP = "keep"
    ROLL_BACK = "roll_back"  # also where nothing was changed yet: the change is not tried any more


@dataclass(frozen=True, slots=True)
class Window:
    """Means of one window, s of a step. step None: a scrape that was lost, or no step ended. None: not known."""

    step: float | None
    exchange: float | None = None
    wait: float | None = None
    is_changed: bool = False  # the change runs
    has_failed: bool = False  # the training failed in it


@dataclass(frozen=True, slots=True)
class Limits:
    """How many windows each phase may last. A phase that gets too few steps ends as well."""

    terms: Terms = DEFAULT
    settle: int = 1  # windows, of those that run changed: warm-up, caches
    start: int = 40  # until the change runs
    lost: float = 2.0  # times the windows that are asked for, where some are lost

    @property
    def longest(self) -> int:
        """Windows after which it has ended."""
        return int(self.lost * self.terms.before) + self.start + self.settle + int(self.lost * self.terms.most)


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is known of a change. before, after: step times, s, oldest first; seen: windows in this phase."""

    phase: Phase = Phase.BEFORE
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    seen: int = 0
    judged: Judged = Judged(Verdict.UNDECIDED)

    @property
    def has_ended(self) -> bool:
        """Whether it was kept or rolled back."""
        return self.phase in ENDED


def step(known: Experiment, window: Window, limits: Limits = LIMITS) -> tuple[Experiment, Decision]:
    """Count one window. After the end nothing changes any more."""
    if known.has_ended:
        return known, Decision.WAIT
    if window.has_failed and known.phase is not Phase.BEFORE:
        return _rolled_back(known)
    now = replace(known, seen=known.seen + 1)
    if known.phase is Phase.BEFORE:
        return _measured(now, window, limits)
    if known.phase is Phase.CHANGING:
        if window.is_changed:
            now = replace(now, phase=Phase.SETTLING if limits.settle else Phase.JUDGING, seen=0)
            return step(now, window, limits)
        return _rolled_back(now) if now.seen >= limits.start else (now, Decision.WAIT)
    if known.phase is Phase.SETTLING:
        return (replace(now, phase=Phase.JUDGING, seen=0) if now.seen >= limits.settle else now), Decision.WAIT
    return _judged(now, window, limits)


def _measured(now: Experiment, window: Window, limits: Limits) -> tuple[Experiment, Decision]:
    if window.step is not None and not window.is_changed:  # changed still: a change before this one is on its way back
        now = replace(now, before=(*now.before, window.step)[-limits.terms.before :])
    if len(now.before) >= limits.terms.before:
        return replace(now, phase=Phase.CHANGING, seen=0), Decision.CHANGE
    return _rolled_back(now) if now.seen >= int(limits.lost * limits.terms.before) else (now, Decision.WAIT)


def _judged(now: Experiment, window: Window, limits: Limits) -> tuple[Experiment, Decision]:
    if window.step is not None and window.is_changed:
        now = replace(now, after=(*now.after, window.step))
    is_last = now.seen >= int(limits.lost * limits.terms.most)
    terms = replace(limits.terms, most=max(len(now.after), limits.terms.fewest)) if is_last else limits.terms
    now = replace(now, judged=judge(now.before, now.after, terms))
    if now.judged.verdict is Verdict.KEEP:
        return replace(now, phase=Phase.KEPT, seen=0), Decision.KEEP
    if now.judged.verdict is Verdict.ROLL_BACK or is_last:
        return _rolled_back(now)
    return now, Decision.WAIT


def _rolled_back(now: Experiment) -> tuple[Experiment, Decision]:
    return replace(now, phase=Phase.ROLLED_BACK, seen=0), Decision.ROLL_BACK


def written(known: Experiment) -> dict[str, Any]:
    """As JSON has it, which knows no infinity: an error that is not known is null."""
    judged = known.judged
    return {
        "phase": known.phase.value,
        "before": list(known.before),
        "after": list(known.after),
        "seen": known.seen,
        "verdict": judged.verdict.value,
        "gain": judged.gain,
        "error": judged.error if math.isfinite(judged.error) else None,
    }


def restored(row: Mapping[str, Any]) -> Experiment:
    """What `written` wrote. Raises KeyError, TypeError or ValueError where it did not."""
    error = row["error"]
    return Experiment(
        Phase(row["phase"]),
        tuple(float(one) for one in row["before"]),
        tuple(float(one) for one in row["after"]),
        int(row["seen"]),
        Judged(Verdict(row["verdict"]), float(row["gain"]), math.inf if error is None else float(error)),
    )
