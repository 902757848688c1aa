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

from autoscaler.throughput.constants import DEFAULT, Constants
from autoscaler.throughput.observation import Observation, ObservationError
from autoscaler.throughput.terms import COUNT, CROWD, INPUT, NAMES, NOTHING, Columns, Floats, columns, times

DIFFERENCE = 1e-5  # of a parameter, for its derivative
FAR = 1.0  # of a parameter: what is not told from so much more or less is not known


@dataclass(frozen=True, slots=True)
class Fitted:
    """parameters: as `terms.NAMES`, logarithms but for crowd; covariance: theirs."""

    parameters: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a fit compares: log s of exchange, of a step without its wait, and of steps, each [observations].

    errors: their deviations; nan: not known.
    """

    asked: Columns
    logs: tuple[Floats, Floats, Floats]
    errors: tuple[Floats, Floats, Floats]


def fit(seen: Sequence[Observation], constants: Constants = DEFAULT) -> Fitted:
    """From one observation on. Raises ObservationError without one."""
    if not seen:
        raise ObservationError("seen is empty: give one observation or more")
    expected, spread = prior(seen, constants)
    wide = np.linalg.inv(np.linalg.cholesky(spread))
    data = _data(seen, constants)
    starts = [expected]
    if any(one.wait for one in seen):  # a hidden input shows no slope: begin also where it is what a step lasts
        starts.append(np.where(np.isin(np.arange(COUNT), INPUT), expected - math.log(constants.input), expected))
    ends = [_descended(start, data, expected, wide, constants) for start in starts]
    at = min(ends, key=lambda end: float(np.square(_errors(end, data, expected, wide)).sum()))
    slope = _secant(at, data, expected, wide)
    covariance = np.linalg.inv(slope.T @ slope)
    return Fitted(tuple(at.tolist()), tuple(tuple(row) for row in covariance.tolist()))


def _descended(start: Floats, data: _Seen, expected: Floats, wide: Floats, constants: Constants) -> Floats:
    """The parameters with the least squares of errors near these."""
    at, damping = start, 1e-3
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
    return at


def prior(seen: Sequence[Observation], constants: Constants = DEFAULT) -> tuple[Floats, Floats]:
    """What is expected of a training whose steps last so long, [COUNT], and its covariance."""
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
    is_time = np.array([name not in ("crowd", "overlap") for name in NAMES], float)
    return expected, np.diag(np.square(deviations)) + np.outer(is_time, is_time) * c.scale_wide**2


def _data(seen: Sequence[Observation], constants: Constants) -> _Seen:
    step = np.array([one.step for one in seen])
    wait, exchange = (
        np.array([math.nan if part is None else part for part in parts])
        for parts in ([one.wait for one in seen], [one.exchange for one in seen])
    )
    asked = columns([one.allocation for one in seen])
    exchange = np.where((asked.gpus > 1) | (asked.servers > 0), exchange, math.nan)
    told = np.maximum(exchange, constants.visible * step)
    both = step - wait
    both = np.where(both > constants.visible * step, both, math.nan)
    error = np.array([_error(one, constants) for one in seen])
    return _Seen(
        asked,
        (np.log(told), np.log(both), np.log(step)),
        # What is a difference of two times, or hardly to be seen, is the less sure the smaller it is.
        (np.hypot(error, constants.visible * step / told), error * np.hypot(step, wait) / both, error),
    )


def _error(one: Observation, constants: Constants) -> float:
    return math.hypot(one.error, constants.model, constants.lent if one.is_lent else 0.0)


def _errors(at: Floats, data: _Seen, expected: Floats, wide: Floats) -> Floats:
    """Each over its deviation; [..., errors] of parameters [..., COUNT]. wide: makes the expected spread a unit one."""
    told = times(at, data.asked)
    pairs = zip((told.both - told.compute, told.both, told.step), data.logs, data.errors, strict=True)
    found = [
        np.where(np.isnan(log), 0.0, (np.log(np.maximum(value, NOTHING)) - log) / error) for value, log, error in pairs
    ]
    return np.concatenate([*found, (at - expected) @ wide.T], axis=-1)


def _slope(at: Floats, data: _Seen, expected: Floats, wide: Floats) -> Floats:
    """Derivatives of the errors, [errors, COUNT]."""
    steps = np.eye(COUNT) * DIFFERENCE
    both = _errors(np.concatenate([at + steps, at - steps]), data, expected, wide)
    return np.asarray((both[:COUNT] - both[COUNT:]).T / (2 * DIFFERENCE))


def _secant(at: Floats, data: _Seen, expected: Floats, wide: Floats) -> Floats:
    """As `_slope`, but how much the errors change at least when a parameter moves far, either way.

    A term that is just hidden by longer ones changes nothing when it shrinks and much when it grows. By the slope at
    the point alone it would be taken for known.
    """
    steps = np.eye(COUNT) * FAR
    here = _errors(at, data, expected, wide)
    up = _errors(at + steps, data, expected, wide) - here
    down = here - _errors(at - steps, data, expected, wide)
    least = np.where(up * down > 0, np.where(np.abs(up) < np.abs(down), up, down), 0.0)
    return np.asarray(least.T / FAR)
