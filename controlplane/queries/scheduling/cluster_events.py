"""The decisions that the cluster shows as events on its pods: why each workload is where it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.cluster.port import Note
from controlplane.models import Action, Event
from controlplane.queries.audit import naming

# Decisions, not each step of a pod: those the cluster knows by itself.
TOLD = ("Waiting", "Held", "Reserved", "Admitted", "Placed", "Evicted", "Shrunk", "Scaled", "Expired", "StartRefused",
        "Offloaded", "Restored", "OffloadRefused",
        "Resizing", "Resized", "ResizeRefused", "RollingOut", "Split", "Promoted", "RolledOut", "RollingBack",
        "RolledBack")  # fmt: skip
WARNINGS = ("Evicted", "Expired", "StartRefused", "ResizeRefused", "RollingBack")
AT_ONCE, BESIDE_COMMANDS = 500, 25  # events looked at in one round


def pace() -> int:
    """How many events to look at now: while commands are to be performed few, as binds go first."""
    return BESIDE_COMMANDS if Action.objects.filter(done_at__isnull=True).exists() else AT_ONCE


def notes(after: int, limit: int = AT_ONCE) -> tuple[int, tuple[Note, ...]]:
    """The newest decision about each workload since this event, and the last event looked at."""
    found = list(Event.objects.filter(id__gt=after, workload__isnull=False).order_by("id")[:limit])
    newest = {e.workload: e for e in found if e.kind in TOLD}
    # A user who reads a team's namespace may see that team's work; what else is not known.
    sentences = naming.each([(_sentence(e.kind, e.message, e.data), (e.team,)) for e in newest.values()])
    made = (
        Note(str(e.workload), e.team, e.reason or e.kind, sentence, e.kind in WARNINGS)
        for e, sentence in zip(newest.values(), sentences, strict=True)
    )
    return (found[-1].pk if found else after), tuple(made)


def last() -> int:
    """The newest event's number; 0 before the first."""
    return Event.objects.order_by("-id").values_list("id", flat=True).first() or 0


def _sentence(kind: str, message: str, data: Mapping[str, Any]) -> str:
    if message:
        return message
    workers: Sequence[Sequence[Any]] = data.get("workers", ())
    nodes = list(dict.fromkeys(str(worker[1]) for worker in workers))
    if nodes:
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")
        return f"{len(workers)} workers placed on {shown}." if len(workers) > 1 else f"Placed on {shown}."
    return f"{kind}."
