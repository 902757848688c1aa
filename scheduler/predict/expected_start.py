"""When a waiting workload is expected to start: the queue simulated by expected ends, in several scenarios.

scheduler/predict/queue_simulation.py plays it. What that leaves out, history corrects: past predictions are compared
with the waits that followed, and each end of the interval is moved out so that it would have been right as often as it
says (split conformal prediction; Papadopoulos et al. 2002, Vovk et al. 2005). Never in: the waits that are over are the
short ones of those predicted, so what they say of an interval being too wide is not to be believed.
"""

import math
from collections.abc import Iterable

import numpy as np

from scheduler.actions.backfill import PASSING
from scheduler.model.decision import Reason
from scheduler.model.history import LEVELS, MIN, History, Mistake, at_levels
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.policies import outcomes
from scheduler.predict.queue_simulation import Play
from scheduler.predict.run_times import HIGH, LOW, MEDIAN, Spread
from scheduler.state.memo import Memo
from scheduler.state.session import Session

SLACK = 60.0  # s added to both waits before they are divided: a wait of nothing says nothing about ratios
NOW = Spread(0.0, 0.0, 0.0)  # the next round starts it: nothing is predicted


def expected_start(
    snapshot: Snapshot,
    workload_id: str,
    settings: Settings,
    history: History | None = None,
    memo: Memo | None = None,
) -> Spread | None:
    """When the workload is expected to start, as an interval that is right 8 times in 10; None if unpredictable.

    There is none for what is not in the queue, is not allowed to start, or waits for what does not end by itself.
    Raises KeyError if the workload is not in the snapshot. history: by default the snapshot's.
    """
    asked = snapshot.workloads[workload_id]
    return expected_starts(snapshot, settings, history, asked.id, memo).get(asked.id)


def expected_starts(
    snapshot: Snapshot,
    settings: Settings,
    history: History | None = None,
    until: str | None = None,
    memo: Memo | None = None,
) -> dict[str, Spread]:
    """The expected starts of all in the queue that have one; with `until`, up to this workload's start."""
    history = snapshot.history if history is None else history
    found = predicted_waits(snapshot, settings, history, until, memo)
    told = {uid: corrected(waits, snapshot.at, history) for uid, waits in found.items()}
    return {uid: spread for uid, spread in told.items() if spread is not None}


def predicted_waits(
    snapshot: Snapshot,
    settings: Settings,
    history: History,
    until: str | None = None,
    memo: Memo | None = None,
) -> dict[str, Spread]:
    """How many seconds from now all in the queue wait, uncorrected; inf where a scenario has no start.

    A workload that starts in the next round waits 0 s for certain. until: up to this workload's start.
    """
    session, queue, out = Session(snapshot, settings, memo), [], {}
    for workload, refusal in outcomes(session):
        if refusal is None:
            out[workload.id] = NOW
        elif refusal.reason in PASSING or refusal.reason is Reason.BEHIND_HIGHER_PRIORITY:
            queue.append(workload)
    if until in out:
        return out
    play = Play(session, queue, history)
    for workload, waits in zip(queue, play.waits(until), strict=True):
        out[workload.id] = Spread(
            *(float(np.quantile(waits, level, method="nearest")) for level in (LOW, MEDIAN, HIGH))
        )
    return out


def corrected(waits: Spread, at: float, history: History) -> Spread | None:
    """The interval around predicted waits that past predictions would have needed. Times, from waits in seconds."""
    if math.isinf(waits.median):
        return None
    if waits == NOW:
        return Spread(at, at, at)
    factors = (1.0, 1.0, 1.0)
    if history.mistakes:
        levels = (LEVELS.index(LOW), LEVELS.index(MEDIAN), LEVELS.index(HIGH))
        low, median, high = (values[level] for values, level in zip(history.mistakes, levels, strict=True))
        factors = (min(1.0, low), median, max(1.0, high))
    low, median, high = (
        at + max(0.0, (wait + SLACK) * factor - SLACK)
        for wait, factor in zip((waits.low, waits.median, waits.high), factors, strict=True)
    )
    return Spread(min(low, median), median, max(median, high))


def mistakes(pairs: Iterable[Mistake]) -> tuple[tuple[float, ...], ...]:
    """By how much past predictions were off, for `History.mistakes`: actual over predicted waits, at LEVELS."""
    found = [pair for pair in pairs if not math.isinf(pair.high)]
    if len(found) < MIN:
        return ()
    return tuple(
        at_levels([(mistake.actual + SLACK) / (getattr(mistake, name) + SLACK) for mistake in found])
        for name in ("low", "median", "high")
    )
