"""What a training's worker in the time of shares is charged for: what was measured of it, and nothing twice. Pure.

Of one GPU the charges are at most the GPU: a share pays for its guarantee whether it uses it or not, so what is
harvested of that time is counted as computed and not charged again. Source: our own; docs/harvest.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gpushare.gpu import WHOLE


@dataclass(frozen=True, slots=True)
class Tenant:
    """One worker on a GPU. own: the part of the GPU's time in which its own kernels ran, 0..1; None: not measured."""

    guarantee: int  # milli-GPU; 0: it harvests
    own: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """milli-GPU: what it is charged for, and what it computed."""

    charged: int
    computed: int


NOTHING = Part(0, 0)


def parts(there: Sequence[Tenant]) -> list[Part]:
    """What each worker on one GPU that harvests there is charged for and has computed; the others have nothing of it.

    Where a share is not measured, it is taken to use its guarantee. On the GPU of one that has all of it nothing is
    harvested, nor is anything known of a worker that is not measured.
    """
    promised = sum(one.guarantee for one in there)
    is_whole = any(one.guarantee >= WHOLE for one in there)
    free, left = max(0, WHOLE - promised), max(0, WHOLE - sum(_used(one) for one in there if one.guarantee))
    found = []
    for one in there:
        part = NOTHING
        if not one.guarantee and one.own is not None and not is_whole:
            got = min(left, int(min(1.0, one.own) * WHOLE))
            part = Part(min(free, got), got)
            free, left = free - part.charged, left - got
        found.append(part)
    return found


def _used(share: Tenant) -> int:
    """milli-GPU, rounded up, so that what is left is never more than the GPU has."""
    return share.guarantee if share.own is None else min(WHOLE, ceil(share.own * WHOLE))
