"""The plan of one round: what each job may have, what that is worth, the best choice, and where it runs."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.constants import EXACT_CELLS, EXACT_STATES
from autoscaler.elasticity.inputs import Job, Node
from autoscaler.elasticity.knapsack import Ints, Problem, exact
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.places import Place, place
from autoscaler.elasticity.prices import priced
from autoscaler.elasticity.rates import rates
from autoscaler.elasticity.utility import problem


def planned(
    now: float,
    nodes: Sequence[Node],
    offered: Configurations,
    jobs: Sequence[Job],
    current: Mapping[Hashable, Place],
    memory: Memory,
) -> dict[Hashable, Place]:
    """Where each job runs from now on; what was seen and decided is noted in `memory`."""
    held = {identity: shape for identity, where in current.items() if (shape := offered.shape_of(where)) is not None}
    memory.observe(now, jobs, held)
    speed = rates(offered, jobs, [memory.jobs[job.id] for job in jobs])
    choice = solve(problem(now, offered, jobs, memory, speed))
    found = place(offered, nodes, jobs, [int(index) for index in choice], current)
    for row, job in enumerate(jobs):
        shape = offered.shape_of(found.get(job.id, ()))
        memory.decided(now, job, shape, float(speed[row, offered.index[shape]]) if shape else 0.0)
    return found


def solve(asked: Problem) -> Ints:
    """The best choice of a configuration for each job, exactly where the cluster is small enough for that."""
    states = int(np.prod(asked.room + 1, dtype=np.float64))
    if states <= EXACT_STATES and states * len(asked.utility) <= EXACT_CELLS:
        return exact(asked)
    return priced(asked)
