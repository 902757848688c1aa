"""The scorer that the settings name, on the free capacity of a plan: where single workers and replicas go."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpushare.packing import Bools
from scheduler.model.demand import Demand
from scheduler.model.settings import Placement, Settings
from scheduler.model.snapshot import Inventory, Snapshot
from scheduler.model.workload import ResourceRequest
from scheduler.placement.fleet import devices_of, empty_fleet, kinds_of, take, want_of
from scheduler.placement.rows import Fleet, Want
from scheduler.state.free import Free
from scheduler.state.passes import follow, load

Spot = tuple[int, tuple[int, ...]]  # a node, and the devices there
SCORED = 8  # workers of a gang: the others go to nodes of the same kind, so that they hardly change a comparison


class Scorer(Protocol):
    """Says where one worker goes."""

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device (-1: none, or idle ones) among the allowed nodes, shape [N]; None if it fits on none."""

    def offer(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int, float] | None:
        """As `choose`, with the score of the place: the higher the better."""


class Room(NamedTuple):
    """Nodes, shape [N], and how many workers may go there in all."""

    nodes: Bools
    most: int


class Chooser:
    """A scorer and the rows it reads, kept from one round to the next.

    The rows follow whatever free capacity is shown, and a scorer's answer depends on them only, so that keeping both
    saves time and changes nothing.
    """

    def __init__(self, inventory: Inventory, fleet: Fleet, scorer: Scorer) -> None:
        self._fleet, self._scorer = fleet, scorer
        self._kinds = kinds_of(inventory)
        self._inventory = inventory
        self._wants: dict[ResourceRequest, Want] = {}

    def spots(self, ask: ResourceRequest, free: Free, rooms: Sequence[Room], most: int) -> list[Spot]:
        """Places for up to so many workers in these rooms, each where the scorer says once those before have theirs."""
        self._follow(free)
        want, found = self._want(ask), list[Spot]()
        left = [room.most for room in rooms]
        allowed = np.logical_or.reduce([room.nodes for room in rooms])
        while len(found) < most and (place := self._scorer.choose(self._fleet, want, allowed)) is not None:
            node, device = place
            devices = devices_of(self._fleet, node, device, want.numbers)
            take(self._fleet, node, devices, want.numbers, is_alone=bool(ask.labels.anti_affinity))
            found.append((node, devices))
            inside = next(i for i, room in enumerate(rooms) if room.nodes[node])
            left[inside] -= 1
            if not left[inside]:
                allowed = allowed & ~rooms[inside].nodes
        return found

    def score(self, free: Free, workers: Sequence[tuple[ResourceRequest, Spot]]) -> float:
        """What the scorer says of places that are chosen already, on average over the first of the workers.

        Each is scored once those before it have their places.
        """
        self._follow(free)
        allowed = np.zeros(len(self._fleet.kind), dtype=np.bool_)
        sample, total = workers[:SCORED], 0.0
        for ask, (node, devices) in sample:
            want = self._want(ask)
            allowed[node] = True
            offer = self._scorer.offer(self._fleet, want, allowed)
            allowed[node] = False
            total += 0.0 if offer is None else offer[2]
            take(self._fleet, node, devices, want.numbers, is_alone=bool(ask.labels.anti_affinity))
        return total / len(sample)

    def _want(self, ask: ResourceRequest) -> Want:
        want = self._wants.get(ask)
        if want is None:
            want = self._wants[ask] = want_of(ask, self._kinds)
        return want

    def _follow(self, free: Free) -> None:
        """Make the rows say what is free, with a new version where they said something else."""
        follow(self._fleet, self._inventory, free.gpu, free.node)


class Known(NamedTuple):
    """A chooser that was made, and for what."""

    inventory: Inventory
    demand: Demand
    chooser: Chooser


class Choosers:
    """The choosers that rounds have made so far (scheduler/state/memo.py), by the placement that the settings name."""

    def __init__(self) -> None:
        self._known: dict[Placement, Known] = {}

    def of(self, snapshot: Snapshot, settings: Settings) -> Chooser | None:
        """The chooser of a round; None leaves places to best fit, as where coming work matters and is not known."""
        placement = settings.placement
        if not snapshot.inventory.nodes:  # there are no places to choose among, and no kinds of nodes to count
            return None
        if placement is Placement.BEST_FIT or (placement is not Placement.FIRST_FIT and not snapshot.demand.shapes):
            return None
        known = self._known.get(placement)
        if known is None or known.demand != snapshot.demand or not _is_same(known.inventory, snapshot.inventory):
            known = Known(snapshot.inventory, snapshot.demand, _chooser(snapshot, placement))
        self._known[placement] = known._replace(inventory=snapshot.inventory)
        return known.chooser


def _is_same(one: Inventory, other: Inventory) -> bool:
    return one is other or one == other


def _chooser(snapshot: Snapshot, placement: Placement) -> Chooser:
    inventory = snapshot.inventory
    kinds = kinds_of(inventory)
    fleet = empty_fleet(inventory, kinds)
    return Chooser(inventory, fleet, _scorer(placement, snapshot, fleet, kinds))


def _scorer(placement: Placement, snapshot: Snapshot, fleet: Fleet, kinds: Sequence[tuple[str, int]]) -> Scorer:
    # Imported where needed: the compiler behind them takes a second to load, and most processes place nothing.
    load()
    if placement is Placement.FIRST_FIT:
        from scheduler.placement.fits import FirstFit

        return FirstFit()
    if placement is Placement.FGD:
        from scheduler.placement.fgd import Fragmentation

        return Fragmentation(snapshot.demand, kinds)
    from scheduler.placement.packable import PackableCapacity

    inventory = snapshot.inventory
    return PackableCapacity(snapshot.demand, kinds, fleet, np.diff(inventory.offset), inventory.node_capacity.T)
