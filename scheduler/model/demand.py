"""What is asked for: the shapes of work submitted of late, how often each, and how many of each the cluster took."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpushare.gpu import Share
from scheduler.model.workload import ResourceRequest


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of worker: what it asks, how many were asked for, and on how many places one of it fitted then."""

    ask: ResourceRequest
    count: int
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """The workers asked for of late, work without GPUs included. Empty: not known, or too few to tell.

    It is an input of a round, counted seldom, so that what follows from it is computed seldom as well.
    """

    shapes: tuple[Shape, ...] = ()

    @property
    def count(self) -> int:
        """How many workers were counted."""
        return sum(shape.count for shape in self.shapes)


NO_DEMAND = Demand()


def demand_of(counts: Mapping[ResourceRequest, int], slots: Mapping[ResourceRequest, int]) -> Demand:
    """The demand of these counts, in an order that depends on nothing but the shapes."""
    asks = sorted(counts, key=sort_key)
    return Demand(tuple(Shape(ask, counts[ask], slots.get(ask, 0)) for ask in asks))


def as_counted(ask: ResourceRequest) -> ResourceRequest:
    """The ask without a share's limit, by which no place differs."""
    share = ask.share
    if share is None:
        return ask
    counted = Share(share.guarantee, share.guarantee, share.memory, on_demand=share.on_demand)
    return replace(ask, share=counted, gpu_memory=0)


def sort_key(ask: ResourceRequest) -> tuple[object, ...]:
    """A total order of shapes."""
    share = (0, 0, 0, 0)
    if ask.share:
        share = ask.share.guarantee, ask.share.limit, ask.share.memory, ask.share.on_demand
    return (ask.gpus, *share, ask.gpu_memory, ask.cpu_milli, ask.memory, ask.models, ask.demands)
