"""What Kubernetes does without Weft: `native-k8s`, and `k8s+gang`, the stronger baseline with coscheduling.

Both bind pod by pod with the default score LeastAllocated: the node with the most CPU and memory left, as parts of
what it has; among equals the one with the most idle GPUs, then the first. GPUs are whole: a share takes a
free device alone. A team's quota plus its borrowing limit is its ResourceQuota; no team has an entitlement, and nothing
is preempted, as all pods have priority 0. A pod that fits nowhere is tried again (back-off 1 to 10 s there, each round
here) and blocks nothing. A required topology is kept like pod affinity keeps it.
Source: kube-scheduler's default plugins (NodeResourcesFit) and scheduler-plugins' coscheduling (PodGroup).

`native-k8s` binds the pods of a gang one by one, so a gang may hold GPUs with a part of its workers and wait for the
rest. Controllers create the pods of jobs that are submitted together side by side, so these interleave. This is the
only policy that places fewer than `gang.min` workers. The life cycle of a real cluster never starts such a gang, so it
can be compared only. The replay (controlplane/simulator/replay/playback.py) lets a partial gang hold its GPUs without
any progress and ends a dead-lock as an operator would: when no worker of the partial gangs was bound for 300 s, the
youngest of them is killed and queued again. A gang with `min` below `count` progresses with the workers it has.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduler.fit.capacity import Refusal, allowed_nodes, per_node
from scheduler.fit.claim import quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY, Bools, Flavor
from scheduler.model.workload import ACTIVE, Assignment, Kind, Level, Workload, least
from scheduler.policies.line import held_back, looked_at, no_room
from scheduler.state.free import Free, is_idle
from scheduler.state.plan import Plan
from scheduler.state.session import Session

MAX_SCORE = 100  # framework.MaxNodeScore


def native(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """Bind each pending pod in order of creation, wherever it fits."""
    plan = session.plan
    bound: set[str] = set()
    refused: dict[str, Refusal | None] = {}
    pods = _pods(plan)
    for workload in pods:
        if workload.id in refused or session.is_full:
            continue
        held = None if workload.id in bound or workload.phase in ACTIVE else held_back(session, workload)
        if held is None and bind(session, plan.workload(workload.id), 1, 1):
            bound.add(workload.id)
        else:
            refused[workload.id] = held
    for workload in {w.id: w for w in pods}.values():
        if workload.id in bound:
            yield workload, None
        elif workload.id in refused and workload.phase not in ACTIVE:
            yield workload, refused[workload.id] or no_room(session, workload)


def gang(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """Bind gangs in order of creation: their least workers and as many more as fit, or none."""
    for workload, held in looked_at(session):
        if held is None and bind(session, workload, least(workload), workload.missing, is_gang=True):
            yield workload, None
        else:
            yield workload, held or no_room(session, workload)


def bind(session: Session, workload: Workload, at_least: int, at_most: int, is_gang: bool = False) -> bool:
    """Place so many of a workload's missing workers by LeastAllocated, on one GPU model; whether it could.

    is_gang: its role members as well; else each counts as a worker of its own, and role members come first.
    """
    plan = session.plan
    for flavor in session.flavors.of(workload):
        most = min(at_most, quota_room(session, workload, flavor, IDLE))
        if most < at_least:
            continue
        free, allowed = _whole_only(plan.free[IDLE]), allowed_nodes(plan.inventory, workload.ask, flavor)
        room = per_node(plan.inventory, workload.ask, free, allowed)
        others = len(_unplaced(workload)) if is_gang else 0  # a gang starts with its role members
        for within in _domains(plan, workload, at_most):
            if not workload.roles and int(room[within].sum()) < at_least:
                continue
            workers = _bound(plan, workload, flavor, most + others, within)
            if len(workers) >= at_least + others:
                plan.place(workload, workers)
                return True
    return False


def _pods(plan: Plan) -> list[Workload]:
    """The workload of each pending pod, in order of creation: those submitted in one second take turns."""
    pending = list(plan.waiting)
    pending += [w for w in plan.holding if w.kind is Kind.TRAINING and w.phase in ACTIVE and w.missing]
    pods = [
        (int(w.submitted_at), number, w.seq, w.id, w)
        for w in pending
        for number in range(w.missing + len(_unplaced(w)))
    ]
    return [pod[-1] for pod in sorted(pods, key=lambda pod: pod[:-1])]


def _bound(plan: Plan, workload: Workload, flavor: Flavor | None, most: int, within: Bools) -> tuple[Assignment, ...]:
    """Workers as they would be bound one after the other; the plan stays as it is."""
    mark = plan.mark()
    workers: list[Assignment] = []
    while len(workers) < most:
        seen = plan.workload(workload.id)
        worker = _pod(plan, seen, flavor, within)
        if worker is None:
            break
        plan.place(seen, (worker,))
        workers.append(worker)
    plan.rollback(mark)
    return tuple(workers)


def _pod(plan: Plan, workload: Workload, flavor: Flavor | None, within: Bools) -> Assignment | None:
    """The place of one more worker, on the node with the highest score."""
    inventory, free = plan.inventory, _whole_only(plan.free[IDLE])
    rank = min(_unplaced(workload), default=None)
    if rank is not None:  # role members are created first
        ask = workload.ask_of(rank)
        workload, flavor = replace(workload, ask=ask, roles=()), flavor if ask.milli else None
    elif workload.roles:
        workload = replace(workload, roles=())
    ask = workload.ask
    fits = np.flatnonzero(per_node(inventory, ask, free, allowed_nodes(inventory, ask, flavor) & within))
    if not fits.size:
        return None
    left = free.node[:, fits] - np.array([[ask.cpu_milli], [ask.memory]], dtype=np.int64)
    score = (left * MAX_SCORE // np.maximum(inventory.node_capacity[:, fits], 1))[[COMPUTE, MEMORY]].sum(axis=0)
    best = fits[np.lexsort((fits, -free.idle[fits], -score))[0]]
    alone = np.zeros(len(inventory.nodes), dtype=np.bool_)
    alone[best] = True
    places = find_places(inventory, workload, Goal(1, 1), free, flavor, alone)
    if not places:
        return None
    return places[0] if rank is None else replace(places[0], rank=rank)


def _unplaced(workload: Workload) -> list[int]:
    """Ranks of role members that have no place."""
    placed = {a.rank for a in workload.placement}
    return [rank for rank in range(workload.role_members) if rank not in placed]


def _whole_only(free: Free) -> Free:
    """What is free if a device in use counts as full."""
    return Free(np.where(is_idle(free.gpu), free.gpu, 0), free.node, free.idle)


def _domains(plan: Plan, workload: Workload, at_most: int) -> Iterator[Bools]:
    """Sets of nodes within which its workers must be: the emptiest domains of the required level first."""
    inventory, level = plan.inventory, workload.topology.require
    everywhere = np.ones(len(inventory.nodes), dtype=np.bool_)
    if level is None or level is Level.CLUSTER or workload.kind is Kind.INFERENCE:
        yield everywhere
        return
    number = domain_of_node(inventory, max(level, Level.NODE))
    held = [inventory.index[a.node] for a in workload.placement if a.node in inventory.index]
    if held or at_most == 1:
        yield np.equal(number, number[held[0]]) if held else everywhere
        return
    idle = np.bincount(number, plan.free[IDLE].idle)
    for domain in np.argsort(-idle, kind="stable").tolist():
        yield np.equal(number, domain)
