"""What an objective costs: the replicas that the law asks for at the load of a day, before anything is changed.

The load is known by the minute, so trends and queues within a minute are left out; a rise counts from its minute on, a
fall once fewer were wanted over the law's whole window. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.law import Terms, fall_window, replicas, steady, whole
from autoscaler.observed import Learned

MINUTE = 60.0  # s that a rate is of


@dataclass(frozen=True, slots=True)
class Price:
    """Replicas over these minutes, standby included: mean, the most at once; the part that needs more than max."""

    mean: float
    most: int
    short: float


def price(
    learned: Learned, rates: Sequence[float], terms: Terms, least: int, greatest: int, standby: int = 0
) -> Price | None:
    """What these rates (requests/s, one a minute) ask for within the bounds; None where nothing is known of either.

    standby: replicas that are kept loaded beyond those that serve, as far as `greatest` allows: they hold their GPUs.
    """
    seconds = learned.mean
    if seconds is None or not learned.knows(terms.of) or not rates:
        return None
    slots = [(steady(learned, seconds, rate, terms), rate * seconds) for rate in rates]
    needs = [whole(replicas(needed, busy, learned, terms)) for needed, busy in slots]
    window = max(1, math.ceil(fall_window(terms) / MINUTE))
    kept = [max(needs[max(0, i - window + 1) : i + 1]) for i in range(len(needs))]
    had = [min(max(count, least) + standby, greatest) for count in kept]
    return Price(sum(had) / len(had), max(had), sum(count > greatest for count in needs) / len(needs))
