"""Replicas on standby: loaded, out of rotation, their GPUs lent to elastic gangs until the law wants them.

`rearranged` says of a service which of its replicas serve and which are asleep; `taken_back` which borrowers leave for
that. Woken are first those that are loaded and lent to no gang, then those whose gang goes on without that worker, then
those that fell asleep last; after all these the ones with weights in host memory, in the same order. A replica that is
not needed any more falls asleep where standby is wanted, else it leaves.
Source: docs/algorithms.md#services; what it costs and gains is measured by `manage.py benchmark slo`.
"""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from autoscaler.bounds import Bounds
from autoscaler.decision import Scale
from autoscaler.law import Wanted
from autoscaler.settings import Settings
from scheduler.model.decision import Evict, Shrink
from scheduler.model.workload import ON_DEVICE, Assignment, Workload
from scheduler.preemption.borrowed import given_back, to_give

Place = tuple[str, tuple[int, ...]]  # a node and devices there
Lent = Mapping[
    Place, bool
]  # where gangs' workers are on sleeping replicas, and whether the gang goes on without that one
NONE_LENT: Lent = MappingProxyType({})
DEFAULTS = Settings()


def rearranged(
    workload: Workload, wanted: Wanted, loaded: Container[int], lent: Lent = NONE_LENT, settings: Settings = DEFAULTS
) -> Scale | None:
    """What a service with standby changes so that as many replicas serve as are wanted; None: nothing.

    loaded: ranks whose pods run. lent: those of `borrowed` that are this service's. settings: how long a wake takes.
    """
    bounds = Bounds(workload.gang.min, workload.gang.max)
    serving = bounds.clamp(wanted.replicas)
    count = bounds.clamp(serving + workload.standby)
    seats = [a for a in workload.placement if not a.leaving]
    before = frozenset(a.rank for a in seats if a.asleep_at is not None)
    asleep = set(before)
    awake = [a for a in seats if a.rank not in asleep]
    if (lack := serving - len(awake)) > 0:
        order = sorted((a for a in seats if a.rank in asleep), key=lambda a: _to_wake(a, loaded, lent))
        asleep -= {a.rank for a in order[:lack]}
    else:
        order = sorted(awake, key=lambda a: (a.rank in loaded, -a.rank))  # those that still load do so asleep
        asleep |= {a.rank for a in order[:-lack]} if lack else set()
    surplus = sorted(seats, key=lambda a: (a.rank not in asleep, *_hurts(a, lent), not _is_slow(a), -a.rank))
    leaving = sorted(a.rank for a in surplus[: max(0, len(seats) - count)])
    asleep -= set(leaving)
    if (count, serving) == (workload.gang.count, workload.awake) and asleep == before and not leaving:
        return None
    woken = [a for a in seats if a.rank in before - asleep and a.rank not in leaving]
    message = _message(workload, serving, count, wanted) + _in_seconds(woken, settings)
    return Scale(
        workload.id, workload.version, count, message, wanted.terms, tuple(leaving), serving, tuple(sorted(asleep))
    )


def wakes_slowly(workload: Workload, loaded: Container[int], lent: Lent = NONE_LENT) -> bool:
    """Whether the weights of the next replica that would wake are in host memory; none would: no."""
    asleep = [a for a in workload.placement if a.asleep_at is not None and not a.leaving]
    return bool(asleep) and _is_slow(min(asleep, key=lambda a: _to_wake(a, loaded, lent)))


def taken_back(decisions: Iterable[Scale], workloads: Mapping[str, Workload], at: float) -> tuple[Shrink | Evict, ...]:
    """The workers that leave the devices of replicas that these decisions wake or let go, by their gangs' ids.

    A gang that cannot go on without them leaves as a whole.
    """
    needed: dict[tuple[str, Place], None] = {}
    for decision in decisions:
        service = workloads[decision.workload]
        for a in service.placement:
            if a.asleep_at is not None and a.rank not in decision.asleep:
                needed[service.id, _place(a)] = None
    gangs = (workloads[uid] for uid in sorted(workloads)) if needed else ()
    return tuple(found for gang in gangs if (found := _given(gang, needed, at)) is not None)


def borrowed(workloads: Iterable[Workload]) -> dict[str, dict[Place, bool]]:
    """By lender: the places where workers of gangs are, and whether the gang goes on without that one."""
    found: dict[str, dict[Place, bool]] = {}
    for workload in workloads:
        lent = [a for a in workload.placement if a.lender]
        spare = to_give(workload) if lent else ()
        for a in lent:
            found.setdefault(a.lender, {})[_place(a)] = a.leaving or a.rank in spare
    return found


def _given(gang: Workload, needed: Container[tuple[str, Place]], at: float) -> Shrink | Evict | None:
    leaving = [a for a in gang.placement if a.lender and not a.leaving and (a.lender, _place(a)) in needed]
    return given_back(gang, [a.rank for a in leaving], leaving[0].lender, at) if leaving else None


def _to_wake(a: Assignment, loaded: Container[int], lent: Lent) -> tuple[bool, bool, bool, bool, float, int]:
    return a.rank not in loaded, _is_slow(a), *_hurts(a, lent), -(a.asleep_at or 0.0), a.rank


def _is_slow(a: Assignment) -> bool:
    return a.weights not in ON_DEVICE


def _hurts(a: Assignment, lent: Lent) -> tuple[bool, bool]:
    """What taking its GPU back does: whether a worker leaves, and whether that worker's gang cannot go on."""
    return _place(a) in lent, not lent.get(_place(a), True)


def _place(a: Assignment) -> Place:
    return a.node, a.gpus


def _message(workload: Workload, serving: int, count: int, wanted: Wanted) -> str:
    before, rest = workload.serving, count - serving
    asleep = f"{rest} on standby" if rest else "none on standby"
    if serving == before:
        return f"{serving} {'replica serves' if serving == 1 else 'replicas serve'}, {asleep}."
    return f"{before} to {serving} replicas, {asleep}: {wanted.why or 'the bounds changed'}."


def _in_seconds(woken: list[Assignment], settings: Settings) -> str:
    """How soon those that wake answer, where their weights have to return first."""
    slow = sum(_is_slow(a) for a in woken)
    if not slow:
        return ""
    parts = [f"{slow} in {settings.host_wake_seconds:g} s, from host memory"]
    if fast := len(woken) - slow:
        parts.insert(0, f"{fast} in {settings.wake_seconds:g} s")
    return f" Of those that wake, {' and '.join(parts)}."
