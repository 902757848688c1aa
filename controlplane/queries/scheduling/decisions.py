"""What was decided: the feed of events, and the stored rounds with every decision of each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Case, Q, Value, When

from controlplane.models import Cycle, Event, Workload

# What a filter of the feed stands for; "" is all of these.
GROUPS: Mapping[str, Sequence[str]] = {
    "placed": ("Admitted", "Reserved", "Placed"),
    "made-room": ("Evicted", "Shrunk", "ReplicasMoved", "Offloaded"),
    "waits": ("Waiting", "Held"),
    "scaled": ("Scaled",),
    "ended": ("Succeeded", "Failed", "Expired", "Stopped"),
    "people": (
        "QuotaChanged", "QuotaRemoved", "BudgetChanged", "BudgetRemoved", "PolicyChanged", "PriorityClassChanged",
        "NodePoolChanged", "Cordoned", "Uncordoned", "Drained", "Patched", "Suspended", "Resumed", "TeamCreated",
        "TeamMoved", "TeamHandedOver",
    ),
}  # fmt: skip
EVERY = tuple(kind for kinds in GROUPS.values() for kind in kinds)
LOOPS = ("schedule", "scale")


@dataclass(frozen=True, slots=True)
class Round:
    """One stored round. at is the cluster's clock; has_input: it can be decided again."""

    number: int
    loop: str
    at: float
    took_ms: float
    policy: int | None
    digest: str
    counts: Mapping[str, int]
    has_input: bool


@dataclass(frozen=True, slots=True)
class Told:
    """One decision of a round. uid is empty where the workload is gone; data is the decision as it was stored."""

    kind: str
    uid: UUID | None
    team: str
    name: str
    data: Mapping[str, Any]
    by: str = ""  # team/name of the workload that gets the room, where the viewer may see it


def feed(
    names: Collection[str] | None, *, group: str = "", team: str = "", text: str = "", before: int = 0, limit: int = 50
) -> list[Event]:
    """The newest decisions of these teams (None: all teams' and the platform's own). One query."""
    found = Event.objects.filter(kind__in=GROUPS.get(group, EVERY))
    if names is not None:
        found = found.filter(team__in=names)
    if team:
        found = found.filter(team=team)
    if text:
        found = found.filter(name__icontains=text)
    if before:
        found = found.filter(pk__lt=before)
    return list(found.order_by("-pk")[:limit])


def rounds(*, loop: str = "", before: int = 0, limit: int = 50) -> list[Round]:
    """The newest stored rounds, without what they saw and decided. One query."""
    found = Cycle.objects.filter(loop=loop) if loop else Cycle.objects.all()
    if before:
        found = found.filter(pk__lt=before)
    return [_round(values) for values in _listed(found.order_by("-pk")[:limit])]


def round_(number: int) -> Round | None:
    """One stored round."""
    return next((_round(values) for values in _listed(Cycle.objects.filter(pk=number))), None)


def decided(number: int, names: Collection[str] | None, *, offset: int = 0, limit: int = 100) -> tuple[list[Told], int]:
    """Some of a round's decisions about workloads of these teams (None: all), and how many there are. Three queries."""
    stored: list[dict[str, Any]] = Cycle.objects.values_list("decisions", flat=True).get(pk=number)
    known = _named({str(one.get("workload", "")) for one in stored}, names)
    mine = stored if names is None else [one for one in stored if str(one.get("workload")) in known]
    shown = mine[offset : offset + limit]
    claimants = _named({str(one["by"]) for one in shown if one.get("by")}, names)
    return [_told(one, known, claimants) for one in shown], len(mine)


def _listed(found: Any) -> Any:
    kept = Case(When(input__isnull=False, then=Value(True)), default=Value(False), output_field=BooleanField())
    columns = ("pk", "loop", "cluster_at", "took_ms", "policy", "digest", "counts", "has_input")
    return found.annotate(has_input=kept).values_list(*columns)


def _round(values: tuple[Any, ...]) -> Round:
    return Round(*values)


def _named(uids: Collection[str], names: Collection[str] | None) -> dict[str, tuple[UUID, str, str]]:
    wanted = Workload.objects.filter(Q(pk__among=[uid for uid in uids if uid]))
    if names is not None:
        wanted = wanted.filter(team__name__in=names)
    return {str(uid): (uid, team, name) for uid, team, name in wanted.values_list("pk", "team__name", "name")}


def _told(one: Mapping[str, Any], known: Mapping[str, Any], claimants: Mapping[str, Any]) -> Told:
    uid, team, name = known.get(str(one.get("workload")), (None, "", ""))
    by = claimants.get(str(one.get("by", "")))
    return Told(str(one.get("kind", "")), uid, team, name, one, f"{by[1]}/{by[2]}" if by else "")
