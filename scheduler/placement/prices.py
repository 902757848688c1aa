"""Shadow prices of what coming work will need whole: nodes with many idle GPUs, and models that some work is bound to.

Newsvendor prices: the chance that what is left of a supply is requested before the cluster is full, times what a piece
is worth. A finite price only reorders: nothing that fits is refused. Source: our own (ARCHITECTURE.md).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.demand import Demand
from scheduler.model.snapshot import Ints
from scheduler.placement import loops
from scheduler.placement.fleet import Kind, want_of
from scheduler.placement.rows import CPU, GPUS, RAM, Fleet, Floats, Supply, Want

NODE_WEIGHT = 0.5  # of a whole worker's milli-GPU; anything from 0.1 to 1 does as well
MARGIN = 1.3  # more work that needs a stock than expected is kept room for
MODEL_WEIGHT = 1.0  # of the worker's milli-GPU: what is refused for it is as large; 0.1 let models run out at once
MIN_SPREAD = 1e5  # milli-GPU squared: that of ten shares, where hardly anything is to come


class Bound(NamedTuple):
    """Work that only some kinds can take, for their model or their size, B groups of it. may: [B, kinds] which.

    mean, square: [B] the milli-GPU of such a worker and its square, 0 for others, mean over all workers seen.
    """

    may: Bools
    mean: Floats
    square: Floats


class Prices:
    """The two shadow prices at the current supply."""

    def __init__(self, demand: Demand, kinds: Sequence[Kind], fleet: Fleet, sizes: Ints, hosts: Ints) -> None:
        nodes = len(fleet.kind)
        wants = [want_of(shape.ask, kinds) for shape in demand.shapes]
        counts = [shape.count for shape in demand.shapes]
        millis = [shape.ask.milli for shape in demand.shapes]
        count = max(1, demand.count)
        self.mean = sum(c * m for c, m in zip(counts, millis, strict=True)) / count
        large = [i for i, want in enumerate(wants) if want.numbers[GPUS] > 1 and want.may.any()]
        rates: list[float] = []
        for i in large:
            same = [j for j in large if _asks_as_much(wants[j], wants[i])]
            seen = sum(counts[j] for j in same)
            rates.append(_likely_most(seen, count))
        whole = _whole_nodes(fleet.kind, sizes, len(kinds))  # none may have been requested so far: that tells little
        rates += [_likely_most(0, count)] * len(whole)
        self._rates: Floats = np.array(rates, dtype=np.float64)
        reach = [_kinds_that_take(want, fleet.kind, sizes, hosts) for want in wants]
        rows = [(r, c, m) for r, c, m in zip(reach, counts, millis, strict=True) if m and r.any()]
        self._bound = _bound(rows, count, np.array([bool(model) for model, _ in kinds], dtype=np.bool_))
        stocked = [*(wants[i] for i in large), *whole]
        self.supply = Supply(
            np.array([want.numbers for want in stocked], dtype=np.int64).reshape(-1, 5),
            np.array([want.may for want in stocked], dtype=np.bool_).reshape(-1, len(kinds)),
            np.zeros((len(stocked), nodes), dtype=np.int64),
            np.zeros(len(stocked), dtype=np.int64),
            np.zeros(nodes, dtype=np.int64),
            np.zeros(len(kinds), dtype=np.int64),
            np.full(nodes, -1, dtype=np.int64),
        )

    def now(self, fleet: Fleet, may: Bools, milli: int) -> tuple[Floats, Floats]:
        """What a worker pays: for each copy of a whole shape it destroys [X], and on nodes of each kind [kinds].

        Both in milli-GPU; milli is what the worker takes itself.
        """
        supply, bound = self.supply, self._bound
        loops.recount(fleet, supply)
        to_come = int(supply.of_kind.sum()) / self.mean if self.mean else 0.0
        wanted = MARGIN * to_come * self._rates
        short = _normal((wanted - supply.slots + 0.5) / np.sqrt(np.maximum(wanted, 0.05)))
        whole = NODE_WEIGHT * WHOLE * supply.wants[:, GPUS] * short
        spread = np.sqrt(np.maximum(bound.square * to_come, MIN_SPREAD))
        scarce = _normal((MARGIN * bound.mean * to_come - bound.may @ supply.of_kind) / spread)
        pays = (may & ~bound.may).any(axis=1)
        price = np.where(pays, MODEL_WEIGHT * milli * scarce, 0.0)
        return whole, (bound.may * price[:, None]).max(axis=0, initial=0.0)


def _bound(rows: Sequence[tuple[Bools, int, int]], count: int, has_gpus: Bools) -> Bound:
    """The groups of work bound to some kinds. rows: the kinds, number and milli-GPU of each shape with GPUs."""
    masks = list({may.tobytes(): may for may, _, _ in rows if (may != has_gpus).any()}.values())
    sums = []
    for mask in masks:
        inside = [(c, m) for may, c, m in rows if not (may & ~mask).any()]
        sums.append([sum(c * m**power for c, m in inside) / count for power in (1, 2)])
    table = np.array(sums, dtype=np.float64).reshape(-1, 2)
    return Bound(np.array(masks, dtype=np.bool_).reshape(-1, len(has_gpus)), table[:, 0], table[:, 1])


def _kinds_that_take(want: Want, kind: Ints, sizes: Ints, hosts: Ints) -> Bools:
    """The kinds that the work may use and of which an empty node takes it. kind, sizes: [N]; hosts: [N, 2]."""
    numbers = want.numbers
    fits = (hosts >= numbers[[CPU, RAM]]).all(axis=1) & (sizes >= max(1, int(numbers[GPUS])))
    takes: Bools = np.bincount(kind[fits], minlength=len(want.may)) > 0
    return want.may & takes


def _likely_most(seen: int, of: int) -> float:
    """The rate of what was seen so often, a deviation above: few were seen, and the true rate may be higher."""
    return (seen + math.sqrt(seen) + 1) / of


def _whole_nodes(kind: Ints, sizes: Ints, kinds: int) -> list[Want]:
    """Work that would take all GPUs of a node, for each kind and size of nodes with two or more. sizes: [N] devices."""
    found = sorted({(k, size) for k, size in zip(kind.tolist(), sizes.tolist(), strict=True) if size > 1})
    return [Want(np.array([0, 0, size, 0, 0], dtype=np.int64), np.arange(kinds) == k) for k, size in found]


def _asks_as_much(one: Want, other: Want) -> bool:
    """Whether the first asks at least as much: as many GPUs, no other models, no less cores and memory."""
    same = one.numbers[GPUS] == other.numbers[GPUS] and not (one.may & ~other.may).any()
    return bool(same and one.numbers[CPU] >= other.numbers[CPU] and one.numbers[RAM] >= other.numbers[RAM])


def _normal(x: Floats) -> Floats:
    """The normal distribution's function of each. The C library's erfc, as numpy has none."""
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x.tolist()], dtype=np.float64)
