"""What the limit of services' replicas on shared GPUs may be: by their job files, and by what lies on the devices."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from autoscaler.limits import Limits
from controlplane.models import Node, Placement, PlacementState, bulk
from controlplane.models.lookups import Where
from gpushare.backends.catalogue import enforcer_of, follows, rank
from gpushare.gpu import WHOLE, Enforcer

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
    machines = bulk.select(Node, ("name", "pool__enforcer", "enforcer", "enforces_limits"), {"name__among": nodes})
    enforcing = {name for name, pool, says, on in machines if follows(enforcer_of(pool, says, enforces=on))}
    guaranteed = _guaranteed(nodes)
    found = {}
    for uid, (least, most) in bounds.items():
        held = seats[uid]
        room = min((WHOLE - guaranteed[node, gpu] + milli for node, gpus, milli in held for gpu in gpus), default=least)
        advisory = min((node for node, _, _ in held if node not in enforcing), default="")
        found[str(uid)] = Limits(least, most, room, advisory)
    return found


def enforced_by(uid: UUID) -> Enforcer | None:
    """What holds the shares of a service on its nodes; where these differ, what guarantees least. Two queries.

    None: it has no replica.
    """
    mine: Where = {"workload_id": uid, "state__in": _STAYING}
    nodes = sorted({node for (node,) in bulk.select(Placement, ("node",), mine)})
    columns = ("pool__enforcer", "enforcer", "enforces_limits")
    found = bulk.select(Node, columns, {"name__among": nodes}) if nodes else ()
    return min((enforcer_of(pool, says, enforces=on) for pool, says, on in found), key=rank, default=None)


def _guaranteed(nodes: list[str]) -> dict[tuple[str, int], int]:
    """Milli-GPU that is guaranteed to the workers on each device of these nodes."""
    found: dict[tuple[str, int], int] = {}
    on_them: Where = {"node__among": nodes, "state__not": PlacementState.RELEASED, "lender": ""}
    for gpus, node, milli in bulk.select(Placement, ("gpus", "node", "milli"), on_them):
        for gpu in gpus:
            found[node, gpu] = found.get((node, gpu), 0) + milli // len(gpus)
    return found
