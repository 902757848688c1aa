"""What the planner is compared with on a cluster of like GPUs: FIFO with backfill, Tiresias and Optimus, written anew.

Each decides how many GPUs a training has; a placer says where. `Sized` joins the two.

- FIFO: in order of submission, what was requested, whatever does not fit is passed over; nothing is stopped.
- Tiresias (NSDI'19, discretized 2D-LAS): two queues by GPU-seconds held so far, each in order of submission; from the
  head, what was requested, as far as it fits; the others are stopped.
- Optimus (EuroSys'18): a GPU each, in order of submission, then one GPU after the other to the training whose expected
  end it brings nearest; all anew at each interval, and nothing between two.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from controlplane.benchmarks.training.cluster16 import GPU_TYPE, MOST_GPUS, NODE_GPUS, NODES, Parts
from controlplane.benchmarks.training.rounds import Plan
from controlplane.benchmarks.training.trainings import shape_of

QUEUE_GPU_SECONDS = 16 * 3600.0  # held by then, a training goes to the second queue

Jobs = Sequence[Mapping[str, Any]]
Sizes = dict[Any, int]
Placer = Callable[[int, list[int]], list[tuple[int, int]]]


class Sizing(Protocol):
    """How many GPUs each has; in the order in which they are placed."""

    acts_on_events: bool

    def sizes(self, jobs: Jobs, current: Mapping[Any, int]) -> Sizes:
        """current: how many each has now."""
        ...


class Fifo:
    """See above."""

    acts_on_events = True

    def sizes(self, jobs: Jobs, current: Mapping[Any, int]) -> Sizes:
        """See Sizing."""
        found = dict(current)
        left = MOST_GPUS - sum(found.values())
        for job in sorted(jobs, key=_submission):
            if job["id"] not in found and job["requested_gpus"] <= left:
                found[job["id"]] = job["requested_gpus"]
                left -= job["requested_gpus"]
        return found


class Tiresias:
    """See above."""

    acts_on_events = True

    def __init__(self) -> None:
        self._second: list[Any] = []  # in the order in which they came there

    def sizes(self, jobs: Jobs, current: Mapping[Any, int]) -> Sizes:
        """See Sizing."""
        by_id = {job["id"]: job for job in sorted(jobs, key=_submission)}
        self._second = [name for name in self._second if name in by_id]
        late = set(self._second)
        self._second += [
            name for name, job in by_id.items() if name not in late and job["attained_gpu_s"] >= QUEUE_GPU_SECONDS
        ]
        late = set(self._second)
        found: Sizes = {}
        left = MOST_GPUS
        for name in [*(name for name in by_id if name not in late), *self._second]:
            gpus = by_id[name]["requested_gpus"]
            if gpus <= left:
                found[name] = gpus
                left -= gpus
        return found


class Optimus:
    """See above. is_spread: its workers will be placed on as many nodes as there are; else on as few as hold them."""

    acts_on_events = False

    def __init__(self, *, is_spread: bool) -> None:
        self._gpus = np.arange(1.0, MOST_GPUS + 1)
        self._nodes = np.minimum(self._gpus, NODES) if is_spread else np.ceil(self._gpus / NODE_GPUS)

    def sizes(self, jobs: Jobs, current: Mapping[Any, int]) -> Sizes:
        """See Sizing. Jobs have `remaining`, examples, and a goodput from the start."""
        ordered = sorted(jobs, key=_submission)
        found = {job["id"]: 1 for job in ordered[:MOST_GPUS]}
        left = MOST_GPUS - len(found)
        times = {job["id"]: self._seconds(job) for job in ordered[:MOST_GPUS]}
        gains = {name: _gain(seconds, 1) for name, seconds in times.items()}
        while left > 0 and gains:
            name = max(gains, key=lambda one: gains[one])
            if gains[name] <= 0:
                break
            found[name] += 1
            left -= 1
            gains[name] = _gain(times[name], found[name])
        return dict(sorted(found.items(), key=lambda one: one[1]))

    def _seconds(self, job: Mapping[str, Any]) -> list[float]:
        """Until its end, by GPUs from 1 to its most."""
        most = job["max_gpus"][GPU_TYPE]
        rate = job["goodput"][GPU_TYPE].examples(self._nodes[:most], self._gpus[:most])
        with np.errstate(divide="ignore"):
            found: list[float] = (job["remaining"] / rate).tolist()
        return found


def _gain(seconds: list[float], gpus: int) -> float:
    """Of one more than these GPUs."""
    return seconds[gpus - 1] - seconds[gpus] if gpus < len(seconds) else 0.0


class Sized:
    """A policy of the cluster, of a sizing and a placer. Trainings whose size stays, stay where they are."""

    def __init__(self, sizing: Sizing, placer: Placer | None) -> None:
        self._sizing = sizing
        self._placer = placer

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        held = {name: sum(gpus for _, gpus in parts) for name, parts in current.items()}
        sizes = self._sizing.sizes(jobs, held)
        if self._placer is None:
            return {name: _shape(gpus) for name, gpus in sizes.items()}
        plan = {name: current[name] for name, gpus in sizes.items() if held.get(name) == gpus}
        free = [NODE_GPUS] * NODES
        for parts in plan.values():
            for (_, index), gpus in parts:
                free[index] -= gpus
        for name, gpus in sizes.items():
            if name not in plan:
                found = self._placer(gpus, free)
                for index, share in found:
                    free[index] -= share
                plan[name] = tuple(((GPU_TYPE, index), share) for index, share in sorted(found))
        return plan

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        return self.plan(now, jobs, current) if self._sizing.acts_on_events else current


def spread(gpus: int, free: list[int]) -> list[tuple[int, int]]:
    """As kube-scheduler's LeastAllocated: pod after pod to the node with most free GPUs, the first of equal ones."""
    left = list(free)
    taken = [0] * len(free)
    for _ in range(gpus):
        index = max(range(len(left)), key=lambda node: left[node])
        left[index] -= 1
        taken[index] += 1
    return [(index, share) for index, share in enumerate(taken) if share]


def packed(gpus: int, free: list[int]) -> list[tuple[int, int]]:
    """On the fullest node that holds it; else on as few nodes as hold it, the emptiest first."""
    fit = [index for index, left in enumerate(free) if left >= gpus]
    if fit:
        return [(min(fit, key=lambda node: free[node]), gpus)]
    return emptiest(gpus, free)


def emptiest(gpus: int, free: list[int]) -> list[tuple[int, int]]:
    """The emptiest nodes first, all that each has: Pollux' simulator places so."""
    found = []
    for index in sorted(range(len(free)), key=lambda node: -free[node]):
        share = min(gpus, free[index])
        if share:
            found.append((index, share))
            gpus -= share
    return found


def _shape(gpus: int) -> Parts:
    return tuple(((GPU_TYPE, index), share) for index, share in enumerate(shape_of(gpus, NODE_GPUS)))


def _submission(job: Mapping[str, Any]) -> tuple[float, str]:
    return job["submitted"], str(job["id"])
