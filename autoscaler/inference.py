"""How many replicas a service needs: from its predicted load and what one replica can do within the objective.

Rises are taken at once, from load before latency suffers, and by half as much again when it does. Falls wait for five
quiet minutes. What is not known never makes a service smaller.
Source: docs/algorithms.md#services; the bounds, steps and windows are those of stabilize.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.metrics import Objective, Sample, ServiceMetrics
from autoscaler.queueing import Replica, learn, slow_rate
from autoscaler.settings import Settings
from autoscaler.stabilize import Bounds, Wanted, downward, is_settled, upward

MANY = 1_000_000  # a replica's rate of next to nothing asks for more than a float counts, and than any service may have


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How many replicas, why, and the numbers behind it."""

    replicas: int
    why: str
    terms: tuple[tuple[str, float], ...] = ()


def replicas(
    current: int, bounds: Bounds, at: float, service: ServiceMetrics | None, settings: Settings
) -> Recommendation:
    """The number of replicas from now on; the current one whenever there is no reason for another."""
    stay = Recommendation(bounds.clamp(current), "the bounds changed")
    if service is None or service.objective is None:
        return stay
    samples = [s for s in service.samples if at - settings.learn_seconds < s.at <= at]
    if not samples or at - samples[-1].at > settings.stale_seconds:
        return stay
    capacity = service.rate_per_replica or learn(samples, service.objective.p95_seconds)
    rule = _Rule(service.objective, settings, bounds, capacity)
    up = _upward(rule, current, at, samples, service)
    if up is not None:
        return up
    down = _downward(rule, current, at, samples, service)
    return down if down is not None else stay


def predicted(samples: Sequence[Sample], at: float, settings: Settings) -> float | None:
    """Requests per second to be ready for: the newest rate, or more if it clearly rises; None if not known."""
    recent = [(s.at, s.requests_per_second) for s in samples if at - settings.trend_seconds < s.at]
    points = [(moment, rate) for moment, rate in recent if rate is not None]
    newest = samples[-1].requests_per_second
    if newest is None:
        return None
    slope, error = _trend(points)
    is_clear = slope > settings.trend_errors * error
    return max(newest, newest + slope * settings.lead_seconds) if is_clear else newest


@dataclass(frozen=True, slots=True)
class _Rule:
    """What stays the same for one service in one round."""

    objective: Objective
    settings: Settings
    bounds: Bounds
    capacity: "Replica | float | None"  # a fitted model, or requests per second of one replica

    def needed(self, rate: float, ratio: float) -> int | None:
        """Replicas that take this rate with p95 at this ratio of the objective; None if it is not known."""
        match self.capacity:
            case None:
                return None
            case Replica() as replica:
                limit = ratio * self.objective.p95_seconds
                # Only slow answers were seen: a faster one is possible or not, so it is not known what would be enough.
                return replica.needed(rate, limit, self.bounds.most) if replica.seconds <= limit else None
            case most:
                # A profile says the rate at target_ratio; less latency is taken to need more in proportion.
                return math.ceil(min(rate * max(1.0, self.settings.target_ratio / ratio) / most, MANY))


def _upward(
    rule: _Rule, current: int, at: float, samples: Sequence[Sample], service: ServiceMetrics
) -> Recommendation | None:
    """More replicas, or None."""
    settings, newest = rule.settings, samples[-1]
    rate = predicted(samples, at, settings)
    for_load = rule.needed(rate, settings.target_ratio) if rate is not None else None
    terms = _terms(newest, rate, rule)
    if _is_emergency(rule, newest) and _has_all(newest, current) and is_settled(at, service.scaled_at, settings):
        wanted = max(current + 1, math.ceil(current * (1 + settings.emergency_step)), for_load or 0)
        more = rule.bounds.clamp(upward(current, wanted, settings))
        if more > current:
            return Recommendation(more, _emergency_sentence(rule, newest), terms)
    if for_load is not None and rate is not None:
        more = rule.bounds.clamp(upward(current, for_load, settings))
        if more > current:
            return Recommendation(more, f"{rate:.1f} requests/s expected need {for_load} replicas", terms)
    return None


def _downward(
    rule: _Rule, current: int, at: float, samples: Sequence[Sample], service: ServiceMetrics
) -> Recommendation | None:
    """Fewer replicas, or None."""
    settings = rule.settings
    if current <= rule.bounds.least or samples[-1].p95_seconds is None or _is_emergency(rule, samples[-1]):
        return None
    slow = slow_rate(samples, settings.down_ratio * rule.objective.p95_seconds)
    too_much = None if slow is None else slow * (1 - settings.slow_margin)
    past = [Wanted(s.at, s.seconds, _needed_then(rule, s, too_much)) for s in samples]
    fewer = rule.bounds.clamp(downward(current, past, at, service.scaled_at, settings))
    if fewer >= current:
        return None
    inside = [s.requests_per_second or 0.0 for s in samples if at - settings.down_seconds < s.at]
    why = f"at most {max(inside):.1f} requests/s for {settings.down_seconds / 60:g} minutes need {fewer} replicas"
    return Recommendation(fewer, why, _terms(samples[-1], max(inside), rule))


def _needed_then(rule: _Rule, sample: Sample, too_much: float | None) -> int | None:
    """What a sample says would have been enough, with room for noise; None if it does not say.

    A model may err, so a rate per replica that was seen to be `too_much` is not tried again as long as that is known.
    """
    rate = sample.requests_per_second
    if rate is None or sample.p95_seconds is None:
        return None
    rate *= 1 + rule.settings.down_margin
    needed = rule.needed(rate, rule.settings.down_ratio)
    if needed is None or too_much is None:
        return needed
    return max(needed, math.floor(min(rate / too_much, MANY)) + 1) if too_much > 0 else None


def _is_emergency(rule: _Rule, newest: Sample) -> bool:
    """Latency at its limit, or a queue longer than is answered within the objective."""
    limit = rule.settings.emergency_ratio * rule.objective.p95_seconds
    is_slow = newest.p95_seconds is not None and newest.p95_seconds > limit
    rate, queue = newest.requests_per_second, newest.queue
    is_queued = rate is not None and queue is not None and queue > rate * rule.objective.p95_seconds
    return is_slow or is_queued


def _has_all(newest: Sample, current: int) -> bool:
    """Whether the replicas that were asked for answer already: before that, more of them cure nothing."""
    return newest.replicas is not None and newest.replicas >= current


def _emergency_sentence(rule: _Rule, newest: Sample) -> str:
    target = f"{rule.objective.p95_seconds * 1000:.0f} ms"
    if newest.p95_seconds is None:
        return f"{newest.queue} requests wait, more than are answered within {target}"
    return f"p95 is {newest.p95_seconds * 1000:.0f} ms, the objective {target}"


def _terms(newest: Sample, rate: float | None, rule: _Rule) -> tuple[tuple[str, float], ...]:
    named = {
        "expected_requests_per_second": rate,
        "p95_seconds": newest.p95_seconds,
        "objective_seconds": rule.objective.p95_seconds,
        "queue": newest.queue,
    }
    if isinstance(rule.capacity, Replica):
        target = rule.settings.target_ratio * rule.objective.p95_seconds
        named["rate_per_replica"] = rule.capacity.most(1, target)
        named["request_seconds"] = rule.capacity.seconds
    else:
        named["rate_per_replica"] = rule.capacity
    return tuple((name, float(value)) for name, value in named.items() if value is not None)


def _trend(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(slope, its standard error) of a least-squares line; no slope when there are too few points to tell."""
    count = len(points)
    if count < 4:
        return 0.0, 0.0
    mean_t = sum(t for t, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    if spread <= 0:
        return 0.0, 0.0
    slope = sum((t - mean_t) * (y - mean_y) for t, y in points) / spread
    rest = sum((y - mean_y - slope * (t - mean_t)) ** 2 for t, y in points)
    return slope, math.sqrt(rest / (count - 2) / spread)
