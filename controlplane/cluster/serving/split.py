"""Requests that are split by weight between the replicas of two revisions: each is drawn, and waits for its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.cluster.serving.traffic import Floats, Ints

Rows = NDArray[np.bool_]
_KEY = (
    0x77656674,
    0x73706C69,
)  # of the draws, the same for all services: a request's is that of its place in its block


@dataclass(frozen=True, slots=True)
class Split:
    """The replicas of this revision get so many percent of the requests, all others the rest."""

    revision: int
    percent: int

    def is_in_force(self, revisions: Ints) -> bool:
        """Whether both have a slot; else the others get all. revisions: of the slots."""
        is_new = revisions == self.revision
        return bool(is_new.any() and not is_new.all())

    def rows(self, lots: Floats) -> Rows:
        """Which requests are drawn for the revision. lots: 0..1, of each."""
        drawn: Rows = lots < self.percent / 100
        return drawn


def lots(number: int, count: int) -> Floats:
    """The draws of a block's first requests, 0..1."""
    generator = np.random.Generator(np.random.Philox(key=_KEY, counter=[0, 0, 1, number]))
    return generator.random(count)


def leading(done: Rows) -> int:
    """How many requests from the first on are done."""
    return len(done) if done.all() else int(np.argmin(done))


def count_in(tallies: dict[int, list[int]], revisions: Sequence[int], by: Ints, count: Ints, is_over: Rows) -> None:
    """Add requests that ended to those of the revision that served them. by: index of the replica, negative: none."""
    served = by >= 0
    if not served.any():
        return
    of, count, is_over = np.array(revisions)[by[served]], count[served], is_over[served]
    for revision in np.unique(of).tolist():
        mine = of == revision
        tally = tallies.setdefault(revision, [0, 0])
        tally[0] += int(count[mine].sum())
        tally[1] += int(count[mine & is_over].sum())
