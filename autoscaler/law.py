"""How many replicas a service needs: from its rate, the trend, its queue, and what was learned of a request.

Source: docs/algorithms.md#services. Requests wait for a slot in one queue, so a service needs f*S slots to keep up with
a rate f of requests of S seconds, and room on top: `tail` times S/(K W) for the longest waits (2.25 keeps 95 % of them
below K W, the tail of M/G/k), where W is what a request may wait within the objective. Where that is of the first
token, W follows from the time until it, and S stays that of the whole answer, as long as a slot is busy. Pure: `look`
answers with a new state, `signal` needs none. A rise is taken at once; a fall waits until fewer were wanted over the
whole window, and for a service that was looked at without a gap. What cannot be true or is not new changes nothing.
"""

import math
from dataclasses import dataclass, field, replace

from autoscaler.latency import ANSWER
from autoscaler.limits import Tried
from autoscaler.observed import Learned, Scrape, Signal, learn
from autoscaler.trend import fitted

MANY = 300  # arrivals that tell a rate
SHORTEST = 30.0  # s over which a rate is taken, at least
POINTS = 10  # moments that a trend is fitted to, at least
PATIENT = 2400.0  # s: no fall is waited for any longer; one that is not taken back for so long is none of noise
PATIENT_LARGE = 2700.0  # the same where falls are taken back by more than SMALL, by large noise
SOON, PATIENCE = 2.0, 4.0  # windows after a fall in which a rise takes it back; times that the window is then longer
SMALL = 0.1  # of the replicas: a rise by no more, or by one, may be noise
AVAILABILITY = 0.999  # of a service that says nothing else
NO_WAIT = 3.0  # roots of the slots in use: with so many free 99.8 % of requests find one (Erlang's C, many slots)
MOST = 1_000_000  # more slots than any service has: a rate that cannot be true asks for no more


@dataclass(frozen=True, slots=True)
class Constants:
    """The law's constants: with loaded replicas on standby, or without."""

    horizon: float  # s beyond a replica's start for which to be ready
    part: float  # K: of the wait that is allowed, what may be used
    tail: float  # times S/(K W): slots on top of the mean
    queue_seconds: float  # at least so long a queue may take to be worked off
    fall: float  # s over which fewer must have been wanted; 0: three starts
    takes_all: bool  # requests of 15 s and more each get a slot at once
    young: float = 300.0  # s of a service, or since a gap, in which it does not get smaller
    gap: float = 60.0  # s without a look after which what was seen before says nothing of a trend or a fall
    longest: float = 120.0  # s over which a rate is taken, where few requests come
    headroom: float = 0.0  # replicas on top of those needed, as a part of them


STANDBY = Constants(horizon=10.0, part=0.5, tail=1.5, queue_seconds=30.0, fall=30.0, takes_all=True)
ALONE = Constants(horizon=15.0, part=0.3, tail=5.2, queue_seconds=20.0, fall=0.0, takes_all=False, longest=400.0)


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a service while it is looked at."""

    objective: float  # s that a request may take
    start: float  # s until a replica that is asked for serves
    constants: Constants
    availability: float = AVAILABILITY  # the part of requests that is to be within the objective
    of: str = ANSWER  # what the objective is measured on, one of latency.MEASURES


@dataclass(frozen=True, slots=True)
class Fleet:
    """Its replicas. on: those that exist or are being started; ready: those that serve."""

    on: int
    ready: int


@dataclass(frozen=True, slots=True)
class State:
    """What the law remembers of one service between two looks."""

    learned: Learned = field(default_factory=Learned)
    points: tuple[tuple[float, float], ...] = ()  # (moment, requests that came up to it), oldest first
    wanted: tuple[tuple[float, int], ...] = ()  # (when, replicas) of the last looks
    calm: float = 1.0  # times as long as usual that fewer must have been wanted
    fell_at: float | None = None  # when it last got smaller
    began: float | None = None  # first look, or the first after a gap
    idle_since: float | None = None  # since when each look said that no request came, waits or runs (zero.py)
    advised: tuple[tuple[float, int], ...] = ()  # (when, replicas) of looks by Kubernetes' rule (native.py)
    tried: Tried | None = None  # of a service whose replicas' limit may be raised (vertical.py)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Replicas wanted from now on, why, and the numbers behind it by name.

    exact: replicas that are needed now, before rounding and whatever there are; None: nothing new was told.
    """

    replicas: int
    why: str = ""
    terms: tuple[tuple[str, float], ...] = ()
    exact: float | None = None


def wait_seconds(learned: Learned, objective: float, of: str = ANSWER) -> float:
    """W: what a request may wait and still be on time."""
    p95, p99 = learned.quantiles((0.95, 0.99), of)
    return max(objective - p99, 0.25 * (objective - p95), 0.02 * objective)


def look(state: State, scrape: Scrape, fleet: Fleet, terms: Terms) -> tuple[State, Wanted]:
    """The state after a scrape, and the replicas wanted from now on."""
    last = state.points[-1] if state.points else None
    if not scrape.is_sound or (last is not None and scrape.at <= last[0]):
        return state, Wanted(fleet.on)
    since = scrape.seconds if last is None else scrape.at - last[0]
    if last is None or since > terms.constants.gap:
        state = replace(state, points=((scrape.at - scrape.seconds, 0.0),), wanted=(), began=scrape.at)
        since = scrape.seconds
    learned = learn(state.learned, scrape, since, fleet.ready, terms.objective, terms.of)
    came = state.points[-1][1] + scrape.arrived / scrape.seconds * since
    state = replace(state, learned=learned, points=_kept((*state.points, (scrape.at, came)), terms))
    need = _slots(state, scrape, fleet, terms)
    if need is None:
        return state, Wanted(fleet.on)
    exact = replicas(need.slots, need.busy, learned, terms)
    if scrape.is_partial and state.wanted:  # it may ask for more, and is no reason for less
        exact = max(exact, float(state.wanted[-1][1]))
    count = whole(exact)
    state = _regretted(state, count, scrape.at, fleet, terms)
    window = state.calm * fall_window(terms)
    # The look before counts however long ago it was: one look alone makes no service smaller.
    before = [one for one in state.wanted[:-1] if scrape.at - one[0] < window]
    state = replace(state, wanted=(*before, *state.wanted[-1:], (scrape.at, count)))
    found = _decided(state, count, scrape, fleet, need, terms.constants)
    found = replace(found, exact=exact)
    return (replace(state, fell_at=scrape.at) if found.replicas < fleet.on else state), found


def fall_window(terms: Terms) -> float:
    """Seconds over which fewer must have been wanted."""
    return terms.constants.fall or 3 * terms.start


def _regretted(state: State, count: int, at: float, fleet: Fleet, terms: Terms) -> State:
    """The state with more patience where a fall is taken back soon, and with less where one was not for an hour.

    Noise does so again and again; a load that rises and falls in turns does not, for it stays low for longer. With
    replicas on standby a fall costs next to nothing, so it needs no patience.
    """
    if state.fell_at is None or terms.constants.takes_all:
        return state
    window, since = fall_window(terms), at - state.fell_at
    is_small = count - fleet.on <= max(1, SMALL * fleet.on)  # a larger rise is a load that has grown, not noise
    soon = max(PATIENT if is_small else 0.0, SOON * state.calm * window)
    if count > fleet.on and since <= soon:
        most = max(1.0, (PATIENT if is_small else PATIENT_LARGE) / window)
        return replace(state, calm=max(state.calm, min(PATIENCE * state.calm, most)), fell_at=None)
    if since > PATIENT:
        return replace(state, calm=max(1.0, state.calm / PATIENCE), fell_at=None)
    return state


def _decided(state: State, count: int, scrape: Scrape, fleet: Fleet, need: "_Need", constants: Constants) -> Wanted:
    numbers = need.named(state.learned, scrape.waiting)
    why = f"{need.why} {_replicas(count, state.learned.slots)}"
    if need.is_crowded(count, state.learned, constants.headroom):
        why = f"{why}, and fewer in each, as those that share a replica are late"
    if constants.headroom:
        why = f"{why}, headroom of {100 * constants.headroom:.0f} % included"
    if count >= fleet.on:
        return Wanted(count, why, numbers)
    is_young = scrape.at - (state.began if state.began is not None else scrape.at) < constants.young
    fewer = min(fleet.on, max(n for _, n in state.wanted))
    if is_young or scrape.is_partial or len(state.wanted) < 2 or fewer == fleet.on:
        return Wanted(fleet.on)
    seconds = scrape.at - state.wanted[0][0]
    return Wanted(fewer, f"no more than {fewer} were needed for {seconds:.0f} s: {why}", numbers)


def _replicas(count: int, slots: int) -> str:
    return f"{count} {'replica' if count == 1 else 'replicas'} of {slots} at once"


def signal(state: State, waiting: int, rate: float, fleet: Fleet, soon: int, terms: Terms) -> int | None:
    """Replicas wanted because so many requests wait at the gateway; None: no more than there are.

    rate: requests a second over the last five seconds; soon: replicas that serve by the time one more would.
    """
    learned, k, on = state.learned, terms.constants, fleet.on
    s = learned.mean
    if s is None or not learned.knows(terms.of):
        return on + max(1, math.ceil(waiting / learned.slots)) if on == soon else None
    w = wait_seconds(learned, terms.objective, terms.of)
    if waiting * s <= 0.5 * w * soon * learned.slots:
        return None
    need = rate * s + waiting * s / max(k.part * w, min(30.0, 10.0 * s)) + 1.5 * math.sqrt(rate * s)
    return max(on, math.ceil(need / learned.slots) + (on - soon))


def alarmed(state: State, told: Signal, at: float, fleet: Fleet, terms: Terms) -> tuple[State, Wanted]:
    """The same for what a gateway tells, with the reason, and the state after it; no change: the same state.

    All replicas that are asked for are there by the time one more would be.
    """
    nothing = Wanted(fleet.on)
    if not told.waiting or not told.is_sound:
        return state, nothing
    count = signal(state, told.waiting, told.rate, fleet, fleet.on, terms)
    if count is None or count <= fleet.on:
        return state, nothing
    need = _Need(
        0.0,
        f"{told.waiting} requests wait, {told.rate:.1f} requests/s come:",
        told.rate,
        terms.objective,
        seconds=state.learned.mean,
    )
    why = f"{need.why} {_replicas(count, state.learned.slots)}"
    found = Wanted(min(count, MOST), why, need.named(state.learned, told.waiting), float(min(count, MOST)))
    # What was wanted in between counts too, or the next look would take it back.
    return replace(_regretted(state, count, at, fleet, terms), wanted=(*state.wanted, (at, count))), found


@dataclass(frozen=True, slots=True)
class _Need:
    """Slots that are needed, and what for."""

    slots: float
    why: str
    rate: float = 0.0
    objective: float = 0.0
    busy: float = 0.0  # slots that are in use on average
    seconds: float | None = None  # a request's, as it was counted; None: not known

    def is_crowded(self, count: int, learned: Learned, headroom: float) -> bool:
        """Whether so many replicas are more than the slots ask for."""
        return count > whole(self.slots / learned.slots * (1.0 + headroom))

    def named(self, learned: Learned, waiting: int | None) -> tuple[tuple[str, float], ...]:
        """The numbers behind it."""
        known = {
            "expected_requests_per_second": self.rate,
            "request_seconds": self.seconds,
            "slots_per_replica": float(learned.slots),
            "objective_seconds": self.objective,
            "queue": waiting,
        }
        return tuple((name, float(value)) for name, value in known.items() if value is not None)


def _kept(points: tuple[tuple[float, float], ...], terms: Terms) -> tuple[tuple[float, float], ...]:
    """The points that a rate and a trend are taken from: the newest ten, or more for a slow start."""
    oldest = points[-1][0] - max(terms.constants.longest, terms.start + 15.0)
    return tuple(p for place, p in enumerate(points) if p[0] >= oldest or len(points) - place <= POINTS)


def _slots(state: State, now: Scrape, fleet: Fleet, terms: Terms) -> _Need | None:
    """None where nothing is known of a request."""
    learned, k, s = state.learned, terms.constants, state.learned.mean
    inside = None if now.running is None else float(now.running + (now.waiting or 0))
    if s is None:
        return None if inside is None else _Need(inside, f"{inside:.0f} requests are here, none answered yet:")
    if not learned.knows(terms.of):  # a first token is promised, and none was ever told of
        return None
    trend = fitted(_rates(state.points))
    rate, rise = _rate(state.points, k.longest), max(0.0, trend.certain)
    if rise > 0:
        rate = max(rate, trend.at(now.at))
    future = rate + rise * ((0.0 if k.takes_all else terms.start) + k.horizon)
    need = _Need(
        steady(learned, s, future, terms), f"{future:.1f} requests/s of {s:.2g} s expected:", future, terms.objective,
        future * s, s,
    )  # fmt: skip
    if now.waiting:
        backlog = now.waiting * s
        left = backlog + s * (rate + future) / 2 * 30.0 - 30.0 * learned.slots * fleet.on
        room = max(k.part * wait_seconds(learned, terms.objective, terms.of), k.queue_seconds)
        for_queue = future * s + max(backlog, left) / room
        if k.takes_all and s >= 15.0 and inside is not None:
            for_queue = max(for_queue, inside)
        if for_queue > need.slots:
            need = replace(need, slots=for_queue, why=f"{now.waiting} requests wait:")
    return need


def steady(learned: Learned, seconds: float, rate: float, terms: Terms) -> float:
    """Slots for a rate of requests of so many seconds: f*S to keep up, and the tail for the longest waits.

    The tail is that of requests that wait. A first token may be promised in far less than an answer takes; then so many
    free slots that hardly any request waits are fewer, and enough.
    """
    return rate * seconds + for_waits(learned, seconds, rate * seconds, terms)


def for_waits(learned: Learned, seconds: float, busy: float, terms: Terms) -> float:
    """Slots beside those that are busy on average, so that waits stay within the objective."""
    tail = terms.constants.tail * seconds / (terms.constants.part * wait_seconds(learned, terms.objective, terms.of))
    return tail if terms.of == ANSWER else min(tail, NO_WAIT * math.sqrt(busy) + 1.0)


def replicas(slots: float, busy: float, learned: Learned, terms: Terms) -> float:
    """Replicas that have so many slots, and headroom, not rounded; none is too crowded with so many of them in use."""
    crowded = busy / learned.at_once(terms.objective, terms.availability, terms.of)
    needed = max(slots / learned.slots, crowded) * (1.0 + terms.constants.headroom)
    return min(needed, MOST / learned.slots)


def whole(exact: float) -> int:
    """The fewest replicas that are so many, at least one."""
    return max(1, math.ceil(exact))


def _rate(points: tuple[tuple[float, float], ...], longest: float) -> float:
    """Arrivals a second over the shortest of 30 s to `longest` that holds enough of them, else over all there is."""
    now, came = points[-1]
    rate = 0.0
    for then, before in reversed(points[:-1]):
        seconds = now - then
        rate = (came - before) / seconds
        if seconds >= longest or (seconds >= SHORTEST and came - before >= MANY):
            break
    return rate


def _rates(points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """(moment, arrivals a second) between two points each."""
    pairs = zip(points, points[1:], strict=False)
    return [((a + b) / 2, (after - before) / (b - a)) for (a, before), (b, after) in pairs]
