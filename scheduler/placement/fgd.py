"""Fragmentation gradient descent: a worker goes where what typical work cannot use grows least.

Source: FGD (ATC'23, section 4.2); rounding and order of ties as in its authors' published simulator.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.demand import Demand
from scheduler.model.snapshot import Ints
from scheduler.placement.compiled import compiled
from scheduler.placement.fleet import Kind, want_of
from scheduler.placement.rows import BITS, CPU, GPUS, MIB, MILLI, RAM, VRAM, Fleet, Floats, Want

TYPICAL = 0.95  # of all workers: the most frequent shapes up to there are the typical ones
NEVER = -1


class Typical(NamedTuple):
    """T typical workers. wants: [T, 5], memory of the host left out; may: [T, kinds]; weight: [T], sum 1."""

    wants: Ints
    may: Bools
    weight: Floats


class Scores(NamedTuple):
    """One shape on all nodes. seen: [N] version of the row it was computed for; score, device: [N]."""

    seen: Ints
    score: Ints
    device: Ints


class Fragmentation:
    """The scorer of one demand. One fleet at a time: it remembers scores by version of a node's row."""

    def __init__(self, demand: Demand, kinds: Sequence[Kind]) -> None:
        self._typical = _typical(demand, kinds)
        self._scores: dict[bytes, Scores] = {}

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        found = self.offer(fleet, want, allowed)
        return None if found is None else found[:2]

    def offer(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int, float] | None:
        """As `choose`, with the score."""
        key, nodes = want.numbers.tobytes() + want.may.tobytes(), len(fleet.kind)
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = Scores(*(np.full(nodes, NEVER, dtype=np.int64) for _ in range(3)))
        _refresh(fleet, want.numbers, want.may, self._typical, scores)
        score = np.where(allowed, scores.score, NEVER)
        node = int(np.argmax(score))  # the first of the best
        return None if score[node] == NEVER else (node, int(scores.device[node]), float(score[node]))


def _typical(demand: Demand, kinds: Sequence[Kind]) -> Typical:
    counts: dict[bytes, int] = {}
    found: dict[bytes, Want] = {}
    for shape in demand.shapes:
        want = want_of(shape.ask, kinds)
        want.numbers[RAM] = 0
        key = want.numbers.tobytes() + want.may.tobytes()
        counts[key] = counts.get(key, 0) + shape.count
        found.setdefault(key, want)
    most, seen, keys = TYPICAL * demand.count, 0, []
    for key in sorted(counts, key=lambda key: -counts[key]):
        if seen >= most:
            break
        seen += counts[key]
        keys.append(key)
    wants = np.array([found[key].numbers for key in keys], dtype=np.int64).reshape(-1, 5)
    may = np.array([found[key].may for key in keys], dtype=np.bool_).reshape(-1, len(kinds))
    return Typical(wants, may, np.array([counts[key] / seen for key in keys], dtype=np.float64))


@compiled
def _refresh(fleet: Fleet, numbers: Ints, may: Bools, typical: Typical, scores: Scores) -> None:
    for node in range(fleet.kind.shape[0]):
        if scores.seen[node] == fleet.version[node]:
            continue
        scores.seen[node] = fleet.version[node]
        scores.score[node] = NEVER
        kind, cpu, gpu = fleet.kind[node], fleet.host[node, 0], fleet.gpu[node].copy()
        if not may[kind] or not _fits(cpu, fleet.host[node, 1], gpu, numbers):
            continue
        before = _fragment(kind, cpu, gpu, typical)
        cpu -= numbers[CPU]
        if numbers[MILLI] == 0:
            _take_idle(gpu, numbers[GPUS])
            scores.score[node] = _rounded(before - _fragment(kind, cpu, gpu, typical))
            scores.device[node] = -1
            continue
        need = (numbers[MILLI] << BITS) + numbers[VRAM]
        for device in range(gpu.shape[0]):
            if gpu[device] >> BITS >= numbers[MILLI] and gpu[device] & MIB >= numbers[VRAM]:
                gpu[device] -= need
                score = _rounded(before - _fragment(kind, cpu, gpu, typical))
                gpu[device] += need
                if score > scores.score[node]:
                    scores.score[node] = score
                    scores.device[node] = device


@compiled
def _rounded(less: float) -> int:
    """A score from 0 to 100, as the authors round it. Their rounding works like first-fit, and is worth a point."""
    return int(100 / (1 + math.exp(-less / WHOLE)))


@compiled
def _fragment(kind: int, cpu: int, gpu: Ints, typical: Typical) -> float:
    """How much of a node's free milli-GPU a typical worker cannot use, on average."""
    free, total = 0, 0.0
    for device in gpu:
        free += device >> BITS
    for shape in range(typical.weight.shape[0]):
        want = typical.wants[shape]
        if want[GPUS] + want[MILLI] == 0 or not typical.may[shape, kind] or not _fits(cpu, 0, gpu, want):
            total += typical.weight[shape] * free
            continue
        least = WHOLE if want[GPUS] > 0 else want[MILLI]
        unused = 0
        for device in gpu:
            if device >> BITS < least:
                unused += device >> BITS
        total += typical.weight[shape] * unused
    return total


@compiled
def _fits(cpu: int, ram: int, gpu: Ints, numbers: Ints) -> bool:
    if numbers[CPU] > cpu or numbers[RAM] > ram:
        return False
    if numbers[GPUS] + numbers[MILLI] == 0:
        return True
    count = 0
    for device in gpu:
        if numbers[GPUS] > 0:
            count += device >> BITS == WHOLE
        else:
            count += device >> BITS >= numbers[MILLI] and device & MIB >= numbers[VRAM]
    return bool(count >= max(numbers[GPUS], 1))


@compiled
def _take_idle(gpu: Ints, count: int) -> None:
    for device in range(gpu.shape[0]):
        if count > 0 and gpu[device] >> BITS == WHOLE:
            gpu[device] = 0
            count -= 1
