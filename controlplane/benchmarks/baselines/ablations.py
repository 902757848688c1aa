"""Our policy with a part of it left out, on the cluster of like GPUs: what each part gives.

What is told of a training can be changed (`Retold`), starts between two plans left out (`TicksOnly`), places given to
kube-scheduler (`Scattered`), and what a plan is worth weighed otherwise (`Reworked`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations, configurations
from autoscaler.elasticity.constants import LIKE, WORK_SCALE
from autoscaler.elasticity.inputs import Job, read_jobs, read_nodes
from autoscaler.elasticity.knapsack import Problem
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.places import place
from autoscaler.elasticity.plan import solve
from autoscaler.elasticity.rates import rates
from autoscaler.elasticity.utility import problem
from controlplane.benchmarks.baselines.held import Held
from controlplane.benchmarks.training.classics import spread
from controlplane.benchmarks.training.cluster16 import CLUSTER, GPU_TYPE, Policy
from controlplane.benchmarks.training.clusters import nodes_of
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.rounds import Plan

Jobs = Sequence[Mapping[str, Any]]
Told = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
Change = Callable[[Problem, Floats], Problem]  # weights: [trainings], by remaining work


class Retold:
    """Our policy, told something else of each training."""

    def __init__(self, change: Callable[[Told], Told], policy: Policy | None = None) -> None:
        self._change = change
        self._policy: Policy = policy or Elastic()

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._policy.plan(now, [self._change(job) for job in jobs], current)

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._policy.event(now, [self._change(job) for job in jobs], current)


def within_request(job: Told) -> Told:
    """It may have fewer GPUs than it asked for, and no more."""
    return {**job, "max_gpus": {GPU_TYPE: min(job["max_gpus"][GPU_TYPE], job["requested_gpus"])}}


def without_restarts(job: Told) -> Told:
    """As if a start took no time. It does."""
    return {**job, "restart_cost_s": 0.0}


class TicksOnly:
    """Our policy at its ticks alone: what comes waits for the next one."""

    def __init__(self) -> None:
        self._policy = Elastic()

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._policy.plan(now, jobs, current)

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """Nothing."""
        return current


class Scattered:
    """Our policy says how many GPUs each has, and kube-scheduler's LeastAllocated places its workers.

    The policy goes on with the places that it would have given; what it learns of speeds is of those that there were.
    """

    def __init__(self) -> None:
        self._policy = Elastic()
        self._meant: Plan = {}

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._placed(self._policy.plan(now, jobs, self._there(jobs)), current)

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self._placed(self._policy.event(now, jobs, self._there(jobs)), current)

    def _there(self, jobs: Jobs) -> Plan:
        there = {job["id"] for job in jobs}
        return {name: parts for name, parts in self._meant.items() if name in there}

    def _placed(self, meant: Plan, current: Plan) -> Plan:
        self._meant = meant
        sizes = {name: sum(gpus for _, gpus in parts) for name, parts in meant.items()}
        held = Held({
            name: parts for name, parts in current.items() if sum(gpus for _, gpus in parts) == sizes.get(name)
        })  # fmt: skip
        for name, gpus in sizes.items():
            if name not in held.of:
                for node, share in spread(gpus, held.free):
                    held.add(name, node, share)
        return held.plan()


class Reworked:
    """Our planner step for step, with a change of what is worth what before it is solved."""

    def __init__(self, change: Change) -> None:
        self._nodes = read_nodes(nodes_of(CLUSTER))
        self._offered = configurations(self._nodes)
        self._memory = Memory()
        self._change = change
        self._starts = Elastic()

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        offered, memory, read = self._offered, self._memory, read_jobs(jobs, self._offered.types)
        where = {name: tuple(parts) for name, parts in current.items()}
        held = {name: shape for name, parts in where.items() if (shape := offered.shape_of(parts)) is not None}
        memory.observe(now, read, held)
        speed = rates(offered, read, [memory.jobs[job.id] for job in read])
        asked = self._change(problem(now, offered, read, memory, speed), weights(offered, read, memory, speed))
        found = place(offered, self._nodes, read, [int(index) for index in solve(asked)], where)
        for row, job in enumerate(read):
            shape = offered.shape_of(found.get(job.id, ()))
            memory.decided(now, job, shape, float(speed[row, offered.index[shape]]) if shape else 0.0)
        return {job.id: list(found[job.id]) for job in read if job.id in found}

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """As ours: what comes starts on what is free."""
        return self._starts.event(now, jobs, current)


def weights(offered: Configurations, jobs: Sequence[Job], memory: Memory, speed: Floats) -> Floats:
    """Of each training by the work that is left of it, as autoscaler/elasticity/utility.py has them; [trainings]."""
    one = np.where((offered.gpus == 1) & (speed > 0), speed, np.inf).min(axis=1, initial=np.inf)
    base = np.where(np.isfinite(one), one, 1.0)
    left = [memory.remaining(job.id) for job in jobs]
    work = [memory.jobs[job.id].work if some is None else some for job, some in zip(jobs, left, strict=True)]
    return np.asarray((1 + np.array(work) / base / WORK_SCALE) ** LIKE.work_exponent)


def unweighted(asked: Problem, weight: Floats) -> Problem:
    """All trainings count alike, however much is left of them."""
    served = LIKE.served_first
    return replace(asked, utility=asked.utility / weight[:, None], unserved=(asked.unserved + served) / weight - served)


def greedy(asked: Problem, weight: Floats) -> Problem:
    """A GPU for all before any grows is no rule any more."""
    return replace(asked, unserved=asked.unserved + LIKE.served_first)
