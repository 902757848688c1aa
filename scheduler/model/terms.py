"""The terms of a decision: the few figures that it went by, stored with it and shown."""

from collections.abc import Collection

from scheduler.model.decision import Whose
from scheduler.model.snapshot import Ints, Inventory
from scheduler.model.workload import Assignment, Level, Workload
from scheduler.preemption.cost import unsaved_seconds

# s that a gang stands still when some of its workers leave, on average: one that saves where it may be told to leave,
# and one that ends at once. Measured by `manage.py benchmark reclaim` (`loss` of controlplane/cluster/reclaims.json),
# where no step was computed again.
PAUSE_SAVES, PAUSE_ENDS = 0.056, 0.052

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


def of_taken_back(gang: Workload, at: float) -> Terms:
    """The same of a gang that leaves as a whole as it cannot do without GPUs that were lent, and the price of that: its
    work since its checkpoint, and its pause, on all its GPUs."""
    known = of_evict(gang, at)
    unsaved = dict(known)["unsaved_seconds"]
    lost = _computes_milli(gang) * (int(unsaved) + _pause(gang))
    return (*known, *_price(gang, [a.rank for a in gang.placement if not a.leaving], lost, Whose.LENT))


def of_shrink(gang: Workload, ranks: Collection[int], whose: Whose) -> Terms:
    """The price of workers that leave while their gang goes on: its team, what leaves, what it loses, and whose it was.

    Lost are milli-GPU seconds: all GPUs of the gang stand still for a moment, and no work is lost.
    """
    return _price(gang, ranks, _computes_milli(gang) * _pause(gang), whose)


def _price(gang: Workload, ranks: Collection[int], lost: float, whose: Whose) -> Terms:
    leaves = sum(_ask_milli(gang, a) for a in gang.placement if a.rank in ranks)
    return (
        ("team", gang.team), ("workers", len(ranks)), ("leaves_milli", leaves), ("lost_milli_seconds", round(lost)),
        ("whose", whose.value),
    )  # fmt: skip


def _computes_milli(gang: Workload) -> int:
    """What it computes on: also the devices that are lent, which no quota counts."""
    return sum(_ask_milli(gang, a) for a in gang.placement if not a.leaving)


def _ask_milli(gang: Workload, worker: Assignment) -> int:
    return gang.ask.milli if not gang.roles else gang.ask_of(worker.rank).milli


def _pause(gang: Workload) -> float:
    return PAUSE_SAVES if gang.checkpoint_interval is not None else PAUSE_ENDS


def _level(inventory: Inventory, workers: tuple[Assignment, ...], nodes: list[int]) -> Level:
    if len(nodes) == 1:
        first = int(inventory.offset[nodes[0]])
        links = {int(inventory.link_of[first + index]) for worker in workers for index in worker.gpus}
        return Level.NVLINK if len(links) == 1 else Level.NODE
    for level, domains in ((Level.RACK, inventory.rack_of), (Level.ZONE, inventory.zone_of)):
        if len({int(domains[node]) for node in nodes}) == 1:
            return level
    return Level.CLUSTER
