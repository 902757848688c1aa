"""What a full round leaves for those who ask about it: the order of the queue, what each was told, what is held.

So that a question needs no round of its own. Nothing here decides, and a round is the same whether it is noted or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.fit.capacity import Refusal
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Columns, Ints, Snapshot
from scheduler.model.workload import Workload
from scheduler.quota.tree import Held, Usage
from scheduler.shortcuts.columns import NOT_TOLD
from scheduler.shortcuts.columns import Columns as QueueColumns
from scheduler.state.memo import Memo
from scheduler.state.pending import SEQ
from scheduler.state.session import Session

Told = Sequence[tuple[Workload, Refusal]]  # those that had a turn and were refused, in order


@dataclass(frozen=True, slots=True)
class Lineup:
    """What waits on after a round, in the order of its turns. seqs, told: [N]; told: which of `refusals` each was."""

    seqs: Ints
    told: Ints
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class RoundView:
    """A full round from outside. at: the cluster's clock, seconds. nodes: names, in the order of the columns.

    columns and held are as the round's decisions leave them.
    """

    at: float
    lineup: Lineup
    nodes: tuple[str, ...]
    columns: Columns
    held: Held


@dataclass
class Note:
    """Where a caller that wants the view of a round has it put; a partial cycle leaves none."""

    view: RoundView | None = None

    def take(self, session: Session, refused: Told, queue: QueueColumns | None) -> None:
        """Note a round that has ended. queue: that of one in which not every claimant had a turn."""
        if session.snapshot.scope is not None:
            return
        plan = session.plan
        gone = plan.moved
        lineup = _of_turns(refused, gone) if queue is None else _of_columns(refused, queue, gone)
        names = tuple(node.name for node in plan.inventory.nodes)
        self.view = RoundView(session.snapshot.at, lineup, names, plan.columns, plan.usage.own())


def _of_turns(refused: Told, gone: set[str]) -> Lineup:
    on = [(workload.seq, refusal) for workload, refusal in refused if workload.id not in gone]
    numbers: dict[Refusal, int] = {}
    told = [numbers.setdefault(refusal, len(numbers)) for _, refusal in on]
    return Lineup(np.array([seq for seq, _ in on], dtype=np.int64), np.array(told, dtype=np.int64), tuple(numbers))


def _of_columns(refused: Told, queue: QueueColumns, gone: set[str]) -> Lineup:
    """The same where most were told so many at once: those had no turn, but were passed in their order."""
    pending, refusals = queue.pending, [*queue.refusals]
    told = queue.told.copy()
    slots = np.concatenate(queue.passed) if queue.passed else np.zeros(0, dtype=np.int64)
    for workload, refusal in refused:
        told[pending.slot[workload.id]] = len(refusals)
        refusals.append(refusal)
    for uid in gone:
        if (slot := pending.slot.get(uid)) is not None:
            told[slot] = NOT_TOLD
    slots = slots[told[slots] != NOT_TOLD]
    return _numbered(pending.ints[slots, SEQ], told[slots], refusals)


def _numbered(seqs: Ints, told: Ints, refusals: Sequence[Refusal]) -> Lineup:
    """With the refusals that someone was told, equal ones once."""
    numbers: dict[Refusal, int] = {}
    for at in np.unique(told).tolist():
        numbers.setdefault(refusals[at], len(numbers))
    new = np.array([numbers.get(refusal, NOT_TOLD) for refusal in refusals], dtype=np.int64)
    return Lineup(seqs, new[told] if told.size else told, tuple(numbers))


def reopened(snapshot: Snapshot, held: Held, settings: Settings) -> Session:
    """A session on what a round left, to ask about single workloads; no round of it would mean anything.

    snapshot: with the round's columns, and of the workloads only those that the question is about and all that leave or
    wait for what leaves. held: by all.
    """
    memo = Memo()
    ledger = memo.ledgers.of(snapshot)
    ledger.usage = Usage(ledger.tree, ledger.usage.pool_of)
    ledger.usage.hold(held)
    return Session(snapshot, settings, memo)
