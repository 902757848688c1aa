"""Changes that a training tries, and what is recommended: for REST, pages and the CLI."""

import math
from collections import Counter
from typing import Any

from autoscaler.reallocate import rows
from autoscaler.reallocate.candidates import Axis
from controlplane.domain import coursestate
from controlplane.jobspec.quantities import iso
from controlplane.lifecycle import resizing
from controlplane.lifecycle.state import BOUND
from controlplane.models import Experiment, ExperimentStatus, Placement, TrainingDiagnosis, Workload

MOST = 50  # changes that are told, the newest first
IN_PLACE = (ExperimentStatus.ON_TRIAL, ExperimentStatus.KEPT)


def recommended(workload: Workload) -> tuple[str, ...]:
    """What its model expects to make it faster, the best first, each with what speaks against it. One query."""
    course = TrainingDiagnosis.objects.filter(pk=workload.pk).values_list("course", flat=True).first()
    if not course:
        return ()
    kept = coursestate.kept_of(course)
    return kept.told if kept.attempt == workload.attempt else ()


def of(workload: Workload) -> list[Experiment]:
    """The newest first."""
    return list(Experiment.objects.filter(workload=workload).order_by("-id")[:MOST])


def newest_in_place(workload: Workload) -> Experiment | None:
    """The newest change that its workers have now: the one that can be taken back."""
    newest = Experiment.objects.filter(workload=workload, status__in=IN_PLACE).order_by("-id").first()
    if newest is None or round(1000 * newest.after["cpu"]) != resizing.wanted(workload)[0]:
        return None
    if newest.axis == Axis.WORKERS:
        return newest if workload.workers_cap == newest.after["workers"] else None
    if newest.axis not in coursestate.MOVES:
        return newest
    off, roles = {*newest.after.get("off", ())}, sum(count for _, count, _ in workload.roles)
    if workload.goes_to:  # on its way there, or already on its way back
        is_it = [count * workload.gpus for count in workload.goes_to] == newest.after["gpus"]
        servers = sum(workload.role_counts or ()) or roles
        is_it = is_it and _has_batch(newest, workload.batch_wanted or workload.batch)
        return newest if is_it and off == {*(workload.off or ())} and servers == newest.after["servers"] else None
    shape, nodes = _shape(workload)
    is_it = shape == newest.after["gpus"] and roles == newest.after["servers"] and _has_batch(newest, workload.batch)
    return newest if is_it and not nodes & off else None


def _has_batch(change: Experiment, examples: int | None) -> bool:
    """Whether so many examples in a step are what it gave its workers; None: the job file names none."""
    after = rows.allocation_of(change.after)
    return examples is None or after.examples_of(examples) == after


def _shape(workload: Workload) -> tuple[list[int], set[str]]:
    """The GPUs of its workers on each node, most first, and the nodes. One query."""
    live = Placement.objects.filter(workload=workload, state=BOUND, rank__gte=sum(c for _, c, _ in workload.roles))
    on = Counter[str]()
    for node, gpus in live.values_list("node", "gpus"):
        on[node] += len(gpus)
    return sorted(on.values(), reverse=True), set(on)


def shown(workload: Workload) -> dict[str, Any]:
    """As REST answers it; gains are parts of the speed. Four queries."""
    return {
        "uid": str(workload.pk),
        "reallocation": workload.team.reallocation,
        "recommended": list(recommended(workload)),
        "can_take_back": newest_in_place(workload) is not None,
        "experiments": [_row(one) for one in of(workload)],
    }


def part(log: float | None) -> float | None:
    """A log ratio of speeds as a part: .1 is 10 % faster."""
    return None if log is None else round(math.expm1(log), 4)


def _row(one: Experiment) -> dict[str, Any]:
    return {
        "axis": one.axis,
        "status": one.status,
        "begun_at": iso(one.begun_at),
        "ended_at": None if one.ended_at is None else iso(one.ended_at),
        "before": one.before,
        "after": one.after,
        "expected": part(one.expected),
        "expected_error": one.expected_error,
        "gain": part(one.gain),
        "gain_error": one.gain_error,
        "windows": one.windows,
        "message": one.message,
        "node": one.node,
    }
