"""The planner as a policy of the simulated cluster: a whole plan at each tick, starts on free GPUs in between."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.planner import Planner
from controlplane.benchmarks.training.cluster16 import CLUSTER, NODE_GPUS
from controlplane.benchmarks.training.clusters import nodes_of
from controlplane.benchmarks.training.rounds import Forgetful, Plan, Policy


class Elastic:
    """has_history: it learns from ended trainings how much work their model takes."""

    def __init__(self, *, has_history: bool = True) -> None:
        planner = Planner(nodes_of(CLUSTER))
        self._policy: Policy = planner if has_history else Forgetful(planner)

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._policy.plan(now, jobs, current)

    def event(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """No training that runs is changed before the next tick."""
        waiting = [job for job in jobs if job["id"] not in current]
        if not waiting:
            return current
        left = {row["id"]: row["gpus"] for row in nodes_of(CLUSTER)}
        for parts in current.values():
            for node, gpus in parts:
                left[node] -= gpus
        free = [{"id": node, "gpu_type": node[0], "gpus": gpus} for node, gpus in left.items() if 0 < gpus <= NODE_GPUS]
        return {**current, **Planner(free).plan(now, waiting, {})} if free else current
