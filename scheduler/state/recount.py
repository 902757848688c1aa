"""A ledger that was handed on from round to round, compared with one that is counted anew from the same snapshot."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.state.ledger import _DICTS, TEAM, Ledger, Ledgers
from scheduler.state.pending import EQUIVALENCE, REASON, TEXT, PendingQueue
from scheduler.state.pending import TEAM as TEAM_OF_PENDING

NUMBERED = (TEAM_OF_PENDING, EQUIVALENCE, REASON, TEXT)  # columns of numbers that mean nothing beyond a table


class LedgerDiffersError(Exception):
    """What was handed on is not what is so; the message names what differs."""


def check(ledgers: Ledgers) -> None:
    """Compare the last ledger with a recount. Raises LedgerDiffersError: then nothing may be decided by it any more."""
    if ledgers.last is None:
        return
    ledger, snapshot = ledgers.last
    if found := sorted(differences(ledger, Ledger(snapshot).under(ledger.tree))):
        raise LedgerDiffersError(f"The ledger differs from a recount: {', '.join(found)}.")


def differences(one: Ledger, other: Ledger) -> Iterator[str]:
    """In what two ledgers differ, but for the numbers that they give rows, teams and texts."""
    for name in _DICTS:
        if name != "team_number" and getattr(one, name) != getattr(other, name):
            yield name
    for name in ("total", "_stored", "firm"):
        if getattr(one.usage, name) != getattr(other.usage, name):
            yield f"usage.{name}"
    if one.slot.keys() != other.slot.keys():
        yield "slot"
        return
    order = sorted(one.slot)
    first, second = (_by_name(ledger, order) for ledger in (one, other))
    yield from (name for name, values in first.items() if not np.array_equal(values, second[name]))
    if one.pending.slot.keys() != other.pending.slot.keys():
        yield "pending.slot"
        return
    waiting = sorted(one.pending.slot)
    of_first, of_second = (_of_pending(ledger.pending, waiting) for ledger in (one, other))
    yield from (name for name, values in of_first.items() if not np.array_equal(values, of_second[name]))
    yield from (f"numbers of {uid}" for uid in waiting if not _is_numbered(one.pending, uid))


def _by_name(ledger: Ledger, order: list[str]) -> dict[str, NDArray[Any]]:
    """Its columns by name of the workload in each row."""
    slots = [ledger.slot[uid] for uid in order]
    number = np.full(len(ledger.ints) + 1, -1, dtype=np.int64)
    number[slots] = np.arange(len(slots))
    team_of = {number: team for team, number in ledger.team_number.items()}
    ints = ledger.ints[slots]
    others = np.delete(ints, TEAM, axis=1)
    names = np.array([team_of.get(team) for team in ints[:, TEAM].tolist()], dtype=np.str_)
    found = {"ints": others, "teams": names, "times": ledger.times[slots], "flags": ledger.flags[slots]}
    for name, rows in (("devices", ledger.rows.devices), ("hosts", ledger.rows.hosts)):
        mine = np.column_stack([number[rows[:, 0]], rows[:, 1:]])
        found[name] = mine[np.lexsort(mine.T[::-1])]
    return found


def _of_pending(pending: PendingQueue, order: list[str]) -> dict[str, NDArray[Any]]:
    slots = [pending.slot[uid] for uid in order]
    ints = np.delete(pending.ints[slots], NUMBERED, axis=1)
    columns = {"ints": ints, "times": pending.times[slots], "is_gated": pending.is_gated[slots]}
    found = columns | {"waits": pending.waits[slots]}
    return {f"pending.{name}": values for name, values in found.items()}


def _is_numbered(pending: PendingQueue, uid: str) -> bool:
    """Whether the numbers of a row are those of what its workload says."""
    slot = pending.slot[uid]
    w = pending.workload(slot)
    values = ("team", w.team), pending.equivalence(slot), w.reason, (w.reason, w.message)
    return bool(np.array_equal([pending.known(value) for value in values], pending.ints[slot, NUMBERED]))
