"""Other cells: where each workload is then, and what each cell has of the quotas.

All in the transaction that puts them in force. Rounds that went by the cells before cannot commit after it
(leases.HeldLease.check), so nothing is placed meanwhile, and every decider begins from scratch.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from controlplane.domain.phases import LIVE
from controlplane.models import (
    CellLoad,
    Change,
    Node,
    NodePool,
    Placement,
    PlacementState,
    QuotaPart,
    RoundView,
    Workload,
    bulk,
)
from controlplane.services.cells import parts, standing
from controlplane.services.cells.routing import Router, elsewhere
from controlplane.services.cells.standing import Amount, Ground, Waiting
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes
from scheduler.cells.route import cell_named
from scheduler.model.cell import REST, Cell, cell_of, names
from scheduler.model.decision import REASONS
from scheduler.model.workload import Phase

_MOVED = ("uid", "cell", "version", "phase", "reason", "message")


def rearrange(cells: tuple[Cell, ...]) -> None:
    """Have these cells. Refused 422 for pools and racks that there are not."""
    _check(cells)
    parts.alone()
    Change.objects.all().delete()  # every decider reads everything
    QuotaPart.objects.all().delete()
    CellLoad.objects.all().delete()
    RoundView.objects.all().delete()  # by other cells: each decider soon leaves its own
    if cells:
        on = standing.ground(cells)
        move(_settled(placed_in(cells)))
        move(routed(on, standing.waiting(), standing.held()))
        _divide(on)
    else:
        move({uid: REST for (uid,) in bulk.select(Workload, ("uid",), {"cell__not": REST, "phase__in": LIVE})})
        Change.objects.all().delete()
    changes.touch_frames(names(cells))


def _check(cells: Sequence[Cell]) -> None:
    pools = set(NodePool.objects.values_list("name", flat=True))
    racks = set(Node.objects.exclude(rack="").values_list("rack", flat=True).distinct())
    for cell in cells:
        for part, named, known in (("pools", cell.pools, pools), ("racks", cell.racks, racks)):
            if unknown := [name for name in named if name not in known]:
                there = ", ".join(sorted(known)) or "none"
                message = f"There is no {part[:-1]} {unknown[0]}. The {part} are {there}."
                raise Refused(422, "BadPolicy", f"scheduling.cells.{cell.name}.{part}", message)


def placed_in(cells: Sequence[Cell]) -> dict[UUID, Counter[str]]:
    """In which cells the workers of each workload are that has any, and how many."""
    of_node = {
        name: cell_of(cells, pool, rack) for name, pool, rack in bulk.select(Node, ("name", "pool__name", "rack"))
    }
    found: dict[UUID, Counter[str]] = defaultdict(Counter)
    live = {"is_settled": False, "state__not": PlacementState.RELEASED}
    for uid, node in bulk.select(Placement, ("workload_id", "node"), live):
        if node in of_node:
            found[uid][of_node[node]] += 1
    return found


def _settled(placed: Mapping[UUID, Counter[str]]) -> dict[UUID, str]:
    """The cell of each workload with places: of most of its workers; one that has some in its own stays in it."""
    out: dict[UUID, str] = {}
    for uid, cell in bulk.select(Workload, ("uid", "cell"), {"phase__in": LIVE}):
        if (there := placed.get(uid)) and cell not in there:
            out[uid] = min(there, key=lambda name: (-there[name], name))
    return out


def astray(placed: Mapping[UUID, Counter[str]]) -> dict[UUID, str]:
    """Workloads all of whose workers are in another cell than they, with that one."""
    return {uid: next(iter(placed[uid])) for uid in _settled({u: c for u, c in placed.items() if len(c) == 1})}


def routed(on: Ground, waiting: Sequence[Waiting], taken: Mapping[Amount, int]) -> dict[UUID, str]:
    """The cells of those of these that go to another one. taken: what is held, by team, pool and cell."""
    counted = dict(taken)
    standing.add_asked(on, counted, waiting)
    router = Router(on, standing.stored(), counted)
    holding = _holding(one.uid for one in waiting)
    found: dict[UUID, str] = {}
    for one in waiting:
        if one.uid not in holding and (cell := elsewhere(router, one)) is not None:
            found[one.uid] = cell
    return _chosen_by_none(found, names(on.cells))


def _holding(uids: Iterable[UUID]) -> set[UUID]:
    found: set[UUID] = set()
    for part in bulk.chunks(uids):
        live = {"state__not": PlacementState.RELEASED, "workload_id__among": part}
        found |= {uid for (uid,) in bulk.select(Placement, ("workload_id",), live)}
    return found


def _chosen_by_none(found: Mapping[UUID, str], there: Sequence[str]) -> dict[UUID, str]:
    """Without those whose users chose a cell that there is: they stay in it."""
    out: dict[UUID, str] = {}
    for part in bulk.chunks(found):
        for uid, spec in bulk.select(Workload, ("uid", "spec"), {"uid__among": part}):
            chosen = cell_named(spec["cell"]) if spec.get("cell") else None
            out[uid] = found[uid] if chosen is None or chosen not in there else chosen
    return out


def move(cells: Mapping[UUID, str]) -> int:
    """Give workloads their cells; tell how many changed. Both deciders are told; decisions of before are stale.

    What a round told one that waits, it told by another cell: until one of the new cell's looks at it nothing is known.
    """
    moved = 0
    for part in bulk.chunks(cells):
        rows = bulk.select(Workload, _MOVED, {"uid__among": sorted(part)}, order=("uid",), locks=True)
        changed = [row for row in rows if row[1] != cells[row[0]]]
        values = [(cells[uid], version + 1, *_told(*told), uid) for uid, _, version, *told in changed]
        bulk.update(Workload, ("cell", "version", "reason", "message"), ("uid",), values)
        changes.touch_these((uid, of) for uid, cell, *_ in changed for of in (cell, cells[uid]))
        moved += len(changed)
    return moved


def _told(phase: str, reason: str, message: str) -> tuple[str, str]:
    return ("", "") if phase == Phase.QUEUED and reason in REASONS else (reason, message)


def _divide(on: Ground) -> None:
    """Divide the quotas from scratch: no decider goes by any part yet."""
    held, waiting = standing.held(), standing.waiting()
    goal = parts.wanted(on, held, waiting)
    parts.store(on, goal, {})
    standing.note(held, parts.asked_of(on, waiting))
