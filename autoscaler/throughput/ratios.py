"""What is expected of a training on a GPU model on which it never ran: its computation, times the ratio of the two.

The ratio is that of templates that ran on both; the exchange and the input are taken to stay as they are, as they are
the nodes' and the CPUs'.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import Estimate
from autoscaler.throughput.fit import Fitted
from autoscaler.throughput.terms import COUNT, NAMES, columns, times

COMPUTE = np.isin(NAMES, ("c0", "c1"))
FEW = 0.3  # deviation of the log ratio of one template from that of another, until more were seen
FIRST = 2.0  # templates that this expectation counts for


@dataclass(frozen=True, slots=True)
class Pair:
    """A template that ran on both GPU models, and what it had there."""

    here: Fitted
    there: Fitted
    allocation: Allocation


def ratio(pairs: Sequence[Pair]) -> Estimate:
    """Log of the computation's time there over that here, as expected of another template; without pairs 0, unsure."""
    logs = [math.log(_compute(one.there, one.allocation) / _compute(one.here, one.allocation)) for one in pairs]
    if not logs:
        return Estimate(0.0, 2 * FEW)
    center = sum(logs) / len(logs)
    squares = sum((log - center) ** 2 for log in logs) + FIRST * FEW**2
    variance = squares / (FIRST + len(logs) - 1)
    return Estimate(center, math.sqrt(variance * (1 + 1 / len(logs))))


def translated(fitted: Fitted, there: Estimate) -> Fitted:
    """The model on the other GPU model, with what is not known of the ratio."""
    moved = np.array(fitted.parameters) + np.where(COMPUTE, there.value, 0.0)
    unsure = np.array(fitted.covariance) + np.outer(COMPUTE, COMPUTE) * there.error**2
    return Fitted(tuple(moved.tolist()), tuple(tuple(row) for row in unsure.reshape(COUNT, COUNT).tolist()))


def _compute(fitted: Fitted, allocation: Allocation) -> float:
    return float(times(np.array(fitted.parameters), columns([allocation])).compute[0])
