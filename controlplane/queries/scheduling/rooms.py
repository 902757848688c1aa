"""What the limit of services' replicas on shared GPUs may be: by their job files, and by what lies on the devices."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from autoscaler.limits import Limits
from controlplane.models import Node, Placement, PlacementState, bulk
from controlplane.models.lookups import Where
from gpushare.gpu import WHOLE

_STAYING = (PlacementState.RESERVED, PlacementState.BOUND)


def raised(told: Mapping[str, Any]) -> tuple[int, int] | None:
    """The least and the most of the limit of a service's replicas, milli-GPU, by its normalised job file.

    None: it is not raised.
    """
    share = told.get("gpu_share") or {}
    most = int(share.get("max_limit") or 0)
    return (share["limit"], most) if share and most > share["limit"] else None


def limits(bounds: Mapping[UUID, tuple[int, int]]) -> dict[str, Limits]:
    """What these services' limits may be now, by id; bounds: the least and the most by their job files. Three queries.

    Of a service without a replica the room is not known: its limit is the least. What leaves still has its guarantee.
    """
    if not bounds:
        return {}
    mine: Where = {"workload_id__among": list(bounds), "state__in": _STAYING}
    seats: dict[UUID, list[tuple[str, list[int], int]]] = {uid: [] for uid in bounds}
    for uid, node, gpus, milli in bulk.select(Placement, ("workload_id", "node", "gpus", "milli"), mine):
        seats[uid].append((node, gpus, milli))
    nodes = sorted({node for held in seats.values() for node, _, _ in held})
    enforcing = {name for (name,) in bulk.select(Node, ("name",), {"name__among": nodes, "enforces_limits": True})}
    guaranteed = _guaranteed(nodes)
    found = {}
    for uid, (least, most) in bounds.items():
        held = seats[uid]
        room = min((WHOLE - guaranteed[node, gpu] + milli for node, gpus, milli in held for gpu in gpus), default=least)
        advisory = min((node for node, _, _ in held if node not in enforcing), default="")
        found[str(uid)] = Limits(least, most, room, advisory)
    return found


def _guaranteed(nodes: list[str]) -> dict[tuple[str, int], int]:
    """Milli-GPU that is guaranteed to the workers on each device of these nodes."""
    found: dict[tuple[str, int], int] = {}
    on_them: Where = {"node__among": nodes, "state__not": PlacementState.RELEASED, "lender": ""}
    for gpus, node, milli in bulk.select(Placement, ("gpus", "node", "milli"), on_them):
        for gpu in gpus:
            found[node, gpu] = found.get((node, gpu), 0) + milli // len(gpus)
    return found
