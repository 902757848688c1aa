"""What a question about one workload needs of the cluster: what the newest full round left, and few rows beside it."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from controlplane.domain.cycle import Frame
from controlplane.domain.phases import LIVE
from controlplane.models import Placement, PlacementState, Team, Workload, bulk
from controlplane.models.lookups import Where
from controlplane.queries.cells.narrowed import closed, gpus_of_pools, held_by_others, of_own
from controlplane.queries.rounds import kept
from controlplane.queries.rounds.kept import Kept
from controlplane.queries.rounds.ofcells import OfCells
from controlplane.queries.scheduling import policies, snapshot
from scheduler.explain.roundview import reopened
from scheduler.model import workload as words
from scheduler.model.cell import CellView
from scheduler.model.history import UNKNOWN, History
from scheduler.model.snapshot import Columns, Inventory, Snapshot
from scheduler.state.session import Session

MOST_OF_A_TEAM = 2000  # live workloads of a team that are read to see which of them may leave for another
_UNSETTLED = (PlacementState.RESERVED, PlacementState.LEAVING)
_last = OfCells[tuple[Any, Inventory]]()  # of the last questions: to make one takes a tenth of a second


def session_for(asked: words.Workload, known: Kept, view: CellView | None = None) -> Session | None:
    """A session on what the round left, for questions about this workload; None: the nodes are others since.

    view: of the cell in which it is: of that alone are nodes, quotas and other workloads.
    """
    found = kept.held(view)
    if found is None:
        return None
    names, held, columns = found
    frame, inventory = frame_of(view, UNKNOWN)
    if tuple(node.name for node in inventory.nodes) != names or not _fit(inventory, columns):
        return None
    uids = {*_unsettled(), *(UUID(uid) for uid in asked.after), *_of_team(asked.team, view)}
    cell = None if view is None else view.cell
    there = {w.id: w for w in snapshot.workloads_of(uids, cell=cell)} | {asked.id: asked}
    rest = frame.use, frame.budgets
    world = Snapshot(known.at, inventory, frame.teams, frame.quotas, there, columns, *rest)
    return reopened(world, held, policies.scheduling())


def frame_of(view: CellView | None, history: History) -> tuple[Frame, Inventory]:
    """Machines, teams and quotas as they are now, of a cell what its decider sees; and the machines with their columns.

    These are those of the last question where no row of theirs has changed.
    """
    rows = snapshot.node_rows(view)
    held = frozenset[str]() if view is None else held_by_others(view.cell, [row[0] for row in rows])
    last = _last.get(view)
    if last is None or last[0] != (rows, held):
        last = _last.keep(view, ((rows, held), Inventory(closed(map(snapshot.node, rows), held))))
    inventory = last[1]
    frame = snapshot.framed(inventory.nodes, history)
    return frame if view is None else of_own(frame, view.cell, gpus_of_pools()), inventory


def _fit(inventory: Inventory, columns: Columns) -> bool:
    """Whether the columns are of machines with as many devices as these have."""
    return int(columns.gpu.shape[-1]) == int(inventory.offset[-1])


def _unsettled() -> Collection[UUID]:
    """Those with workers that leave, or with places that others still have to leave."""
    found = bulk.select(Placement, ("workload_id",), {"state__in": _UNSETTLED, "is_settled": False})
    return {uid for (uid,) in found}


def _of_team(team: str, view: CellView | None) -> Collection[UUID]:
    """The live workloads of a team; of a very large team none."""
    keys = [pk for (pk,) in bulk.select(Team, ("id",), {"name": team})]
    theirs: Where = {"team__among": keys, "phase__in": LIVE, **({} if view is None else {"cell": view.cell})}
    found = bulk.select(Workload, ("uid",), theirs, order=("-seq",), limit=MOST_OF_A_TEAM + 1)
    return () if len(found) > MOST_OF_A_TEAM else {uid for (uid,) in found}
