"""A world of the core's tests, written into the database row by row."""

import uuid
from dataclasses import replace

from controlplane.jobspec.podsets import labels_text, roles_values
from controlplane.models import ClusterState, NodePool, Placement, PriorityClass, Quota, Team, TeamUse
from controlplane.models import Node as NodeRow
from controlplane.models import Workload as WorkloadRow
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.workload import Phase, Workload


def uid(name: str) -> str:
    """The uid that a core test's short id gets."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def renamed(snapshot: Snapshot) -> Snapshot:
    """The same world with uids, and with the next rank that the rows will have."""
    workloads = [
        replace(
            w,
            id=uid(w.id),
            after=tuple(map(uid, w.after)),
            preempted_by=tuple(map(uid, w.preempted_by)),
            next_rank=max(w.next_rank, *(a.rank + 1 for a in w.placement), 0),
        )
        for w in snapshot.workloads.values()
    ]
    teams = sorted(snapshot.teams, key=lambda t: t.name)
    quotas = sorted(snapshot.quotas, key=lambda q: (q.team, q.pool))
    nodes = sorted(snapshot.inventory.nodes, key=lambda n: n.name)
    use = sorted(snapshot.use, key=lambda u: (u.team, u.pool))
    kept = use, snapshot.budgets, snapshot.demand, snapshot.history
    return Snapshot.build(snapshot.at, nodes, teams, quotas, workloads, *kept)


def store(snapshot: Snapshot) -> None:
    """Write everything."""
    ClusterState.objects.create(now=snapshot.at)
    pools = {name: NodePool.objects.create(name=name) for name in sorted({n.pool for n in snapshot.inventory.nodes})}
    NodeRow.objects.bulk_create(_node(node, pools[node.pool]) for node in snapshot.inventory.nodes)
    teams: dict[str, Team] = {}
    for team in sorted(snapshot.teams, key=lambda t: t.parent or ""):
        teams[team.name] = Team.objects.create(
            name=team.name,
            parent=teams[team.parent] if team.parent else None,
            shares_with_others=team.shares_with_others,
        )
    for q in snapshot.quotas:
        limits = {"borrowing_limit": q.borrowing, "lending_limit": None if q.lending is None else q.lending}
        if q.lending is not None:
            limits["lending_limit"] = min(q.lending, q.nominal)
        Quota.objects.create(team=teams[q.team], pool=pools[q.pool], nominal=q.nominal, weight=q.weight, **limits)
    for u in snapshot.use:
        TeamUse.objects.create(team=teams[u.team], pool=u.pool, decayed=u.milli, at=snapshot.at, stated=u.milli)
    plain = PriorityClass.objects.create(name="plain", value=0, is_default=True)
    for w in snapshot.workloads.values():
        WorkloadRow.objects.create(**_columns(w), team=teams[w.team], priority_class=plain)
        Placement.objects.bulk_create(_places(w, {n.name: n.pool for n in snapshot.inventory.nodes}))


def _node(node: Node, pool: NodePool) -> NodeRow:
    return NodeRow(
        name=node.name,
        pool=pool,
        gpu_model=node.model,
        gpu_count=node.gpus,
        gpu_memory=node.gpu_memory,
        cpu_milli=node.cpu_milli,
        memory=node.memory,
        zone=node.zone,
        rack=node.rack,
        nvlink=node.nvlink,
        ready=node.ready,
        schedulable=node.schedulable,
        lost_gpus=list(node.lost),
        takes_shares=node.takes_shares,
        enforces_limits=node.enforces_limits,
        enforcer=node.enforcer,
    )


def _columns(w: Workload) -> dict[str, object]:
    share = w.ask.share
    return {
        "uid": w.id, "seq": w.seq, "name": w.name, "kind": w.kind.value, "spec": {}, "gpus": w.ask.gpus,
        "share_guarantee": share.guarantee if share else 0, "share_limit": share.limit if share else 0,
        "share_labels": labels_text(w.ask.labels),
        "gpu_memory": share.memory if share else w.ask.gpu_memory, "gpu_models": list(w.ask.models),
        "cpu_milli": w.ask.cpu_milli, "memory": w.ask.memory, "workers": w.gang.count, "workers_min": w.gang.min,
        "workers_max": w.gang.max, "roles": roles_values(w.roles),
        "topology_require": w.topology.require, "topology_prefer": w.topology.prefer,
        "priority": w.priority, "preemptible": w.preemptible, "expected_seconds": w.expected_seconds,
        "checkpoint_interval": w.checkpoint_interval, "grace_seconds": w.grace_seconds, "phase": w.phase.value,
        "reason": w.reason, "message": w.message, "reason_at": w.reason_at, "version": w.version,
        "attempt": w.attempt, "next_rank": w.next_rank, "submitted_at": w.submitted_at, "queued_at": w.queued_at,
        "not_before": w.not_before, "started_at": w.started_at, "attained": w.attained,
        "checkpointed_at": w.checkpointed_at, "preempted_at": list(w.preempted_at),
        "preempted_by": list(w.preempted_by), "reserved_after": list(w.after), "unmet": list(w.unmet),
        "failures": w.failures, "deadline": w.deadline, "scaled_at": w.scaled_at, "finishing": w.finishing,
        "moving": w.moving, "goes_to": list(w.goes_to), "off": list(w.off), "role_counts": list(w.role_counts),
        "batch_wanted": w.batch_wanted, "at_risk": w.at_risk,
    }  # fmt: skip


def _places(w: Workload, pools: dict[str, str]) -> list[Placement]:
    return [
        Placement(
            workload_id=w.id,
            attempt=w.attempt,
            rank=a.rank,
            node=a.node,
            pool=pools[a.node],
            gpus=list(a.gpus),
            milli=w.ask.milli,
            state="Leaving" if a.leaving else "Reserved" if a.reserved or w.phase == Phase.RESERVED else "Bound",
            pod_phase="" if a.reserved else "Running",
            bound_at=None if a.reserved else w.started_at or w.queued_at,
        )
        for a in w.placement
    ]
