"""Vertical first: a replica on a shared GPU may use more of what its device has idle before another one is started.

The law says how many replicas are needed at the limit that holds (`Wanted.exact`). With another limit l a request takes
l ** -e times as long, where e is learned of the service from its own changes (1 at first: all its time is the GPU's).
So a rise goes into the limit as far as the device has room beside what it guarantees to others, and only the rest into
replicas. A fall is as slow as the law's: replicas leave first, as a guarantee is what costs, then the limit is lowered.
No guarantee changes, so none is promised twice. Pure. Source: own; docs/algorithms.md#services.
"""

import math
from dataclasses import dataclass, replace

from autoscaler.bounds import Bounds
from autoscaler.law import State, Terms, Wanted, fall_window
from autoscaler.limits import Limits, Tried
from autoscaler.observed import BUCKETS, FirstToken, Learned, spread
from gpushare.gpu import WHOLE

STEP = 50  # milli-GPU: limits are multiples of it, so that noise is no change
TIGHT, SLACK = 1.25, 2.0  # of what is needed: a limit below the first is raised to the second, which keeps nothing free
FALL = 2 * STEP  # a limit is lowered by so much at least
FEW = 20.0  # requests that a guess of another limit's service times counts for
ENOUGH = 200.0  # requests after a change from which its effect is learned
NONE = 0.05  # an effect below it is none: a limit makes no request faster


@dataclass(frozen=True, slots=True)
class Fitted:
    """Replicas wanted, another limit for them (None: as before), and what is to be said of it."""

    wanted: Wanted
    limit: int | None = None
    why: str = ""


def relearned(state: State | None, limit: int) -> State:
    """The state of a service whose replicas have this limit now: after a change its service times are a guess.

    Once enough requests were answered with it, the guess is judged: that is how the effect is learned.
    """
    state = state or State()
    tried, learned = state.tried, state.learned
    if tried is None:
        return replace(state, tried=Tried(limit))
    mean = learned.mean
    if tried.limit != limit:
        before = None if mean is None else (tried.limit, mean)
        guess = _scaled(learned, (tried.limit / limit) ** tried.effect)
        return replace(state, learned=guess, tried=replace(tried, limit=limit, before=before))
    if tried.before is None or mean is None or learned.requests < ENOUGH:
        return state
    old, seconds = tried.before
    seen = math.log(seconds / mean) / math.log(limit / old)
    effect = (tried.effect + min(1.0, max(0.0, seen))) / 2
    return replace(state, tried=replace(tried, before=None, effect=effect, is_known=True))


def fitted(
    state: State, wanted: Wanted, limits: Limits, current: int, bounds: Bounds, terms: Terms, at: float
) -> tuple[State, Fitted]:
    """The state after a look, and what is wanted of replicas and limit. `relearned` was called with the limit of now.

    current: replicas that are to be there, at least 1. wanted: what the law says with the limit of now.
    """
    tried = state.tried
    assert tried is not None  # noqa: S101 - `relearned` sets it
    now, cap = tried.limit, limits.cap
    if wanted.exact is None:  # nothing new was told
        return state, _with(wanted, min(now, cap), now, limits)
    window = state.calm * fall_window(terms)
    kept = [one for one in tried.asked[:-1] if at - one[0] < window]
    asked = (*kept, *tried.asked[-1:], (at, wanted.exact, now))
    state = replace(state, tried=replace(tried, asked=asked))
    if cap == limits.least == now:  # nothing to choose: the law's own
        return state, _with(wanted, now, now, limits)
    peak = max(exact * (limit / now) ** tried.effect for _, exact, limit in asked)
    may_fall = len(asked) > 1 and state.began is not None and at - state.began >= terms.constants.young
    count = bounds.clamp(_replicas(wanted.exact, now, cap, tried.effect))
    if may_fall:
        fewest = _replicas(TIGHT * peak, now, cap if tried.is_known else now, tried.effect)
        count = max(count, min(current, bounds.clamp(fewest)))
    else:
        count = max(count, bounds.clamp(current))  # new bounds count at once, and the limit with them
    if count < current:
        limit = _limit(SLACK * peak, count, now, tried.effect)
    elif count > current:  # until the new ones serve, those that do get all there is
        limit = cap if tried.effect >= NONE else now
    elif TIGHT * wanted.exact > count and (wanted.exact > count or now < cap):
        limit = _limit(SLACK * wanted.exact, count, now, tried.effect)
    else:
        lower = max(limits.least, _limit(SLACK * peak, count, now, tried.effect))
        limit = lower if may_fall and lower <= now - FALL else now
    limit = max(limits.least, min(limit, cap))
    if count < current or limit < now:
        state = replace(state, fell_at=at)
    return state, _with(replace(wanted, replicas=count), limit, now, limits)


def _replicas(exact: float, now: int, limit: int, effect: float) -> int:
    """How many are needed with another limit, where `exact` are needed with the one of now."""
    faster: float = (limit / now) ** effect
    return max(1, math.ceil(exact / faster - 1e-9))


def _limit(exact: float, count: int, now: int, effect: float) -> int:
    """The least limit with which so many replicas are enough, on the grid of steps; it may be more than a device."""
    if effect < NONE:
        return now if exact > count else STEP
    more: float = (exact / count) ** (1 / effect)
    asked = now * min(1e3, more)
    return max(STEP, math.ceil(asked / STEP - 1e-9) * STEP)


def _with(wanted: Wanted, limit: int, now: int, limits: Limits) -> Fitted:
    if limit != now:
        return Fitted(wanted, limit, f"may use {part(limit)} of their GPU in place of {part(now)}")
    if limits.advisory and limits.most > now:
        why = f"their limit stays {part(now)}, as nothing on {limits.advisory} holds a share to it (advisory)"
        return Fitted(wanted, why=why)
    return Fitted(wanted)


def part(limit: int) -> str:
    """`0.35`."""
    return f"{limit / WHOLE:g}"


def _scaled(learned: Learned, ratio: float) -> Learned:
    """The same service times, so many times as long, as if of a few requests."""
    known = learned.requests
    if known < 1:
        return learned
    weight = min(1.0, FEW / known)
    first = FirstToken(_longer(learned.first.counts, ratio, weight))
    counts = _longer(learned.counts, ratio, weight)
    return Learned(counts, learned.seconds * ratio * weight, learned.slots, first=first)


def _longer(counts: tuple[float, ...], ratio: float, weight: float) -> tuple[float, ...]:
    return spread([float(bound) * ratio for bound in BUCKETS], [weight * count for count in counts])
