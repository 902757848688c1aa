"""The planner of elastic trainings, for simulators, Weft's and others'.

The account loop follows the same plan for trainings on GPUs of one type, without its places (elasticity/workers.py).

    planner = Planner([{"id": ("t4", 0), "gpu_type": "t4", "gpus": 4}])
    plan = planner.plan(now, jobs, current)

A node: `id` (gpu_type, index), `gpu_type`, `gpus`. A job: `id`, `model`, `submitted` and `age` in s, `attained_gpu_s`,
`restarts`, `max_gpus` {type: GPUs}, `restart_cost_s`, `restarting` (its last change still costs it time: it is left
alone), `ref_rate` {type: examples/s of one GPU}, `requested_gpus`, `goodput` {type: function (nodes, GPUs) -> speed-up
over one GPU of that type, or None before the job ran on it}. `current` and the answer: {job: [((gpu_type, index),
GPUs), ...]}; a job that is absent has no GPUs.

A job has GPUs of one type, never more than its `max_gpus`, and no node more than it has. The answer does not depend on
the order in which nodes and jobs come. It depends on the calls before: the planner remembers for how long jobs ran.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from autoscaler.elasticity.configurations import configurations
from autoscaler.elasticity.inputs import NodeId, Parts, PlanInputError, read_jobs, read_nodes
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.places import Place
from autoscaler.elasticity.plan import planned

__all__ = ["PlanInputError", "Planner"]


class Planner:
    """Plans for one cluster, round after round."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Raises PlanInputError."""
        self._nodes = read_nodes(nodes)
        self._offered = configurations(self._nodes)
        self._memory = Memory()

    def plan(
        self, now: float, jobs: Iterable[Mapping[str, Any]], current: Mapping[Any, Parts]
    ) -> dict[Hashable, list[tuple[NodeId, int]]]:
        """What each job has from now (s) on. Raises PlanInputError."""
        read = read_jobs(jobs, self._offered.types)
        found = planned(now, self._nodes, self._offered, read, self._current(current), self._memory)
        return {job.id: list(found[job.id]) for job in read if job.id in found}

    def _current(self, current: Mapping[Any, Parts]) -> dict[Hashable, Place]:
        """What jobs hold now, as far as its nodes are there."""
        there = {node.id: node.gpus for node in self._nodes}
        found: dict[Hashable, Place] = {}
        for job, parts in current.items():
            place = tuple(((str(node[0]), int(node[1])), int(gpus)) for node, gpus in parts)
            if place and all(0 < gpus <= there.get(node, 0) for node, gpus in place):
                found[job] = place
        return found
