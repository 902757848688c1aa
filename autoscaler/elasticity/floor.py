"""The nodes while a plan is laid out on them, by columns: what is free on each, and which small jobs could move."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.inputs import Job, Node, NodeId

Ints = npt.NDArray[np.int64]
Place = tuple[tuple[NodeId, int], ...]


class Floor:
    """Jobs go by their number among all, nodes by the index of their type and their rank within it, in order of id."""

    def __init__(self, offered: Configurations, nodes: Sequence[Node], jobs: Sequence[Job]) -> None:
        self._offered = offered
        self._jobs = jobs
        self.placed: dict[int, Place] = {}
        self._ids: list[list[NodeId]] = [[] for _ in offered.types]
        self._where: dict[NodeId, tuple[int, int]] = {}
        size: list[list[int]] = [[] for _ in offered.types]
        kinds = {gpu_type: kind for kind, gpu_type in enumerate(offered.types)}
        for node in sorted(nodes, key=lambda node: node.id):
            if (kind := kinds.get(node.gpu_type)) is not None:
                self._where[node.id] = kind, len(self._ids[kind])
                self._ids[kind].append(node.id)
                size[kind].append(node.gpus)
        self._free: list[Ints] = [np.array(gpus, np.int64) for gpus in size]
        # Jobs that hold GPUs of one node only and may move: how many hold 0, 1, 2, ..., [nodes, GPUs], and which.
        self._small: list[Ints] = [np.zeros((len(gpus), max(gpus) + 1), np.int64) for gpus in size]
        self._movable: dict[NodeId, set[int]] = {}

    def has_room(self, place: Place) -> bool:
        """Whether all of this is free."""
        if len(place) == 1:
            return self._left(place[0][0]) >= place[0][1]
        wanted: Counter[NodeId] = Counter()
        for node, gpus in place:
            wanted[node] += gpus
        return all(self._left(node) >= gpus for node, gpus in wanted.items())

    def put(self, job: int, place: Place, *, is_movable: bool = False) -> None:
        """Give it this place, which is free."""
        for node, gpus in place:
            kind, rank = self._where[node]
            self._free[kind][rank] -= gpus
        self.placed[job] = place
        if is_movable:
            kind, rank = self._where[place[0][0]]
            self._small[kind][rank, place[0][1]] += 1
            self._movable.setdefault(place[0][0], set()).add(job)

    def find(self, index: int) -> Place | None:
        """The fullest node with room, or the fullest nodes with a whole node's room; the first of equal ones."""
        kind, count, share = self._asked(index)
        free = self._free[kind]
        if count == 1:
            room = np.where(free >= share, free, np.iinfo(np.int64).max)
            rank = int(room.argmin())
            return ((self._ids[kind][rank], share),) if free[rank] >= share else None
        fit = np.flatnonzero(free >= share)
        if len(fit) < count:
            return None
        order = fit[np.argsort(free[fit], kind="stable")[:count]]
        return tuple((self._ids[kind][rank], share) for rank in order)

    def make_room(self, index: int) -> list[tuple[int, Place]]:
        """Lift small jobs off the nodes where fewest GPUs have to move; nothing where that does not suffice."""
        kind, count, share = self._asked(index)
        less = int(self._offered.gpus[index])  # only smaller jobs make room
        free, small = self._free[kind], self._small[kind]
        moved = np.zeros_like(free)
        for gpus in range(1, min(less, small.shape[1])):
            moved += gpus * np.clip(-((moved + free - share) // gpus), 0, small[:, gpus])
        fit = np.flatnonzero(free + moved >= share)
        if len(fit) < count:
            return []
        lifted = []
        for rank in fit[np.argsort(moved[fit], kind="stable")[:count]]:
            wanted = int(moved[rank])
            for gpus, _, job in self._smallest(self._ids[kind][rank], less):
                if wanted <= 0:
                    break
                wanted -= gpus
                lifted.append((job, self.placed[job]))
        for job, _ in lifted:
            self._lift(job)
        return lifted

    def _asked(self, index: int) -> tuple[int, int, int]:
        """The type, the number of nodes, and the GPUs of each."""
        count = int(self._offered.nodes[index])
        return int(self._offered.kind[index]), count, int(self._offered.gpus[index]) // count

    def _left(self, node: NodeId) -> int:
        kind, rank = self._where[node]
        return int(self._free[kind][rank])

    def _smallest(self, node: NodeId, less: int) -> list[tuple[int, str, int]]:
        """Movable jobs of this node with fewer GPUs than `less`, the smallest first: (GPUs, name, job)."""
        there = [(self.placed[job][0][1], str(self._jobs[job].id), job) for job in self._movable.get(node, ())]
        return sorted(one for one in there if one[0] < less)

    def _lift(self, job: int) -> None:
        """Take the place of a movable job away."""
        ((node, gpus),) = self.placed.pop(job)
        kind, rank = self._where[node]
        self._free[kind][rank] += gpus
        self._small[kind][rank, gpus] -= 1
        self._movable[node].discard(job)
