"""How many workers each elastic training of one team has of the GPUs that they hold and that are idle.

The plan of plan.py for GPUs of one type, without the places: workers come and go in place, on nodes that the scheduler
chooses, and none has fewer than its least. Source: reallocation.md, the cluster plan for like GPUs.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.inputs import Job
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.plan import solve
from autoscaler.elasticity.rates import rates
from autoscaler.elasticity.utility import problem

TYPE = "gpu"  # all are of one type, whose name does not matter
LEAST_GAIN = 0.02  # of its speed: a training that may gain less from idle GPUs does not try them
RESIZE_SECONDS = 30.0  # that a training is taken to stand still when its workers come or go


@dataclass(frozen=True, slots=True)
class Elastic:
    """A training that runs. now, least, most: workers; of_worker: GPUs of one.

    model: equal for trainings whose work is about the same; submitted, age: s. speed: with so many workers, over
    one GPU of it; hope: the same with its standard error on top. is_settling: its steps were not seen yet with the
    workers that it has, so it keeps them.
    """

    id: Hashable
    model: str
    submitted: float
    age: float
    now: int
    least: int
    most: int
    of_worker: int
    speed: Callable[[int], float]
    hope: Callable[[int], float]
    is_settling: bool = False


def workers(now: float, idle: int, of_node: int, trainings: Sequence[Elastic], memory: Memory) -> dict[Hashable, int]:
    """The workers of each from now (s) on, within its bounds; all together at most what they have and `idle` GPUs.

    of_node: GPUs of a node. What was seen and decided is noted in `memory`. What the plan leaves idle is tried by those
    that may be faster with it, as far as is known: so it is learned how they grow, and no GPU is idle for a guess.
    """
    ordered = sorted(trainings, key=lambda one: (one.submitted, str(one.id)))
    room = idle + sum(one.now * one.of_worker for one in ordered)
    offered = _offered(room, of_node, max((max(one.most, one.now) * one.of_worker for one in ordered), default=0))
    jobs = [_job(one, len(offered.gpus)) for one in ordered]
    held = {one.id: _shape(one.now * one.of_worker, of_node) for one in ordered}
    memory.observe(now, jobs, held)
    speed = rates(offered, jobs, [memory.jobs[job.id] for job in jobs])
    choice = solve(problem(now, offered, jobs, memory, speed))
    found: dict[Hashable, int] = {}
    for one, index in zip(ordered, choice.tolist(), strict=True):
        gpus = int(offered.gpus[index]) if index >= 0 else 0
        # None is left without GPUs by the plan: it runs, and whether it has to leave is for the scheduler.
        found[one.id] = gpus // one.of_worker or one.now
    found = _tried(room, ordered, found)
    for row, one in enumerate(ordered):
        shape = _shape(found[one.id] * one.of_worker, of_node)
        memory.decided(now, jobs[row], shape, float(speed[row, offered.index[shape]]))
    return found


def _tried(room: int, ordered: Sequence[Elastic], planned: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """With what is left over, each at most once, those first that may gain most."""
    found = dict(planned)
    left = room - sum(found[one.id] * one.of_worker for one in ordered)
    open_ = [one for one in ordered if not one.is_settling]
    while left > 0 and open_:
        best = max((_largest(one, found[one.id], left) for one in open_), key=lambda best: best[0])
        gain, one, count = best
        if gain < LEAST_GAIN:
            break
        left -= (count - found[one.id]) * one.of_worker
        found[one.id] = count
        open_.remove(one)
    return found


def _largest(one: Elastic, now: int, left: int) -> tuple[float, Elastic, int]:
    """(what it may gain at most with the GPUs that are left, as a part of its speed; it; with how many workers)."""
    counts = range(now, min(one.most, now + left // one.of_worker) + 1)
    best = max(counts, key=one.hope, default=now)
    return one.hope(best) / one.speed(now) - 1.0, one, best


def _offered(room: int, of_node: int, most: int) -> Configurations:
    """Each number of GPUs up to `most`, on as few nodes as hold it."""
    rows = [_shape(gpus, of_node) for gpus in range(1, most + 1)]
    table = np.array(rows, np.int64).reshape(-1, 3)
    index = {row: place for place, row in enumerate(rows)}
    size, there = np.array([of_node], np.int64), np.array([room], np.int64)
    return Configurations((TYPE,), table[:, 0], table[:, 1], table[:, 2], there, size, index)


def _shape(gpus: int, of_node: int) -> tuple[int, int, int]:
    return 0, -(-gpus // of_node), gpus


def _job(one: Elastic, largest: int) -> Job:
    """As the plan takes it: speeds over one GPU of its own, 0 where it has no whole workers or too few of them."""
    speeds = np.zeros(largest + 1)
    for count in {*range(one.least, one.most + 1), one.now}:
        speeds[count * one.of_worker] = one.speed(count)

    def speed(_: npt.NDArray[np.float64], gpus: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return speeds[np.asarray(gpus, np.int64)]

    return Job(
        id=one.id, model=one.model, submitted=one.submitted, age=one.age, restart=RESIZE_SECONDS,
        is_restarting=one.is_settling, most=(max(one.most, one.now) * one.of_worker,), rates=(1.0,), speedups=(speed,),
    )  # fmt: skip


def gained(planned: Mapping[Hashable, int], trainings: Sequence[Elastic]) -> float:
    """By what part all together are faster than now: the geometric mean of their speeds over those now, less 1."""
    ratios = [one.speed(planned[one.id]) / one.speed(one.now) for one in trainings]
    return float(np.exp(np.mean(np.log(ratios)))) - 1.0
