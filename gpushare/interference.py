"""How much slower a tenant is beside others on its GPU: learned from its steps, with how sure that is.

The law: a step beside others lasts as long as alone, times 1 + the sum over three kinds of load of
WEIGHT x own part x the others' parts together. Kinds: duty (of the time in which any kernel runs), memory (of the time
in which the device's memory is read or written) and SM (of its multiprocessors that are busy), each measured alone, 0
to 1. With a weight of 1 for duty alone it is what plain time slices do: of two tenants that always compute each takes
twice as long, of three three times. What kernels do to each other beyond that is in the other two weights.

The weights are learned by least squares with a prior (Bayesian linear regression, conjugate normal-inverse-gamma;
Bishop 2006, section 3.3), one measurement after the other, in any order with the same result. Own; Lucid (ASPLOS'23)
predicts whether two jobs may share a GPU from the same three loads, by a tree that is trained beforehand. No data that
we have holds these three loads beside step times, so nothing is trained beforehand here: it begins with time slices as
its prior. No part of the product follows it yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PRIOR = np.array([1.0, 0.0, 0.0])  # weights of time slices
SPREAD = 0.5  # standard deviation of each weight before anything was measured
NOISE = 0.01  # variance of a measured step before, as a part of it: it is off by about a tenth
SHAPE = 2.0  # how well that is known: as after four measurements
SURE = 1.645  # standard deviations: nine tenths of a normal distribution lie within them


class Load(NamedTuple):
    """What a tenant takes of a GPU that it has alone, parts of 1."""

    duty: float
    memory: float
    sm: float


class Slowdown(NamedTuple):
    """How many times as long a step lasts: what is expected, and within what it lies in nine of ten cases."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interference:
    """What was learned: sums over all measurements, the prior included, from which the weights follow.

    precision: [3, 3] of the loads that met; weighted: [3], by what was measured; square: of that; count: how many.
    """

    precision: Floats
    weighted: Floats
    square: float
    count: int

    @property
    def weights(self) -> Floats:
        """Of duty, memory and SM. Shape [3]."""
        return np.asarray(np.linalg.solve(self.precision, self.weighted), dtype=np.float64)

    @property
    def noise(self) -> float:
        """The variance of one measured step as a part of it, as expected by now."""
        rest = max(0.0, self.square - float(self.weighted @ self.weights))
        return (NOISE * (SHAPE - 1) + rest / 2) / (SHAPE - 1 + self.count / 2)


def unlearned() -> Interference:
    """Before anything was measured."""
    precision = np.eye(len(PRIOR)) * (NOISE / SPREAD**2)
    return Interference(precision, precision @ PRIOR, float(PRIOR @ precision @ PRIOR), 0)


def learned(known: Interference, own: Load, others: Sequence[Load], alone: float, beside: float) -> Interference:
    """With one more measurement: seconds of a step alone, and beside these others.

    Raises ValueError for a load that is no part of 1, or a time that is not above 0.
    """
    if not (0 < alone < inf and 0 < beside < inf):
        raise ValueError(
            f"interference: a step lasts {alone} s alone and {beside} s beside others; both must be above 0"
        )
    met = _met(own, others)
    # A step is off by a part of how long it lasts. By the prior's, not its own: else an error would weigh itself.
    scale = 1 / (1 + float(met @ PRIOR))
    met, more = met * scale, (beside / alone - 1) * scale
    return Interference(
        known.precision + np.outer(met, met), known.weighted + met * more, known.square + more * more, known.count + 1
    )


def slowdown(known: Interference, own: Load, others: Sequence[Load]) -> Slowdown:
    """How much slower a tenant is beside these others on average; never below 1, as no neighbour makes it faster."""
    met = _met(own, others)
    expected = 1 + float(met @ known.weights)
    off = SURE * sqrt(known.noise * float(met @ np.linalg.solve(known.precision, met)))
    return Slowdown(*(max(1.0, value) for value in (expected, expected - off, expected + off)))


def choose(known: Interference, newcomer: Load, devices: Sequence[Sequence[Load]], bound: float) -> list[int]:
    """Devices for a newcomer beside the tenants of each, best first; those that are surely bad are left out.

    bound: the most that a step of anybody may be slower, such as 1.25. First those on which it holds for all of them in
    nine of ten cases, then those of which that is not known well enough (so that it becomes known), each by the worst
    that is expected. Left out is a device on which somebody would be slower than the bound in nine of ten cases.
    """
    order: list[tuple[bool, float, int]] = []
    for number, tenants in enumerate(devices):
        found = [slowdown(known, newcomer, tenants)]
        found += [slowdown(known, one, _without(tenants, at, newcomer)) for at, one in enumerate(tenants)]
        if all(one.low <= bound for one in found):
            is_sure = all(one.high <= bound for one in found)
            order.append((not is_sure, max(one.expected for one in found), number))
    return [number for _, _, number in sorted(order)]


def _without(tenants: Sequence[Load], at: int, newcomer: Load) -> list[Load]:
    """Whom a tenant has beside it once the newcomer has come."""
    return [*tenants[:at], *tenants[at + 1 :], newcomer]


def _met(own: Load, others: Sequence[Load]) -> Floats:
    """Of each kind the own part times the others' parts together. Shape [3]."""
    for load in (own, *others):
        if not all(0 <= part <= 1 for part in load):
            raise ValueError(f"interference: {load} has a part that is not 0 to 1")
    return np.asarray(np.array(own) * np.array([*others, Load(0.0, 0.0, 0.0)]).sum(axis=0), dtype=np.float64)
