"""Step-time models from few and noisy step times, in a millisecond: a MAP estimate by Levenberg and Marquardt.

The model is that of `goodput`. Errors are of logarithms. Wide priors stand in for what was not seen: what one GPU
computes, a share of that for the exchange within a node, and a multiple of this one between nodes.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.training.goodput import Parameters, Point

Floats = npt.NDArray[np.float64]

ERROR = 0.1  # of the logarithm of a step time
LENT_ERROR = 0.13  # of one that another training saw: the same, and 8 % that they differ
CONSTANT_SHARE = 0.3  # of the computing of a GPU that does not grow with its batch
WITHIN_SHARE = 0.1  # of what a GPU computes: the exchange within a node
BETWEEN_TIMES = 3.0  # the exchange between nodes over that within one
GROWTH_SHARE = 0.02  # of an exchange: what each GPU beyond the second adds
WIDTHS = (1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)  # of the priors, of logarithms
MOST_OVERLAP = 10.0
START_OVERLAP = -1.5  # of the logit
STEPS = 12
ENOUGH = 1e-4  # of the cost: less gained ends it
NO_EXCHANGE = -700.0


def map_fit(
    seen: Mapping[Point, tuple[float, float]],
    start: Floats | None = None,
    lent: Mapping[Point, tuple[float, float]] = {},
) -> tuple[Parameters, Floats]:
    """Parameters for `goodput.Goodput`, and where to start the next time. lent: seen of others of its kind."""
    points = np.array([*seen, *lent], float)
    times = np.array([*seen.values(), *lent.values()])
    errors = np.array([ERROR] * len(seen) + [LENT_ERROR] * len(lent))
    compute, step = np.log(times[:, 0] - times[:, 1]), np.log(times[:, 0])
    first = np.exp(compute[0])
    middle = np.array([
        np.log(first * CONSTANT_SHARE), np.log(first * (1 - CONSTANT_SHARE) / points[0, 2]),
        np.log(BETWEEN_TIMES), np.log(GROWTH_SHARE), np.log(first * WITHIN_SHARE), np.log(GROWTH_SHARE), START_OVERLAP,
    ])  # fmt: skip
    # Those of the exchange between nodes are relative to that within one, growths to their constants.
    relative = np.eye(7)
    relative[2, 4] = relative[3, 2] = relative[5, 4] = -1.0
    prior = relative / np.array(WIDTHS)[:, None]
    goal = middle / np.array(WIDTHS)
    x = np.linalg.solve(relative, middle) if start is None else start
    residuals, slope = _against(x, points, compute, step, errors)
    damping, cost = 1e-2, _cost(residuals, prior @ x - goal)
    for _ in range(STEPS):
        normal = slope.T @ slope + prior.T @ prior
        down = slope.T @ residuals + prior.T @ (prior @ x - goal)
        tried = x - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), down)
        found, found_slope = _against(tried, points, compute, step, errors)
        found_cost = _cost(found, prior @ tried - goal)
        if found_cost < cost:
            gained = cost - found_cost
            x, residuals, slope, cost, damping = tried, found, found_slope, found_cost, damping / 5
            if gained < ENOUGH * (1 + cost):
                break
        else:
            damping *= 5
    overlap = 1 + (MOST_OVERLAP - 1) / (1 + np.exp(-x[6]))
    return (*(float(value) for value in np.exp(x[:6])), float(overlap)), x


def _cost(one: Floats, other: Floats) -> float:
    return float(one @ one + other @ other)


def _against(x: Floats, points: Floats, compute: Floats, step: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Residuals of computing and of steps, and their derivatives, [2 x points, parameters]."""
    nodes, gpus, local = points.T
    c0, c1, far, far_more, near, near_more = np.exp(x[:6])
    share = 1 / (1 + np.exp(-x[6]))
    overlap = 1 + (MOST_OVERLAP - 1) * share
    computing = c0 + c1 * local
    more = np.maximum(gpus - 2, 0.0)
    between = nodes > 1
    several = gpus > 1
    constant, growth = np.where(between, far, near), np.where(between, far_more, near_more) * more
    exchange = constant + growth
    log_computing, log_exchange = np.log(computing), np.log(exchange)
    u, v = overlap * log_computing, np.where(several, overlap * log_exchange, NO_EXCHANGE)
    both = np.logaddexp(u, v)
    a, b = np.exp(u - both), np.exp(v - both)
    n = len(points)
    slope = np.zeros((2 * n, 7))
    slope[:n, 0], slope[:n, 1] = c0 / computing, c1 * local / computing
    slope[n:, 0], slope[n:, 1] = a * slope[:n, 0], a * slope[:n, 1]
    by_constant, by_growth = b * constant / exchange, b * growth / exchange
    slope[n:, 2], slope[n:, 3] = by_constant * between, by_growth * between
    slope[n:, 4], slope[n:, 5] = by_constant * ~between, by_growth * ~between
    by_overlap = -both / overlap**2 + (a * log_computing + b * np.where(several, log_exchange, 0.0)) / overlap
    slope[n:, 6] = by_overlap * (MOST_OVERLAP - 1) * share * (1 - share)
    residuals = np.concatenate([log_computing - compute, both / overlap - step])
    both_errors = np.concatenate([errors, errors])
    return residuals / both_errors, slope / both_errors[:, None]
