"""Which change of a training is worth a try: the best by its expected gain, of those that no guard refuses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate.budgets import Budget, Level, broken, needs
from autoscaler.reallocate.candidates import Axis, Candidate, Freedom, Room, candidates
from autoscaler.reallocate.constants import DEFAULT, Constants
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import Estimate, gains
from autoscaler.throughput.fit import Fitted
from autoscaler.throughput.goodput import Gradients

# What can make the steps of a training that is bound so any shorter.
HELPS: Mapping[Bottleneck, frozenset[Axis]] = {
    Bottleneck.GPU_COMPUTE: frozenset({Axis.WORKERS, Axis.BATCH}),
    Bottleneck.INPUT_CPU: frozenset({Axis.CPU}),
    Bottleneck.STORAGE: frozenset(),
    Bottleneck.NETWORK: frozenset({Axis.PLACE, Axis.WORKERS, Axis.BATCH}),
    Bottleneck.PARAMETER_SERVER: frozenset({Axis.SERVERS, Axis.WORKERS, Axis.BATCH}),
    Bottleneck.TOO_SMALL: frozenset({Axis.BATCH}),
    Bottleneck.STRAGGLER: frozenset({Axis.NODE}),
}

MOST_REMOVABLE, SLOW_ERROR = 0.95, 0.05  # of a step, by a slow worker; of the log gain that its own time tells


class Guard(StrEnum):
    """What speaks against a change."""

    NONE = ""
    TABU = "it was tried before"
    BOTTLENECK = "it helps against another bottleneck"
    BUDGET = "it does not keep the budget"
    GAIN = "it is expected to gain too little"
    PAYBACK = "to try it would cost too much of what remains"
    MOVES = "as many changes as allowed were tried"


@dataclass(frozen=True, slots=True)
class Training:
    """What is known of a training beside its steps. remaining, restart: s.

    bottleneck: as diagnosed; None: not known, then any change may help. is_probe: it is a hypothesis that more CPU in
    place probes, whatever gain the model of its steps expects.
    """

    freedom: Freedom
    rooms: tuple[Room, ...]
    budgets: tuple[Budget, ...]  # its own, its team's, the cluster's
    remaining: float
    restart: float
    noise: Gradients | None = None
    bottleneck: Bottleneck | None = None
    cpu_in_place: bool = False  # more CPU restarts nothing
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class Considered:
    """A change with its expected gain, a log ratio of goodput. cost: s that a try is expected to take."""

    candidate: Candidate
    gain: Estimate
    cost: float
    guard: Guard = Guard.NONE
    budget: Level | None = None  # that does not hold


@dataclass(frozen=True, slots=True)
class Past:
    """What was tried of a training. tabu: what it had, and what was rolled back."""

    tabu: frozenset[Allocation] = field(default_factory=frozenset)
    moves: int = 0


def consider(
    now: Allocation, fitted: Fitted, training: Training, past: Past, constants: Constants = DEFAULT
) -> tuple[Considered, ...]:
    """Every candidate, the best first: by gain, then by what it takes of the cluster."""
    offered = candidates(now, training.freedom, training.rooms, constants)
    modelled = gains(fitted, now, [one.allocation for one in offered], training.noise)
    expected = [_off_the_slow(one, gain, training) for one, gain in zip(offered, modelled, strict=True)]
    found = [
        _considered(one, now, gain, training, past, constants) for one, gain in zip(offered, expected, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-one.gain.value, *_taken(one.candidate.allocation))))


def chosen(considered: Sequence[Considered], constants: Constants = DEFAULT) -> Considered | None:
    """The best that nothing speaks against; of those about as good the one that takes least."""
    free = [one for one in considered if one.guard is Guard.NONE]
    if not free:
        return None
    best = max(one.gain.value for one in free)
    near = [one for one in free if one.gain.value >= best - constants.alike]
    return min(near, key=lambda one: (_taken(one.candidate.allocation), -one.gain.value))


def told(one: Considered, now: Allocation) -> str:
    """The change in words, with what is expected of it or what speaks against it."""
    low, high = (math.expm1(one.gain.value + sign * one.gain.error) for sign in (-1, 1))
    expected = f"expected {100 * one.gain.part:+.0f} % ({100 * low:+.0f} to {100 * high:+.0f})"
    against = f"; {one.guard}{f' of the {one.budget}' if one.budget else ''}" if one.guard else ""
    return f"{_words(one.candidate, now)}: {expected}{against}"


def _off_the_slow(one: Candidate, gain: Estimate, training: Training) -> Estimate:
    """What goes with a slow worker is measured, not modelled; the model only knows what another shape changes."""
    slow = training.freedom.slow
    if one.axis is not Axis.NODE or slow is None:
        return gain
    return Estimate(gain.value - math.log1p(-min(slow.part, MOST_REMOVABLE)), math.hypot(gain.error, SLOW_ERROR))


def _considered(
    one: Candidate, now: Allocation, gain: Estimate, training: Training, past: Past, constants: Constants
) -> Considered:
    is_free = one.axis is Axis.CPU and training.cpu_in_place
    slower = 0.5 * math.erfc(gain.value / max(gain.error, 1e-9) / math.sqrt(2))
    cost = 2 * (0.0 if is_free else training.restart) + slower * constants.slow_windows * constants.window
    takes_more = any(more > less for more, less in zip(_taken(one.allocation), _taken(now), strict=True))
    budget = broken(training.budgets, one.allocation) if takes_more else None  # a re-cut is always allowed
    named = training.bottleneck
    against = {
        Guard.MOVES: past.moves >= constants.moves,
        Guard.TABU: one.allocation in past.tabu,
        Guard.BOTTLENECK: named is not None and one.axis not in HELPS[named],
        Guard.GAIN: gain.part < constants.least_gain and not (training.is_probe and is_free),
        Guard.PAYBACK: cost > constants.payback * training.remaining,
        Guard.BUDGET: budget is not None,
    }
    guard = next((guard for guard, speaks in against.items() if speaks), Guard.NONE)
    return Considered(one, gain, cost, guard, budget if guard is Guard.BUDGET else None)


def _taken(allocation: Allocation) -> tuple[float, float, float]:
    need = needs(allocation)
    return need.gpus, need.cores, need.memory


def _words(candidate: Candidate, now: Allocation) -> str:
    then = candidate.allocation
    nodes = "1 node" if len(then.gpus) == 1 else f"{len(then.gpus)} nodes"
    return {
        Axis.PLACE: f"its {then.total} GPUs on {nodes} instead of {len(now.gpus)}",
        Axis.NODE: f"off {', '.join(sorted({*then.off} - {*now.off}))}, where a worker is slow",
        Axis.CPU: f"{then.cpu:g} cores for each worker instead of {now.cpu:g}",
        Axis.SERVERS: f"{then.servers} parameter servers instead of {now.servers}",
        Axis.WORKERS: f"{then.workers} workers instead of {now.workers}",
        Axis.BATCH: f"{then.examples} examples in a step instead of {now.examples}",
    }[candidate.axis]
