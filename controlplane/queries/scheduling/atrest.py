"""How live workloads stand at one moment, to compare with pods that were seen at another.

Rows and pods are never read at the same moment. But where a workload stands the same before the pods were asked for and
after, with no command on its way, its rows held in between as well.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from controlplane.cluster.port import PodSeen
from controlplane.models import Action, Placement, PlacementState, Workload, bulk
from scheduler.model.workload import ENDED

_PLACE = ("workload_id", "attempt", "rank", "state")


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Each live workload's version, phase and places, by id; and the ids of those with a command on its way."""

    rows: Mapping[str, Hashable]
    moving: frozenset[str]

    def still(self, pods: Iterable[PodSeen], now: "LiveRows") -> list[PodSeen]:
        """Those pods, seen between this moment and now, whose workloads stood still meanwhile.

        What stands in neither moment had ended before or was never there.
        """
        moving = self.moving | now.moving
        return [
            pod
            for pod in pods
            if pod.workload not in moving and self.rows.get(pod.workload) == now.rows.get(pod.workload)
        ]


def live_rows() -> LiveRows:
    """How all stand now, in three queries."""
    places: dict[str, list[tuple[int, int, str]]] = {}
    live = bulk.select(Placement, _PLACE, {"state__not": PlacementState.RELEASED}, order=("id",))
    for uid, attempt, rank, state in live:
        places.setdefault(str(uid), []).append((attempt, rank, state))
    rows = bulk.select(Workload, ("uid", "version", "phase"), {"phase__not_in": ENDED})
    moving = bulk.select(Action, ("workload",), {"done_at__isnull": True, "workload__isnull": False})
    return LiveRows(
        {str(uid): (version, phase, tuple(places.get(str(uid), ()))) for uid, version, phase in rows},
        frozenset(str(uid) for (uid,) in moving),
    )
