"""Nodes on which workers are slow: noted once for each attempt of a training, and told when two trainings name one.

A worker may be slow for its part of the data, so one training says little of its node; two within a day say more, and
operators are told by the event `NodeNamedSlow`. Nothing is cordoned.
"""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from autoscaler.bottleneck.window import Bottleneck
from controlplane.models import Placement, PlacementState, SlowNode
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.training.diagnoses import ACTOR, Looked
from scheduler.model.mention import mention

DAY = 86_400.0


def note(*, at: float, seen: Sequence[Looked], lease: HeldLease) -> int:
    """Note the nodes of workers that are slow; how many are new. LeaseLost. Queries only where one is slow."""
    slow = [one for one in seen if one.diagnosis.slow_worker is not None]
    if not slow:
        return 0
    known = set(SlowNode.objects.filter(workload__among=[one.training.uid for one in slow]).values_list(*_KEY))
    count = 0
    with transaction.atomic():
        lease.check()
        for one in slow:
            node = _node(one)
            if node and (one.training.uid, one.training.attempt, node) not in known:
                _add(at, one, node)
                count += 1
    return count


_KEY = ("workload_id", "attempt", "node")


def _node(one: Looked) -> str:
    """That of the slow worker; empty if it is gone already."""
    training, rank = one.training, one.diagnosis.slow_worker
    assert rank is not None  # noqa: S101 - asked of one with a slow worker
    mine = Placement.objects.filter(workload=training.uid, attempt=training.attempt, rank=rank)
    found: str | None = mine.exclude(state=PlacementState.RELEASED).values_list("node", flat=True).first()
    return found or ""


def _add(at: float, one: Looked, node: str) -> None:
    training, known = one.training, one.diagnosis.evidence.get(Bottleneck.STRAGGLER)
    lately = SlowNode.objects.filter(node=node, at__gt=at - DAY).order_by("id")
    others: list[UUID] = list(dict.fromkeys(lately.values_list("workload_id", flat=True)))
    SlowNode.objects.create(
        workload_id=training.uid,
        attempt=training.attempt,
        node=node,
        rank=one.diagnosis.slow_worker or 0,
        at=at,
        part=0.0 if known is None else round(known.removable, 4),
    )
    if others and training.uid not in others:
        named = [str(uid) for uid in (*others, training.uid)]
        message = f"A worker there was slow in {len(named)} trainings within a day: {mention(*named)}."
        data = {"trainings": named}
        events.write([Entry(at, ACTOR, "NodeNamedSlow", name=node[:63], message=message, data=data)])
