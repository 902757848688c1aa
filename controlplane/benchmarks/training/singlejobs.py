"""Half of `nearchus`: one training at the same budget, re-allocated by production's course of one training."""

from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.reallocate.budgets import Budget, Resources
from autoscaler.reallocate.candidates import Freedom, Room
from autoscaler.reallocate.choice import Training
from autoscaler.reallocate.constants import DEFAULT
from autoscaler.reallocate.course import Course, Seen, follow
from autoscaler.throughput.allocation import Allocation
from controlplane.benchmarks.training import singlecases
from controlplane.benchmarks.training.singlecases import Case

RUNS = 20
WINDOWS = 600
CORES, WORKER_CORES, SERVER_CORES = 8.0, 4.0, 4.0  # of a node for each GPU; of a worker; of a server: assumed
REMAINING = 8 * 3600.0  # s that each training would still run, assumed


@dataclass(frozen=True, slots=True)
class Ended:
    """A run. gain: of the true speed; net: of the work done in REMAINING, restarts and trials included; parts."""

    gain: float
    net: float
    moves: int
    windows: int


def run_case(case: Case, seed: int, index: int, runs: int = RUNS) -> list[Ended]:
    """As many courses of it, each under its own noise."""
    computing, exchanging = singlecases.noise(case, seed, index, WINDOWS, runs)
    return [_run(case, computing[:, one].tolist(), exchanging[:, one].tolist()) for one in range(runs)]


def _run(case: Case, computing: Sequence[float], exchanging: Sequence[float]) -> Ended:
    now = _begun(case)
    training, course = _training(case, now), Course(now)
    restart = singlecases.windows_of(case.restart, DEFAULT.window)
    had, away, work, at = now, 0, 0.0, 0
    base = case.times(case.start, case.servers).step
    while at < len(computing) and not (course.is_resting and not away):
        if course.wanted != had:
            had, away = course.wanted, restart
        true = case.times(had.gpus, had.servers)
        if away:
            away -= 1
            seen = Seen(had, None)
        else:
            told = singlecases.shown(true, computing[at], exchanging[at])
            work += base / true.step
            seen = Seen(had, told.step, told.exchange)
        course, _ = follow(course, seen, training)
        at += 1
    gain = case.gain(course.wanted.gpus, course.wanted.servers)
    total = REMAINING / DEFAULT.window
    return Ended(gain, (work + (total - at) * (1 + gain)) / total - 1, course.past.moves, at)


def _begun(case: Case) -> Allocation:
    if not case.servers:
        return Allocation(case.start, case.gpus, case.batch)
    return Allocation(case.start, case.gpus, case.batch, WORKER_CORES, case.servers, SERVER_CORES)


def _training(case: Case, now: Allocation) -> Training:
    """Its own budget is the GPUs it has at the start, and of its nodes' cores as large a part."""
    nodes, cores = max(len(case.start), 4), CORES * case.node_gpus
    cluster = Resources(nodes * case.node_gpus, nodes * cores)
    budgets = (
        Budget("training", cluster, case.gpus / cluster.gpus),
        Budget("team", cluster),
        Budget("cluster", cluster),
    )
    freedom = Freedom(can_move=not case.servers, servers=(1, singlecases.MOST_SERVERS) if case.servers else None)
    rooms = (Room(case.node_gpus, cores),) * nodes
    return Training(freedom, rooms, budgets, REMAINING, case.restart)
