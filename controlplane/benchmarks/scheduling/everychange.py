"""Every change there is, by brute force: the referee of `explanations`.

Written apart from the search that it judges (scheduler.explain.suggestions): it has its own candidates and its own
meaning of each change, builds each changed world from scratch and asks a whole round of `schedule` for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Quota
from scheduler.model.workload import Assignment, Gang, Kind, Level, Phase, Topology, Workload

SMALLEST = {"share": 10, "gpu_memory": 256, "cpu": 500, "memory": 1024, "quota": 100}  # between two candidates


@dataclass(frozen=True, slots=True)
class Step:
    """One change: its kind, its size (comparable within the kind), what it names, and the world it makes."""

    kind: str
    size: float
    name: tuple[Any, ...]
    world: Snapshot


def starts(world: Snapshot, uid: str, settings: Settings) -> bool:
    """Whether the next round decides places for the workload."""
    return any(isinstance(d, Place) and d.workload == uid for d in schedule(world, settings))


def steps(world: Snapshot, uid: str, kind: str, priorities: Sequence[tuple[str, int, bool]]) -> Iterator[Step]:
    """All changes of one kind, the smallest first."""
    if kind == "stop":
        yield from _stops(world, uid)
    elif kind in ("nominal", "borrowing"):
        yield from _quotas(world, uid, kind)
    else:
        for size, name, other in sorted(_asks(world, world.workloads[uid], kind, priorities), key=lambda row: row[:2]):
            yield Step(kind, size, name, _rebuilt(world, workloads={uid: other}))


def _rebuilt(
    world: Snapshot, workloads: dict[str, Workload | None] | None = None, quotas: Sequence[Quota] | None = None
) -> Snapshot:
    """The world from scratch with some workloads in another state (None: gone) or other quotas."""
    known = {**world.workloads, **(workloads or {})}
    left = [workload for workload in known.values() if workload is not None]
    nodes = world.inventory.nodes
    rows = world.quotas if quotas is None else quotas
    kept = world.use, world.budgets, world.demand, world.history
    return Snapshot.build(world.at, nodes, world.teams, rows, left, *kept)


Other = tuple[float, tuple[Any, ...], Workload]  # the size, what is asked instead, the workload asking it


def _asks(world: Snapshot, workload: Workload, kind: str, priorities: Sequence[tuple[str, int, bool]]) -> list[Other]:
    """What else a workload without a place could ask, in no order."""
    if workload.phase != Phase.QUEUED or workload.placement:
        return []
    if kind == "priority":
        return [
            (value, (name,), replace(workload, priority=value, preemptible=preemptible))
            for name, value, preemptible in priorities
            if value > workload.priority
        ]
    if kind == "model":
        return list(_models(world, workload))
    return list({"workers": _workers, "topology": _levels}.get(kind, lambda w: _amounts(w, kind))(workload))


def _workers(workload: Workload) -> Iterator[Other]:
    gang = workload.gang
    fixed = gang.min == gang.count == gang.max
    for count in range(1, gang.min) if workload.kind != Kind.INFERENCE else ():
        smaller = Gang(count, count, count) if fixed else Gang(gang.count, count, gang.max)
        yield gang.min - count, (count,), replace(workload, gang=smaller)


def _levels(workload: Workload) -> Iterator[Other]:
    now, prefer = workload.topology.require, workload.topology.prefer
    for level in Level if now is not None else ():
        if now is not None and level > now:
            name = "any" if level == Level.CLUSTER else level.name.lower()
            loose = Topology(None if level == Level.CLUSTER else level, prefer)
            yield level, (name,), replace(workload, topology=loose)


def _models(world: Snapshot, workload: Workload) -> Iterator[Other]:
    ask = workload.ask
    memory = {n.model: n.gpu_memory for n in world.inventory.nodes if n.gpus and n.model not in ask.models}
    if not ask.models or not ask.milli or not memory:
        return
    for model, size in memory.items():
        yield size, (model,), replace(workload, ask=replace(ask, models=(*ask.models, model)))
    yield float("inf"), ("any",), replace(workload, ask=replace(ask, models=()))


def _amounts(workload: Workload, kind: str) -> Iterator[Other]:
    """Less of one number of the ask, down to the smallest step."""
    ask, share = workload.ask, workload.ask.share
    now = {
        "gpus": ask.gpus,
        "cpu": ask.cpu_milli,
        "memory": ask.memory,
        "share": share.guarantee if share else 0,
        "gpu_memory": share.memory if share else ask.gpu_memory,
    }[kind]
    step = SMALLEST.get(kind, 1)
    for value in range(step, now, step):
        if kind == "share" and share:
            other = replace(ask, share=replace(share, guarantee=value))
        elif kind == "gpu_memory" and share:
            other = replace(ask, share=replace(share, memory=value))
        else:
            field = {"gpus": "gpus", "cpu": "cpu_milli"}.get(kind, kind)
            other = replace(ask, **{field: value})  # type: ignore[arg-type]
        yield now - value, (value,), replace(workload, ask=other)


def _quotas(world: Snapshot, uid: str, kind: str) -> Iterator[Step]:
    """More of each row of the team and of those above it, in each pool whose GPUs it may use."""
    workload = world.workloads[uid]
    ask, parents = workload.ask, {team.name: team.parent for team in world.teams}
    if not ask.milli or workload.team not in parents:
        return
    min_memory = max(ask.gpu_memory, ask.share.memory if ask.share else 0)
    pools = sorted(
        {
            n.pool
            for n in world.inventory.nodes
            if n.gpus and (not ask.models or n.model in ask.models) and n.gpu_memory >= min_memory
        }
    )
    names, name = [], workload.team
    while name:
        names.append(name)
        name = parents.get(name) or ""
    rows = {(q.team, q.pool): q for q in world.quotas}
    step = SMALLEST["quota"] if ask.share else 1000
    size = {pool: sum(n.gpus for n in world.inventory.nodes if n.pool == pool) * 1000 for pool in pools}
    for more in range(step, max(size.values(), default=0) + 1, step):
        for team, pool in ((team, pool) for team in names for pool in pools):
            row = rows.get((team, pool))
            if row is None:
                other = Quota(team, pool, more) if team == workload.team and kind == "nominal" else None
            elif kind == "nominal":
                other = replace(row, nominal=row.nominal + more)
            else:
                other = None if row.borrowing is None else replace(row, borrowing=row.borrowing + more)
            value = 0 if other is None else other.nominal if kind == "nominal" else other.borrowing or 0
            if other is not None and value <= size[pool]:
                rest = [q for q in world.quotas if q is not row]
                yield Step(kind, more, (team, pool, value), _rebuilt(world, quotas=[*rest, other]))


def _stops(world: Snapshot, uid: str) -> Iterator[Step]:
    """The stop of each that holds a place and is not on its way out, what loses least first."""
    up = (Phase.ADMITTED, Phase.STARTING, Phase.RUNNING, Phase.SCALING, Phase.DEGRADED, Phase.RESERVED)
    found = []
    for other in world.workloads.values():
        if other.id == uid or not other.placement or other.phase not in up:
            continue
        found.append((round(loss(other, world.at)), other.id, other))
    for size, name, other in sorted(found, key=lambda row: row[:2]):
        bound = tuple(Assignment(a.rank, a.node, a.gpus, leaving=True) for a in other.placement if not a.reserved)
        is_gone = other.phase is Phase.RESERVED or not bound
        left = None if is_gone else replace(other, phase=Phase.STOPPING, placement=bound, after=())
        yield Step("stop", size, (name,), _rebuilt(world, workloads={name: left}))


def loss(workload: Workload, at: float) -> float:
    """What a stop loses, in milli-GPU seconds: unsaved work (a service: a day), a minute to restart, 10 s a worker."""
    since = max(workload.started_at or 0.0, workload.checkpointed_at or 0.0)
    lost = 86_400.0 if workload.kind is Kind.INFERENCE else max(0.0, at - since)
    seconds = lost + 60.0 + 10.0 * (len(workload.placement) - 1)
    return seconds * max(1, workload.ask.milli * len(workload.placement))
