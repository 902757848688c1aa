"""What of the cluster the decider of one cell sees: its nodes, its parts of the quotas, and its workloads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from django.db.models import Q

from controlplane.domain.cycle import Frame
from controlplane.models import Node as NodeRow
from controlplane.models import Placement, PlacementState, QuotaPart, bulk
from scheduler.cells.divide import Part
from scheduler.model.cell import CellView
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Use


def narrowed(frame: Frame, view: CellView | None) -> tuple[Frame, frozenset[str]]:
    """Of nodes, quotas and recent usage what is the view's, and its nodes that work of other cells holds.

    These take no new work until that has left. Without a view all is seen.
    """
    if view is None:
        return frame, frozenset()
    nodes = [node for node in frame.nodes if view.has(node.pool, node.rack)]
    held = held_by_others(view.cell, [node.name for node in nodes])
    return of_own(replace(frame, nodes=closed(nodes, held)), view.cell, _gpus(frame.nodes)), held


def of_own(frame: Frame, cell: str, whole: Mapping[str, int]) -> Frame:
    """This frame, whose nodes are those of the cell, with its parts of the quotas and of recent usage.

    whole: the GPUs of each pool, in whichever cell.
    """
    quotas = _quotas(frame.quotas, cell, {node.pool for node in frame.nodes})
    return replace(frame, quotas=quotas, use=_use(frame, whole))


def closed(nodes: Iterable[Node], held: frozenset[str]) -> tuple[Node, ...]:
    """These nodes; those that work of other cells holds take no new work."""
    return tuple(replace(node, schedulable=False) if node.name in held else node for node in nodes)


def own(view: CellView) -> Q:
    """Which rows of machines are the view's: as `CellView.has` says of one."""
    racks = [rack for cell in view.cells for rack in cell.racks]
    pools = [pool for cell in view.cells for pool in cell.pools]
    in_no_rack = ~Q(rack__among=racks)
    for cell in view.cells:
        if cell.name == view.cell:
            return Q(rack__among=cell.racks) | (in_no_rack & Q(pool__name__among=cell.pools))
    return in_no_rack & ~Q(pool__name__among=pools)


def gpus_of_pools() -> dict[str, int]:
    """The GPUs of each pool, in whichever cell."""
    found: dict[str, int] = defaultdict(int)
    for pool, gpus, count in bulk.count(NodeRow, ("pool__name", "gpu_count")):
        found[pool] += gpus * count
    return found


def held_by_others(cell: str, nodes: Iterable[str]) -> frozenset[str]:
    """Those of these nodes on which work of other cells still has a place."""
    live = Placement.objects.filter(is_settled=False, node__among=list(nodes))
    others = live.exclude(state=PlacementState.RELEASED).exclude(workload__cell=cell)
    return frozenset(others.values_list("node", flat=True).distinct())


def parts_of(cell: str) -> dict[tuple[str, str], Part]:
    """A cell's parts of the quotas, by team and pool. One query."""
    columns = ("quota__team__name", "quota__pool__name", "nominal", "borrowing_limit", "lending_limit")
    rows = QuotaPart.objects.filter(cell=cell).values_list(*columns)
    return {(team, pool): Part(*values) for team, pool, *values in rows}


def _quotas(quotas: Iterable[Quota], cell: str, pools: set[str]) -> tuple[Quota, ...]:
    """The quotas with this cell's parts. One not divided yet has nothing here: without a row it had no limit."""
    parts = parts_of(cell)
    return tuple(_part(quota, parts.get((quota.team, quota.pool), Part())) for quota in quotas if quota.pool in pools)


def _part(quota: Quota, part: Part) -> Quota:
    return replace(
        quota,
        nominal=part.nominal,
        borrowing=None if quota.borrowing is None else part.borrowing or 0,
        lending=None if quota.lending is None else part.lending or 0,
    )


def _use(frame: Frame, whole: Mapping[str, int]) -> tuple[Use, ...]:
    """Recent usage is known by pool: what is here of a pool has as much of it."""
    here = _gpus(frame.nodes)
    return tuple(
        replace(use, milli=use.milli * here[use.pool] // max(1, whole[use.pool])) for use in frame.use if here[use.pool]
    )


def _gpus(nodes: Iterable[Node]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for node in nodes:
        found[node.pool] += node.gpus
    return found
