"""A training model whose numbers can be reckoned by hand, for tests of the simulated cluster."""

import numpy as np

from controlplane.benchmarks.training.tables import Application, Convergence, Submitted


def application(epochs: int = 3, restart: float = 50.0) -> Application:
    """A step takes 1 s whatever its batch and placement; an epoch is 200 steps of the least batch."""
    batches = np.array([8.0, 64.0])
    times = np.array([[1.0, 0.0], [1.0, 0.0]])
    placements = [(1,), (2,), (3,), (4,), (1, 1), (1, 1, 1), (1, 1, 1, 1), (4, 4), (1, 2), (2, 2)]
    empty = np.zeros((0, 3))
    ones = np.ones((2, epochs))
    convergence = Convergence((8, 64), np.arange(1.0, epochs + 1) * 200, ones * 1e-6, ones * 1e3, epochs)
    measured = {placement: (batches, times) for placement in placements}
    return Application("cifar10", convergence, restart, measured, empty, np.zeros((0, 2)), empty, 64)


def submitted(name: str, *, at: float = 0.0, gpus: int = 1, batch: int = 64) -> Submitted:
    """A training as a user submits it."""
    return Submitted(name, "cifar10", at, gpus, batch)
