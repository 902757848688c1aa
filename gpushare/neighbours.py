"""Beside whose shares a share may lie: KubeShare's affinity, anti-affinity and exclusion, over a device's tenants.

Columns have shape [D]: how many tenants of each of D devices are of a kind. Each rule says which devices are open to
one more share, and a device is open if all of them say so. A label is equal only within its team; who counts sees to
it. Source: KubeShare (HPDC'20, algorithm 1). Two things differ from its code of version 1.0: the exclusion filter looks
at all devices of a node (theirs ends at the first one without a label), and an affinity is strict: once a share with
the label has a device, the others go there or wait, as in the paper; its code starts one more device.
"""

from typing import NamedTuple

import numpy as np

from gpushare.gpu import Labels
from gpushare.packing import Bools, Ints


class Beside(NamedTuple):
    """Of the tenants of each device, how many have this affinity, this anti-affinity, another exclusion. Shapes [D]."""

    affinity: Ints
    anti_affinity: Ints
    other_exclusion: Ints


def open_devices(labels: Labels, beside: Beside, fresh: Bools) -> Bools:
    """The devices on which one more share with these labels may lie. fresh: devices without any tenant. Shape [D]."""
    found = within_exclusion(beside.other_exclusion)
    if labels.affinity:
        found &= with_affinity(beside.affinity, fresh)
    if labels.anti_affinity:
        found &= without_anti_affinity(beside.anti_affinity)
    return found


def with_affinity(carrying: Ints, fresh: Bools) -> Bools:
    """Only devices that carry the label; a fresh one if none does."""
    carries: Bools = carrying > 0
    return carries if carries.any() else fresh.copy()


def without_anti_affinity(carrying: Ints) -> Bools:
    """Only devices that do not carry the label."""
    return np.equal(carrying, 0)


def within_exclusion(others: Ints) -> Bools:
    """Only devices without a tenant of another exclusion label; having none counts as a label."""
    return np.equal(others, 0)
