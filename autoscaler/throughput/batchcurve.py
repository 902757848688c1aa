"""What a training would gain from other batches: its goodput with each, with what is not known of it.

Source: the model of steps (fit.py) at allocations that differ in their batch alone, and the noise of its gradients
(goodput.py).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import SURE
from autoscaler.throughput.estimate import gains
from autoscaler.throughput.fit import fit
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation


@dataclass(frozen=True, slots=True)
class Point:
    """Useful examples/s with so many examples of all workers in a step, as a multiple of those now. low, high: 95 %.

    speed: the same of all examples; measured: goodput by the steps seen with so many; None: there were none.
    """

    examples: int
    goodput: float
    low: float
    high: float
    speed: float
    measured: float | None


def curve(
    seen: Sequence[Observation], now: Allocation, batches: Iterable[int], gradients: Gradients
) -> tuple[Point, ...]:
    """A point for each batch of all workers and the one now, ascending; none before a step was seen with that.

    How unsure the noise itself is, is not in low and high.
    """
    own = [one for one in seen if not one.is_lent]
    rates = {one.allocation: one.allocation.examples / one.step for one in own}
    if now not in rates:
        return ()
    others = [now.examples_of(examples) for examples in sorted({*batches, now.examples})]
    found = []
    for other, gain in zip(others, gains(fit(seen), now, others, gradients), strict=True):
        worth, around = gradients.advantage(now.examples, other.examples), SURE * gain.error
        low, useful, high = (math.exp(gain.value + off) for off in (-around, 0.0, around))
        measured = worth * rates[other] / rates[now] if other in rates else None
        found.append(Point(other.examples, useful, low, high, useful / worth, measured))
    return tuple(found)
