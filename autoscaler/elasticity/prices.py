"""The knapsack of a large cluster: a price for each type of GPU, then what is left is given to who gains most by it.

At the prices at which jobs would take just what there is, what each job takes by itself is nearly the best plan (a
Lagrangian relaxation). It may need a few GPUs too many: then those who lose least by it take less.
"""

import numpy as np

from autoscaler.elasticity.knapsack import NONE, Floats, Ints, Problem

ROUNDS = 60  # of prices
FIRST_STEP = 1.0  # of the logarithm of a price
LAST_STEP = 0.01
TRIED = 6  # prices whose answers are made feasible: those with the least bound
PASSES = 200  # over all jobs, at most, while something is gained


def priced(problem: Problem) -> Ints:
    """A choice, [jobs], close to the best one: never more GPUs of a type than there are."""
    price = np.full(len(problem.room), _mean_gain(problem))
    room = np.maximum(problem.room, 1)
    answers: list[tuple[float, Ints, Floats]] = []  # bound, choice, price
    for step in np.geomspace(FIRST_STEP, LAST_STEP, ROUNDS):
        choice, value = _answer(problem, price)
        # No plan is worth more than this, whatever the price.
        answers.append((float(value.sum() + (price * problem.room).sum()), choice, price))
        price = price * np.exp(step * np.clip(problem.used(choice) / room - 1, -1, 1))
    answers.sort(key=lambda answer: answer[0])
    found = [repaired(problem, answer, at) for _, answer, at in answers[:TRIED]]
    sound = [choice for choice in found if (problem.used(choice) <= problem.room).all()]
    empty = np.full(len(problem.utility), NONE, np.int64)  # no job has a GPU
    return filled(problem, max(sound, key=problem.value, default=empty))


def repaired(problem: Problem, choice: Ints, price: Floats) -> Ints:
    """The choice with less for those who lose least for each GPU, until no type has more taken than there is."""
    choice = choice.copy()
    worth = problem.utility - price[problem.kind] * problem.gpus
    over = problem.used(choice) - problem.room
    for kind in np.flatnonzero(over > 0):
        while over[kind] > 0:
            here = np.flatnonzero((choice != NONE) & (problem.kind[choice] == kind))
            has = problem.gpus[choice[here]]
            freed = np.where(problem.kind == kind, has[:, None] - problem.gpus, has[:, None])
            fits = (problem.kind == kind) | (problem.gpus <= np.maximum(-over, 0)[problem.kind])
            loss = np.where((freed > 0) & fits, worth[here, choice[here]][:, None] - worth[here], np.inf)
            without = worth[here, choice[here]] - problem.unserved[here]
            every = np.column_stack([loss, without])
            # What frees more than has to be freed is no better for it.
            rate = every / np.minimum(np.column_stack([np.maximum(freed, 1), has]), over[kind])
            row, index = divmod(int(rate.argmin()), rate.shape[1])
            if not np.isfinite(rate[row, index]):
                return choice  # those that are starting hold more than there is: nothing is to be done
            job = int(here[row])
            _change(problem, choice, over, job, index if index < loss.shape[1] else NONE)
    return choice


def _change(problem: Problem, choice: Ints, over: Ints, job: int, index: int) -> None:
    before = choice[job]
    if before != NONE:
        over[problem.kind[before]] -= problem.gpus[before]
    if index != NONE:
        over[problem.kind[index]] += problem.gpus[index]
    choice[job] = index


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


def _answer(problem: Problem, price: Floats) -> tuple[Ints, Floats]:
    """What each job would take at these prices, and what it has by that."""
    worth = problem.utility - price[problem.kind] * problem.gpus
    best = worth.argmax(axis=1)
    top = worth[np.arange(len(best)), best]
    return np.where(top > problem.unserved, best, NONE), np.maximum(top, problem.unserved)


def _mean_gain(problem: Problem) -> float:
    """Where prices begin: what one GPU is worth on average, were all GPUs shared out for the utilities there are."""
    finite = np.where(np.isfinite(problem.utility), problem.utility, np.nan)
    start = np.where(np.isfinite(problem.unserved), problem.unserved, 0.0)
    gain = np.nanmax(np.where(np.isnan(finite), start[:, None], finite), axis=1) - start
    return max(float(gain.sum()) / max(1.0, float(problem.room.sum())), 1e-9)
