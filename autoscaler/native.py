"""Services that Kubernetes' own autoscaler (HPA) scales: what it is told of their load, its target, and its rule.

The load is requests in flight of all replicas, the target how many of them each is to have. The target follows from
the objective by the law's need (law.py): a replica has the slots that were learned, less the law's room for the longest
waits, spread over the least replicas; at least 0.3 and at most 0.9 of the slots. With one replica at least, the HPA
then asks for no fewer than the law does at a steady load, as long as neither bound of that part is reached.

The rule is the published one (kubernetes.io, "Horizontal Pod Autoscaling", algorithm details and configurable scaling
behavior, with the defaults of autoscaling/v2). It is played where there is no Kubernetes: in the simulated cluster.
Pure.
"""

import math
from dataclasses import dataclass, replace

from autoscaler.bounds import Bounds
from autoscaler.law import Terms, for_waits
from autoscaler.observed import Learned, Scrape

LEAST_PART, MOST_PART = 0.3, 0.9  # of a replica's slots: between these is the target
UNKNOWN_PART = 0.7  # before a request was answered
SAME = 0.1  # of the target: a new one that differs by no more is not worth a change of the autoscaler
TOLERANCE = 0.1  # of the HPA: no change within 10 % of the target
FALL_SECONDS = 300.0  # of the HPA: it goes down to the most that was advised over so long
RISE_RATIO, RISE_COUNT = 2, 4  # of the HPA: at most so many times as many, or so many more, in each 15 s
TOO_MANY, TOO_FEW, TOO_FAST = "TooManyReplicas", "TooFewReplicas", "ScaleUpLimit"  # its reasons of ScalingLimited


@dataclass(frozen=True, slots=True)
class Native:
    """How a service is scaled by Kubernetes. slots: what its queue lets a replica have at once; None: it has none.

    target: the one in force, requests in flight for each replica. is_played: there is no Kubernetes that does it.
    """

    slots: int | None = None
    target: float | None = None
    is_played: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What the autoscaler is told. in_flight: requests with all replicas and in the queue; None: not known, never 0."""

    at: float
    in_flight: float | None
    target: float


@dataclass(frozen=True, slots=True)
class Advice:
    """How many replicas the HPA wants. limited: its reason where a bound holds it; advised: what is remembered."""

    replicas: int
    limited: str
    advised: tuple[tuple[float, int], ...]


def load(scrape: Scrape, learned: Learned, native: Native, least: int, terms: Terms) -> Load:
    """What the autoscaler is told after a sound scrape."""
    wanted = target(learned, native.slots, least, terms)
    now = native.target
    is_same = now is not None and abs(wanted - now) <= SAME * now
    return Load(scrape.at, in_flight(scrape, learned), now if is_same and now is not None else wanted)


def in_flight(scrape: Scrape, learned: Learned) -> float | None:
    """Requests that run or wait: as told, else by Little's law from their rate and what one takes."""
    if scrape.running is not None:
        return float(scrape.running + (scrape.waiting or 0))
    seconds = learned.mean
    if seconds is None:
        return None
    return scrape.arrived / scrape.seconds * seconds + (scrape.waiting or 0)


def target(learned: Learned, slots: int | None, least: int, terms: Terms) -> float:
    """Requests in flight that each replica is to have, so that the objective is kept."""
    most = slots or learned.slots
    seconds = learned.mean
    if seconds is None or not learned.knows(terms.of):
        return UNKNOWN_PART * most
    all_slots = most * max(1, least)
    part = 1.0 - for_waits(learned, seconds, all_slots, terms) / all_slots
    # Fewer only where sharing is seen to make requests slower: not because fewer were there at once until now.
    crowded = replace(learned, slots=most).at_once(terms.objective, terms.availability, terms.of)
    return min(min(MOST_PART, max(LEAST_PART, part)) * most, crowded)


def advise(current: int, load: Load, bounds: Bounds, advised: tuple[tuple[float, int], ...]) -> Advice:
    """What the HPA wants now, one of its looks every 15 s. advised: (when, replicas) of its looks before."""
    if not bounds.least <= current <= bounds.most:
        return Advice(bounds.clamp(current), "", advised)
    if load.in_flight is None:
        return Advice(current, "", advised)
    proposed = current
    if not 1.0 - TOLERANCE <= load.in_flight / (load.target * current) <= 1.0 + TOLERANCE:
        proposed = math.ceil(load.in_flight / load.target)
    kept = tuple(one for one in advised or ((load.at, current),) if load.at - one[0] < FALL_SECONDS)
    highest = max((proposed, *(count for _, count in kept)))
    fastest = max(RISE_RATIO * current, RISE_COUNT + current)
    count, limited = min(max(current, proposed), highest), ""
    if count > min(fastest, bounds.most):
        count = min(fastest, bounds.most)
        limited = TOO_FAST if fastest < bounds.most else TOO_MANY
    if count < bounds.least:
        count, limited = bounds.least, TOO_FEW
    return Advice(count, limited, (*kept, (load.at, proposed)))
