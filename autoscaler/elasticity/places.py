"""On which nodes jobs get what was chosen: what is unchanged stays, of the others the largest is placed first."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.floor import Floor, Place
from autoscaler.elasticity.inputs import Job, Node

__all__ = ["Place", "place"]


def place(
    offered: Configurations,
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    choice: Sequence[int],
    current: Mapping[Hashable, Place],
) -> dict[Hashable, Place]:
    """Where each job runs. Always feasible: what fits nowhere in one piece gets the next smaller configuration."""
    floor = Floor(offered, nodes, jobs)
    sizes = offered.gpus.tolist()
    # GPUs, less than 0; number of the job; configuration
    waiting = [(-sizes[index], number, index) for number, index in _changed(offered, floor, jobs, choice, current)]
    heapify(waiting)
    while waiting:
        _, number, index = heappop(waiting)
        found = floor.find(index)
        if found is None:
            for other, where in floor.make_room(index):
                same = offered.index_of(where)
                if same is not None:  # always: it was placed with it
                    heappush(waiting, (-sizes[same], other, same))
            found = floor.find(index)
        if found is not None:
            floor.put(number, found)
        elif (smaller := _smaller(offered, index)) is not None:
            heappush(waiting, (-sizes[smaller], number, smaller))
    return {jobs[number].id: where for number, where in floor.placed.items()}


def _changed(
    offered: Configurations,
    floor: Floor,
    jobs: Sequence[Job],
    choice: Sequence[int],
    current: Mapping[Hashable, Place],
) -> Iterator[tuple[int, int]]:
    """Leave what is unchanged where it is; the others, by number, with their configurations."""
    for number, (job, index) in enumerate(zip(jobs, choice, strict=True)):
        if index < 0:
            continue
        held = current.get(job.id)
        if held is not None and offered.index_of(held) == index and floor.has_room(held):
            floor.put(number, held, is_movable=len(held) == 1 and not job.is_restarting)
        else:
            yield number, index


def _smaller(offered: Configurations, index: int) -> int | None:
    """The next smaller configuration of the same type, if there is one."""
    less = np.flatnonzero((offered.kind == offered.kind[index]) & (offered.gpus < offered.gpus[index]))
    return int(less[-1]) if len(less) else None
