"""How fast each job is expected to run with each configuration, in examples/s of the reference speed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.constants import SPREAD_OPTIMISM
from autoscaler.elasticity.inputs import Job, PlanInputError, Speedup
from autoscaler.elasticity.memory import Past

Floats = npt.NDArray[np.float64]


def rates(offered: Configurations, jobs: Sequence[Job], pasts: Sequence[Past]) -> Floats:
    """[jobs, configurations]; 0 where a job may not have one.

    On a type where a job ran, what was fitted there; else what was fitted on the type that it is best known on, times
    the ratio of one GPU's speed; where it never ran, one GPU of each type.
    """
    found = np.zeros((len(jobs), len(offered.kind)))
    for row, (job, past) in enumerate(zip(jobs, pasts, strict=True)):
        most = np.array(job.most, np.int64)[offered.kind] if len(offered.kind) else np.zeros(0, np.int64)
        allowed = offered.gpus <= most
        like = _best_known(job, past)
        if like is None:
            one = allowed & (offered.gpus == 1)
            found[row, one] = np.array(job.rates)[offered.kind[one]]
            continue
        for kind in range(len(offered.types)):
            mine = np.flatnonzero(allowed & (offered.kind == kind))
            if mine.size:
                found[row, mine] = _on_type(offered, job, past, kind, like, mine)
    return found


def _best_known(job: Job, past: Past) -> tuple[int, Speedup] | None:
    """The type it runs on if it is known there, else the known one on which it may have most GPUs, then the first."""
    known = {kind: speedup for kind, speedup in enumerate(job.speedups) if speedup is not None}
    if not known:
        return None
    held = past.held[0] if past.held is not None else -1
    kind = held if held in known else max(known, key=lambda kind: (job.most[kind], -kind))
    return kind, known[kind]


def _on_type(
    offered: Configurations, job: Job, past: Past, kind: int, like: tuple[int, Speedup], mine: npt.NDArray[np.int64]
) -> Floats:
    nodes, gpus = offered.nodes[mine], offered.gpus[mine]
    speedup = job.speedups[kind]
    if speedup is None:  # as many nodes as it would need of the type that it is known on
        needed = -(-gpus // offered.node_gpus[like[0]])
        speedup, nodes = like[1], np.minimum(gpus, np.where(nodes > 1, np.maximum(2, needed), needed))
    found = job.rates[kind] * _evaluated(speedup, nodes, gpus, job.id)
    if kind not in past.spread:
        found = np.where(offered.nodes[mine] > 1, found * SPREAD_OPTIMISM, found)
    return np.asarray(found)


def _evaluated(speedup: Speedup, nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64], identity: Any) -> Floats:
    """All at once where the function takes arrays, else one by one."""
    try:
        found = np.asarray(speedup(nodes.astype(float), gpus.astype(float)), float)
    except Exception:  # it is not ours: whatever it says of arrays, it is asked again with numbers
        found = np.zeros(0)
    if found.shape != gpus.shape:
        found = np.array([float(speedup(int(n), int(g))) for n, g in zip(nodes, gpus, strict=True)])
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise PlanInputError(
            f"jobs: the goodput of {identity!r} gave {found.tolist()}; it has to be a speed-up, 0 or more"
        )
    return found
