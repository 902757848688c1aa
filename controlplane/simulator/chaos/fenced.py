"""Decisions committed under a lease's epoch, in memory: the counterpart of services/scheduling/decisions.py."""

from collections.abc import Sequence

from controlplane.invariants.state import Write
from controlplane.lifecycle.stale import Known, Made, stale
from controlplane.simulator.chaos.store import Store
from controlplane.simulator.replay.turn import carry_out


def commit(store: Store, decisions: Sequence[Made], epoch: int, loop: str = "schedule") -> tuple[int, ...]:
    """Apply the decisions that still hold; the positions of the stale ones. Nothing at all under an old epoch."""
    if epoch != store.epoch:
        return tuple(range(len(decisions)))
    known = Known(store.states, store.states, store.snapshot.inventory.index)
    found = stale(decisions, known)
    carry_out(store, [d for i, d in enumerate(decisions) if i not in found], f"loop:{loop}")
    store.writes.append(Write(loop, epoch, store.epoch))
    return tuple(sorted(found))
