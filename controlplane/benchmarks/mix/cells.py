"""The cells that people run in notebooks: how long they take where a GPU is shared, and how much of it they use.

A notebook runs a cell, its user thinks, and runs the next one. Cells of one GPU that run at the same time share it
evenly, as tokens do (gpushare/tokens.py), and lose the part OVERHEAD by that.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DUTY = (0.05, 0.25)  # part of a notebook's life in which its cell runs, were it alone
CELL = 60.0  # s of a whole GPU: mean of a cell, exponential
OVERHEAD = 0.05


@dataclass(frozen=True, slots=True)
class Cells:
    """Of the cells that began within a time. slowed: seconds that each took over those alone; busy: s of whole GPUs."""

    slowed: tuple[float, ...]
    busy: float


def run(places: Mapping[str, tuple[str, int]], seed: int, begin: float, end: float) -> Cells:
    """places: the node and device of each notebook."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name, place in sorted(places.items()):
        groups.setdefault(place, []).append(name)
    slowed: list[float] = []
    busy = 0.0
    for names in groups.values():
        one = _device(names, seed, begin, end)
        slowed += one.slowed
        busy += one.busy
    return Cells(tuple(slowed), busy)


def _device(names: Sequence[str], seed: int, begin: float, end: float) -> Cells:
    draws = {name: np.random.default_rng([seed, 21, int(name.rsplit("-", 1)[1])]) for name in names}
    duty = {name: draws[name].uniform(*DUTY) for name in names}
    starts = [(float(draws[name].exponential(CELL * (1 - duty[name]) / duty[name])), name) for name in names]
    heapq.heapify(starts)
    active: dict[str, list[float]] = {}  # notebook -> work left, all work, when it began
    slowed: list[float] = []
    busy, now = 0.0, 0.0
    while now < end:
        rate = 0.0 if not active else (1.0 if len(active) == 1 else (1 - OVERHEAD) / len(active))
        first = min(active, key=lambda name: active[name][0], default="")
        ends = now + active[first][0] / rate if first else np.inf
        then = min(ends, starts[0][0] if starts else np.inf, end)
        busy += max(0.0, then - max(now, begin)) if active else 0.0
        for one in active.values():
            one[0] -= rate * (then - now)
        now = then
        if first and now >= ends:
            _, work, began = active.pop(first)
            slowed += [(now - began) / work] if began >= begin else []
            think = draws[first].exponential(CELL * (1 - duty[first]) / duty[first])
            heapq.heappush(starts, (now + float(think), first))
        elif starts and now >= starts[0][0]:
            _, name = heapq.heappop(starts)
            work = float(draws[name].exponential(CELL)) + 1e-3
            active[name] = [work, work, now]
    return Cells(tuple(slowed), busy)
