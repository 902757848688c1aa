"""Which worker is slower than the others, by their own times: an exponential mean of the log time of each."""

import math
from dataclasses import dataclass, replace

from autoscaler.bottleneck.constants import DEFAULT, Constants

QUARTER = 0.25  # the reference: half of the workers of a real job may be slow, so a median is none


@dataclass(frozen=True, slots=True)
class Pace:
    """What is known of the workers' own times; a worker a place. seen: steps or windows that were counted."""

    seen: int = 0
    means: tuple[float, ...] = ()  # of the log
    squares: tuple[float, ...] = ()  # of the deviations from it
    is_slow: bool = False  # kept until the excess falls below the lower bound
    excess: float = 0.0  # the part of the slowest worker's time above the others', less its error
    slowest: int | None = None


def follow(pace: Pace, times: tuple[float, ...], constants: Constants = DEFAULT) -> Pace:
    """Count one step or window. times: seconds of own work, shape [workers]; another number of them begins anew."""
    if len(times) < 2 or min(times) <= 0:
        return pace
    logs = [math.log(one) for one in times]
    if len(pace.means) != len(logs):
        pace = Pace(means=tuple(logs), squares=(0.0,) * len(logs))
    seen = pace.seen + 1
    part = max(constants.straggler_smooth, 1.0 / seen)  # a plain mean at first
    moves = [now - mean for now, mean in zip(logs, pace.means, strict=True)]
    means = tuple(mean + part * move for mean, move in zip(pace.means, moves, strict=True))
    squares = tuple((1 - part) * (old + part * move**2) for old, move in zip(pace.squares, moves, strict=True))
    return _judged(replace(pace, seen=seen, means=means, squares=squares), part, constants)


def _judged(pace: Pace, part: float, constants: Constants) -> Pace:
    slowest = max(range(len(pace.means)), key=pace.means.__getitem__)
    others = sorted(mean for number, mean in enumerate(pace.means) if number != slowest)
    reference = others[int(QUARTER * (len(others) - 1))]
    error = math.sqrt(sum(pace.squares) / len(pace.squares) * part / (2 - part) * 2)
    excess = 1.0 - math.exp(reference - pace.means[slowest]) - constants.straggler_errors * error
    is_slow = excess > (constants.straggler_low if pace.is_slow else constants.straggler_high)
    return replace(
        pace,
        excess=max(excess, 0.0),
        slowest=slowest,
        is_slow=is_slow and pace.seen >= constants.straggler_windows,
    )
