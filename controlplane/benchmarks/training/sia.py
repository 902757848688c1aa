"""Sia's policy (SOSP'23), written anew, as what the planner is compared with.

Each job may have 1, 2, 4, ... GPUs of a node, or whole nodes. The sum of (goodput / its least goodput) ** -0.5
is made least, 1.1 for a job that has none. Goodput after a change counts for the share of its age that the job has not
lost to restarts so far. What restarts stays. On a type where a job has not run, its goodput is that of a known type
times the ratio of one GPU's speed. Not rounded, and solved exactly; of equal types the first of the cluster is taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.knapsack import NONE, Problem, exact
from controlplane.benchmarks.training.rounds import NodeId, Plan

POWER = -0.5
UNSERVED = 1.1
MOST = 3000.0
RESTART_SECONDS = {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0}
OTHER_RESTART_SECONDS = 30.0

Floats = npt.NDArray[np.float64]


class Sia:
    """cluster: nodes and GPUs of each, by type."""

    def __init__(self, cluster: Mapping[str, tuple[int, int]]) -> None:
        self.cluster = cluster
        self.types = tuple(cluster)
        self.configurations = [
            (kind, nodes, gpus) for kind, gpu_type in enumerate(cluster) for nodes, gpus in _shapes(*cluster[gpu_type])
        ]
        self.kind = np.array([kind for kind, _, _ in self.configurations])
        self.nodes = np.array([nodes for _, nodes, _ in self.configurations], float)
        self.gpus = np.array([gpus for _, _, gpus in self.configurations])
        self.room = np.array([nodes * gpus for nodes, gpus in cluster.values()])

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See autoscaler.planner."""
        costs = np.full((len(jobs), len(self.configurations)), np.inf)
        unserved = np.full(len(jobs), UNSERVED)
        for row, job in enumerate(jobs):
            held = self._held(current.get(job["id"], ()))
            if job["restarting"] and held is not None:
                costs[row, held], unserved[row] = 0.0, np.inf
                continue
            found = self._goodputs(job)
            if held is not None:
                keep = found[held]
                found = found * _factor(job)
                found[held] = keep
            allowed = found > 0
            costs[row, allowed] = np.minimum(found[allowed] ** POWER, MOST)
        choice = exact(Problem(-costs, -unserved, self.gpus, self.kind, self.room))
        return self._placed([(job["id"], int(index)) for job, index in zip(jobs, choice, strict=True) if index != NONE])

    def _held(self, parts: Sequence[tuple[NodeId, int]]) -> int | None:
        if not parts:
            return None
        return self.configurations.index((self.types.index(parts[0][0][0]), len(parts), sum(gpus for _, gpus in parts)))

    def _goodputs(self, job: Mapping[str, Any]) -> Floats:
        """Over the least of them; 0 where it may not be."""
        found = np.zeros(len(self.configurations))
        known = [gpu_type for gpu_type in self.types if job["goodput"][gpu_type] is not None]
        if not known:
            return np.where(self.gpus == 1, 1.0, 0.0)
        for kind, gpu_type in enumerate(self.types):
            mine = (self.kind == kind) & (self.gpus <= job["max_gpus"][gpu_type])
            like = gpu_type if gpu_type in known else known[0]
            gpus = self.gpus[mine].astype(float)
            nodes = self.nodes[mine] if like == gpu_type else np.ceil(gpus / self.cluster[like][1])
            ratio = job["ref_rate"][gpu_type] / job["ref_rate"][like]
            speedup = job["goodput"][like]
            found[mine] = speedup(nodes, gpus) * speedup.one * ratio
        least = found[found > 1e-4].min()
        return np.where(found > 1e-4, found / least, 0.0)

    def _placed(self, chosen: list[tuple[str, int]]) -> Plan:
        """The largest first: as all are powers of two or whole nodes, each finds room."""
        free = {(gpu_type, i): gpus for gpu_type, (count, gpus) in self.cluster.items() for i in range(count)}
        plan: dict[str, list[tuple[NodeId, int]]] = {}
        for name, index in sorted(chosen, key=lambda one: -self.configurations[one[1]][2]):
            kind, nodes, gpus = self.configurations[index]
            share = gpus // nodes
            fit = [node for node, left in free.items() if node[0] == self.types[kind] and left >= share][:nodes]
            plan[name] = [(node, share) for node in fit]
            for node in fit:
                free[node] -= share
        return plan


def _shapes(count: int, gpus: int) -> list[tuple[int, int]]:
    single = [(1, 2**power) for power in range(gpus.bit_length()) if 2**power <= gpus]
    return single + [(nodes, nodes * gpus) for nodes in range(2, count + 1)]


def _factor(job: Mapping[str, Any]) -> float:
    restart = RESTART_SECONDS.get(job["model"], OTHER_RESTART_SECONDS)
    if job["age"] < restart:
        return 1.0
    return float(max(job["age"] - job["restarts"] * restart, 0.0) / (job["age"] + restart))
