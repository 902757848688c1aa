"""What is known of Kubernetes' autoscalers of services, each written by the loop that knows it and fenced by its lease.

The scale loop says what they are told, and in the simulated cluster what they want, by the rule that it plays; on
Kubernetes the adopt loop says what each one tells of itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from autoscaler.native import TOO_FAST, TOO_FEW, TOO_MANY, Advice, Load
from controlplane.models import ServiceScaler, bulk
from controlplane.services.scheduling.leases import HeldLease

_LOAD = ("at", "in_flight", "target")
_TOLD = ("seen_at", "current", "desired", "conditions", "other_owner")
_MESSAGES = {
    "": "the desired count is within the acceptable range",
    TOO_MANY: "the desired replica count is more than the maximum replica count",
    TOO_FEW: "the desired replica count is less than the minimum replica count",
    TOO_FAST: "the desired replica count is increasing faster than the maximum scale rate",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What one autoscaler says of itself. conditions: [type, status, reason, message] each, in its own words."""

    current: int | None
    desired: int | None
    conditions: Sequence[Sequence[str]]
    other_owner: str = ""  # what else writes the number of replicas; empty: nothing does


def keep_loads(loads: Mapping[str, Load], *, lease: HeldLease) -> None:
    """Write what these autoscalers are told, by workload id. Raises LeaseLost with nothing written."""
    rows = {
        UUID(uid): (load.at, None if load.in_flight is None else _milli(load.in_flight), _milli(load.target))
        for uid, load in loads.items()
    }
    _write(_LOAD, rows, lease)


def keep_advice(advice: Mapping[str, Advice], current: Mapping[str, int], *, at: float, lease: HeldLease) -> None:
    """Write what the rule that is played here wants of these services, which have so many replicas."""
    told = {
        uid: Told(current[uid], one.replicas, [["AbleToScale", "True", "ReadyForNewScale", ""], _limited(one)])
        for uid, one in advice.items()
    }
    keep(told, at=at, lease=lease)


def keep(told: Mapping[str, Told], *, at: float, lease: HeldLease) -> None:
    """Write what these autoscalers say of themselves, by workload id. Raises LeaseLost with nothing written."""
    rows = {
        UUID(uid): (at, one.current, one.desired, [list(c) for c in one.conditions], one.other_owner[:200])
        for uid, one in told.items()
    }
    _write(_TOLD, rows, lease)


def _milli(requests: float) -> int:
    return round(1000 * requests)


def _limited(advice: Advice) -> list[str]:
    is_so = "True" if advice.limited else "False"
    return ["ScalingLimited", is_so, advice.limited or "DesiredWithinRange", _MESSAGES[advice.limited]]


def _write(columns: tuple[str, ...], rows: Mapping[UUID, tuple[Any, ...]], lease: HeldLease) -> None:
    """Only these columns: the others are another loop's."""
    if not rows:
        return
    with transaction.atomic():
        lease.check()
        bulk.insert(ServiceScaler, ("workload", "conditions", "other_owner"), [(u, [], "") for u in rows], ignore=True)
        bulk.update(ServiceScaler, columns, ("workload",), [(*values, uid) for uid, values in rows.items()])
