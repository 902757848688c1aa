"""Rounds of 60 s on a cluster of nodes: jobs run, then a policy plans, as in Sia's simulator.

A policy gets what `autoscaler.planner` describes, and nothing of the tables: how fast a job runs it knows only from
the models that were fitted to what was seen of that job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from controlplane.benchmarks.training.goodput import Goodput
from controlplane.benchmarks.training.jobs import Job
from controlplane.benchmarks.training.tables import Application, Placement, Submitted

ROUND = 60.0  # s
NODES = {"dgx-ext": (2, 8), "aws": (6, 4), "rtx": (3, 8)}  # Sia's default cluster: nodes and GPUs of each, by type

NodeId = tuple[str, int]
Plan = Mapping[Any, Sequence[tuple[NodeId, int]]]


class Policy(Protocol):
    """What decides in each round."""

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See autoscaler.planner."""
        ...


@dataclass(frozen=True, slots=True)
class Forgetful:
    """A policy that learns nothing from jobs that have finished: each job is the only one of its model."""

    policy: Policy

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """See autoscaler.planner."""
        return self.policy.plan(now, [{**job, "model": f"{job['model']} {job['id']}"} for job in jobs], current)


@dataclass(slots=True)
class Told:
    """jct: s by job; restarts: by job; infeasible: plans that asked for what is not there."""

    jct: dict[str, float] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    gpu_seconds: dict[str, float] = field(default_factory=dict)
    infeasible: int = 0
    rounds: int = 0
    makespan: float = 0.0

    def quantile(self, q: float) -> float:
        """Of completion times, in s."""
        return float(np.quantile(list(self.jct.values()), q))

    @property
    def mean(self) -> float:
        """Of completion times, in s."""
        return float(np.mean(list(self.jct.values())))

    @property
    def restarts_per_job(self) -> float:
        """The mean over jobs; a first start is none."""
        return float(np.mean(list(self.restarts.values())))


def simulate(
    submitted: Sequence[Submitted],
    applications: Mapping[str, dict[str, Application]],
    cluster: Mapping[str, tuple[int, int]],
    policy: Policy,
    *,
    is_shared: bool = True,
) -> Told:
    """Run until all jobs are done. is_shared: GPUs that a job had of one type raise its limit on all types."""
    told = Told()
    room = {(gpu_type, index): gpus for gpu_type, (count, gpus) in cluster.items() for index in range(count)}
    waiting = sorted((Job(one, {t: applications[one.model][t] for t in cluster}) for one in submitted), key=_at)
    active: dict[str, Job] = {}
    current: dict[str, tuple[tuple[NodeId, int], ...]] = {}
    now = 0.0
    while waiting or active:
        for job in active.values():
            job.run(now, ROUND)
        now += ROUND
        for name, job in list(active.items()):
            if job.completed_at is not None:
                _finish(told, active.pop(name), job.completed_at)
                current.pop(name, None)
        while waiting and waiting[0].submitted.at <= now:
            job = waiting.pop(0)
            active[job.submitted.name] = job
        if not active:
            continue
        jobs = [tell(job, now, cluster, is_shared=is_shared) for job in active.values()]
        plan = policy.plan(now, jobs, dict(current))
        told.rounds += 1
        told.infeasible += not is_feasible(plan, jobs, room)
        current = {name: tuple(parts) for name, parts in plan.items() if parts and name in active}
        _apply(active, current)
    return told


def tell(job: Job, now: float, cluster: Mapping[str, tuple[int, int]], *, is_shared: bool) -> dict[str, Any]:
    """A job as a planner is told of it."""
    most = {gpu_type: job.max_gpus(gpu_type) for gpu_type in cluster}
    if is_shared:
        most = dict.fromkeys(cluster, max(most.values()))
    return {
        "id": job.submitted.name,
        "model": job.submitted.model,
        "submitted": job.submitted.at,
        "age": now - job.submitted.at,
        "attained_gpu_s": job.attained_gpu_seconds,
        "restarts": max(0, job.restarts),
        "max_gpus": most,
        "restart_cost_s": job.restart_seconds,
        "restarting": job.restarting > 0,
        "ref_rate": {gpu_type: job.applications[gpu_type].reference_rate for gpu_type in cluster},
        "requested_gpus": job.submitted.gpus,
        "goodput": {gpu_type: _speedup(job, gpu_type) for gpu_type in cluster},
    }


def is_feasible(plan: Plan, jobs: Sequence[Mapping[str, Any]], room: Mapping[NodeId, int]) -> bool:
    """No node holds more than it has, no job has GPUs of two types or more than its limit, none is unknown."""
    left = dict(room)
    limits = {job["id"]: job["max_gpus"] for job in jobs}
    for name, parts in plan.items():
        if name not in limits or len({node[0] for node, _ in parts}) > 1:
            return False
        for node, gpus in parts:
            if gpus < 1 or left.get(node, 0) < gpus:
                return False
            left[node] -= gpus
        if parts and sum(gpus for _, gpus in parts) > limits[name][parts[0][0][0]]:
            return False
    return True


class _Speedup:
    """The speed-up over one GPU of a type, for ints or arrays."""

    def __init__(self, goodput: Goodput) -> None:
        self.goodput = goodput
        self.one = float(self.goodput(np.ones(1), np.ones(1))[0])

    def __call__(self, nodes: Any, gpus: Any) -> Any:
        found = self.goodput(np.atleast_1d(nodes).astype(float), np.atleast_1d(gpus).astype(float)) / self.one
        return float(found[0]) if np.isscalar(nodes) else found


def batch_limit(job: Job) -> int:
    """Sia's functions try batches up to the one that was submitted."""
    return 32_768 if job.submitted.model == "ncf" else job.submitted.batch


def _speedup(job: Job, gpu_type: str) -> _Speedup | None:
    goodput = job.goodput(gpu_type, batch_limit(job))
    return None if goodput is None else _Speedup(goodput)


def _at(job: Job) -> float:
    return job.submitted.at


def _finish(told: Told, job: Job, completed_at: float) -> None:
    name = job.submitted.name
    told.jct[name] = completed_at - job.submitted.at
    told.restarts[name] = max(0, job.restarts)
    told.gpu_seconds[name] = job.attained_gpu_seconds
    told.makespan = max(told.makespan, completed_at)


def _apply(active: Mapping[str, Job], plan: Mapping[str, tuple[tuple[NodeId, int], ...]]) -> None:
    for name, job in active.items():
        parts = plan.get(name, ())
        gpu_type = parts[0][0][0] if parts else None
        placement: Placement = tuple(gpus for _, gpus in parts)
        job.place(gpu_type, placement)
