"""What may be changed of a workload after its submission."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from controlplane.jobspec.spec import Spec, amended
from controlplane.models import PriorityClass, Workload
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.intake.ownership import Hand
from controlplane.services.scheduling import leases, revising
from controlplane.services.workloads import admission, columns, feasibility, resizing
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch, locked, refuse
from scheduler.model.workload import ACTIVE, ENDED, Phase

WHILE_IT_WAITS = ("workers", "resources", "topology")
WAITS = (Phase.QUEUED, Phase.HELD, Phase.SUSPENDED)


@transaction.atomic
def patch(
    *,
    workload: Workload,
    changes: Mapping[str, Any],
    version: int | None,
    actor: str,
    event: tuple[str, str] = ("Patched", ""),
    hand: Hand = Hand.PERSON,
) -> None:
    """Change what may be changed after submission; `changes` as in a job file (spec.amended). Raises SpecError.

    `version` is the one the caller saw: Refused 412 if it is not the current one. Workers, resources and topology
    change only while nothing of the workload runs, but CPU and memory also while it runs, in place; a service's bounds
    at any time, and its wanted number is kept between them. Another image or environment of a service replaces its
    replicas one by one (revising.py), another objective counts from now on. Its place and age in the queue stay.
    `event`: the kind and message that its history keeps. `hand`: by whose hand; see services/intake/ownership.py.
    """
    ownership.require(workload, "change", hand)
    if "resources" in changes:
        leases.keep_rounds_still()
    batch, row = locked(workload, actor, version)
    if row.phase in ENDED:
        refuse(row, "changed")
    if not changes:
        return
    _amend(batch, row, changes, event, hand)


def _amend(batch: Batch, row: Row, changes: Mapping[str, Any], event: tuple[str, str], hand: Hand) -> None:
    stored: Workload = Workload.objects.select_related("team").get(pk=row.uid)
    spec = amended(stored.spec, changes)
    waits = row.phase in WAITS and not batch.live(row)
    may_resize = not waits and not spec.is_native and "resources" in changes
    in_place = may_resize and resizing.is_size_only(amended(stored.spec, {}), spec)
    asks = [name for name in WHILE_IT_WAITS if name in changes]
    if not waits:
        running = [name for name in asks if not (in_place and name == "resources")]
        _refuse_running(row, running, may_resize=not spec.is_native)
    new = {
        "spec": spec.document(),
        "offloads": spec.offloads or spec.on_demand,
        "spread": spec.spread,
        **columns.of_times(spec),
    }
    new["asynchronous"] = spec.asynchronous
    if "priority_class" in changes:
        new |= _priority(spec.priority_class)
    if asks:
        _refuse_impossible(spec, stored)
        new |= {} if in_place else columns.of_ask(spec)
    else:
        _check_service(spec, stored, changes)
    if row.is_service and spec.normalised()["objective"] != stored.spec["normalised"]["objective"]:
        new["objective_since"] = batch.at  # what was measured against the one before does not count for this one
    Workload.objects.filter(pk=row.uid).update(**new)
    gang = spec.workers
    count = min(max(row.workers, gang.min), gang.max) if row.is_service else gang.count
    batch.bump(row, workers=count, workers_min=gang.min, workers_max=gang.max)
    if "workers" in changes:
        batch.change(row, workers_cap=None, workers_planned=None)  # what a person asks for goes first
    _keep_awake(batch, row, spec, count)
    kind, message = event
    batch.note(row, kind, message=message, data={"changes": _told(changes)})
    if in_place:
        resizing.begin(batch, row, spec, was=stored.spec["resources"])
    if row.is_service:
        _guard(batch, row, stored.spec, spec)
        revising.begin(batch, row, stored.spec, spec.document(), hand)
    batch.write()


def _guard(batch: Batch, row: Row, was: Mapping[str, Any], spec: Spec) -> None:
    """Evictions leave by another least from now on; of a service without pods, from when one starts."""
    if row.phase in ACTIVE and spec.workers.min != was["normalised"]["workers"]["min"]:
        batch.act("guard", row, ())


def _keep_awake(batch: Batch, row: Row, spec: Spec, count: int) -> None:
    """As many replicas of a service with standby serve as before, within its bounds; at first all."""
    if row.is_service and (spec.standby or row.awake is not None):
        serving = count if row.awake is None else row.awake
        batch.change(row, standby=spec.standby, awake=min(max(serving, spec.workers.min), spec.workers.max))


def _told(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What an event says of changes: of variables only their names, as their values go to webhooks too."""
    return {name: sorted(value) if name == "env" and value else value for name, value in changes.items()}


def _refuse_running(row: Row, names: Sequence[str], *, may_resize: bool) -> None:
    """Raise Refused for the first of these fields: they change only while nothing of it runs."""
    for name in names:
        but = ", except for cpu and memory" if name == "resources" and may_resize else ""
        message = f"{row.name} is {row.phase}; its {name} can be changed only while it waits{but}. Suspend it first."
        raise Refused(409, "NotWaiting", name, message)


def _check_service(spec: Spec, stored: Workload, changes: Mapping[str, Any]) -> None:
    """What a submission would refuse of what a service may change while it runs."""
    if changes.keys() & {"image", "rollout"}:
        admission.check(spec, stored.team)
    elif "replicas" in changes:
        admission.check_queue(spec)


def _refuse_impossible(spec: Spec, stored: Workload) -> None:
    """What a submission would refuse."""
    admission.check(spec, stored.team)
    feasibility.check_spec(spec, stored.team, feasibility.known())


def _priority(name: str) -> dict[str, Any]:
    wanted = PriorityClass.objects.filter(name=name) if name else PriorityClass.objects.filter(is_default=True)
    found = wanted.first()
    if found is None:
        message = f"There is no priority class {name}. Name one that exists."
        raise Refused(422, "UnknownPriorityClass", "priority_class", message)
    return {"priority_class": found, "priority": found.value, "preemptible": found.preemptible}
