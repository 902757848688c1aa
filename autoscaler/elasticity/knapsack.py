"""One configuration for each job, so that the sum of utilities is largest and no type of GPU is over-committed.

This is a knapsack with one choice out of several for each item (a multi-choice knapsack), and as many weights as there
are types of GPUs. A cluster with few GPUs of each type is solved exactly, a large one by prices (prices.py).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NONE = -1  # no configuration: the job waits


@dataclass(frozen=True, slots=True)
class Problem:
    """utility: [jobs, configurations], -inf where a job may not have one; unserved: [jobs], of having none.

    gpus, kind: [configurations], GPUs and the index of their type; room: [types], GPUs that there are.
    """

    utility: Floats
    unserved: Floats
    gpus: Ints
    kind: Ints
    room: Ints

    def value(self, choice: Ints) -> float:
        """The sum of utilities of this choice, [jobs]."""
        served = choice != NONE
        return float(self.utility[served, choice[served]].sum() + self.unserved[~served].sum())

    def used(self, choice: Ints) -> Ints:
        """GPUs of each type that this choice, [jobs], needs."""
        served = choice[choice != NONE]
        return np.bincount(self.kind[served], self.gpus[served], minlength=len(self.room)).astype(np.int64)


def exact(problem: Problem) -> Ints:
    """The best choice, [jobs], by dynamic programming over the GPUs of each type that are left.

    Work and memory grow with jobs times the product of GPUs + 1 over the types: for small clusters. Ties go to none,
    then to the first configuration.
    """
    room = tuple(int(gpus) for gpus in problem.room)
    if len(room) == 1:
        return _traced(problem, _of_one_type(problem, room[0]), list(room))
    best = np.zeros([gpus + 1 for gpus in room])
    chosen = np.full((len(problem.utility), *best.shape), NONE, np.int16)
    for job, row in enumerate(problem.utility):
        after = best + problem.unserved[job]
        for index in np.flatnonzero(np.isfinite(row)):
            kind, gpus = int(problem.kind[index]), int(problem.gpus[index])
            if gpus > room[kind]:
                continue
            here = (slice(None),) * kind + (slice(gpus, None),)
            less = (slice(None),) * kind + (slice(None, room[kind] + 1 - gpus),)
            found = best[less] + row[index]
            is_better = found > after[here]
            after[here] = np.where(is_better, found, after[here])
            chosen[job][here][is_better] = index
        best = after
    return _traced(problem, chosen, list(room))


def _of_one_type(problem: Problem, room: int) -> npt.NDArray[np.int16]:
    """What the exact choice gives each job, [jobs, GPUs left and 0]: all configurations of a job at once."""
    fits = np.flatnonzero(problem.gpus <= room)
    # What is left after none (first, as it wins ties) and after each configuration; below 0 is the last column.
    before = np.arange(room + 1) - np.concatenate([[0], problem.gpus[fits]])[:, None]
    before = np.where(before < 0, room + 1, before)
    best = np.zeros(room + 2)
    best[-1] = -np.inf
    chosen = np.empty((len(problem.utility), room + 1), np.int16)
    names = np.concatenate([[NONE], fits])
    gains = np.column_stack([problem.unserved, problem.utility[:, fits]])
    columns = np.arange(room + 1)
    for job, row in enumerate(gains):
        found = best[before] + row[:, None]
        top = found.argmax(axis=0)
        chosen[job] = names[top]
        best[:-1] = found[top, columns]
    return chosen


def _traced(problem: Problem, chosen: npt.NDArray[np.int16], left: list[int]) -> Ints:
    """The choice that leads to the best end, from the last job back to the first."""
    choice = np.full(len(chosen), NONE, np.int64)
    for job in range(len(chosen) - 1, -1, -1):
        index = int(chosen[(job, *left)])
        choice[job] = index
        if index != NONE:
            left[int(problem.kind[index])] -= int(problem.gpus[index])
    return choice
