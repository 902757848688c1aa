"""What was seen of a training's steps with one allocation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.constants import DEFAULT, Constants


class ObservationError(ValueError):
    """An observation that cannot be; the text names the field and what it has to be."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Mean times of a step with an allocation, s. error: the deviation of log step. None: not known.

    is_lent: of another job of the same template. Raises ObservationError.
    """

    allocation: Allocation
    step: float
    exchange: float | None = None
    wait: float | None = None
    error: float = 0.05
    is_lent: bool = False

    def __post_init__(self) -> None:
        if not (self.step > 0 and math.isfinite(self.step)):
            raise ObservationError(f"step is {self.step!r}: give the seconds of a step, above 0")
        if min(self.exchange or 0.0, self.wait or 0.0, self.error) < 0:
            raise ObservationError("exchange, wait and error have to be 0 or more")


def observed(
    allocation: Allocation, windows: Sequence[tuple[float, float | None, float | None]], constants: Constants = DEFAULT
) -> Observation:
    """Of windows (step, exchange, wait; s) with one allocation. Raises ObservationError without one.

    Windows that follow each other are alike, so their mean is less sure than as many windows would make it.
    """
    if not windows:
        raise ObservationError("windows is empty: give one window or more")
    logs = [math.log(step) for step, _, _ in windows]
    count, mean = len(logs), sum(logs) / len(logs)
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / (count - 1)) if count > 1 else constants.first_error
    likeness = (1 + constants.correlation) / (1 - constants.correlation)
    step = math.exp(mean)
    exchange = _part([exchange / step for step, exchange, _ in windows if exchange is not None], step)
    wait = _part([wait / step for step, _, wait in windows if wait is not None], step)
    return Observation(
        allocation, step, exchange, wait, max(spread * math.sqrt(likeness / count), constants.least_error)
    )


def _part(parts: Sequence[float], step: float) -> float | None:
    return min(sum(parts) / len(parts), 1.0) * step if parts else None
