"""How long a service that has no replica takes until one serves: learned from each time that it woke.

From the decision, which the first request that waited brought about, to the first replica seen running: its place, its
image and its model are all in it.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from uuid import UUID

from controlplane.models import Event
from scheduler.model.workload import Phase

NEWEST = 5  # times that it woke which are looked at: what changes, as a larger image does, is soon learned
LOOKED_AT = 200  # events of these services, the newest


def learned(uids: Sequence[UUID]) -> dict[str, float]:
    """Seconds that each of these services took the last times, the median; one that never woke is left out."""
    return {uid: median(seconds[-NEWEST:]) for uid, seconds in wakes(uids).items()}


def wakes(uids: Sequence[UUID]) -> Mapping[str, list[float]]:
    """Seconds of each of the last times that these services woke, oldest first. One query, or none."""
    if not uids:
        return {}
    told = Event.objects.filter(workload__among=list(uids), kind__in=("Scaled", Phase.RUNNING.value)).order_by("-id")
    newest = list(told.values_list("workload", "kind", "cluster_at", "phase", "data")[: LOOKED_AT * len(uids)])
    asked: dict[UUID, float] = {}
    found: dict[str, list[float]] = {}
    for uid, kind, at, phase, data in reversed(newest):
        if uid is None:
            continue
        if kind == "Scaled" and data.get("after") == 0:
            asked.pop(uid, None)
        elif kind == "Scaled" and data.get("before") == 0:
            asked.setdefault(uid, at)
        elif phase == Phase.RUNNING and kind == Phase.RUNNING and uid in asked:
            found.setdefault(str(uid), []).append(max(0.0, at - asked.pop(uid)))
    return found
