"""The inner loop of replicas that batch, compiled where numba is installed: prefill first, then all decode together.

A replica is a language model's server. Of the requests that it has taken it works on one prompt at a time, first come
first served, and while it does no other request gets tokens. Else all of them get tokens together, in steps that take
longer the more there are: the part `growth` for each but the first. A step's own length is not told apart (20 ms where
tokens are known), so a prompt begins at once, and not at the end of the step under way.
"""

import math

from controlplane.cluster.serving.traffic import Floats, Ints
from scheduler.placement.compiled import compiled

OPENS, FREED, CLOCK, NEXT = range(4)  # columns of `times`
PREFILL, DECODE = range(2)  # of `left`
OPEN, COUNT = range(2)  # of `rows`
NOTHING = 1e-9  # s of work: less is none


@compiled
def serve_batched(
    at: Floats, prefill: Floats, decode: Floats, first: int, until: float, growth: float, rows: Ints, times: Floats,
    who: Ints, left: Floats, began: Floats, ended: Floats, by: Ints,
) -> int:  # fmt: skip
    """Serve requests first come first served from number `first` on, as far as what happens before `until` goes.

    A request goes to the first open replica with a seat, of several to the one with fewest. prefill, decode: s of each
    request that is alone. rows [replicas, 2]: whether it takes requests, and how many it has. times [replicas, 4]: when
    it opens, when it last had a seat freed, until when its work is counted, and when the next of its requests has its
    first token or ends. who [replicas, seats]: their numbers; left [replicas, seats, 2]: s of work. All these change.
    Writes of each request when it began and ended, and by which row; returns the number of the first that waits.
    """
    i = first
    while True:
        row, event = -1, math.inf
        place, start = -1, math.inf
        for r in range(len(rows)):
            if rows[r, COUNT] > 0 and times[r, NEXT] < event:
                row, event = r, times[r, NEXT]
            if i < len(at) and rows[r, OPEN] == 1 and rows[r, COUNT] < who.shape[1]:
                when = max(at[i], times[r, OPENS], times[r, FREED])
                if when < start or (when == start and rows[r, COUNT] < rows[place, COUNT]):
                    place, start = r, when
        if min(start, event) >= until:
            return i
        if start < event:
            _advance(place, start, growth, rows, times, who, left)
            seat = rows[place, COUNT]
            who[place, seat], left[place, seat, PREFILL], left[place, seat, DECODE] = i, prefill[i], decode[i]
            rows[place, COUNT] = seat + 1
            began[i], by[i] = start, place
            row = place
            i += 1
        else:
            _advance(row, event, growth, rows, times, who, left)
            _end(row, event, rows, times, who, left, ended)
        _plan(row, growth, rows, times, who, left)


@compiled
def _advance(row: int, now: float, growth: float, rows: Ints, times: Floats, who: Ints, left: Floats) -> None:
    """Count a replica's work up to now."""
    seconds, count = now - times[row, CLOCK], rows[row, COUNT]
    times[row, CLOCK] = now
    seat = _prompt(row, rows, who, left)
    if seat >= 0:
        left[row, seat, PREFILL] -= seconds
        return
    for one in range(count):
        left[row, one, DECODE] -= seconds / (1.0 + growth * (count - 1))


@compiled
def _prompt(row: int, rows: Ints, who: Ints, left: Floats) -> int:
    """The seat whose prompt is worked on: that of the first request that came; -1: none."""
    found = -1
    for seat in range(rows[row, COUNT]):
        if left[row, seat, PREFILL] > NOTHING and (found < 0 or who[row, seat] < who[row, found]):
            found = seat
    return found


@compiled
def _end(row: int, now: float, rows: Ints, times: Floats, who: Ints, left: Floats, ended: Floats) -> None:
    """Take the requests away that have all their tokens."""
    seat = 0
    while seat < rows[row, COUNT]:
        if left[row, seat, PREFILL] > NOTHING or left[row, seat, DECODE] > NOTHING:
            seat += 1
            continue
        ended[who[row, seat]] = now
        times[row, FREED] = now
        last = rows[row, COUNT] - 1
        who[row, seat] = who[row, last]
        left[row, seat, PREFILL], left[row, seat, DECODE] = left[row, last, PREFILL], left[row, last, DECODE]
        rows[row, COUNT] = last


@compiled
def _plan(row: int, growth: float, rows: Ints, times: Floats, who: Ints, left: Floats) -> None:
    """When the next of a replica's requests has its first token or ends."""
    count = rows[row, COUNT]
    seat = _prompt(row, rows, who, left)
    if seat >= 0:
        times[row, NEXT] = times[row, CLOCK] + left[row, seat, PREFILL]
        return
    least = math.inf
    for one in range(count):
        least = min(least, left[row, one, DECODE])
    times[row, NEXT] = times[row, CLOCK] + max(0.0, least) * (1.0 + growth * (count - 1))
