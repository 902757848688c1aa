"""Every change there is, by brute force: the referee of `explanations`.

Written apart from the search that it judges (scheduler.remedy): it has its own ladders and its own meaning of each
change, builds each changed world from scratch and asks a whole round of `schedule` for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.decision import Place
from scheduler.schedule import schedule
from scheduler.settings import Settings
from scheduler.snapshot import Snapshot
from scheduler.team import Quota
from scheduler.workload import Assignment, Gang, Kind, Level, Phase, Topology, Workload

SMALLEST = {"share": 10, "gpu_memory": 256, "cpu": 500, "memory": 1024, "quota": 100}  # the step of each ladder


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
    return Snapshot.build(world.at, nodes, world.teams, world.quotas if quotas is None else quotas, left)


def _asks(
    world: Snapshot, workload: Workload, kind: str, priorities: Sequence[tuple[str, int, bool]]
) -> Iterator[tuple[float, tuple[Any, ...], Workload]]:
    """(size, what is asked instead, the workload asking it), in no order."""
    ask, gang = workload.ask, workload.gang
    if workload.phase != Phase.QUEUED or workload.placement:
        return
    if kind == "workers" and workload.kind != Kind.INFERENCE:
        for count in range(1, gang.min):
            fixed = gang.min == gang.count == gang.max
            smaller = Gang(count, count, count) if fixed else Gang(gang.count, count, gang.max)
            yield gang.min - count, (count,), replace(workload, gang=smaller)
    elif kind == "topology" and workload.topology.require is not None:
        for level in Level:
            if level > workload.topology.require:
                require = None if level == Level.CLUSTER else level
                name = "any" if require is None else require.name.lower()
                yield level, (name,), replace(workload, topology=Topology(require, workload.topology.prefer))
    elif kind == "model" and ask.models and ask.milli:
        memory = {n.model: n.gpu_memory for n in world.inventory.nodes if n.gpus and n.model not in ask.models}
        for model, size in memory.items():
            yield size, (model,), replace(workload, ask=replace(ask, models=(*ask.models, model)))
        if memory:
            yield float("inf"), ("any",), replace(workload, ask=replace(ask, models=()))
    elif kind == "priority":
        for name, value, preemptible in priorities:
            if value > workload.priority:
                yield value, (name,), replace(workload, priority=value, preemptible=preemptible)
    else:
        yield from _amounts(workload, kind)


def _amounts(workload: Workload, kind: str) -> Iterator[tuple[float, tuple[Any, ...], Workload]]:
    ask, share = workload.ask, workload.ask.share
    if kind == "gpus":
        for gpus in range(1, ask.gpus):
            yield ask.gpus - gpus, (gpus,), replace(workload, ask=replace(ask, gpus=gpus))
    elif kind in ("cpu", "memory"):
        now = ask.cpu_milli if kind == "cpu" else ask.memory
        for value in range(SMALLEST[kind], now, SMALLEST[kind]):
            other = replace(ask, cpu_milli=value) if kind == "cpu" else replace(ask, memory=value)
            yield now - value, (value,), replace(workload, ask=other)
    elif kind == "share" and share:
        for value in range(SMALLEST[kind], share.guarantee, SMALLEST[kind]):
            other = replace(ask, share=replace(share, guarantee=value))
            yield share.guarantee - value, (value,), replace(workload, ask=other)
    elif kind == "gpu_memory":
        now = share.memory if share else ask.gpu_memory
        for value in range(SMALLEST[kind], now, SMALLEST[kind]):
            other = replace(ask, share=replace(share, memory=value)) if share else replace(ask, gpu_memory=value)
            yield now - value, (value,), replace(workload, ask=other)


def _quotas(world: Snapshot, uid: str, kind: str) -> Iterator[Step]:
    """More of each row of the team and of those above it, in each pool whose GPUs it may use."""
    workload = world.workloads[uid]
    ask, parents = workload.ask, {team.name: team.parent for team in world.teams}
    if not ask.milli or workload.team not in parents:
        return
    least_memory = max(ask.gpu_memory, ask.share.memory if ask.share else 0)
    pools = sorted(
        {
            n.pool
            for n in world.inventory.nodes
            if n.gpus and (not ask.models or n.model in ask.models) and n.gpu_memory >= least_memory
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


def loss(workload: Workload, at: float, restart: float = 60.0) -> float:
    """What a stop loses, in milli-GPU seconds: what ran since the last checkpoint, and a restart."""
    since = max(workload.started_at or 0.0, workload.checkpointed_at or 0.0)
    return (max(0.0, at - since) + restart) * max(1, workload.ask.milli * len(workload.placement))
