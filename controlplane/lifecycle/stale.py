"""Which decisions of a round still hold: what has changed since its snapshot takes all with it that belongs together.

A decision that saw another version of its workload is stale, and with it go victims without their claimant and a
claimant without its victims; the next round decides again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.decision import Scale
from controlplane.lifecycle.changes import Named
from controlplane.lifecycle.state import State
from scheduler.model.decision import Decision, Evict, Offload, Place, Shrink, Wait
from scheduler.model.workload import ACTIVE, LEAVING, Phase, may_move

Made = Decision | Scale  # what a round of the scheduler or of the autoscaler can decide


class Waiting(Named, Protocol):
    """What has to be known of a workload to tell it why it waits."""

    @property
    def version(self) -> int:
        """Of its row."""

    @property
    def reason(self) -> str:
        """What it was told last."""


@dataclass(frozen=True)
class Known:
    """The world in which decisions are to be applied: workloads, those that only wait, and the nodes there are."""

    rows: Mapping[str, State]
    waiting: Mapping[str, Waiting]
    nodes: Collection[str]


def stale(decisions: Sequence[Made], known: Known) -> set[int]:
    """Positions of the decisions that must not be applied."""
    found = {i for i, d in enumerate(decisions) if not _holds(d, known)}
    leaving = {d.workload: i for i, d in enumerate(decisions) if isinstance(d, Evict | Shrink)}
    placed = {d.workload: i for i, d in enumerate(decisions) if isinstance(d, Place | Scale)}
    while True:
        more = {i for i, d in enumerate(decisions) if i not in found and _falls_with(d, found, leaving, placed)}
        if not more:
            return found
        found |= more


def _falls_with(decision: Made, found: set[int], leaving: dict[str, int], placed: dict[str, int]) -> bool:
    """Whether a decision makes no sense without one that is stale."""
    if isinstance(decision, Place):
        return any(leaving.get(uid) in found for uid in decision.after)
    return isinstance(decision, Evict | Shrink) and placed.get(decision.by) in found


def _holds(decision: Made, known: Known) -> bool:
    if isinstance(decision, Wait):
        one = known.waiting.get(decision.workload)
        return one is not None and one.version == decision.version and one.phase not in LEAVING
    row = known.rows.get(decision.workload)
    if row is None or row.seen != decision.version:
        return False
    match decision:
        case Place():
            return _may_place(row, decision, known.nodes)
        case Evict():
            return row.phase == Phase.RESERVED or may_move(row.phase, Phase.CHECKPOINTING)
        case Shrink():
            return row.phase in ACTIVE
        case Scale() | Offload():
            return row.phase in ACTIVE and row.is_service


def _may_place(row: State, decision: Place, nodes: Collection[str]) -> bool:
    if any(worker.node not in nodes for worker in decision.workers):
        return False
    if row.phase in ACTIVE:
        return not row.intent
    return may_move(row.phase, Phase.RESERVED)
