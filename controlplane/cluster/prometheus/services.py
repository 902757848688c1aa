"""What several answers say together of one service's requests."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from autoscaler.observed import MIDDLES, NONE, Scrape, spread
from controlplane.cluster.prometheus import histogram, queries
from controlplane.cluster.prometheus.connection import Key
from controlplane.cluster.prometheus.histogram import Bucket

Values = Mapping[Key, float | None]
# Beside the arrivals, in the order in which `scrape` takes the answers.
ASKED = (
    queries.SERVED_WITHIN, queries.SERVED_SECONDS, queries.GOOD_WITHIN, queries.QUEUE, queries.RUNNING, queries.WIDEST,
    queries.FIRST_SERVED, queries.UNSTEADY,
)  # fmt: skip


def scrape(uid: str, at: float, window: float, arrived: float, answers: Sequence[Values]) -> Scrape:
    """What is told of a service whose arrivals are known.

    Where neither the activator nor the model server tells service times, Istio's durations stand for them: they are the
    same as long as no request waits inside a replica.
    """
    within, total, durations, queue, running, widest, first, unsteady = answers
    seconds = queries.SHORT * window
    counts = _counts(buckets(uid, within), 1.0)
    if counts is None:  # of milliseconds, and of a whole window
        counts = _counts(buckets(uid, durations), 1000.0, queries.SHORT)
    counts = counts or NONE
    known = total.get((uid,))
    answered_seconds = float((np.array(counts) * MIDDLES).sum()) if known is None else known
    waits, runs, most = (_whole(one.get((uid,))) for one in (queue, running, widest))
    tokens, is_partial = _counts(buckets(uid, first), 1.0), (uid,) in unsteady
    return Scrape(at, seconds, arrived, answered_seconds, counts, waits, runs, most, tokens, is_partial)


def buckets(uid: str, values: Values) -> tuple[Bucket, ...] | None:
    """A service's buckets; None when one of them is not known."""
    counts: dict[float, float] = {}
    for (of, le), value in values.items():
        if of == uid:
            bound = _bound(le)
            if bound is None or value is None:
                return None
            counts[bound] = value
    return histogram.cumulative(counts)


def _counts(known: tuple[Bucket, ...] | None, unit: float, part: float = 1.0) -> tuple[float, ...] | None:
    """In the autoscaler's buckets; unit: of the bounds, in a second. None where nothing is told."""
    if not known:
        return None
    reached = [0.0, *(count for _, count in known)]
    each = [part * (after - before) for before, after in pairwise(reached)]
    return spread([bound / unit for bound, _ in known], each)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _bound(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 else None
