"""What a training may be bound by where only Prometheus is known: hypotheses from levels, each to be probed.

Levels alone are no evidence: a CPU may be throttled to no harm, and neighbours load the same line. So a hypothesis is
probed, one at a time, by a change that can be taken back; it holds if the training got faster. The most likely comes
first, as each probe costs windows. Source: docs/diagnosis.md#from-prometheus-alone.
"""

from collections.abc import Iterator, Set

from autoscaler.bottleneck.constants import DEFAULT, Constants
from autoscaler.bottleneck.evidence import of_exchange, of_wait
from autoscaler.bottleneck.window import Bottleneck, Levels


def hypotheses(
    levels: Levels,
    nodes: int,
    tried: Set[Bottleneck] = frozenset(),
    constants: Constants = DEFAULT,
) -> tuple[Bottleneck, ...]:
    """What the smoothed levels of a training on so many nodes leave possible, most likely first, but for those tried.

    Empty where its GPUs are so busy that no change could gain anything.
    """
    if levels.gpu is None or levels.gpu > constants.sm_full:
        return ()
    return tuple(dict.fromkeys(one for one in _possible(levels, nodes, constants) if one not in tried))


def _possible(levels: Levels, nodes: int, constants: Constants) -> Iterator[Bottleneck]:
    if one := of_wait(levels, constants):
        yield one
    if one := of_exchange(levels, nodes, constants):
        yield one
    if _is_uneven(levels, constants):
        yield Bottleneck.STRAGGLER
    if max(levels.sm) < constants.busy:
        yield Bottleneck.TOO_SMALL
    if (levels.disk or 0.0) > constants.disk:
        yield Bottleneck.STORAGE


def _is_uneven(levels: Levels, constants: Constants) -> bool:
    """One worker's GPUs are busy while the others wait for it."""
    *others, most = sorted(levels.sm)
    return bool(others) and most * (1 - constants.straggler_high) > others[len(others) // 2]
