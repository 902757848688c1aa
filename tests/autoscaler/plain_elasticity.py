"""Rates and places of elastic trainings as they are written down, job by job and node by node: slow, and the reference
of what `autoscaler.elasticity` computes by columns."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.constants import SPREAD_OPTIMISM
from autoscaler.elasticity.inputs import Job, Node, NodeId, Speedup
from autoscaler.elasticity.memory import Past

Floats = npt.NDArray[np.float64]
Place = tuple[tuple[NodeId, int], ...]


def rates(offered: Configurations, jobs: Sequence[Job], pasts: Sequence[Past]) -> Floats:
    """[jobs, configurations]; 0 where a job may not have one.

    On a type where a job ran, what was fitted there; else what was fitted on the type that it is best known on, times
    the ratio of one GPU's speed; where it never ran, one GPU of each type.
    """
    found = np.zeros((len(jobs), len(offered.kind)))
    for row, (job, past) in enumerate(zip(jobs, pasts, strict=True)):
        most = np.array(job.most, np.int64)[offered.kind] if len(offered.kind) else np.zeros(0, np.int64)
        allowed = offered.gpus <= most
        like = _best_known(job, past)
        if like is None:
            one = allowed & (offered.gpus == 1)
            found[row, one] = np.array(job.rates)[offered.kind[one]]
            continue
        for kind in range(len(offered.types)):
            mine = np.flatnonzero(allowed & (offered.kind == kind))
            if mine.size:
                found[row, mine] = _on_type(offered, job, past, kind, like, mine)
    return found


def _best_known(job: Job, past: Past) -> tuple[int, Speedup] | None:
    """The type it runs on if it is known there, else the known one on which it may have most GPUs, then the first."""
    known = {kind: speedup for kind, speedup in enumerate(job.speedups) if speedup is not None}
    if not known:
        return None
    held = past.held[0] if past.held is not None else -1
    kind = held if held in known else max(known, key=lambda kind: (job.most[kind], -kind))
    return kind, known[kind]


def _on_type(
    offered: Configurations, job: Job, past: Past, kind: int, like: tuple[int, Speedup], mine: npt.NDArray[np.int64]
) -> Floats:
    nodes, gpus = offered.nodes[mine], offered.gpus[mine]
    speedup = job.speedups[kind]
    if speedup is None:  # as many nodes as it would need of the type that it is known on
        needed = -(-gpus // offered.node_gpus[like[0]])
        speedup, nodes = like[1], np.minimum(gpus, np.where(nodes > 1, np.maximum(2, needed), needed))
    found = job.rates[kind] * _evaluated(speedup, nodes, gpus)
    if kind not in past.spread:
        found = np.where(offered.nodes[mine] > 1, found * SPREAD_OPTIMISM, found)
    return np.asarray(found)


def _evaluated(speedup: Speedup, nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64]) -> Floats:
    """All at once where the function takes arrays, else one by one."""
    return np.array([float(speedup(int(n), int(g))) for n, g in zip(nodes, gpus, strict=True)])


@dataclass(slots=True)
class Floor:
    """free: GPUs by node; placed: by job; movable: jobs on one node that may be moved to an equal place."""

    free: dict[NodeId, int]
    placed: dict[Hashable, Place] = field(default_factory=dict)
    movable: set[Hashable] = field(default_factory=set)

    def has_room(self, place: Place) -> bool:
        """Whether all of this is free."""
        wanted: Counter[NodeId] = Counter()
        for node, gpus in place:
            wanted[node] += gpus
        return all(self.free[node] >= gpus for node, gpus in wanted.items())

    def put(self, job: Hashable, place: Place) -> None:
        """Give it this place, which is free."""
        for node, gpus in place:
            self.free[node] -= gpus
        self.placed[job] = place

    def lift(self, job: Hashable) -> None:
        """Take its place away."""
        for node, gpus in self.placed.pop(job):
            self.free[node] += gpus
        self.movable.discard(job)


def place(
    offered: Configurations,
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    choice: Sequence[int],
    current: Mapping[Hashable, Place],
) -> dict[Hashable, Place]:
    """Where each job runs. Always feasible: what fits nowhere in one piece gets the next smaller configuration."""
    floor = Floor({node.id: node.gpus for node in nodes})
    waiting: list[tuple[int, int]] = []  # place in jobs, configuration
    for number, (job, index) in enumerate(zip(jobs, choice, strict=True)):
        if index < 0:
            continue
        held = current.get(job.id)
        if held is not None and _index(offered, held) == index and floor.has_room(held):
            floor.put(job.id, held)
            if len(held) == 1 and not job.is_restarting:
                floor.movable.add(job.id)
        else:
            waiting.append((number, index))
    sizes = {job.id: number for number, job in enumerate(jobs)}
    while waiting:
        waiting.sort(key=lambda one: (-offered.gpus[one[1]], one[0]))
        number, index = waiting.pop(0)
        found = _find(offered, floor, index)
        if found is None:
            lifted = _make_room(offered, floor, index)
            waiting += [(sizes[job], offered.index[_shape(offered, where)]) for job, where in lifted]
            found = _find(offered, floor, index)
        if found is not None:
            floor.put(jobs[number].id, found)
        else:
            waiting += [(number, smaller) for smaller in _smaller(offered, jobs[number], index)]
    return floor.placed


def _find(offered: Configurations, floor: Floor, index: int) -> Place | None:
    """The fullest node with room, or the fullest nodes with a whole node's room; the first of equal ones."""
    count = int(offered.nodes[index])
    share = int(offered.gpus[index]) // count
    gpu_type = offered.types[int(offered.kind[index])]
    fit = sorted((left, node) for node, left in floor.free.items() if node[0] == gpu_type and left >= share)
    return tuple((node, share) for _, node in fit[:count]) if len(fit) >= count else None


def _make_room(offered: Configurations, floor: Floor, index: int) -> list[tuple[Hashable, Place]]:
    """Lift small jobs off the nodes where fewest GPUs have to move; nothing where that does not suffice."""
    count = int(offered.nodes[index])
    share = int(offered.gpus[index]) // count
    gpu_type = offered.types[int(offered.kind[index])]
    small: dict[NodeId, list[tuple[int, str, Hashable]]] = {}
    for job in floor.movable:
        node, gpus = floor.placed[job][0]
        if gpus < offered.gpus[index]:
            small.setdefault(node, []).append((gpus, str(job), job))
    options: list[tuple[int, NodeId, list[Hashable]]] = []
    for node, left in floor.free.items():
        moved, lifted = _least(sorted(small.get(node, []), key=lambda one: one[:2]), share - left)
        if node[0] == gpu_type and left + moved >= share:
            options.append((moved, node, lifted))
    if len(options) < count:
        return []
    options.sort(key=lambda one: one[:2])
    jobs = [job for _, _, lifted in options[:count] for job in lifted]
    where = [(job, floor.placed[job]) for job in jobs]
    for job in jobs:
        floor.lift(job)
    return where


def _least(small: Sequence[tuple[int, str, Hashable]], wanted: int) -> tuple[int, list[Hashable]]:
    """The first of these (GPUs, name, job) that hold so many GPUs together, and how many; all where none suffice."""
    moved, lifted = 0, []
    for gpus, _, job in small:
        if moved >= wanted:
            break
        moved += gpus
        lifted.append(job)
    return moved, lifted


def _smaller(offered: Configurations, job: Job, index: int) -> list[int]:
    """The next smaller configuration of the same type, if there is one."""
    kind, gpus = offered.kind[index], offered.gpus[index]
    less = [i for i in range(len(offered.gpus)) if offered.kind[i] == kind and offered.gpus[i] < gpus]
    return less[-1:]


def _shape(offered: Configurations, where: Place) -> tuple[int, int, int]:
    return offered.types.index(where[0][0][0]), len(where), sum(gpus for _, gpus in where)


def _index(offered: Configurations, where: Place) -> int | None:
    return offered.index.get(_shape(offered, where))
