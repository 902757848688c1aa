"""Random elastic trainings on clusters of three types of GPU, as `autoscaler.planner` is told of them.

A job speeds up as Amdahl has it within a node, and pays for each further node: both parts are drawn for each job, so
that some scale nearly as well as they can and others hardly. Types differ in speed by model. Some jobs are new and
have never run; the others hold something, and some of these are starting at the moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.training.clusters import nodes_of

Floats = npt.NDArray[np.float64]
Parts = list[tuple[tuple[str, int], int]]

TYPES = ("a100", "rtx", "t4")
SPEED = {"a100": 4.0, "rtx": 1.6, "t4": 1.0}  # of one GPU over a T4, times 0.7 to 1.4 by job
MODELS = 8
RESTART_SECONDS = (15.0, 250.0)  # log-uniform: those of the measured models


@dataclass(frozen=True, slots=True)
class Speedup:
    """serial: the part of the work that does not spread; between: what each further node adds, of one GPU's time."""

    serial: float
    between: float

    def __call__(self, nodes: Any, gpus: Any) -> Any:
        """Over one GPU of the type; for numbers and arrays."""
        return 1.0 / (self.serial + (1.0 - self.serial) / gpus + self.between * (nodes - 1.0))


def drawn_job(rng: np.random.Generator, name: str, now: float, *, is_new: bool, most: int) -> dict[str, Any]:
    """A job as a planner is told of it, with at most so many GPUs; a new one has never run."""
    speedup = Speedup(float(rng.beta(1.0, 12.0)), float(rng.exponential(0.01)))
    age = 0.0 if is_new else float(rng.exponential(7200.0))
    limit = 1 if is_new else min(most, 2 ** int(rng.integers(1, 7)))
    known = [gpu_type for gpu_type in TYPES if not is_new and rng.random() < 0.6]
    if not is_new and not known:
        known = [TYPES[int(rng.integers(len(TYPES)))]]
    return {
        "id": name,
        "model": f"model-{rng.integers(MODELS)}",
        "submitted": now - age,
        "age": age,
        "attained_gpu_s": 0.5 * age,
        "restarts": 0 if is_new else int(rng.integers(4)),
        "max_gpus": dict.fromkeys(TYPES, limit),
        "restart_cost_s": float(np.exp(rng.uniform(*np.log(RESTART_SECONDS)))),
        "restarting": bool(not is_new and rng.random() < 0.1),
        "ref_rate": {gpu_type: SPEED[gpu_type] * float(rng.uniform(0.7, 1.4)) for gpu_type in TYPES},
        "requested_gpus": 1,
        "goodput": {gpu_type: speedup if gpu_type in known else None for gpu_type in TYPES},
    }


def held(
    rng: np.random.Generator, jobs: list[dict[str, Any]], cluster: Mapping[str, tuple[int, int]]
) -> dict[str, Parts]:
    """What the jobs that ran before hold now: one GPU or more of one node of a type that they are known on."""
    left = {row["id"]: row["gpus"] for row in nodes_of(cluster)}
    found: dict[str, Parts] = {}
    for job in jobs:
        known = [gpu_type for gpu_type in TYPES if job["goodput"][gpu_type] is not None]
        if not known:
            continue
        gpu_type = known[int(rng.integers(len(known)))]
        gpus = 2 ** int(rng.integers(3))
        node = (gpu_type, int(rng.integers(cluster[gpu_type][0])))
        if gpus <= min(left[node], job["max_gpus"][gpu_type]):
            left[node] -= gpus
            found[job["id"]] = [(node, gpus)]
    for job in jobs:
        job["restarting"] = job["restarting"] and job["id"] in found
    return found
