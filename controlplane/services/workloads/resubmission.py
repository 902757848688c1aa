"""Steps that ended with `DependencyFailed` are submitted again with the workload that they start after.

Ended is ended: such a step comes back as a new workload of the same name, and so do those after it. It gives way to
one that a person submits under its name before it was placed, so that scripts may submit a pipeline step by step. What
a Kubernetes object has made stays ended: the object says so, and one object is one workload.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db.models import Max

from controlplane.lifecycle import requests
from controlplane.models import Event, Workload, bulk
from controlplane.services.scheduling import clock
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch
from scheduler.model.dependency import DEPENDENCY_FAILED
from scheduler.model.workload import Phase

REPLACED = "Replaced"
MAX = 200  # steps that come back with one submission


def steps(submitted: Sequence[Workload]) -> list[Workload]:
    """The steps to be submitted again with these: each the newest of its name in its team, oldest first."""
    found = _ended_with(submitted)
    if not found:
        return []
    ended = list(
        Workload.objects.filter(pk__among=found, managed_by="").select_related("team", "created_by").order_by("seq")
    )
    alike = Workload.objects.filter(team__among={w.team_id for w in ended}, name__among={w.name for w in ended})
    last = {(team, name): seq for team, name, seq in alike.order_by().values_list("team", "name").annotate(Max("seq"))}
    return [w for w in ended if last[w.team_id, w.name] == w.seq][:MAX]


def _ended_with(submitted: Sequence[Workload]) -> list[UUID]:
    """What ended as an earlier workload of the same name had not done what it waited for."""
    found: list[UUID] = []
    for part in bulk.chunks(submitted):
        alike = {"team_id__among": {w.team_id for w in part}, "name__among": {w.name for w in part}}
        new = {w.pk for w in part}
        earlier = [uid for (uid,) in bulk.select(Workload, ("uid",), alike) if uid not in new]
        # By the dependencies, of which most have none: what was ever stopped is far more.
        after = [link.workload for link in dependencies.links(earlier)]
        ended = {"phase": Phase.STOPPED, "reason": DEPENDENCY_FAILED, "uid__among": after}
        found += [uid for (uid,) in bulk.select(Workload, ("uid",), ended)] if after else []
    return found


def give_way(live: Iterable[UUID], actor: str) -> set[UUID]:
    """End those of these that were submitted again and have not been placed yet; which they are."""
    uids = list(live)
    told = Event.objects.filter(workload__among=uids, kind="Submitted").values_list("workload", "data")
    waiting = [uid for uid, data in told if uid is not None and data.get("again")]
    if not waiting:
        return set()
    batch = Batch(clock.now(), actor)
    batch.lock(waiting, ahead=lambda: dependencies.dependents(waiting))
    over = [row for uid in waiting if _may_go(row := batch.rows[str(uid)])]
    for row in over:
        requests.stop(batch, row, reason=REPLACED, message=f"{actor} has submitted it anew.")
    batch.write()
    return {row.uid for row in over}


def _may_go(row: Row) -> bool:
    return row.attempt == 0 and dependencies.is_waiting(row.phase)
