"""Latencies from a histogram's buckets, as Prometheus' own histogram_quantile reads them: straight lines inside."""

import math
from collections.abc import Mapping, Sequence

Bucket = tuple[float, float]  # (upper bound, observations up to it)


def cumulative(counts: Mapping[float, float]) -> tuple[Bucket, ...]:
    """Buckets by bound, none smaller than the one before: rates of counters that are scraped apart may be."""
    out: list[Bucket] = []
    reached = 0.0
    for bound in sorted(counts):
        reached = max(reached, counts[bound])
        out.append((bound, reached))
    return tuple(out)


def quantile(buckets: Sequence[Bucket], level: float) -> float | None:
    """The value that a ratio of `level` (0..1) of the observations do not exceed.

    None when nothing was observed. Beyond the last finite bound it is that bound: a lower limit of the truth.
    """
    if not buckets or not math.isinf(buckets[-1][0]) or buckets[-1][1] <= 0:
        return None
    rank = level * buckets[-1][1]
    below, bound_below = 0.0, 0.0
    for bound, reached in buckets:
        if reached >= rank:
            if math.isinf(bound):
                return bound_below or None
            inside = reached - below
            return bound_below + (bound - bound_below) * ((rank - below) / inside if inside > 0 else 1.0)
        below, bound_below = reached, bound
    return None


def ratio_within(buckets: Sequence[Bucket], limit: float) -> float | None:
    """The ratio (0..1) of the observations that are at most `limit`; None when nothing was observed."""
    if not buckets or not math.isinf(buckets[-1][0]) or buckets[-1][1] <= 0:
        return None
    total = buckets[-1][1]
    below, bound_below = 0.0, 0.0
    for bound, reached in buckets:
        if limit < bound:
            if math.isinf(bound):
                return below / total  # those beyond the last bound are taken to be slower
            inside = (limit - bound_below) / (bound - bound_below)
            return (below + (reached - below) * inside) / total
        below, bound_below = reached, bound
    return 1.0
