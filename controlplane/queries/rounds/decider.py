"""The decider's snapshot in another process: what its newest stored round saw, and what has changed since.

A stored round has its whole input, or the difference to the round before (domain/cycle.py). So a web process that keeps
the last one it was asked about reads the differences since, and of the rows only those that the round decided about or
that something has happened to: the same as from scratch, but for what leaves no event (when a checkpoint was seen).
Each cell has a decider with stored rounds of its own; which workloads are in it now is read of all.
"""

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from controlplane.domain.cycle import rebuild
from controlplane.domain.deciders import SCHEDULE
from controlplane.domain.phases import LIVE
from controlplane.models import Change, Cycle, Event, Workload, bulk
from controlplane.models.lookups import Where
from controlplane.queries.cells import views
from controlplane.queries.rounds import kept
from controlplane.queries.rounds.ofcells import OfCells
from controlplane.queries.rounds.world import frame_of
from controlplane.queries.scheduling import snapshot
from controlplane.queries.scheduling.moment import one_moment
from scheduler.model.cell import CellView
from scheduler.model.snapshot import Snapshot

MOST_EVENTS = 20_000  # since the newest stored round; after more the snapshot is read from scratch
MARGIN = timedelta(seconds=120)  # what happened while the round computed; a round takes less


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a stored round saw. digest: by which it is known again, should numbers begin anew."""

    number: int
    digest: str
    world: Snapshot


_lock = threading.Lock()
_seen = OfCells[_Seen]()  # the last ones of this process


def world(view: CellView | None = None) -> Snapshot:
    """Everything as of now; on a large cluster what the decider knows, brought up to date. For questions only.

    view: only what the decider of a cell sees. Without it, of a cluster that is cut into cells, always from scratch.
    """
    if not kept.is_large() or (view is None and views.known()):
        return snapshot.full(view=view)
    with _lock, one_moment():
        found = _brought_up_to_date(view)
        return snapshot.full(view=view) if found is None else found


def _brought_up_to_date(view: CellView | None) -> Snapshot | None:
    """What the decider's newest stored round saw, as of now; None: that cannot be told, or too much has happened."""
    cell = "" if view is None else view.cell
    newest = _stored(cell).order_by("-pk").values_list("pk", "digest", "at").first()
    if newest is None:
        return None
    number, digest, at = newest
    seen = _seen.get(view)
    if seen is None or (seen.number, seen.digest) != (number, digest):
        followed = _followed(cell, seen, number)
        if followed is None:
            return None
        seen = _seen.keep(view, _Seen(number, digest, followed))
    named = _named_since(at)
    if named is None:
        return None
    return _as_of_now(seen.world, named if view is None else _of_cell(view.cell, seen.world, named), view)


def _stored(cell: str) -> QuerySet[Cycle]:
    return Cycle.objects.filter(loop=SCHEDULE, cell=cell, input__isnull=False)


def _followed(cell: str, last: _Seen | None, number: int) -> Snapshot | None:
    """What this round saw: by the differences since the last one, else from the newest whole input, if one is kept."""
    stored = _stored(cell)
    base = stored.filter(is_base=True, pk__lte=number).order_by("-pk").values_list("pk", flat=True).first()
    if base is None:
        return None
    first, before = base, None
    if last is not None and base <= last.number < number and _is_there(cell, last) and not _has_gap(cell, last.number):
        first, before = last.number + 1, last.world
    inputs = stored.filter(pk__gte=first, pk__lte=number).order_by("pk").values_list("input", flat=True)
    return rebuild((bytes(packed) for packed in inputs if packed is not None), before)


def _is_there(cell: str, last: _Seen) -> bool:
    return _stored(cell).filter(pk=last.number, digest=last.digest).exists()


def _has_gap(cell: str, number: int) -> bool:
    """Whether the input of a round since is not kept any more."""
    return Cycle.objects.filter(loop=SCHEDULE, cell=cell, pk__gt=number, input__isnull=True).exists()


def _named_since(at: datetime) -> set[UUID] | None:
    """The workloads that something has happened to since a round was stored, in whichever cell; None: too many."""
    found = {uid for uid in Change.objects.values_list("workload", flat=True) if uid is not None}
    rows = Event.objects.order_by("-pk").values_list("at", "workload")[:MOST_EVENTS]
    count = 0
    for happened, uid in rows:
        if happened < at - MARGIN:
            return found
        count += 1
        found |= {uid} if uid is not None else set()
    return found if count < MOST_EVENTS else None


def _of_cell(cell: str, seen: Snapshot, named: set[UUID]) -> set[UUID]:
    """Those of the named that are or were in this cell, and those that came to it or left it: a move has no event."""
    there = {str(uid): (uid, version) for uid, version in bulk.select(Workload, ("uid", "version"), _in(cell))}
    left = {UUID(uid) for uid in seen.workloads.keys() - there.keys()}
    came = {uid for name, (uid, version) in there.items() if _version(seen, name) != version}
    return (named & {uid for uid, _ in there.values()}) | left | came


def _in(cell: str) -> Where:
    return {"phase__in": LIVE, "cell": cell}


def _version(seen: Snapshot, uid: str) -> int | None:
    return seen.workloads[uid].version if uid in seen.workloads else None


def _as_of_now(seen: Snapshot, named: set[UUID], view: CellView | None) -> Snapshot:
    """This world with these rows, and with nodes, teams and quotas, as they are now."""
    changed = snapshot.workloads_of(named, cell=None if view is None else view.cell)
    gone = {str(uid) for uid in named} - {w.id for w in changed}
    now = seen.replace(at=snapshot.observed_at(), changed=changed, gone=gone)
    frame, _ = frame_of(view, seen.history)
    if (frame.nodes, frame.teams, frame.quotas) == (now.inventory.nodes, now.teams, now.quotas):
        return replace(now, use=frame.use, budgets=frame.budgets)
    return frame.snapshot(now.at, now.workloads.values(), now.demand)
