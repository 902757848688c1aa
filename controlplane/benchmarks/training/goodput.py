"""How fast a training is expected to run, from the step times that were seen of it (Pollux, OSDI'21).

A step computes for `c0 + c1 * batch of a GPU` seconds and exchanges gradients for a constant and a part that grows with
the GPUs, within one node or between several; `overlap` is 1 where the two follow each other, and large where they
happen at once. Goodput is examples per s times how much of each example's work counts, given the gradients' noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize

Floats = npt.NDArray[np.float64]
Point = tuple[int, int, int]  # nodes, GPUs, batch of a GPU
Parameters = tuple[float, ...]  # c0, c1, between nodes: constant and growth, within a node: the same, overlap

SMALL = 1e-8
START = np.array([1e-1, 1e-2, 1e-1, 1e-2, 1e-1, 1e-2, 1.001])
FRACTIONS = np.linspace(0.0, 1.0, 50)[:, None]  # total batches that are tried, between the least and the most


@dataclass(frozen=True, slots=True)
class Goodput:
    """gradient: squared norm and variance; the batch of all GPUs is between `initial` and `most`."""

    parameters: Parameters
    gradient: tuple[float, float]
    initial: int
    most: int
    local: tuple[int, int]  # the least and the most batch of a GPU

    def __call__(self, nodes: Floats, gpus: Floats) -> Floats:
        """Goodput of each pair of nodes and GPUs, with its best batch."""
        return self.best(nodes, gpus)[0]

    def best(self, nodes: Floats, gpus: Floats) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Goodput, batch of a GPU in one pass, and passes accumulated besides the last one; shape as the arguments."""
        least = np.maximum(self.initial, self.local[0] * gpus)
        batch = least * np.exp(FRACTIONS * np.log(self.most / least))
        share = batch / gpus
        passes = np.ceil(share / self.local[1] - SMALL) - 1
        alone = (gpus == 1) & (share > self.initial + SMALL)
        passes = np.where(alone, np.maximum(passes, 1), passes).astype(np.int64)
        local = np.ceil(share / (passes + 1) - SMALL).astype(np.int64)
        found = self._goodput(nodes, gpus, local, passes)
        found = np.where((self.local[0] <= local) & (local <= self.local[1]), found, 0.0)
        top = np.argmax(found, axis=0), np.arange(found.shape[1])
        return found[top], local[top], passes[top]

    def of_batch(self, nodes: Floats, gpus: Floats, batch: int) -> Floats:
        """Goodput of each pair of nodes and GPUs with this batch of all GPUs; 0 where that is too little for them."""
        share = batch / gpus
        passes = np.ceil(share / self.local[1] - SMALL) - 1
        passes = np.where((gpus == 1) & (batch > self.initial), np.maximum(passes, 1), passes).astype(np.int64)
        local = np.ceil(share / (passes + 1) - SMALL).astype(np.int64)
        return np.where(local >= self.local[0], self._goodput(nodes, gpus, local, passes), 0.0)

    def choose(self, nodes: int, gpus: int, most_local: int) -> tuple[int, int]:
        """Batch of a GPU in one pass, at most `most_local`, and passes accumulated besides the last one."""
        limited = replace(self, local=(self.local[0], most_local))
        _, local, passes = limited.best(np.array([nodes], float), np.array([gpus], float))
        return int(local[0]), int(passes[0])

    def _goodput(
        self, nodes: Floats, gpus: Floats, local: npt.NDArray[np.int64], passes: npt.NDArray[np.int64]
    ) -> Floats:
        compute = self.parameters[0] + self.parameters[1] * local
        network = _network(np.asarray(self.parameters), nodes, gpus)
        overlap = self.parameters[6]
        step = (compute**overlap + network**overlap) ** (1 / overlap)
        batch = gpus * local * (passes + 1)
        squared, variance = self.gradient
        scale = batch / self.initial
        gain = (variance + squared) / (variance / scale + squared)
        return np.asarray(batch / (passes * compute + step) * gain / scale)


def fit(seen: Mapping[Point, tuple[float, float]]) -> Parameters:
    """Parameters that explain the step and exchange times (s) seen at these points, by least squares of logarithms."""
    points = np.array(sorted(seen), float)
    times = np.array([seen[tuple(int(x) for x in point)] for point in points])  # type: ignore[index]
    nodes, gpus, local = points.T
    start, low, high = START.copy(), np.array([SMALL] * 6 + [1.0]), np.array([np.inf] * 6 + [10.0])
    compute = times[:, 0] - times[:, 1]
    if len(np.unique(local)) == 1:  # one batch only: half of the time is taken as constant
        start[0] = low[0] = high[0] = compute.mean() / 2
    unseen = set()
    if not (nodes > 1).any():
        unseen |= {2, 3}
    if not ((nodes == 1) & (gpus > 1)).any():
        unseen |= {4, 5}
    if not (gpus > 2).any():
        unseen |= {3, 5}
    for index in unseen:
        start[index] = high[index] = low[index]
    terms = (nodes > 1, gpus > 1, np.maximum(gpus - 2, SMALL), local, np.log(compute), np.log(times[:, 0]))
    found = minimize(_error, start, args=terms, jac=True, bounds=Bounds(low, high, keep_feasible=True), tol=1e-5).x
    if not (nodes > 1).any():  # between nodes it is no faster than within one
        found[2] = max(found[2], found[4] * 1.1)
        found[3] = max(found[3], found[5] * 1.1)
    return tuple(float(x) for x in found)


def _network(parameters: Floats, nodes: Floats, gpus: Floats) -> Floats:
    more = np.maximum(gpus - 2, SMALL)
    constant = np.where(nodes > 1, parameters[2], np.where(gpus > 1, parameters[4], SMALL))
    growth = np.where(nodes > 1, parameters[3], np.where(gpus > 1, parameters[5], SMALL))
    return np.asarray(constant + growth * more)


def _error(
    p: Floats,
    between: npt.NDArray[np.bool_],
    several: npt.NDArray[np.bool_],
    more: Floats,
    local: Floats,
    log_compute: Floats,
    log_step: Floats,
) -> tuple[float, Floats]:
    """What a fit makes least, and its derivatives."""
    within = several & ~between
    compute = p[0] + p[1] * local
    network = np.where(between, p[2] + p[3] * more, np.where(within, p[4] + p[5] * more, SMALL + SMALL * more))
    overlap = p[6]
    a, n = compute**overlap, network**overlap
    both = a + n
    first, second = np.log(compute) - log_compute, np.log(both) / overlap - log_step
    one, two = float(np.sqrt((first**2).mean())), float(np.sqrt((second**2).mean()))
    weight_one = first / (len(first) * max(one, 1e-12))
    weight_two = second / (len(first) * max(two, 1e-12))
    by_compute = weight_one / compute + weight_two * a / compute / both
    by_network = weight_two * n / network / both
    by_overlap = -np.log(both) / overlap**2 + (a * np.log(compute) + n * np.log(network)) / both / overlap
    ratio = p[3] / p[2], p[5] / p[4]
    slope = np.array([
        by_compute.sum(),
        (by_compute * local).sum(),
        by_network[between].sum() - 2e-2 * ratio[0] ** 2 / p[2],
        (by_network * more)[between].sum() + 2e-2 * ratio[0] / p[2],
        by_network[within].sum() - 2e-2 * ratio[1] ** 2 / p[4],
        (by_network * more)[within].sum() + 2e-2 * ratio[1] / p[4],
        (weight_two * by_overlap).sum() + 2e-3 * (overlap - 1),
    ])  # fmt: skip
    return one + two + 1e-3 * (overlap - 1) ** 2 + 1e-2 * (ratio[0] ** 2 + ratio[1] ** 2), slope
