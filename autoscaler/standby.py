"""Replicas on standby: loaded, out of rotation, their GPUs lent to elastic gangs until the law wants them.

`rearranged` says of a service which of its replicas serve and which are asleep; `taken_back` which borrowers leave for
that. Woken are first those that are loaded and lent to no gang, then those that fell asleep last. A replica that is not
needed any more falls asleep where standby is wanted, else it leaves.
Source: docs/algorithms.md#services; what it costs and gains is measured by `manage.py benchmark slo`.
"""

from collections.abc import Collection, Iterable, Mapping

from autoscaler.bounds import Bounds
from autoscaler.decision import Scale
from autoscaler.law import Wanted
from scheduler.model.decision import Shrink
from scheduler.model.mention import counted, mention
from scheduler.model.workload import Assignment, Workload, staying

Place = tuple[str, tuple[int, ...]]  # a node and devices there


def rearranged(workload: Workload, wanted: Wanted, loaded: Collection[int], lent: Collection[Place]) -> Scale | None:
    """What a service with standby changes so that as many replicas serve as are wanted; None: nothing.

    loaded: ranks whose pods run. lent: places of its sleeping replicas where gangs' workers are.
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
    surplus = sorted(seats, key=lambda a: (a.rank not in asleep, _place(a) in lent, -a.rank))
    leaving = sorted(a.rank for a in surplus[: max(0, len(seats) - count)])
    asleep -= set(leaving)
    if (count, serving) == (workload.gang.count, workload.awake) and asleep == before and not leaving:
        return None
    message = _message(workload, serving, count, wanted)
    return Scale(
        workload.id, workload.version, count, message, wanted.terms, tuple(leaving), serving, tuple(sorted(asleep))
    )


def taken_back(decisions: Iterable[Scale], workloads: Mapping[str, Workload]) -> tuple[Shrink, ...]:
    """The workers that leave the devices of replicas that these decisions wake or let go, by their gangs' ids."""
    needed: dict[tuple[str, Place], None] = {}
    for decision in decisions:
        service = workloads[decision.workload]
        for a in service.placement:
            if a.asleep_at is not None and a.rank not in decision.asleep:
                needed[service.id, _place(a)] = None
    return tuple(found for uid in sorted(workloads) if needed and (found := _given(workloads[uid], needed)) is not None)


def borrowed(workloads: Iterable[Workload]) -> dict[str, set[Place]]:
    """By lender: the places where workers of others are."""
    found: dict[str, set[Place]] = {}
    for workload in workloads:
        for a in workload.placement:
            if a.lender:
                found.setdefault(a.lender, set()).add(_place(a))
    return found


def _given(gang: Workload, needed: Collection[tuple[str, Place]]) -> Shrink | None:
    leaving = [a for a in gang.placement if a.lender and not a.leaving and (a.lender, _place(a)) in needed]
    if not leaving:
        return None
    lender = leaving[0].lender
    left = len(staying(gang)) - len(leaving)
    message = (
        f"Gives {counted(len(leaving), 'worker')} back to {mention(lender)}, whose GPU it was; goes on with {left}."
    )
    return Shrink(gang.id, gang.version, tuple(sorted(a.rank for a in leaving)), message, by=lender)


def _to_wake(a: Assignment, loaded: Collection[int], lent: Collection[Place]) -> tuple[bool, bool, float, int]:
    return a.rank not in loaded, _place(a) in lent, -(a.asleep_at or 0.0), a.rank


def _place(a: Assignment) -> Place:
    return a.node, a.gpus


def _message(workload: Workload, serving: int, count: int, wanted: Wanted) -> str:
    before, rest = workload.serving, count - serving
    asleep = f"{rest} on standby" if rest else "none on standby"
    if serving == before:
        return f"{serving} {'replica serves' if serving == 1 else 'replicas serve'}, {asleep}."
    return f"{before} to {serving} replicas, {asleep}: {wanted.why or 'the bounds changed'}."
