"""Candidates: the changes of one kind that a workload could do with, the smallest first; and which rungs are likely.

Steps: workers, GPUs of a worker, topology levels and GPU models one by one; shares 1/100 GPU; cores halves; host memory
GiB; GPU memory 256 MiB; quota whole GPUs, 1/10 for a share.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import shares_that_fit
from scheduler.explain.change import ANY, Change, ChangeKind, PriorityOffer
from scheduler.explain.reasons import over_quota
from scheduler.fit.capacity import allowed_nodes, per_node
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Bools, Ints, Inventory, Snapshot
from scheduler.model.workload import ACTIVE, Kind, Level, Phase, ResourceRequest, Topology, Workload, least
from scheduler.preemption.cost import cost
from scheduler.state.free import Free, is_idle
from scheduler.state.passes import MANY
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from scheduler.state.tenants import has_share

SHARE_STEP = 10  # milli-GPU
CPU_STEP = 500  # 1/1000 core
MEMORY_STEP = 1024  # MiB
GPU_MEMORY_STEP = 256  # MiB
QUOTA_STEP = 100  # milli-GPU, for shares


def of_ask(inventory: Inventory, workload: Workload) -> dict[ChangeKind, list[Change]]:
    """The candidates of a smaller request, for work that has no place yet; kinds without a rung are left out."""
    ask, gang = workload.ask, workload.gang
    rungs = {ChangeKind.GPUS: range(ask.gpus - 1, 0, -1), ChangeKind.CPU: _down(ask.cpu_milli, CPU_STEP)}
    own = ask.memory - (ask.share.on_demand if ask.share else 0)
    rungs[ChangeKind.MEMORY] = _down(own, MEMORY_STEP)
    before = {ChangeKind.GPUS: ask.gpus, ChangeKind.CPU: ask.cpu_milli, ChangeKind.MEMORY: own}
    if workload.kind is not Kind.INFERENCE:
        rungs[ChangeKind.WORKERS], before[ChangeKind.WORKERS] = range(gang.min - 1, 0, -1), gang.min
    if ask.share:
        before[ChangeKind.SHARE] = ask.share.guarantee
        rungs[ChangeKind.SHARE] = _down(ask.share.guarantee, SHARE_STEP)
    memory = ask.share.most_memory if ask.share else ask.gpu_memory
    rungs[ChangeKind.GPU_MEMORY], before[ChangeKind.GPU_MEMORY] = _down(memory, GPU_MEMORY_STEP), memory
    found = {kind: [Change(kind, before[kind], to) for to in steps] for kind, steps in rungs.items()}
    found[ChangeKind.MODEL] = _models(inventory, workload)
    found[ChangeKind.TOPOLOGY] = _looser(workload.topology)
    return {kind: found[kind] for kind in ChangeKind if found.get(kind)}


def of_priority(workload: Workload, offers: Sequence[PriorityOffer]) -> list[Change]:
    """Higher priorities that may be had, the lowest first."""
    higher = sorted((o.value, o.name, o.preemptible) for o in offers if o.value > workload.priority)
    return [
        Change(ChangeKind.PRIORITY, workload.priority, value, target=name, preemptible=preemptible)
        for value, name, preemptible in higher
    ]


def of_quota(plan: Plan, workload: Workload, kind: ChangeKind, pools: Sequence[str]) -> list[Change]:
    """More nominal quota, or a higher borrowing limit, of the team or of one above it; at equal size its own first.

    Never more than the pool has. In whole GPUs unless the workload asks a share.
    """
    ask, tree = workload.ask, plan.usage.tree
    size_of: dict[str, int] = {}
    for node in plan.inventory.nodes:
        size_of[node.pool] = size_of.get(node.pool, 0) + node.gpus * WHOLE
    step = QUOTA_STEP if ask.share else WHOLE
    out: list[tuple[int, int, str, Change]] = []
    for depth, name in enumerate(tree.path(workload.team)[:-1]):
        for pool in pools if workload.uses_gpus else ():
            quota = tree.quota_nodes[name, pool].quota
            if quota is None and (depth or kind is ChangeKind.BORROWING):
                continue
            start = 0 if quota is None else quota.nominal if kind is ChangeKind.NOMINAL else quota.borrowing
            if start is not None:
                more = range(step, size_of.get(pool, 0) - start + 1, step)
                out += [(by, depth, pool, Change(kind, start, start + by, name, pool)) for by in more]
    return [change for _, _, _, change in sorted(out, key=lambda row: row[:3])]


def of_stops(snapshot: Snapshot, workload: Workload, settings: Settings) -> list[Change]:
    """The stops of those that run or have a place, what loses least first (milli-GPU seconds)."""
    holders = (w for w in snapshot.workloads.values() if w.placement and w.id != workload.id)
    found = [w for w in holders if w.phase in ACTIVE or w.phase is Phase.RESERVED]
    ranked = sorted((round(cost(w, snapshot.at, settings)), w.priority, -w.seq, w.id) for w in found)
    return [Change(ChangeKind.STOP, 0, loss, target=uid) for loss, _, _, uid in ranked]


def lacks(plan: Plan, workload: Workload, kind: ChangeKind) -> set[tuple[int, str, str]]:
    """What rows of quota lack for the workload: (milli-GPU, team, pool), where it is more than nothing."""
    tree, usage = plan.usage.tree, plan.usage
    need = workload.need_milli(least(workload))
    out: set[tuple[int, str, str]] = set()
    for name in tree.path(workload.team)[:-1]:
        for pool in tree.pools:
            node, held = tree.quota_nodes[name, pool], usage.total[FUTURE_IDLE][name, pool]
            if node.most is not None:
                out.add((held + need - node.most, name, pool))
            if kind is ChangeKind.NOMINAL:
                out.add((held + need - node.nominal, name, pool))
                out.add((usage.firm[FUTURE_IDLE][name, pool] + need - node.nominal, name, pool))
    return {lack for lack in out if lack[0] > 0}


def gains(session: Session, workload: Workload) -> Callable[[Workload], bool]:
    """Tells of which others the stop could help: they hold quota in its way, or room on a node that then takes more."""
    plan = session.plan
    inventory, options = plan.inventory, session.flavors.of(workload)
    later = plan.open_to(workload, plan.free[FUTURE_IDLE], FUTURE_IDLE)
    kept_off = later is not plan.free[FUTURE_IDLE]
    takes: list[tuple[ResourceRequest, Bools, Ints]] = []
    for ask in dict.fromkeys((workload.ask, *(role.ask for role in workload.roles))):
        masks = [allowed_nodes(inventory, ask, flavor if ask.milli else None) for flavor in options]
        allowed = np.logical_or.reduce(masks)
        takes.append((ask, allowed, per_node(inventory, ask, later, allowed)))
    is_over = over_quota(session, workload) is not None

    def helps(other: Workload) -> bool:
        if is_over:
            return other.uses_gpus
        nodes = {inventory.index[a.node] for a in other.placement if a.node in inventory.index}
        if kept_off and has_share(other):
            return True  # it may be what keeps the workload off its device; the trial tells
        return any(
            allowed[node] and _takes_more(plan, later, ask, other, node, int(before[node]))
            for ask, allowed, before in takes
            for node in nodes
        )

    return helps


def _takes_more(plan: Plan, later: Free, ask: ResourceRequest, other: Workload, node: int, before: int) -> bool:
    """Whether a node takes more workers of an ask once another's workers have left it."""
    inventory = plan.inventory
    first, end = int(inventory.offset[node]), int(inventory.offset[node + 1])
    gpu, host = later.gpu[:, first:end].copy(), later.node[:, node].copy()
    for worker in (a for a in other.placement if inventory.index.get(a.node) == node):
        host += other.on_node(worker)
        for index in (index for index in worker.gpus if index < end - first):
            gpu[:, index] += other.on_device(worker)
    gpu = np.where(inventory.gpu_capacity[:, first:end] > 0, gpu, 0)
    most = MANY
    if ask.cpu_milli:
        most = min(most, int(host[0]) // ask.cpu_milli)
    if ask.memory:
        most = min(most, int(host[1]) // ask.memory)
    if ask.share:
        most = min(most, int(shares_that_fit(gpu, ask.share).sum()))
    elif ask.gpus:
        most = min(most, int(is_idle(gpu).sum()) // ask.gpus)
    return most > before


def _down(value: int, step: int) -> range:
    """Multiples of the step below the value, largest first, none of them 0."""
    return range((value - 1) // step * step, 0, -step)


def _models(inventory: Inventory, workload: Workload) -> list[Change]:
    ask = workload.ask
    if not ask.models or not ask.milli:
        return []
    others = sorted({(f.gpu_memory, f.model) for f in inventory.flavors if f.model not in ask.models})
    names = list(dict.fromkeys(model for _, model in others))
    have = " or ".join(ask.models)
    return [Change(ChangeKind.MODEL, have, name) for name in (*names, ANY)] if names else []


def _looser(topology: Topology) -> list[Change]:
    if topology.require is None:
        return []
    above = [level.name.lower() for level in Level if topology.require < level < Level.CLUSTER]
    before = topology.require.name.lower()
    return [Change(ChangeKind.TOPOLOGY, before, to) for to in (*above, ANY)]
