"""Courses of one training by production's rules, under the noise of a case whose truth they do not see."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.reallocate.budgets import Budget, Level, Resources
from autoscaler.reallocate.candidates import Freedom, Room
from autoscaler.reallocate.choice import Training
from autoscaler.reallocate.constants import DEFAULT
from autoscaler.reallocate.course import Course, Seen, follow
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import Estimate, gains
from autoscaler.throughput.fit import fit
from autoscaler.throughput.observation import Observation
from controlplane.benchmarks.training import singlecases
from controlplane.benchmarks.training.singlecases import Case, Given

WINDOWS = 600  # of noise that are drawn: more than any course needs
CORES, WORKER_CORES, SERVER_CORES = 8.0, 4.0, 4.0  # of a node for each GPU; of a worker; of a server: assumed
REMAINING = 8 * 3600.0  # s that each training would still run, assumed
LEAST_NODES = 4
MEAN_ERROR = 0.03  # of the log of a step that is the mean of 12 windows


@dataclass(frozen=True, slots=True)
class Ended:
    """A course. gain: of the true speed; net: of the work done in REMAINING, restarts and tries included; parts."""

    gain: float
    net: float
    moves: int
    windows: int
    seen: tuple[Observation, ...]  # for other trainings of its template


def run_case(case: Case, seed: int, index: int, runs: int, lent: Sequence[Observation] = ()) -> list[Ended]:
    """So many courses of it, each under its own noise; lent: what another training of the template saw."""
    computing, exchanging = singlecases.noise(case, seed, index, WINDOWS, runs)
    return [_run(case, computing[:, one].tolist(), exchanging[:, one].tolist(), lent) for one in range(runs)]


def affords(case: Case, remaining: float) -> bool:
    """Whether a training with so many s to run lasts long enough for the restarts of one try."""
    return 2 * case.restart <= DEFAULT.payback * remaining


def expected(case: Case) -> list[tuple[Estimate, float]]:
    """Of each other placement: the log gain that is expected from the start's mean step alone, and the true one."""
    now, true = _begun(case), case.times(case.start)
    fitted = fit([Observation(now, true.step, true.exchange, true.wait, error=MEAN_ERROR)])
    others = [given for given in case.known if given != case.start]
    found = gains(fitted, now, [replace(now, gpus=given.placement) for given in others])
    return [(one, math.log1p(case.gain(given))) for one, given in zip(found, others, strict=True)]


def _run(case: Case, computing: Sequence[float], exchanging: Sequence[float], lent: Sequence[Observation]) -> Ended:
    now = _begun(case)
    training, course = _training(case), Course(now)
    restart = singlecases.windows_of(case.restart, DEFAULT.window)
    base = case.times(case.start).step
    had, away, work, at = now, 0, 0.0, 0
    while at < len(computing) and (not course.is_resting or away or course.wanted != had):
        if course.wanted != had:
            had, away = course.wanted, restart
        seen = Seen(had, None)
        if away:
            away -= 1
        else:
            true = case.times(_given(had))
            told = singlecases.shown(true, computing[at], exchanging[at])
            work += base / true.step
            seen = Seen(had, told.step, told.exchange, told.wait)
        course, _ = follow(course, seen, training, lent)
        at += 1
    gain = case.gain(_given(course.wanted))
    total = REMAINING / DEFAULT.window
    return Ended(gain, (work + (total - at) * (1 + gain)) / total - 1, course.past.moves, at, course.seen)


def _given(allocation: Allocation) -> Given:
    """Cores of a worker beside parameter servers make no difference to the truth."""
    return Given(allocation.gpus, allocation.servers, 0.0 if allocation.servers else allocation.cpu)


def _begun(case: Case) -> Allocation:
    start = case.start
    if start.servers:
        return Allocation(start.placement, case.gpus, case.batch, WORKER_CORES, start.servers, SERVER_CORES)
    return Allocation(start.placement, case.gpus, case.batch, start.cores)


def _training(case: Case) -> Training:
    """Its own budget is the GPUs it has at the start, and of its nodes' cores as large a part."""
    start = case.start
    nodes = max(len(start.placement), LEAST_NODES)
    cores = case.node_gpus * (singlecases.NODE_CORES if start.cores else CORES)
    cluster = Resources(nodes * case.node_gpus, nodes * cores)
    budgets = (
        Budget(Level.TRAINING, cluster, case.gpus / cluster.gpus),
        Budget(Level.TEAM, cluster),
        Budget(Level.CLUSTER, cluster),
    )
    freedom = Freedom(
        can_move=not start.servers,
        cpu=cores if start.cores else None,
        servers=(1, singlecases.MOST_SERVERS) if start.servers else None,
    )
    return Training(freedom, (Room(case.node_gpus, cores),) * nodes, budgets, REMAINING, case.restart)
