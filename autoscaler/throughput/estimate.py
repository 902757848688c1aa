"""What a fitted model expects of an allocation, and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.fit import DIFFERENCE, Fitted
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.terms import COUNT, Floats, columns, times


@dataclass(frozen=True, slots=True)
class Estimate:
    """value: s, or for a gain a log ratio; error: the deviation of the log."""

    value: float
    error: float

    @property
    def part(self) -> float:
        """A log ratio as a part: 0.1 is 10 % faster."""
        return math.expm1(self.value)


def step_seconds(fitted: Fitted, allocation: Allocation) -> Estimate:
    """Of one step."""
    logs, errors = _logs(fitted, [allocation])
    return Estimate(math.exp(logs[0]), float(errors[0, 0]) ** 0.5)


def gains(
    fitted: Fitted, now: Allocation, others: Sequence[Allocation], noise: Gradients | None = None
) -> tuple[Estimate, ...]:
    """Of each allocation over the one now: the log ratio of goodput, which without noise is examples/s.

    Without noise each example counts alike, whatever the batch.
    """
    if not others:
        return ()
    logs, covariance = _logs(fitted, [now, *others])
    found = []
    for place, other in enumerate(others, 1):
        gain = logs[0] - logs[place] + math.log(other.examples / now.examples)
        if noise is not None:
            gain += math.log(noise.advantage(now.examples, other.examples))
        variance = covariance[0, 0] + covariance[place, place] - 2 * covariance[0, place]
        found.append(Estimate(float(gain), max(float(variance), 0.0) ** 0.5))
    return tuple(found)


def _logs(fitted: Fitted, allocations: Sequence[Allocation]) -> tuple[Floats, Floats]:
    """Log s of the steps, and their covariance."""
    asked, at = columns(allocations), np.array(fitted.parameters)
    steps = np.eye(COUNT) * DIFFERENCE
    around = np.log(times(np.concatenate([at[None], at + steps, at - steps]), asked).step)
    slope = (around[1 : 1 + COUNT] - around[1 + COUNT :]) / (2 * DIFFERENCE)
    return around[0], np.asarray(slope.T @ np.array(fitted.covariance) @ slope)
