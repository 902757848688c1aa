"""Services that Kubernetes' own autoscaler scales, as rows: which are to have a Deployment, and what each follows.

How many replicas such a service has, its Deployment says, whose number the autoscaler writes; no loop of Weft does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from controlplane.adopted.port import Service
from controlplane.jobspec.scaling import NATIVE
from controlplane.lifecycle import owned
from controlplane.models import ServiceScaler, Workload
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads.transitions import Batch
from scheduler.model.workload import ENDED, Kind, Phase

ACTOR = "loop:adopt"
TWO_OWNERS = "TwoOwnersOfReplicas"
AT_REST = (*ENDED, Phase.HELD, Phase.SUSPENDED, Phase.SUSPENDING, Phase.STOPPING)  # these have no Deployment


@dataclass(frozen=True, slots=True)
class Native:
    """One of these services. least, most: of its job file; target: milli-requests in flight for each; 0: not known."""

    service: Service
    workers: int
    bounds: tuple[int, int]  # of its row
    least: int
    most: int
    target: int
    other_owner: str


def wanted() -> dict[str, Native]:
    """Those that are to have a Deployment, by uid."""
    rows = Workload.objects.filter(kind=Kind.INFERENCE, spec__scaling=NATIVE).exclude(phase__in=AT_REST)
    columns = (
        "uid", "team__name", "name", "spec", "cpu_milli", "memory", "workers", "workers_min", "workers_max",
    )  # fmt: skip
    found = list(rows.order_by("seq").values_list(*columns))
    kept = ServiceScaler.objects.filter(workload__among=[row[0] for row in found])
    told = {uid: (target or 0, other) for uid, target, other in kept.values_list("workload", "target", "other_owner")}
    made = {}
    for uid, team, name, spec, cpu, memory, workers, *bounds in found:
        target, other = told.get(uid, (0, ""))
        gang = spec["normalised"]["workers"]
        service = Service(str(uid), team, name, spec, cpu, memory)
        least, most = bounds
        made[str(uid)] = Native(service, workers, (least, most), gang["min"], gang["max"], target, other)
    return made


def follow(replicas: Mapping[str, int], natives: Mapping[str, Native], *, at: float, lease: HeldLease) -> int:
    """Bring rows to what their Deployments have, by uid; tell how many had to change."""
    changed = {uid: count for uid, count in replicas.items() if _is_other(natives[uid], count)}
    if not changed:
        return 0
    with transaction.atomic():
        lease.check()
        batch = Batch(at, ACTOR)
        batch.lock([UUID(uid) for uid in changed])
        for uid, count in sorted(changed.items()):
            row = batch.rows.get(uid)
            if row is not None and row.phase not in AT_REST:
                owned.follow(batch, row, count, natives[uid].least, natives[uid].most)
        batch.write()
    return len(changed)


def _is_other(native: Native, count: int) -> bool:
    return (count, *owned.bounds(count, native.least, native.most)) != (native.workers, *native.bounds)


def tell_owners(others: Mapping[str, str], natives: Mapping[str, Native], *, at: float, lease: HeldLease) -> None:
    """Say in a service's history what else writes its number of replicas, once for each that does."""
    new = {uid: name for uid, name in others.items() if name and name != natives[uid].other_owner}
    if not new:
        return
    with transaction.atomic():
        lease.check()
        batch = Batch(at, ACTOR)
        batch.lock([UUID(uid) for uid in new])
        for uid, name in sorted(new.items()):
            if (row := batch.rows.get(uid)) is not None:
                batch.note(row, TWO_OWNERS, message=two_owners(name), data={"manager": name})
        batch.write()


def two_owners(name: str) -> str:
    """What is wrong where `name` writes the number of replicas too, and the fix."""
    return f"{name} writes spec.replicas beside the autoscaler. Leave replicas out of what it applies."
