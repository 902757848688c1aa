"""Place a worker where the expected use of what stays free falls least.

The packable capacity of a node is the milli-GPU that a random stream of coming work would still pack onto what is free
of it. FGD counts what typical work could not use now; this plays the future forward, so that it also sees cores, memory
and models run short, and holes that nothing to come will fill. Our own (ARCHITECTURE.md, "Where a worker goes").
"""

from collections.abc import Sequence

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.demand import Demand
from scheduler.model.snapshot import Ints
from scheduler.placement import arrays, loops
from scheduler.placement.compiled import HAS_NUMBA
from scheduler.placement.fleet import Kind
from scheduler.placement.prices import Prices
from scheduler.placement.rows import (
    GPUS,
    MILLI,
    Fleet,
    Scores,
    ShadowPrices,
    Stream,
    Want,
    new_memo,
    new_now,
    new_scores,
)
from scheduler.placement.stream import SEQUENCES, stream_of

MEMO = 1 << 17  # states remembered, about 12 MiB with 8 devices a node


class PackableCapacity:
    """The scorer of one demand on one cluster. sizes: [N] devices, hosts: [N, 2] 1/1000 cores and MiB of empty nodes.

    It remembers capacities by state, and scores by shape and version of a node's row: what it says depends only on the
    demand, the kinds and the rows it is shown. One fleet at a time: versions of another one would mislead it.
    """

    def __init__(
        self,
        demand: Demand,
        kinds: Sequence[Kind],
        fleet: Fleet,
        sizes: Ints,
        hosts: Ints,
        *,
        is_compiled: bool = HAS_NUMBA,
        memo: int = MEMO,
    ) -> None:
        nodes, devices = fleet.gpu.shape
        self._prices = Prices(demand, kinds, fleet, sizes, hosts)
        self._rater = (_Compiled if is_compiled else _Plain)(
            stream_of(demand, kinds, int(sizes.sum())), nodes, devices, memo
        )
        self._scores: dict[bytes, Scores] = {}

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        found = self.offer(fleet, want, allowed)
        return None if found is None else found[:2]

    def offer(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int, float] | None:
        """As `choose`, with the score: the change of the cluster's packable capacity in milli-GPU, less the prices."""
        numbers = want.numbers
        key = numbers.tobytes() + want.may.tobytes()
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = new_scores(len(fleet.kind))
        milli = int(numbers[GPUS] * WHOLE + numbers[MILLI])
        shadow_prices = ShadowPrices(*self._prices.now(fleet, want.may, milli))
        node, device, score = self._rater.best(fleet, want, allowed, scores, self._prices, shadow_prices)
        return None if node < 0 else (int(node), int(device), float(score))


class _Compiled:
    def __init__(self, stream: Stream, nodes: int, devices: int, memo: int) -> None:
        self._stream, self._memo, self._now = stream, new_memo(devices, memo), new_now(nodes)

    def best(
        self, fleet: Fleet, want: Want, allowed: Bools, scores: Scores, prices: Prices, shadow_prices: ShadowPrices
    ) -> tuple[int, int, float]:
        loops.refresh(fleet, want.numbers, want.may, self._stream, self._memo, self._now, scores)
        return loops.choose(fleet, want.numbers, allowed, scores, prices.supply, shadow_prices, SEQUENCES)


class _Plain:
    def __init__(self, stream: Stream, nodes: int, devices: int, memo: int) -> None:
        self._stream, self._packables, self._now = stream, arrays.Packables(memo), new_now(nodes)

    def best(
        self, fleet: Fleet, want: Want, allowed: Bools, scores: Scores, prices: Prices, shadow_prices: ShadowPrices
    ) -> tuple[int, int, float]:
        arrays.refresh(fleet, want.numbers, want.may, self._stream, self._packables, self._now, scores)
        return arrays.choose(fleet, want.numbers, allowed, scores, prices.supply, shadow_prices, SEQUENCES)
