"""How many replicas a service needs: from its rate, the trend, its queue, and what was learned of a request.

Source: docs/algorithms.md#services. Requests wait for a slot in one queue, so a service needs f*S slots to keep up with
a rate f of requests of S seconds, and room on top: `tail` times S/(K W) for the longest waits (2.25 keeps 95 % of them
below K W, the tail of M/G/k), where W is what a request may wait within the objective. Pure: `look` answers with a new
state, `signal` needs none.
"""

import math
from dataclasses import dataclass, field, replace

from autoscaler.observed import Learned, Scrape, learn

MANY = 300  # arrivals that tell a rate
SHORTEST, LONGEST = 30.0, 120.0  # s over which a rate is taken
FIRST = 15.0  # s that the first scrape looks back over
YOUNG = 300.0  # s of a service in which it does not get smaller


@dataclass(frozen=True, slots=True)
class Constants:
    """The law's constants: with loaded replicas on standby, or without."""

    horizon: float  # s beyond a replica's start for which to be ready
    part: float  # K: of the wait that is allowed, what may be used
    tail: float  # times S/(K W): slots on top of the mean
    queue_seconds: float  # at least so long a queue may take to be worked off
    fall: float  # s over which fewer must have been wanted; 0: three starts
    takes_all: bool  # requests of 15 s and more each get a slot at once


STANDBY = Constants(horizon=10.0, part=0.5, tail=1.0, queue_seconds=30.0, fall=30.0, takes_all=True)
ALONE = Constants(horizon=15.0, part=0.3, tail=5.2, queue_seconds=20.0, fall=0.0, takes_all=False)


@dataclass(frozen=True, slots=True)
class State:
    """What the law remembers of one service between two looks."""

    objective: float  # s that a request may take
    start: float  # s until a replica that is asked for serves
    constants: Constants
    learned: Learned = field(default_factory=Learned)
    scrapes: tuple[Scrape, ...] = ()  # the last ones, oldest first
    wanted: tuple[tuple[float, int], ...] = ()  # (when, replicas) of the last looks
    began: float | None = None

    @property
    def service_seconds(self) -> float | None:
        """S, None before the first answer."""
        return self.learned.mean

    @property
    def wait_seconds(self) -> float:
        """W: what a request may wait and still be on time."""
        p95, p99 = self.learned.quantile(0.95), self.learned.quantile(0.99)
        return max(self.objective - p99, 0.25 * (self.objective - p95), 0.02 * self.objective)


def look(state: State, scrape: Scrape) -> tuple[State, int]:
    """The state after a scrape, and the replicas wanted from now on."""
    before = state.scrapes[-1] if state.scrapes else None
    learned = learn(state.learned, scrape, scrape.seconds - (before.seconds if before else 0.0))
    kept = (*state.scrapes, scrape)[-_kept(state) :]
    began = scrape.at if state.began is None else state.began
    state = replace(state, learned=learned, scrapes=kept, began=began)
    need = max(1, math.ceil(_slots(state, scrape) / learned.slots))
    fall = state.constants.fall or 3 * state.start
    wanted = (*((at, n) for at, n in state.wanted if scrape.at - at < fall), (scrape.at, need))
    state = replace(state, wanted=wanted)
    if need >= scrape.on:
        return state, need
    if scrape.at - began < YOUNG:
        return state, scrape.on
    return state, min(scrape.on, max(n for _, n in wanted))


def signal(state: State, waiting: int, rate: float, on: int, soon: int) -> int | None:
    """Replicas wanted because so many requests wait at the gateway; None: no more than there are.

    rate: requests a second over the last five seconds; soon: replicas that serve by the time one more would.
    """
    s, slots, k = state.service_seconds, state.learned.slots, state.constants
    if s is None:
        return on + max(1, math.ceil(waiting / slots)) if on == soon else None
    w = state.wait_seconds
    if waiting * s <= 0.5 * w * soon * slots:
        return None
    need = rate * s + waiting * s / max(k.part * w, min(30.0, 10.0 * s)) + 1.5 * math.sqrt(rate * s)
    return max(on, math.ceil(need / slots) + (on - soon))


def _kept(state: State) -> int:
    return max(9, math.ceil(state.start / 15.0) + 2)


def _slots(state: State, now: Scrape) -> float:
    s, k = state.service_seconds, state.constants
    if s is None:
        return float(now.running + now.waiting)
    rate, slope = _rate(state.scrapes), _slope(state.scrapes)
    ahead = (0.0 if k.takes_all else state.start) + k.horizon
    if slope > 0:
        rate = max(rate, _level(state.scrapes))
    future = rate + max(slope, 0.0) * ahead
    room = k.part * state.wait_seconds
    need = future * s + k.tail * s / room
    if now.waiting:
        backlog = now.waiting * s
        left = backlog + s * (rate + future) / 2 * 30.0 - 30.0 * state.learned.slots * now.on
        need = max(need, future * s + max(backlog, left) / max(room, k.queue_seconds))
        if k.takes_all and s >= 15.0:
            need = max(need, float(now.running + now.waiting))
    return need


def _rate(scrapes: tuple[Scrape, ...]) -> float:
    """Arrivals a second over the shortest of 30 to 120 s that holds enough of them, at first over what there is."""
    now = scrapes[-1]
    rate = now.arrived / FIRST
    for then in reversed(scrapes[:-1]):
        seconds, came = now.at - then.at, now.arrived - then.arrived
        rate = came / seconds
        if seconds >= LONGEST or (seconds >= SHORTEST and came >= MANY):
            break
    return rate


def _points(scrapes: tuple[Scrape, ...]) -> list[tuple[float, float]]:
    """(moment, arrivals a second) between two scrapes each."""
    pairs = zip(scrapes, scrapes[1:], strict=False)
    return [((a.at + b.at) / 2, (b.arrived - a.arrived) / (b.at - a.at)) for a, b in pairs]


def _fit(scrapes: tuple[Scrape, ...]) -> tuple[float, float, float, float]:
    """(slope, its standard error, mean moment, mean rate) of a least-squares line."""
    points = _points(scrapes)
    if len(points) < 4:
        return 0.0, 0.0, 0.0, 0.0
    mean_t = sum(t for t, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    slope = sum((t - mean_t) * (y - mean_y) for t, y in points) / spread
    rest = sum((y - mean_y - slope * (t - mean_t)) ** 2 for t, y in points)
    return slope, math.sqrt(rest / (len(points) - 2) / spread), mean_t, mean_y


def _slope(scrapes: tuple[Scrape, ...]) -> float:
    slope, error, _, _ = _fit(scrapes)
    return 0.0 if abs(slope) <= 2 * error else math.copysign(abs(slope) - error, slope)


def _level(scrapes: tuple[Scrape, ...]) -> float:
    """The fitted rate now."""
    slope, _, mean_t, mean_y = _fit(scrapes)
    return mean_y + slope * (scrapes[-1].at - mean_t)
