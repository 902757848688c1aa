"""Free capacity in one state of the cluster, as columns."""

from dataclasses import dataclass

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.snapshot import COMPUTE, Ints, Inventory
from scheduler.state.passes import idle_of


@dataclass(frozen=True, slots=True)
class Free:
    """What is free in one state. gpu: [2, G], node: [2, N] (COMPUTE, MEMORY); idle: [N] whole devices."""

    gpu: Ints
    node: Ints
    idle: Ints


def free_of(inventory: Inventory, gpu: Ints, node: Ints) -> Free:
    """What is free, with the whole idle devices counted by node. gpu: [2, G], node: [2, N]."""
    return Free(gpu, node, idle_of(inventory, gpu))


def is_idle(gpu: Ints) -> Bools:
    """Which devices hold nothing and are not lost. gpu: free, [2, D]; shape [D]."""
    idle: Bools = np.equal(gpu[COMPUTE], WHOLE)
    return idle
