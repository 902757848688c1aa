"""What else a training could have: changes of one thing at a time, each on nodes that have room for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autoscaler.reallocate.constants import DEFAULT, Constants
from autoscaler.throughput.allocation import Allocation


class Axis(StrEnum):
    """What a change changes."""

    PLACE = "place"
    NODE = "node"
    CPU = "cpu"
    SERVERS = "servers"
    WORKERS = "workers"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Room:
    """Of one node, for this training: what is free, and what it has there itself. cores None: not counted."""

    gpus: int
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """A node on which a worker is slow. part: of a step, 0..1, that would go off it; rooms: of all other nodes."""

    node: str
    part: float
    rooms: tuple[Room, ...]


@dataclass(frozen=True, slots=True)
class Freedom:
    """How far a training may be changed; each pair is least and most. None: not at all.

    here: of its own nodes, where more CPU in place has to fit; empty: of all. examples: of all its GPUs in a step, as
    many with other workers; None: those of each GPU stay.
    """

    can_move: bool = True
    cpu: float | None = None  # cores of a worker, at most
    slow: Slow | None = None
    here: tuple[Room, ...] = ()
    servers: tuple[int, int] | None = None
    workers: tuple[int, int] | None = None
    batch: tuple[int, int] | None = None  # examples of one GPU
    examples: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """An allocation, and what of it is changed."""

    axis: Axis
    allocation: Allocation


def candidates(
    now: Allocation, freedom: Freedom, rooms: Sequence[Room], constants: Constants = DEFAULT
) -> tuple[Candidate, ...]:
    """Each once, without the one now; budgets are not asked."""
    made = {
        Axis.PLACE: _places,
        Axis.NODE: _nodes,
        Axis.CPU: _cpus,
        Axis.SERVERS: _servers,
        Axis.WORKERS: _workers,
        Axis.BATCH: _batches,
    }
    found: dict[Allocation, Axis] = {}
    for axis, make in made.items():
        for allocation in make(now, freedom, rooms, constants):
            if allocation != now and fits(allocation, freedom.here if freedom.here and axis is Axis.CPU else rooms):
                found.setdefault(allocation, axis)
    return tuple(Candidate(axis, allocation) for allocation, axis in found.items())


def fits(allocation: Allocation, rooms: Sequence[Room]) -> bool:
    """Whether its workers have room on so many nodes as it says, the fullest first, and its servers on what remains."""
    held = sorted((_workers_of(room, allocation) for room in rooms), reverse=True)
    wanted = [gpus // allocation.of_worker for gpus in allocation.gpus]
    if len(wanted) > len(held) or any(want > have for want, have in zip(wanted, held, strict=False)):
        return False
    if not allocation.servers or not allocation.server_cpu or any(room.cores is None for room in rooms):
        return True
    ordered = sorted(rooms, key=lambda room: _workers_of(room, allocation), reverse=True)
    taken = [*(count * allocation.cpu for count in wanted), *([0.0] * (len(rooms) - len(wanted)))]
    left = [(room.cores or 0.0) - cores for room, cores in zip(ordered, taken, strict=True)]
    return sum(int(cores / allocation.server_cpu + 1e-9) for cores in left) >= allocation.servers


def _workers_of(room: Room, allocation: Allocation) -> int:
    count = room.gpus // allocation.of_worker
    if room.cores is None or allocation.cpu <= 0:
        return count
    return min(count, int(room.cores / allocation.cpu + 1e-9))


def packed(allocation: Allocation, rooms: Sequence[Room], together: int | None = None) -> Allocation | None:
    """The same workers on the fewest nodes, with at most so many GPUs on one; None without room."""
    left, gpus = allocation.workers, list[int]()
    for have in sorted((_workers_of(room, allocation) for room in rooms), reverse=True):
        most = have if together is None else min(have, together // allocation.of_worker)
        if most > 0 and left > 0:
            gpus.append(min(most, left) * allocation.of_worker)
            left -= min(most, left)
    return None if left else replace(allocation, gpus=tuple(sorted(gpus, reverse=True)))


Make = Callable[[Allocation, Freedom, Sequence[Room], Constants], Iterator[Allocation]]


def _places(now: Allocation, freedom: Freedom, rooms: Sequence[Room], constants: Constants) -> Iterator[Allocation]:
    if freedom.can_move:
        for together in (None, *constants.together):
            if (found := packed(now, rooms, together)) is not None:
                yield found


def _nodes(now: Allocation, freedom: Freedom, _rooms: Sequence[Room], _constants: Constants) -> Iterator[Allocation]:
    """Off the slow node: as it is on others, else on the fewest others."""
    slow = freedom.slow
    if freedom.can_move and slow is not None and slow.node not in now.off:
        alike = replace(now, off=tuple(sorted((*now.off, slow.node))))
        found = alike if fits(alike, slow.rooms) else packed(alike, slow.rooms)
        if found is not None:
            yield found


def _cpus(now: Allocation, freedom: Freedom, _rooms: Sequence[Room], constants: Constants) -> Iterator[Allocation]:
    if freedom.cpu is not None and now.cpu > 0:
        for cores in (*(now.cpu * times for times in constants.cpu), freedom.cpu):
            if now.cpu < cores <= freedom.cpu:
                yield replace(now, cpu=cores)


def _servers(now: Allocation, freedom: Freedom, _rooms: Sequence[Room], constants: Constants) -> Iterator[Allocation]:
    if freedom.servers is not None and now.servers:
        low, high = freedom.servers
        for count in constants.servers:
            for servers in (now.servers + count, now.servers - count):
                if max(low, 1) <= servers <= high:
                    yield replace(now, servers=servers)


def _workers(now: Allocation, freedom: Freedom, rooms: Sequence[Room], constants: Constants) -> Iterator[Allocation]:
    if freedom.workers is not None:
        low, high = freedom.workers
        for count in constants.workers:
            if now.workers + count <= high:
                more = now.workers + count
                alike = replace(now, workers=more, gpus=(now.of_worker,) * more)
                if (found := packed(alike, rooms)) is not None:
                    yield _with_examples(found, freedom)
            if now.workers - count >= max(low, 1):
                yield _with_examples(fewer(now, count), freedom)


def _with_examples(then: Allocation, freedom: Freedom) -> Allocation:
    return then if freedom.examples is None else then.examples_of(freedom.examples)


def fewer(now: Allocation, count: int) -> Allocation:
    """The same without so many workers, those where it has fewest first: the others stay where they are."""
    left, gpus = count * now.of_worker, list(now.gpus)
    while left:
        gives = min(left, gpus[-1])
        left, gpus[-1] = left - gives, gpus[-1] - gives
        if not gpus[-1]:
            gpus.pop()
    return replace(now, workers=now.workers - count, gpus=tuple(sorted(gpus, reverse=True)))


def _batches(now: Allocation, freedom: Freedom, _rooms: Sequence[Room], constants: Constants) -> Iterator[Allocation]:
    """So many times as large, or as far towards that as is allowed."""
    if freedom.batch is not None:
        low, high = freedom.batch
        for times in constants.batch:
            batch = min(max(round(now.batch * times), low, 1), high)
            if (batch - now.batch) * (times - 1) > 0:
                yield replace(now, batch=batch)
