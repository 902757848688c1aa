"""What no policy can beat in the mix: how soon all trainings could have ended.

Every GPU that neither the notebooks' four nor the replicas that are needed (whole ones) hold works from the first wave
on, each training with the workers that do most for each GPU, with no start, no restart, no move and no wait. A training
that has not come yet is taken to be there.
"""

import numpy as np

from controlplane.benchmarks.mix.draws import WARM, World
from controlplane.benchmarks.mix.jobs import NODE_GPUS, NODES
from controlplane.benchmarks.mix.policies import HALF, MOST_REPLICAS, MOST_WORKERS
from gpushare.gpu import WHOLE

STEP, LONGEST = 5.0, 100_000.0  # s


def least_makespan(world: World) -> float:
    """s from the first wave on."""
    gpu_seconds = sum(
        training.work * min(workers / training.speed.of((workers,)) for workers in range(1, MOST_WORKERS + 1))
        for training in world.trainings
    )
    at = np.arange(WARM, WARM + LONGEST, STEP)
    serving = (
        np.clip(np.ceil(world.service.need(at)), 1, MOST_REPLICAS * world.times)
        if world.replicas
        else np.zeros_like(at)
    )
    pool = -(-world.notebooks * HALF // WHOLE)
    done = np.cumsum((NODES * NODE_GPUS * world.times - pool - serving) * STEP)
    return float(STEP * (np.searchsorted(done, gpu_seconds) + 1))
