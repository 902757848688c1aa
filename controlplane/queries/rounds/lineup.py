"""The queue as the newest full round left it, with what has changed since: what came, and what waits no more.

One that came since has its place by the comparison within its team (scheduler/cycle/precedence.py): before the first of
its team that goes behind it, else behind the last of them. Whose team goes first is for the next full round.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from controlplane.models import Workload, bulk
from controlplane.models.lookups import Where
from controlplane.queries.rounds.kept import Kept
from controlplane.queries.scheduling import policies, snapshot
from scheduler.cycle.precedence import AT_RISK, CLASS, OrderKeys, precedence
from scheduler.explain.places import has_place
from scheduler.fit.capacity import Refusal
from scheduler.model.cell import CellView
from scheduler.model.decision import REASONS, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Ints
from scheduler.model.workload import Kind, Phase
from scheduler.state.ledger import is_in_line


@dataclass(frozen=True, slots=True)
class Turn:
    """One workload that waits: its place in the queue, counted over all teams, and what it would be told.

    position None: it waits for something else than a place (scheduler/explain/places.py).
    is_known: a full round has looked at it; else `refusal` is what a partial one told it, or that none has.
    """

    position: int | None
    uid: str
    team: str
    refusal: Refusal | None  # None: it would start
    is_known: bool = True


class Row(NamedTuple):
    """What is read of each workload in the queue."""

    seq: int
    uid: UUID
    team: str


@dataclass(frozen=True, slots=True)
class Line:
    """All that waits: first what has a place in the queue, in order, then what has none.

    as_of: the cluster's clock; None: no round has ended. is_kept: as a full round left it, else worked out now. Of
    several cells places are counted in each, and as_of is the oldest of theirs.
    """

    turns: tuple[Turn, ...]
    as_of: float | None
    is_kept: bool = False


_ROW = ("seq", "uid", "team__name")
_TOLD = ("seq", "reason", "message", "reason_at", "unmet", "not_before")
_KEYS = ("seq", "kind", "at_risk", "priority", "attained", "failures", "queued_at", "deadline")
_STEP = 3  # between the places of two that are known: room for those that came since before and behind each


def line(kept: Kept | None, view: CellView | None = None) -> Line:
    """All that waits, as this round left it; before the first round by submission, without places.

    view: only what is in this cell by now.
    """
    there: Where = {} if view is None else {"cell": view.cell}
    if kept is not None:
        return Line(_turns(kept, there), kept.at, is_kept=True)
    rows = bulk.select(Workload, _ROW, {"phase": Phase.QUEUED.value, **there}, order=("seq",))
    told = not_looked_at(None)
    return Line(tuple(Turn(None, str(uid), team, told, is_known=False) for _, uid, team in rows), None, is_kept=True)


def together(lines: Sequence[Line]) -> Line:
    """The lines of several cells as one: first what has a place in one of them, cell by cell."""
    turns = (turn for one in lines for turn in one.turns)
    as_of = min((one.as_of for one in lines if one.as_of is not None), default=None)
    return Line(
        tuple(sorted(turns, key=lambda turn: turn.position is None)), as_of, is_kept=any(one.is_kept for one in lines)
    )


def _turns(kept: Kept, there: Where) -> tuple[Turn, ...]:
    queued: Where = {"phase": Phase.QUEUED.value, **there}
    rows = {row.seq: row for row in map(Row._make, bulk.select(Workload, _ROW, queued))}
    order = kept.lineup.seqs.tolist()
    rows |= _services(set(order) - rows.keys(), there)
    told = {seq: kept.lineup.refusals[at] for seq, at in zip(order, kept.lineup.told.tolist(), strict=True)}
    known = [rows[seq] for seq in order if seq in rows]
    new = [row for seq, row in rows.items() if seq not in told]
    told |= _told_since(kept, queued)
    found = [Turn(None, str(row.uid), row.team, told[row.seq]) for row in known]
    if new:
        found = _merged(known, found, new, _told_first(new, kept) | told, policies.scheduling())
    return tuple(_numbered(found))


def _numbered(line: Iterable[Turn]) -> list[Turn]:
    """With their places: those that have one first."""
    placed, others, last = list[Turn](), list[Turn](), 0
    for turn in line:
        if has_place(turn.refusal):
            last += 1
            placed.append(Turn(last, turn.uid, turn.team, turn.refusal, turn.is_known))
        else:
            others.append(turn)
    return [*placed, *others]


def _services(seqs: Collection[int], there: Where) -> dict[int, Row]:
    """Those of the round's queue that are not queued: services that still wait for a further replica."""
    if not seqs:
        return {}
    running = [
        row
        for part in bulk.chunks(sorted(seqs))
        for row in bulk.select(Workload, _ROW, {"seq__among": part, "kind": Kind.INFERENCE.value, **there})
    ]
    waits = {w.id for w in snapshot.workloads_of([uid for _, uid, _ in running]) if is_in_line(w)}
    return {row[0]: Row(*row) for row in running if str(row[1]) in waits}


def _told_since(kept: Kept, queued: Where) -> dict[int, Refusal]:
    """What partial cycles have told since, of those that are queued."""
    rows = bulk.select(Workload, ("seq", "reason", "message"), {**queued, "reason_at__gt": kept.at})
    return {seq: Refusal(Reason(reason), message) for seq, reason, message in rows if reason in REASONS}


def _told_first(new: Sequence[Row], kept: Kept) -> dict[int, Refusal]:
    """What a round before told these, which the full one did not come to, or that none has looked at them."""
    found: dict[int, Refusal] = {}
    seconds = kept.next_in if new else 0.0
    for part in bulk.chunks([row.seq for row in new]):
        for seq, reason, message, at, unmet, later in bulk.select(Workload, _TOLD, {"seq__among": part}):
            if reason in REASONS and at is not None:
                found[seq] = Refusal(Reason(reason), message)
            else:
                found[seq] = not_looked_at(seconds, is_gated=bool(unmet) or later is not None)
    return found


def not_looked_at(next_in: float | None, *, is_gated: bool = False) -> Refusal:
    """What to say of one that no round has looked at. is_gated: it waits for other work, or for a time.

    next_in: seconds of the cluster's clock until the next full round; None: no round has ended.
    """
    if is_gated:
        return Refusal(Reason.ADMISSION_GATED, "Not looked at yet: it waits for other work, or for a time.")
    if next_in is None:
        return Refusal(Reason.PENDING_EVALUATION, "Not looked at yet: no round has ended so far.")
    seconds = round(next_in)
    due = f"the next round is due in {seconds} s" if seconds else "the next round is due now"
    return Refusal(Reason.PENDING_EVALUATION, f"Not looked at yet; {due}.", (("next_round_seconds", seconds),))


def _merged(
    known: Sequence[Row], line: Sequence[Turn], new: Sequence[Row], told: Mapping[int, Refusal], settings: Settings
) -> list[Turn]:
    """The line with those that came since, each at its place within its team."""
    teams = {row.team for row in new}
    ranks = _ranks([row.seq for row in (*known, *new) if row.team in teams], settings)
    places: dict[str, list[tuple[int, int]]] = {team: [] for team in teams}  # rank and number of those known
    for number, row in enumerate(known):
        if row.team in teams and row.seq in ranks:
            places[row.team].append((ranks[row.seq], number))
    of_teams = {team: _Places(some) for team, some in places.items()}
    keyed: list[tuple[tuple[int, int], Turn]] = [((number * _STEP, 0), turn) for number, turn in enumerate(line)]
    for row in new:
        turn = Turn(None, str(row.uid), row.team, told.get(row.seq), is_known=False)
        keyed.append((of_teams[row.team].of(ranks.get(row.seq, 0), len(line)), turn))
    return [turn for _, turn in sorted(keyed, key=lambda one: one[0])]


class _Places:
    """Where those of one team are that are known, by rank."""

    def __init__(self, known: Sequence[tuple[int, int]]) -> None:
        ordered = sorted(known)
        self._ranks = [rank for rank, _ in ordered]
        # The first place of those from each rank on: a changed priority may have put the ranks out of order.
        self._first = list(accumulate((number for _, number in reversed(ordered)), min))[::-1]
        self._last = max((number for _, number in known), default=None)

    def of(self, rank: int, end: int) -> tuple[int, int]:
        """What orders one that came since: before the first behind it, else after the last, else at the end."""
        behind = bisect_right(self._ranks, rank)
        if behind < len(self._first):
            return self._first[behind] * _STEP - 1, rank
        return (end * _STEP if self._last is None else self._last * _STEP + 1), rank


def _ranks(seqs: Sequence[int], settings: Settings) -> dict[int, int]:
    """The rank of each of these, if all were of one team: the lower first."""
    rows: list[Any] = [row for part in bulk.chunks(seqs) for row in bulk.select(Workload, _KEYS, {"seq__among": part})]
    if not rows:
        return {}
    order = np.lexsort(precedence(_keys(rows), snapshot.observed_at(), settings)[::-1])
    return {int(rows[at][0]): rank for rank, at in enumerate(order.tolist())}


def _keys(rows: Sequence[Any]) -> OrderKeys:
    seq, kind, at_risk, priority, attained, failures, queued_at, deadline = zip(*rows, strict=True)
    kinds = [AT_RISK if risky else CLASS[Kind(name)] for name, risky in zip(kind, at_risk, strict=True)]

    def ints(values: Iterable[int]) -> Ints:
        return np.array(list(values), dtype=np.int64)

    late = np.array([np.inf if at is None else at for at in deadline], dtype=np.float64)
    waits = np.array(queued_at, dtype=np.float64)
    return OrderKeys(ints(kinds), ints(priority), ints(attained), ints(failures), ints(seq), waits, late)
