"""A training model of our own making, for experiments on a machine without the shared data. Nothing of it was measured.

A step computes for .05 s and 2 ms for each example of a GPU, and exchanges gradients: within a node for 10 ms and 2 ms
for each GPU beyond two, between nodes for 60 ms and 8 ms. Of an exchange .7 is not hidden behind computation.
"""

import itertools

import numpy as np

from controlplane.benchmarks.training.cluster16 import NODE_GPUS, NODES
from controlplane.benchmarks.training.tables import Application, Convergence, Placement, Submitted
from controlplane.benchmarks.training.trainings import turned

MODEL = "sample"
RESTART_SECONDS = 45.0
LOCAL = (8, 16, 32, 64, 128)  # examples of a GPU
BATCHES = (32, 8192)  # of all GPUs: the least and the most
EPOCHS, STEPS = 20, 1200.0
NOISE = 12.0  # of gradients: with so many times the least batch, examples count for half
SHOWN = 0.7


def step(placement: Placement, local: int) -> tuple[float, float]:
    """Seconds of a step and of its exchange of gradients."""
    gpus = sum(placement)
    more = max(0, gpus - 2)
    exchange = 0.0 if gpus == 1 else 0.060 + 0.008 * more if len(placement) > 1 else 0.010 + 0.002 * more
    return 0.05 + 0.002 * local + SHOWN * exchange, SHOWN * exchange


def application() -> Application:
    """Of one and two nodes all placements have a row; larger ones are interpolated between whole sizes."""
    small = {
        turned(shape)
        for nodes in (1, 2)
        for shape in itertools.product(range(1, NODE_GPUS + 1), repeat=nodes)
    }  # fmt: skip
    batches = np.array(LOCAL, float)
    measured = {shape: (batches, np.array([step(shape, local) for local in LOCAL])) for shape in sorted(small)}
    large = [
        (nodes, gpus, local)
        for nodes in range(1, NODES + 1)
        for gpus in (nodes, NODE_GPUS * nodes)
        for local in LOCAL
    ]  # fmt: skip
    times = [step((1,) * (nodes - 1) + (gpus - nodes + 1,), local) for nodes, gpus, local in large]
    ones = np.ones((len(BATCHES), EPOCHS))
    return Application(
        MODEL, Convergence(BATCHES, np.arange(1.0, EPOCHS + 1) * STEPS, ones, ones * NOISE, EPOCHS), RESTART_SECONDS,
        measured, np.array(large, float), np.array(times), np.array(large, float), LOCAL[-1],
    )  # fmt: skip


def submitted(name: str, at: float, gpus: int, batch: int) -> Submitted:
    """One of these trainings."""
    return Submitted(name, MODEL, at, gpus, batch)
