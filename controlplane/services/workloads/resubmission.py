"""Steps that ended with `DependencyFailed` are submitted again with the workload that they start after.

Ended is ended: such a step comes back as a new workload of the same name, and so do those after it. It gives way to
one that a person submits under its name before it was placed, so that scripts may submit a pipeline step by step. What
a Kubernetes object has made stays ended: the object says so, and one object is one workload.

Plain SQL (models/bulk.py): looked up with every batch of ends and submissions.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from controlplane.lifecycle import requests
from controlplane.models import Dependency, Event, Workload, bulk
from controlplane.services.scheduling import clock
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch
from scheduler.model.dependency import DEPENDENCY_FAILED
from scheduler.model.workload import Phase

REPLACED = "Replaced"
MAX = 200  # steps that come back with one submission
# By the dependencies, of which most submissions have none. CROSS JOIN is an order to SQLite: by itself it goes through
# all that was ever stopped, while it holds the lock of writers.
_ENDED_SO = f"""CROSS JOIN "controlplane_workload" "step" WHERE "step"."uid" = "workload_id"
    AND "step"."phase" = '{Phase.STOPPED.value}' AND "step"."reason" = '{DEPENDENCY_FAILED}' AND "needs_id" IN
    (SELECT "uid" FROM "controlplane_workload" WHERE %s)"""  # noqa: S608 - constants


def steps(submitted: Sequence[Workload]) -> list[Workload]:
    """The steps to be submitted again with these: each the newest of its name in its team, oldest first."""
    found: list[UUID] = []
    for part in bulk.chunks(submitted):
        of_team, teams = bulk.among(Workload, "team_id", {w.team_id for w in part})
        named, names = bulk.among(Workload, "name", {w.name for w in part})
        where = _ENDED_SO % f"{of_team} AND {named}"
        found += [uid for (uid,) in bulk.select(Dependency, ("workload_id",), where, (*teams, *names))]
    if not found:
        return []
    ended = list(
        Workload.objects.filter(pk__among=found, managed_by="").select_related("team", "created_by").order_by("seq")
    )
    of_team, teams = bulk.among(Workload, "team_id", {w.team_id for w in ended})
    named, names = bulk.among(Workload, "name", {w.name for w in ended})
    where = f'WHERE {of_team} AND {named} GROUP BY "team_id", "name"'
    newest = bulk.select(Workload, ("team_id", "name"), where, (*teams, *names), extra=('MAX("seq")',))
    last = {(team, name): seq for team, name, seq in newest}
    return [w for w in ended if last[w.team_id, w.name] == w.seq][:MAX]


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
