"""Predict when each waiting workload starts: in the background, as the queue is simulated for it.

Nothing is decided by it. What was told is compared with what became of it, which corrects the next intervals.
"""

import math
import time

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.pace import Pace
from controlplane.loops.wiring import Wiring
from controlplane.queries.cells import views
from controlplane.queries.scheduling import snapshot
from controlplane.services.scheduling import forecasts, policy
from controlplane.services.scheduling.forecasts import Forecast
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.history import History
from scheduler.predict.expected_start import corrected, predicted_waits
from scheduler.predict.run_times import Spread

LOOP = "foresee"  # what rows, tasks, metrics and WEFT_LOOPS have called it from the first version on
PERIOD_SECONDS = 15.0
REST = 10  # times what it took: it shares the interpreter with the loops, so it gets a tenth of the time


def run_once(wiring: Wiring) -> Report:
    """One round: expected starts if they are due."""
    return rounds.run(LOOP, wiring, _predict_starts)


def _predict_starts(wiring: Wiring, lease: HeldLease) -> int:
    pace: Pace = wiring.kept.setdefault("predict pace", Pace(PERIOD_SECONDS, REST))
    if not pace.is_due:
        return 0
    started = time.monotonic()
    try:
        settings, _ = policy.current()
        found: dict[str, Forecast] = {}
        for view in views.every():
            world = snapshot.full(view=view)
            waits = predicted_waits(world, settings.scheduling, world.history)
            found |= {uid: _forecast(one, world.at, world.history) for uid, one in waits.items()}
        forecasts.record(found=found, at=world.at, lease=lease)
    finally:
        pace.spend(time.monotonic() - started)  # one that fails is not tried more often
    return len(found)


def _forecast(waits: Spread, at: float, history: History) -> Forecast:
    told = corrected(waits, at, history)
    return Forecast(
        None if math.isinf(waits.high) else waits,
        None if told is None or math.isinf(told.high) else told,
    )
