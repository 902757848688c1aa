"""How fast a training would be with other numbers of workers: its scaling curve, with what is not known of it.

Source: the model of steps (fit.py), read at allocations that differ in their workers alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import gains
from autoscaler.throughput.fit import fit
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation

SURE = 1.96  # deviations around an estimate: 95 of 100


@dataclass(frozen=True, slots=True)
class Point:
    """Speed with so many workers, as a multiple of the speed now: examples/s. low, high: 95 %.

    measured: of the steps seen with so many workers; None: there were none. goodput: the same as `speed` of useful
    examples/s, by the noise of its gradients; None: not known.
    """

    workers: int
    speed: float
    low: float
    high: float
    measured: float | None
    goodput: float | None = None


def curve(
    seen: Sequence[Observation],
    now: Allocation,
    counts: Iterable[int],
    of_node: int,
    gradients: Gradients | None = None,
    examples: int | None = None,
) -> tuple[Point, ...]:
    """A point for each number of workers, ascending; none before a step was seen.

    of_node: GPUs of one of its nodes, onto which workers are packed. examples: in a step of all workers, as many with
    each number; None: the batch of a worker stays.
    """
    own = [one for one in seen if not one.is_lent]
    if not own:
        return ()
    others = [packed(now, count, of_node, examples) for count in sorted({*counts, now.workers})]
    base = _rate(own, now.workers)
    found = []
    for other, gain in zip(others, gains(fit(seen), now, others), strict=True):
        rate, around = _rate(own, other.workers), SURE * gain.error
        low, speed, high = (math.exp(gain.value + off) for off in (-around, 0.0, around))
        useful = None
        if gradients is not None:
            useful = speed * gradients.efficiency(gradients.batch * other.examples / now.examples)
        found.append(Point(other.workers, speed, low, high, rate / base if rate and base else None, useful))
    return tuple(found)


def packed(now: Allocation, workers: int, of_node: int, examples: int | None = None) -> Allocation:
    """The allocation with so many workers, as now but for them: on as few nodes as hold them.

    examples: in a step of all workers; None: as many of each as now.
    """
    found = now
    if workers != now.workers:
        each = max(1, of_node // now.of_worker)
        full, rest = divmod(workers, each)
        on = [each * now.of_worker] * full + ([rest * now.of_worker] if rest else [])
        found = replace(now, gpus=tuple(on), workers=workers, servers=min(now.servers, workers) if now.servers else 0)
    return found if examples is None else found.examples_of(examples)


def _rate(seen: Iterable[Observation], workers: int) -> float | None:
    """Examples/s in the steps with so many workers, the newest allocation's; None: none was seen."""
    rates = [one.allocation.examples / one.step for one in seen if one.allocation.workers == workers]
    return rates[-1] if rates else None
