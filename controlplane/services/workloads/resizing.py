"""Resizes of workers that run: whether there is room, and what follows from what was seen (lifecycle/resizing.py)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.cluster.port import PodSeen
from controlplane.jobspec.podsets import role_ask
from controlplane.jobspec.spec import Spec
from controlplane.lifecycle import resizing
from controlplane.lifecycle.resizing import Size
from controlplane.lifecycle.state import LEAVING, Seat
from controlplane.models import Action, Node, Placement, PlacementState, Workload, bulk
from controlplane.services.errors import Refused
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch
from scheduler.model.workload import Phase

FIELDS = ("resources.cpu", "resources.memory")
_ASK = ("uid", "phase", "cpu_milli", "memory", "roles")
_HELD = ("workload_id", "rank", "node", "state", "bound_at")


def is_size_only(old: Spec, new: Spec) -> bool:
    """Whether two job files ask for the same but for CPU and memory of each worker."""
    return _unsized(old) == _unsized(new)


def _unsized(spec: Spec) -> tuple[Any, ...]:
    ask = spec.resources
    return ask.gpus, ask.share, ask.gpu_memory, ask.models, spec.shared_memory, dict(spec.extra)


def begin(batch: Batch, row: Row, spec: Spec, *, was: Mapping[str, Any]) -> None:
    """Have the workers get the CPU and memory of `spec` in place. Raises Refused if it does not run, or has no room.

    Called with rounds held still (leases.keep_rounds_still): none may give away meanwhile what is free now.
    """
    size = (spec.resources.cpu_milli, spec.resources.memory)
    if size == resizing.wanted(row):
        return
    if not resizing.may_resize(row):
        message = f"{row.name} is {row.phase}; its CPU and memory can be changed while it waits, or once it runs."
        raise Refused(409, "NotRunning", "resources", f"{message} Try again then.")
    _refuse_without_room(batch, row, size)
    resizing.begin(batch, row, size, was=was)


# --- what was seen ----------------------------------------------------------------------------


def conclude(batch: Batch, rows: Collection[Row]) -> None:
    """Finish resizes of which all was seen, and put back what a node can never do; not while commands are open."""
    resized = [row for row in rows if row.resize is not None]
    if not resized:
        return
    open_ = _commanded(batch, resized)
    for row in resized:
        if row.uid not in open_ and (rank := resizing.conclude(batch, row)):
            give_up(batch, row, *resizing.refusal(batch, row, rank))


def repeat(batch: Batch, rows: Collection[Row], pods: Mapping[str, Sequence[PodSeen]]) -> None:
    """Tell those again that have no command open and run with another size all the same."""
    open_ = _commanded(batch, rows)
    for row in rows:
        if row.uid not in open_:
            resizing.repeat(batch, row, pods.get(row.id, ()))


def _commanded(batch: Batch, rows: Collection[Row]) -> set[UUID]:
    """Those about which a command is open."""
    told = Action.objects.filter(verb="resize", done_at__isnull=True, workload__among=[row.uid for row in rows])
    now = (command.workload for command in batch.commands if command.verb == "resize")
    return {uid for uid in told.values_list("workload", flat=True) if uid is not None} | set(map(UUID, now))


def give_up(batch: Batch, row: Row, reason: str, message: str) -> None:
    """Put a resize back: the workers' CPU and memory, and what the job file says of them."""
    was = resizing.give_up(batch, row, reason, message)
    if was is None:
        return
    stored = Workload.objects.values_list("spec", flat=True).get(pk=row.uid)
    cpu_milli, memory = resizing.wanted(row)
    normalised = stored["normalised"] | {"cpu_milli": cpu_milli, "memory_mib": memory}
    spec = stored | {"resources": dict(was), "normalised": normalised}
    Workload.objects.filter(pk=row.uid).update(spec=spec)


# --- room -------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """What the workers on a node take, as things stand and once all that leaves has left: cores, MiB of each."""

    now: list[int]
    later: list[int]


def _refuse_without_room(batch: Batch, row: Row, size: Size) -> None:
    """Raise Refused if a node of its workers has no room for so much more beside what others hold or were promised."""
    more = [max(0, wanted - counted) for wanted, counted in zip(size, (row.cpu_milli, row.memory), strict=True)]
    workers: dict[str, list[Seat]] = {}
    for seat in batch.live(row):
        if seat.rank >= row.role_members:
            workers.setdefault(seat.node, []).append(seat)
    if not any(more) or not workers:
        return
    of_these = {"name__among": sorted(workers)}
    capacities = {name: rest for name, *rest in bulk.select(Node, ("name", "cpu_milli", "memory"), of_these)}
    taken = _taken(sorted(workers))
    for node, capacity in sorted(capacities.items()):
        for i, (field, extra) in enumerate(zip(FIELDS, more, strict=True)):
            room = min(capacity[i] - part[i] for part in taken[node])
            if extra and extra * len(workers[node]) > room:
                counted = (row.cpu_milli, row.memory)[i]
                _refuse(field, node, len(workers[node]), counted + max(0, room) // len(workers[node]))


def _refuse(field: str, node: str, count: int, most: int) -> None:
    unit = "1/1000 cores" if field == FIELDS[0] else "MiB"
    there = "its worker" if count == 1 else f"each of its {count} workers"
    message = (
        f"{node} has room for at most {most} {unit} of {there} there, beside what others hold. "
        f"Ask for at most that, or suspend it, change it while it waits and resume it."
    )
    raise Refused(409, "NoRoom", field, message)


def _taken(nodes: Sequence[str]) -> dict[str, Taken]:
    """What is taken on these nodes, counted as the scheduler's snapshot counts it (Columns in scheduler/model)."""
    seats = bulk.select(Placement, _HELD, {"node__among": nodes, "state__not": PlacementState.RELEASED})
    asks = _asks({seat[0] for seat in seats})
    found = {node: Taken([0, 0], [0, 0]) for node in nodes}
    for uid, rank, node, state, bound_at in seats:
        phase, cpu_milli, memory, roles = asks[uid]
        ask = role_ask(roles, rank) if roles else None
        size = (ask.cpu_milli, ask.memory) if ask is not None else (cpu_milli, memory)
        is_reserved = bound_at is None or phase == Phase.RESERVED
        for i in range(2):
            found[node].now[i] += 0 if is_reserved else size[i]
            found[node].later[i] += 0 if state == LEAVING and not is_reserved else size[i]
    return found


def _asks(uids: set[UUID]) -> dict[UUID, tuple[str, int, int, list[Any]]]:
    found: dict[UUID, tuple[str, int, int, list[Any]]] = {}
    for part in bulk.chunks(sorted(uids)):
        for uid, *ask in bulk.select(Workload, _ASK, {"uid__among": part}):
            found[uid] = (ask[0], ask[1], ask[2], ask[3])
    return found
