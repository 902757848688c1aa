"""When a wanted number of workers may be acted on: bounds, steps, cooldown and windows, once for all rules.

Nothing is remembered here: what was wanted before and when the number last changed come in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.settings import Settings


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most workers, both allowed."""

    least: int
    most: int

    def clamp(self, workers: int) -> int:
        """The nearest allowed number."""
        return max(self.least, min(self.most, workers))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rule asked for from a sample of this time and length: None = it did not know."""

    at: float
    seconds: float
    workers: int | None


def upward(current: int, wanted: int, settings: Settings) -> int:
    """A rise, at once, but not by more than one step."""
    step = max(settings.up_count, math.ceil(current * settings.up_ratio))
    return min(wanted, current + step)


def downward(current: int, past: Sequence[Wanted], at: float, changed_at: float | None, settings: Settings) -> int:
    """The most that was wanted over the whole window, if that is less; else the current number.

    It stays when the number has changed within the window, or when too little of the window is known.
    """
    window = settings.down_seconds
    if changed_at is not None and at - changed_at < window:
        return current
    inside = [w for w in past if at - window < w.at <= at]
    numbers = [w.workers for w in inside if w.workers is not None]
    if not numbers or len(numbers) < len(inside) or _covered(inside, at, window) < settings.down_coverage * window:
        return current
    return min(current, max(numbers))


def is_settled(at: float, changed_at: float | None, settings: Settings) -> bool:
    """Whether the last change has had the time to show."""
    return changed_at is None or at - changed_at >= settings.settle_seconds


def _covered(inside: Sequence[Wanted], at: float, window: float) -> float:
    """Seconds of the window that the samples measure; overlaps count once."""
    total, reached = 0.0, at - window
    for sample in sorted(inside, key=lambda w: w.at):
        total += max(0.0, sample.at - max(reached, sample.at - sample.seconds))
        reached = max(reached, sample.at)
    return total
