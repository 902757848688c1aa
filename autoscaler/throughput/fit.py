"""The model of one training on one GPU model, fitted to the steps that were seen, with what is not known of it.

The most probable parameters (MAP) by Levenberg and Marquardt's method: squares of the errors of log times, each over
its deviation, and of how far each parameter is from what is expected of any training, over a wide deviation. So few
observations move only what they say something of, and the covariance (inverse of the curvature) says how little is
known of the rest. What a reporter says of the exchange and of the wait for data splits the computation from them. Steps
of other jobs of the same template count with a deviation of 8 % more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.constants import DEFAULT, Constants
from autoscaler.throughput.terms import COUNT, CROWD, NOTHING, Columns, Floats, columns, times

DIFFERENCE = 1e-5  # of a parameter, for its derivative


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


@dataclass(frozen=True, slots=True)
class Fitted:
    """parameters: as `terms.NAMES`, logarithms but for crowd; covariance: theirs."""

    parameters: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a fit compares. *_log: log s, [observations], nan where it is not known; error: [observations]."""

    asked: Columns
    step_log: Floats
    both_log: Floats
    compute_log: Floats
    error: Floats


def fit(seen: Sequence[Observation], constants: Constants = DEFAULT) -> Fitted:
    """From one observation on. Raises ObservationError without one."""
    if not seen:
        raise ObservationError("seen is empty: give one observation or more")
    expected, wide = prior(seen, constants)
    data = _data(seen, constants)
    at, damping = expected, 1e-3
    error = _errors(at, data, expected, wide)
    for _ in range(constants.steps):
        slope = _slope(at, data, expected, wide)
        curve = slope.T @ slope
        moved = at - np.linalg.solve(curve + damping * np.diag(np.diag(curve)), slope.T @ error)
        then = _errors(moved, data, expected, wide)
        before, after = float(error @ error), float(then @ then)
        if not after < before:
            damping *= 10
            if damping > 1e8:
                break
            continue
        at, error, damping = moved, then, max(damping / 10, 1e-9)
        if before - after < constants.enough * before:
            break
    slope = _slope(at, data, expected, wide)
    covariance = np.linalg.inv(slope.T @ slope)
    return Fitted(tuple(at.tolist()), tuple(tuple(row) for row in covariance.tolist()))


def prior(seen: Sequence[Observation], constants: Constants = DEFAULT) -> tuple[Floats, Floats]:
    """What is expected of a training whose steps last so long, and the deviations; each [COUNT]."""
    own = [one for one in seen if not one.is_lent] or list(seen)
    first = own[0].allocation
    step = math.exp(sum(math.log(one.step) for one in own) / len(own))
    loaded = first.batch * first.of_worker
    c = constants
    parts = (
        c.compute, c.compute / first.batch, c.within, c.within * c.growth, c.between, c.between * c.growth, 1.0,
        c.overlap / step, c.input / loaded * max(first.cpu, 1.0), c.floor / loaded,
        c.servers * max(first.servers, 1) / first.workers, c.each / first.workers, c.each / max(first.servers, 1),
    )  # fmt: skip
    expected = np.log(np.array(parts) * step)
    expected[CROWD] = c.crowd
    deviations = (
        c.compute_wide, c.compute_wide, c.wide, c.wide, c.wide, c.wide, c.crowd_wide,
        c.overlap_wide, c.wide, c.wide, c.wide, c.wide, c.wide,
    )  # fmt: skip
    return expected, np.array(deviations)


def _data(seen: Sequence[Observation], constants: Constants) -> _Seen:
    wait = [0.0 if one.wait is None else one.wait for one in seen]
    both = [_log(one.step - lost) for one, lost in zip(seen, wait, strict=True)]
    compute = [_log(one.step - lost - (one.exchange or 0.0)) for one, lost in zip(seen, wait, strict=True)]
    return _Seen(
        columns([one.allocation for one in seen]),
        np.array([math.log(one.step) for one in seen]),
        np.array([log if one.wait is not None else math.nan for log, one in zip(both, seen, strict=True)]),
        np.array([log if one.exchange is not None else math.nan for log, one in zip(compute, seen, strict=True)]),
        np.array([_error(one, constants) for one in seen]),
    )


def _log(seconds: float) -> float:
    return math.log(seconds) if seconds > NOTHING else math.nan


def _error(one: Observation, constants: Constants) -> float:
    return math.hypot(one.error, constants.model, constants.lent if one.is_lent else 0.0)


def _errors(at: Floats, data: _Seen, expected: Floats, wide: Floats) -> Floats:
    """Each over its deviation; [..., errors] of parameters [..., COUNT]."""
    told = times(at, data.asked)
    pairs = ((told.step, data.step_log), (told.both, data.both_log), (told.compute, data.compute_log))
    found = [np.nan_to_num((np.log(value) - log) / data.error) for value, log in pairs]
    return np.concatenate([*found, (at - expected) / wide], axis=-1)


def _slope(at: Floats, data: _Seen, expected: Floats, wide: Floats) -> Floats:
    """Derivatives of the errors, [errors, COUNT]."""
    steps = np.eye(COUNT) * DIFFERENCE
    both = _errors(np.concatenate([at + steps, at - steps]), data, expected, wide)
    return np.asarray((both[:COUNT] - both[COUNT:]).T / (2 * DIFFERENCE))
