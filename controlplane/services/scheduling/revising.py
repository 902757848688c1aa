"""Revisions of services: what a change of image or environment begins, how it is undone, and when it is taken back.

What that means for the replicas is in controlplane/lifecycle/rollouts.py. Revisions are stored from the first change
on; a workload's row and job file say which one is wanted.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from controlplane.jobspec import quantities
from controlplane.jobspec.jobfile import STEP_MINUTES
from controlplane.jobspec.scaling import is_native
from controlplane.jobspec.spec import Rollout
from controlplane.lifecycle import rollouts
from controlplane.lifecycle.canaries import Judged
from controlplane.lifecycle.canarysteps import Plan
from controlplane.models import Revision, Workload
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch, locked, refuse
from scheduler.model.workload import ENDED

FIELDS = ("image", "env")  # of a job file: what makes a revision


def template(document: Mapping[str, Any]) -> dict[str, Any]:
    """What of a job file makes its revision."""
    return {"image": document["image"], "env": dict(document.get("env") or {})}


def template_of(uid: UUID, number: int) -> dict[str, Any]:
    """What of a job file a stored revision has."""
    found = Revision.objects.get(workload=uid, number=number)
    return {"image": found.image, "env": found.env}


def begin(batch: Batch, row: Row, was: Mapping[str, Any], spec: Mapping[str, Any], hand: Hand) -> None:
    """Bring in what a change of the job file asks for. `was` and `spec`: the document before and after.

    Raises Refused for an object that asks again for a revision that was taken back: it would be brought in for ever.
    """
    before, after, plan = template(was), template(spec), plan_of(spec)
    if before == after:
        if plan != plan_of(was):
            _weigh(batch, row, plan)
        return
    _keep_present(row, before)
    known = _known(row)
    same = next((one for one in known if {"image": one.image, "env": one.env} == after), None)
    if same is not None and same.failed and hand is Hand.OBJECT:
        message = f"Revision {same.number} was taken back: {same.failed} Change its image or its environment."
        raise Refused(409, "RevisionFailed", "image", message)
    if same is None:
        number = max(one.number for one in known) + 1
        Revision.objects.create(
            workload_id=row.uid, number=number, **after, weight=plan.weight, made_by=batch.actor, made_at=batch.at,
            in_force_at=batch.at,
        )  # fmt: skip
    else:
        number = same.number
        Revision.objects.filter(pk=same.pk).update(in_force_at=batch.at, failed="", weight=plan.weight)
    _bring_in(batch, row, number, plan, spec)


def _bring_in(batch: Batch, row: Row, number: int, plan: Plan, spec: Mapping[str, Any]) -> None:
    """Have its replicas replaced; those of a Deployment its own controller replaces, by the new template."""
    rollouts.begin(batch, row, number, plan, by_owner=is_native(spec) and settings.CLUSTER == "kubernetes")


def _weigh(batch: Batch, row: Row, plan: Plan) -> None:
    """Another part of the requests, for what is being brought in now; else it counts from the next change on."""
    if row.rollout is not None and not row.rollout["is_back"]:
        _note_weight(row, plan.weight)
        rollouts.weigh(batch, row, plan)


def step(batch: Batch, rows: Collection[Row], judged: Mapping[str, Judged]) -> None:
    """Give canaries that keep their objectives more of the requests, as their steps say. judged: see `conclude`."""
    for row in rows:
        if (weight := rollouts.step(batch, row, judged.get(row.id))) is not None:
            _note_weight(row, weight)


def _note_weight(row: Row, weight: int) -> None:
    Revision.objects.filter(workload=row.uid, number=row.revision).update(weight=weight)


def plan_of(document: Mapping[str, Any]) -> Plan:
    """How a job file has its revision brought in."""
    given = document.get("rollout") or {}
    steps = tuple(given.get("steps") or ())
    if not steps:
        return Plan(int(given.get("weight", Rollout().weight)))
    return Plan(steps[0], steps, 60.0 * (given.get("step_minutes") or STEP_MINUTES))


def weight_of(document: Mapping[str, Any]) -> int:
    """Percent of the requests that a job file asks for its revision, at first."""
    return plan_of(document).weight


@transaction.atomic
def undo(
    *, workload: Workload, actor: str, to: int | None = None, version: int | None = None, hand: Hand = Hand.PERSON
) -> int:
    """Go back to the revision before, or to the one with this number; the answer is its number. Raises Refused."""
    ownership.require(workload, "change", hand)
    batch, row = locked(workload, actor, version)
    if row.phase in ENDED:
        refuse(row, "rolled back")
    if to == row.revision:
        return to
    target = _target(row, to)
    stored = _write_spec(row, target)
    Revision.objects.filter(pk=target.pk).update(in_force_at=batch.at, failed="")
    batch.note(row, "Patched", message=f"{actor} asked for revision {target.number} again.")
    _bring_in(batch, row, target.number, Plan(), stored)
    batch.write()
    return target.number


# --- what follows from what was seen ----------------------------------------------------------


def conclude(
    batch: Batch,
    rows: Collection[Row],
    standings: Mapping[str, str],
    judged: Mapping[str, Judged] = MappingProxyType({}),
) -> None:
    """Take back the revisions that do not work. By id, of services: how they stand against their objectives, and what
    a canary and the revision before have answered."""
    rolling = [row for row in rows if row.rollout is not None]
    if not rolling:
        return
    deadlines = _deadlines([row.uid for row in rolling])
    for row in rolling:
        why = rollouts.fault(batch, row, deadlines[row.uid], standings.get(row.id), judged.get(row.id))
        if why is not None:
            _take_back(batch, row, *why)


def _take_back(batch: Batch, row: Row, reason: str, message: str) -> None:
    failed = rollouts.roll_back(batch, row, reason, message)
    target = Revision.objects.get(workload=row.uid, number=row.revision)
    _write_spec(row, target)
    Revision.objects.filter(pk=target.pk).update(in_force_at=batch.at)
    Revision.objects.filter(workload=row.uid, number=failed).update(failed=message[:400])


def _deadlines(uids: Collection[UUID]) -> dict[UUID, float]:
    found: dict[UUID, float] = {}
    for uid, spec in Workload.objects.filter(uid__among=uids).values_list("uid", "spec"):
        given = (spec.get("rollout") or {}).get("deadline")
        found[uid] = Rollout().deadline if given is None else float(quantities.seconds(given))
    return found


# --- rows -------------------------------------------------------------------------------------


def _keep_present(row: Row, present: Mapping[str, Any]) -> None:
    """The first change finds no revision stored: that of the submission is."""
    if not Revision.objects.filter(workload=row.uid).exists():
        stored = Workload.objects.select_related("created_by").get(pk=row.uid)
        by = stored.created_by.get_username() if stored.created_by else ""
        Revision.objects.create(
            workload_id=row.uid, number=row.revision, **present, made_by=by, made_at=row.submitted_at,
            in_force_at=row.submitted_at,
        )  # fmt: skip


def _known(row: Row) -> list[Revision]:
    """The newest in force first."""
    return list(Revision.objects.filter(workload=row.uid).order_by("-in_force_at", "-number"))


def _target(row: Row, to: int | None) -> Revision:
    others = [one for one in _known(row) if one.number != row.revision]
    if to is not None:
        others = [one for one in others if one.number == to]
    elif row.rollout is not None and not row.rollout["is_back"]:
        others = [one for one in others if one.number == row.rollout["from"]]
    else:
        others = [one for one in others if not one.failed]
    if not others:
        what = "no revision before the present one" if to is None else f"no revision {to}"
        message = f"{row.name} has {what}. `weft revisions` lists those it has."
        raise Refused(409, "NoRevision", "to", message)
    return others[0]


def _write_spec(row: Row, revision: Revision) -> dict[str, Any]:
    """Have its job file be of this revision, and tell it."""
    stored = Workload.objects.values_list("spec", flat=True).get(pk=row.uid)
    spec = {**stored, "image": revision.image, "env": revision.env}
    if not revision.env:
        del spec["env"]
    Workload.objects.filter(pk=row.uid).update(spec=spec)
    return spec
