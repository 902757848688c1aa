"""Delete what is older than its retention, in small batches with a rest after each: the other loops feel little.

It asks no cluster and decides nothing.
"""

import time
from collections.abc import Callable
from functools import partial

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake
from controlplane.services.audit import auditpruning, retention
from controlplane.services.scheduling.leases import HeldLease

REST = 6.0  # times what a batch took: a seventh of the time; with a quarter, the p99 of rounds was 1.27 x as long
ROUND_SECONDS = 5.0  # then the round ends, so that a process that stops need not wait; the next one begins at once


def run_once(wiring: Wiring) -> Report:
    """One round of the prune loop: batches of each table, by turns, until nothing is too old or its time is over."""
    return rounds.run("prune", wiring, _prune)


def _prune(wiring: Wiring, lease: HeldLease) -> int:
    # The audit log last: if it was changed, the round fails, and the others were served before.
    turns: list[tuple[int, Callable[..., int]]] = [
        (retention.BATCH, partial(retention.prune, kept)) for kept in retention.KEPT.values()
    ]
    turns.append((auditpruning.BATCH, auditpruning.prune))
    deleted, until = 0, time.monotonic() + ROUND_SECONDS
    while turns:
        left = []
        for most, batch in turns:
            began = time.monotonic()
            count = batch(lease=lease, most=most)
            deleted += count
            if count >= most:
                left.append((most, batch))
            if wake.stopping.wait(REST * (time.monotonic() - began)):
                return deleted
        turns = left
        if turns and time.monotonic() >= until:
            wake.bells["prune"].set()
            break
    return deleted
