"""The vocabulary of one GPU: whole devices and shares of them, in exact integers.

Units everywhere in Weft: compute in milli-GPU (1000 = one device), memory in MiB.
Integers, because 0.1 + 0.2 must equal 0.3 on a GPU.
"""

from dataclasses import dataclass
from enum import StrEnum

WHOLE = 1000  # milli-GPU of one device


class Enforcer(StrEnum):
    """What on a node holds a share to its part of a GPU; what each guarantees: `gpushare.backends.catalogue`.

    ADVISORY: nothing; its part is scheduled and accounted. BACK_END: software there that has no name here, and says
    that it holds a share to a limit that changes.
    """

    ADVISORY = "advisory"
    BACK_END = "back-end"
    MIG = "mig"
    MPS = "mps"
    HAMI = "hami"
    DRA = "dra"
    TIME_SLICING = "time-slicing"
    WEFT = "weft"
    ON_DEMAND = "on-demand"  # our own on a node for notebooks on demand, which takes no other shares

    @classmethod
    def of(cls, *, enforces: bool) -> "Enforcer":
        """By whether something there says that it does."""
        return cls.BACK_END if enforces else cls.ADVISORY


@dataclass(frozen=True, slots=True)
class Labels:
    """What a share says of those beside it on its device; empty: nothing. They are its team's own.

    affinity: all shares with this label lie on one device. anti_affinity: no two with this label lie on one device.
    exclusion: all on its device have this label, and none is as good as a label: shares without one keep off.
    Source: KubeShare (HPDC'20); the rules are in `gpushare.neighbours`.
    """

    affinity: str = ""
    anti_affinity: str = ""
    exclusion: str = ""

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.exclusion)


NO_LABELS = Labels()


@dataclass(frozen=True, slots=True)
class Share:
    """A part of one GPU: what is guaranteed, what may be used when idle, and the memory slice.

    guarantee and limit are milli-GPU with 0 < guarantee <= limit <= 1000; memory is MiB.
    labels: beside what it lies. on_demand: MiB that it has on any GPU of its node, but only while a cell of it runs:
    it books as much of the node's memory instead, so `memory` is 0. 0: it is not on demand.
    """

    guarantee: int
    limit: int
    memory: int
    labels: Labels = NO_LABELS
    on_demand: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.guarantee <= self.limit <= WHOLE:
            raise ValueError(f"share: need 0 < guarantee <= limit <= {WHOLE}, got {self.guarantee}..{self.limit}")
        if self.memory < 0:
            raise ValueError(f"share: memory is {self.memory} MiB, must be >= 0")
        if self.on_demand < 0 or (self.on_demand and (self.memory or self.labels)):
            raise ValueError("share: on demand it has no memory on one device, and no labels of those beside it")

    @property
    def most_memory(self) -> int:
        """MiB that it may have on a GPU, for as long as it is there."""
        return self.memory or self.on_demand
