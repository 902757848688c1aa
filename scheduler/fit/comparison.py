"""One comparison of all the flavors that quota allows: the scorer says which model a worker or a gang takes.

Single workers and replicas are scored place by place, whatever flavor a node is of. A gang stays on one flavor and
looks at locality first, so it is offered each flavor's places as a whole, and the scorer compares these.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpushare.packing import Bools
from scheduler.fit.capacity import allowed_nodes, per_link, per_node
from scheduler.fit.gang import Goal, find_places, ranked
from scheduler.fit.locality import domain_of_node
from scheduler.model.snapshot import Flavor, Inventory
from scheduler.model.workload import Assignment, Kind, Level, ResourceRequest, Workload
from scheduler.placement.chooser import Chooser, Room
from scheduler.state.free import Free

Places = tuple[Assignment, ...]


class Option(NamedTuple):
    """A flavor, and how many workers may go there."""

    flavor: Flavor | None
    goal: Goal


def best_places(
    inventory: Inventory, workload: Workload, goal: Goal, options: Sequence[Option], free: Free, chooser: Chooser | None
) -> Places | None:
    """Places on the best of these flavors, or None. Replicas of a service may use several.

    Without a chooser the first flavor that has places is taken, and best fit says where.
    """
    if chooser is not None and _is_scored(workload, goal):
        found = chooser.spots(workload.ask, free, _rooms(inventory, workload, options, free), goal.most)
        return ranked(inventory, workload, found) if len(found) >= goal.least else None
    offers = (find_places(inventory, workload, option.goal, free, option.flavor) for option in options)
    some = (places for places in offers if places is not None)
    if chooser is None:
        return next(some, None)
    return _best_of(inventory, workload, list(some), free, chooser)


def _is_scored(workload: Workload, goal: Goal) -> bool:
    """Whether each of its workers goes where the scorer says: where nothing has to be near anything else."""
    if workload.roles and not workload.placement:
        return False
    if workload.topology.require == Level.NVLINK and workload.ask.gpus > 1:
        return False
    if workload.ask.labels.affinity and goal.most > 1:
        return False
    return workload.kind is Kind.INFERENCE or goal.most == 1


def _rooms(inventory: Inventory, workload: Workload, options: Sequence[Option], free: Free) -> list[Room]:
    """The nodes of each pool and how many workers its quota allows; flavors of one pool share it."""
    nodes: dict[str, Bools] = {}
    most: dict[str, int] = {}
    for flavor, goal in options:
        pool, allowed = "" if flavor is None else flavor.pool, allowed_nodes(inventory, workload.ask, flavor)
        nodes[pool] = nodes[pool] | allowed if pool in nodes else allowed
        most[pool] = goal.most
    if workload.kind is not Kind.INFERENCE and workload.ask.gpus > 1:
        linked = _linked(inventory, workload.ask, free, np.logical_or.reduce(list(nodes.values())))
        nodes = {pool: allowed & linked for pool, allowed in nodes.items()}
    return [Room(nodes[pool], most[pool]) for pool in nodes]


def _linked(inventory: Inventory, ask: ResourceRequest, free: Free, allowed: Bools) -> Bools:
    """The nodes where one NVLink domain takes a worker with several GPUs, if there are such nodes. Shape [N]."""
    links = per_link(inventory, ask, free, per_node(inventory, ask, free, allowed))
    nodes: Bools = np.bincount(inventory.node_of_link, links, len(inventory.nodes)) > 0
    return nodes if nodes.any() else allowed


def _best_of(
    inventory: Inventory, workload: Workload, offers: Sequence[Places], free: Free, chooser: Chooser
) -> Places | None:
    """The offer with the most workers, then the closest if the gang says how close, then the best score."""
    most = max(map(len, offers), default=0)
    offers = [places for places in offers if len(places) == most]
    if len(offers) > 1 and workload.topology.prefer is not None:
        spans = [_span(inventory, places) for places in offers]
        offers = [places for places, span in zip(offers, spans, strict=True) if span == min(spans)]
    if len(offers) < 2:
        return offers[0] if offers else None
    asks = {place.rank: workload.ask_of(place.rank) for place in offers[0]}
    scores = [
        chooser.score(free, [(asks[p.rank], (inventory.index[p.node], p.gpus)) for p in places]) for places in offers
    ]
    return offers[int(np.argmax(scores))]  # of equal ones the first


def _span(inventory: Inventory, places: Places) -> Level:
    """The tightest level from the node up that has all of these places in one domain."""
    nodes = [inventory.index[place.node] for place in places]
    levels = (Level.NODE, Level.RACK, Level.ZONE)
    return next((at for at in levels if len({*domain_of_node(inventory, at)[nodes].tolist()}) == 1), Level.CLUSTER)
