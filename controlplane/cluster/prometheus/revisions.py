"""What each revision of a service has answered while its requests were split: by our activator, else by Istio."""

import re
from collections.abc import Mapping

from autoscaler.latency import Within
from controlplane.cluster.port import RevisionUse
from controlplane.cluster.prometheus import histogram, queries, services
from controlplane.cluster.prometheus.connection import Key

Values = Mapping[Key, float | None]
GOOD = "good"  # what the activator calls a request in time


def of_activator(uid: str, outcomes: Values) -> tuple[RevisionUse, ...]:
    """By what became of requests; nothing when one number is not known."""
    if any(value is None for (of, _, _), value in outcomes.items() if of == uid):
        return ()
    counts: dict[int, tuple[float, float]] = {}
    for (of, revision, outcome), value in outcomes.items():
        if of == uid and _is_number(revision):
            requests, over = counts.get(int(revision), (0.0, 0.0))
            more = value or 0.0
            counts[int(revision)] = requests + more, over + (0.0 if outcome == GOOD else more)
    return tuple(_use(uid, revision, *both) for revision, both in sorted(counts.items()))


def of_istio(uid: str, codes: Values, within: Values, p95: Within) -> tuple[RevisionUse, ...]:
    """By response codes and durations; a revision whose durations are not known is left out.

    Durations are of whole answers, so where a first token is promised nothing is known of any.
    """
    if p95.is_first_token:
        return ()
    found = []
    for revision in sorted({number for of, number, _ in codes if of == uid and _is_number(number)}, key=int):
        mine = {code: value for (of, number, code), value in codes.items() if (of, number) == (uid, revision)}
        known = {code: value for code, value in mine.items() if value is not None}
        buckets = services.buckets(uid, {(of, le): v for (of, number, le), v in within.items() if number == revision})
        in_time = histogram.ratio_within(buckets, 1000 * p95.seconds) if buckets else None
        if len(known) < len(mine):
            continue
        failed = sum(value for code, value in known.items() if re.fullmatch(queries.FAILED, code))
        good = sum(known.values()) - failed
        if in_time is None and round(good):
            continue
        found.append(_use(uid, int(revision), good + failed, failed + good * (1 - (in_time or 0.0))))
    return tuple(found)


def _use(uid: str, revision: int, requests: float, over: float) -> RevisionUse:
    return RevisionUse(uid, revision, round(requests), min(round(requests), round(over)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) <= 9  # noqa: PLR2004 - digits of an int
