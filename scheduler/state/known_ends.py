"""Expected ends of running work, kept from round to round: a column beside the ledger's rows."""

import operator

import numpy as np

from scheduler.model.workload import Workload
from scheduler.predict.run_times import RunTimes
from scheduler.state.ledger import HOLDS, RUNS, SERVICE, STARTED, Floats, Ledger

_SOON = 0.001  # s: ends so near are worked out anew, so that rounding is the same with nothing remembered


class ExpectedEnds:
    """When the workloads in a ledger's rows are expected to end, kept from round to round (scheduler/state/memo.py).

    An end stays as it is until it has passed, so of 5,000 in a round 50 are to be renewed.
    """

    def __init__(self) -> None:
        self._of: list[Workload | None] = []
        self._ends: Floats = np.zeros(0)
        self._by: tuple[RunTimes, float] | None = None

    def of(self, ledger: Ledger, at: float, times: RunTimes) -> Floats:
        """By slot: when rounds expect the workload there to end; inf for a service and for an empty slot."""
        known = self._known(ledger, at, times)
        does_end = ledger.flags[:, HOLDS] & ~ledger.flags[:, SERVICE]
        out: Floats = np.where(does_end, known, np.inf)
        is_known = out > at + _SOON
        for slot in np.flatnonzero(~is_known).tolist():
            workload = ledger.slots[slot]
            if workload is not None:
                out[slot] = times.planned_end(workload, at)[0]
        stays = ledger.flags[:, RUNS] & (ledger.times[:, STARTED] <= at) & does_end
        known[stays] = out[stays]
        self._of, self._ends, self._by = [*ledger.slots], known, (times, at)
        return out

    def _known(self, ledger: Ledger, at: float, times: RunTimes) -> Floats:
        """The ends that hold still; NaN where the row has another workload now, or the same one otherwise."""
        known: Floats = np.full(len(ledger.flags), np.nan)
        if self._by is None or self._by[0] is not times or self._by[1] > at:
            return known
        count = min(len(self._of), len(ledger.slots))
        is_same = np.fromiter(map(operator.is_, self._of, ledger.slots), dtype=np.bool_, count=count)
        known[:count] = np.where(is_same, self._ends[:count], np.nan)
        return known
