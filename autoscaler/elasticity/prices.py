"""The knapsack of a large cluster: a price for each type of GPU, then what is left is given to who gains most by it."""

import numpy as np

from autoscaler.elasticity.knapsack import NONE, Floats, Ints, Problem

ROUNDS = 60  # of prices
FIRST_STEP = 1.0  # of the logarithm of a price
LAST_STEP = 0.01
PASSES = 200  # over all jobs, at most, while something is gained


def priced(problem: Problem) -> Ints:
    """A choice, [jobs], close to the best one: never more GPUs of a type than there are."""
    price = np.full(len(problem.room), _mean_gain(problem))
    steps = np.geomspace(FIRST_STEP, LAST_STEP, ROUNDS)
    best, value = np.full(len(problem.utility), NONE, np.int64), -np.inf
    room = np.maximum(problem.room, 1)
    for step in steps:
        choice = _answer(problem, price)
        used = problem.used(choice)
        if (used <= problem.room).all() and problem.value(choice) > value:
            best, value = choice, problem.value(choice)
        price = price * np.exp(step * np.clip(used / room - 1, -1, 1))
    return filled(problem, best)


def filled(problem: Problem, choice: Ints) -> Ints:
    """Give what is left of each type to the jobs that gain most for each GPU, until nothing fits or gains."""
    choice = choice.copy()
    left = problem.room - problem.used(choice)
    rows = np.arange(len(choice))
    for _ in range(PASSES):
        gain, more = _steps(problem, choice)
        fits = (gain > 0) & (more <= left[problem.kind])
        if not fits.any():
            break
        rate = np.where(fits, gain / np.maximum(more, 0.5), -np.inf)  # one that frees GPUs comes first
        top = rate.argmax(axis=1)
        moved = False
        for row in rows[np.argsort(-rate[rows, top], kind="stable")]:
            index = top[row]
            if not fits[row, index]:
                break
            if _take(problem, choice, left, row, index):
                moved = True
        if not moved:
            break
    return choice


def _take(problem: Problem, choice: Ints, left: Ints, row: int, index: int) -> bool:
    """Give a job this configuration if it still fits."""
    kind, before = problem.kind[index], choice[row]
    back = problem.gpus[before] if before != NONE and problem.kind[before] == kind else 0
    if problem.gpus[index] - back > left[kind]:
        return False
    if before != NONE:
        left[problem.kind[before]] += problem.gpus[before]
    left[kind] -= problem.gpus[index]
    choice[row] = index
    return True


def _steps(problem: Problem, choice: Ints) -> tuple[Floats, Ints]:
    """What each job would gain by each configuration, and how many GPUs more of its type it needs."""
    served = choice != NONE
    now = np.where(served, problem.utility[np.arange(len(choice)), choice], problem.unserved)
    same = served[:, None] & (problem.kind[choice][:, None] == problem.kind)
    more = problem.gpus - np.where(same, problem.gpus[choice][:, None], 0)
    return problem.utility - now[:, None], more


def _answer(problem: Problem, price: Floats) -> Ints:
    """What each job would take at these prices."""
    worth = problem.utility - price[problem.kind] * problem.gpus
    best = worth.argmax(axis=1)
    is_better = worth[np.arange(len(best)), best] > problem.unserved
    return np.where(is_better, best, NONE)


def _mean_gain(problem: Problem) -> float:
    """Where prices begin: what one GPU is worth on average, were all GPUs shared out for the utilities there are."""
    finite = np.where(np.isfinite(problem.utility), problem.utility, np.nan)
    start = np.where(np.isfinite(problem.unserved), problem.unserved, 0.0)
    gain = np.nanmax(np.where(np.isnan(finite), start[:, None], finite), axis=1) - start
    return max(float(gain.sum()) / max(1.0, float(problem.room.sum())), 1e-9)
