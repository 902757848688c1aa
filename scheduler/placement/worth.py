"""Place a worker where the expected use of what stays free falls least."""

from collections.abc import Sequence

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.demand import Demand
from scheduler.placement import loops
from scheduler.placement.fleet import Kind
from scheduler.placement.rows import GPUS, MILLI, Bill, Fleet, Scores, Want, new_memo, new_now, new_scores
from scheduler.placement.stocks import Prices
from scheduler.placement.stream import SEQUENCES, stream_of

MEMO = 1 << 17  # states remembered


class Worth:
    """The scorer of one demand on one cluster.

    It remembers worths by state, and scores by shape and version of a node's row: what it says depends on the demand,
    the kinds and the fleet it is shown only. One fleet at a time: versions of another one would mislead it.
    """

    def __init__(self, demand: Demand, kinds: Sequence[Kind], fleet: Fleet, gpus: int) -> None:
        nodes, devices = fleet.gpu.shape
        self._stream = stream_of(demand, kinds, gpus)
        self._prices = Prices(demand, kinds, nodes)
        self._memo = new_memo(devices, MEMO)
        self._now = new_now(nodes)
        self._scores: dict[bytes, Scores] = {}
        self._no_bill = Bill(np.zeros(len(self._prices.rates)), np.zeros(len(kinds)))

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        found = self.offer(fleet, want, allowed)
        return None if found is None else found[:2]

    def offer(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int, float] | None:
        """As `choose`, with the score: by how many milli-GPU the worth of the cluster changes, less what is paid."""
        numbers = want.numbers
        key = numbers.tobytes() + want.may.tobytes()
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = new_scores(len(fleet.kind))
        loops.refresh(fleet, numbers, want.may, self._stream, self._memo, self._now, scores)
        milli = int(numbers[GPUS] * WHOLE + numbers[MILLI])
        bill = Bill(*self._prices.now(fleet, want.may, milli)) if milli else self._no_bill
        node, device, score = loops.choose(fleet, numbers, allowed, scores, self._prices.stocks, bill, SEQUENCES)
        return None if node < 0 else (int(node), int(device), float(score))
