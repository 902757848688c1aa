"""The revisions of a service: which there are, which is wanted, and how far it has replaced the one before."""

from collections import Counter
from typing import Any

from controlplane.jobspec.quantities import iso
from controlplane.lifecycle import canaries, canarysteps
from controlplane.models import Placement, PlacementState, Revision, Workload

STAYING = (PlacementState.RESERVED.value, PlacementState.BOUND.value)


def revisions(workload: Workload) -> dict[str, Any]:
    """All of them, the newest first, and how the wanted one is being brought in. Two queries."""
    seats = Placement.objects.filter(workload=workload.pk, state__in=STAYING).values_list("revision", "pod_phase")
    placed, ready = Counter(number for number, _ in seats), Counter(n for n, phase in seats if phase == "Running")
    stored = list(Revision.objects.filter(workload=workload.pk).order_by("-number")) or [_first(workload)]
    shown = [_shown(one, workload.revision, placed[one.number], ready[one.number]) for one in stored]
    return {"uid": str(workload.pk), "revision": workload.revision, "rollout": rollout(workload), "revisions": shown}


def rollout(workload: Workload) -> dict[str, Any] | None:
    """How far the wanted revision has replaced the one before; None when nothing is being replaced."""
    found = workload.rollout
    if not found:
        return None
    same = ("is_back", "ready", "has_no_room", "reason", "message")
    is_canary, split = canaries.is_one(found), found.get("split")
    own, before = found.get("judged") or ((None, None), (None, None))
    next_at = canarysteps.next_at(found)
    known = "requests" if own[0] is not None else "service" if found["standing"] is not None else "nothing"
    return {
        "to": workload.revision,
        "before": found["from"],
        **{name: found[name] for name in same},
        "of": canaries.shares(workload)[workload.revision] if is_canary else workload.workers,
        "since": iso(found["since"]),
        "is_canary": is_canary,
        "weight": canaries.weight_of(found),
        "percent": split[2] if split and is_canary else None,
        "steps": list(found.get("steps") or ()) if is_canary else [],
        "next_weight": canarysteps.next_weight(found),
        "next_at": None if next_at is None else iso(next_at),
        "held": found.get("held", "") if is_canary else "",
        "judged_by": known,
        "own_requests": own[0],
        "own_over": own[1],
        "before_requests": before[0],
        "before_over": before[1],
    }


def _first(workload: Workload) -> Revision:
    """The one that it was submitted with: it is stored with the first change."""
    by = workload.created_by.username if workload.created_by else ""
    at, spec = workload.submitted_at, workload.spec
    return Revision(
        number=workload.revision, image=spec["image"], env=spec.get("env") or {}, made_by=by, made_at=at, in_force_at=at
    )


def _shown(one: Revision, wanted: int, placed: int, ready: int) -> dict[str, Any]:
    return {
        "number": one.number,
        "image": one.image,
        "env": one.env,
        "weight": one.weight,
        "made_by": one.made_by,
        "made_at": iso(one.made_at),
        "in_force_at": iso(one.in_force_at),
        "is_wanted": one.number == wanted,
        "placed": placed,
        "ready": ready,
        "failed": one.failed,
    }
