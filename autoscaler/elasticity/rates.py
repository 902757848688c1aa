"""How fast each job is expected to run with each configuration, in examples/s of the reference speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations, Ints
from autoscaler.elasticity.constants import SPREAD_OPTIMISM
from autoscaler.elasticity.inputs import Job, PlanInputError, Speedup
from autoscaler.elasticity.memory import Past

Floats = npt.NDArray[np.float64]
Kinds = tuple[int, ...]


def rates(offered: Configurations, jobs: Sequence[Job], pasts: Sequence[Past]) -> Floats:
    """[jobs, configurations]; 0 where a job may not have one.

    On a type where a job ran, what was fitted there; else what was fitted on the type that it is best known on, times
    the ratio of one GPU's speed; where it never ran, one GPU of each type.
    """
    if not jobs or not offered.types:
        return np.zeros((len(jobs), len(offered.kind)))
    speedups = _speedups(offered, jobs, pasts)
    found = np.array([job.rates for job in jobs])[:, offered.kind] * speedups
    seen = np.zeros((len(jobs), len(offered.types)), bool)
    for row, past in enumerate(pasts):
        if past.spread:
            seen[row, list(past.spread)] = True
    is_new = (offered.nodes > 1) & ~seen[:, offered.kind]
    return np.where(is_new, found * SPREAD_OPTIMISM, found)


@dataclass(frozen=True, slots=True)
class _Question:
    """What one function of a job is asked: so many nodes and GPUs, of these configurations. Read only."""

    kind: int
    columns: Ints
    nodes: Floats
    gpus: Floats


def _speedups(offered: Configurations, jobs: Sequence[Job], pasts: Sequence[Past]) -> Floats:
    """Over one GPU of the type, [jobs, configurations]. Each function is asked once, for all its configurations."""
    found = np.zeros((len(jobs), len(offered.kind)))
    questions: dict[tuple[Kinds, int, Kinds, Kinds], list[_Question]] = {}
    alone: dict[Kinds, Ints] = {}
    for row, (job, past) in enumerate(zip(jobs, pasts, strict=True)):
        like = _best_known(job, past)
        if like is None:
            if job.most not in alone:
                alone[job.most] = np.flatnonzero(_allowed(offered, job.most) & (offered.gpus == 1))
            found[row, alone[job.most]] = 1.0
            continue
        asked = [speedup or like[1] for speedup in job.speedups]
        ids = [id(speedup) for speedup in asked]
        borrowed = tuple(kind for kind, speedup in enumerate(job.speedups) if speedup is None)
        key = job.most, like[0], borrowed, tuple(ids.index(one) for one in ids)
        if key not in questions:
            questions[key] = _questions(offered, *key)
        for question in questions[key]:
            found[row, question.columns] = _evaluated(asked[question.kind], question.nodes, question.gpus)
    bad = ~(np.isfinite(found) & (found >= 0)).all(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        given = found[row, _allowed(offered, jobs[row].most)].tolist()
        raise PlanInputError(f"jobs: the goodput of {jobs[row].id!r} gave {given}; it has to be a speed-up, 0 or more")
    return found


def _best_known(job: Job, past: Past) -> tuple[int, Speedup] | None:
    """The type it runs on if it is known there, else the known one on which it may have most GPUs, then the first."""
    held = past.held[0] if past.held is not None else -1
    if held >= 0 and (speedup := job.speedups[held]) is not None:
        return held, speedup
    best: tuple[int, Speedup] | None = None
    for kind, speedup in enumerate(job.speedups):
        if speedup is not None and (best is None or job.most[kind] > job.most[best[0]]):
            best = kind, speedup
    return best


def _allowed(offered: Configurations, most: Kinds) -> npt.NDArray[np.bool_]:
    return np.asarray(offered.gpus <= np.array(most, np.int64)[offered.kind])


def _questions(offered: Configurations, most: Kinds, like: int, borrowed: Kinds, functions: Kinds) -> list[_Question]:
    """One for each function. borrowed: types that ask the function of the type `like`; functions: the first with it."""
    allowed = _allowed(offered, most)
    needed = -(-offered.gpus // offered.node_gpus[like])  # as many nodes as it would need of the type that is known
    instead = np.minimum(offered.gpus, np.where(offered.nodes > 1, np.maximum(2, needed), needed))
    nodes = np.where(np.isin(offered.kind, borrowed), instead, offered.nodes)
    found = []
    for kind in sorted(set(functions)):
        mine = [other for other, first in enumerate(functions) if first == kind]
        columns = np.flatnonzero(allowed & np.isin(offered.kind, mine))
        if columns.size:
            columns_nodes, columns_gpus = nodes[columns].astype(float), offered.gpus[columns].astype(float)
            columns_nodes.flags.writeable = columns_gpus.flags.writeable = False
            found.append(_Question(kind, columns, columns_nodes, columns_gpus))
    return found


def _evaluated(speedup: Speedup, nodes: Floats, gpus: Floats) -> Any:
    """All at once where the function takes arrays, else one by one."""
    try:
        found = np.asarray(speedup(nodes, gpus), float)
        if found.shape == gpus.shape:
            return found
    except Exception:  # noqa: S110 - it is not ours: whatever it says of arrays, it is asked again with numbers
        pass
    return [float(speedup(int(n), int(g))) for n, g in zip(nodes, gpus, strict=True)]
