"""The terms of a decision: the few figures that it went by, stored with it and shown."""

from scheduler.model.snapshot import Ints, Inventory
from scheduler.model.workload import Assignment, Level, Workload
from scheduler.preemption.cost import unsaved_seconds

Terms = tuple[tuple[str, int | str], ...]


def of_place(inventory: Inventory, workers: tuple[Assignment, ...], idle: Ints) -> Terms:
    """The tightest level that holds all workers, on how many nodes they are, whole GPUs left idle on these.

    idle: of each node, once all that leaves has left. Shape [N].
    """
    nodes = sorted({inventory.index[worker.node] for worker in workers})
    left = sum(int(idle[node]) for node in nodes)
    return (("level", _level(inventory, workers, nodes).name.lower()), ("nodes", len(nodes)), ("idle_gpus_left", left))


def of_evict(victim: Workload, at: float) -> Terms:
    """What the victim held, its priority, and the work it loses."""
    unsaved = int(unsaved_seconds(victim, at)) if victim.started_at is not None else 0
    return (("held_milli", victim.held_milli), ("priority", victim.priority), ("unsaved_seconds", unsaved))


def _level(inventory: Inventory, workers: tuple[Assignment, ...], nodes: list[int]) -> Level:
    if len(nodes) == 1:
        first = int(inventory.offset[nodes[0]])
        links = {int(inventory.link_of[first + index]) for worker in workers for index in worker.gpus}
        return Level.NVLINK if len(links) == 1 else Level.NODE
    for level, domains in ((Level.RACK, inventory.rack_of), (Level.ZONE, inventory.zone_of)):
        if len({int(domains[node]) for node in nodes}) == 1:
            return level
    return Level.CLUSTER
