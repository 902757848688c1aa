"""What the cluster is told beside commands: the pods of what waits next, and why each workload is where it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from controlplane.cluster.port import Note, PodSpec
from controlplane.jobspec import members
from controlplane.jobspec.podsets import role_ask
from controlplane.models import Action, Event, Workload
from controlplane.queries.audit import naming
from gpushare.gpu import WHOLE, Share
from scheduler.model.workload import Ask, Kind, Phase

# Decisions, not each step of a pod: those the cluster knows by itself.
TOLD = ("Waiting", "Held", "Reserved", "Admitted", "Placed", "Evicted", "Shrunk", "Scaled", "Expired", "StartRefused",
        "Resizing", "Resized", "ResizeRefused")  # fmt: skip
WARNINGS = ("Evicted", "Expired", "StartRefused", "ResizeRefused")
COMING_UP = (Phase.RESERVED, Phase.ADMITTED, Phase.STARTING, Phase.SCALING, Phase.DEGRADED)
MOST_PODS = 10_000  # of all that are made ahead; a team's namespace may have twice as many
AT_ONCE, BESIDE_COMMANDS = 500, 25  # events looked at in one round


@dataclass
class Upcoming:
    """The pods of what waits, kept from one look to the next: a row is read again when its version is new."""

    pods: dict[UUID, tuple[int, tuple[PodSpec, ...]]] = field(default_factory=dict)  # uid -> version, pods


def waiting(at: float, limit: int, kept: Upcoming, most_pods: int = MOST_PODS) -> tuple[PodSpec, ...]:
    """The pods of the first `limit` queued workloads, by priority and age, as their next attempt will have them.

    Whole gangs only, as far as `most_pods` go. Gangs whose size is decided only when they are placed are left out: a
    worker knows how many it has as peers.
    """
    fixed = Workload.objects.filter(phase=Phase.QUEUED.value, intent="", workers_min=1, workers_max=1)
    gangs = Workload.objects.filter(phase=Phase.QUEUED.value, intent="", kind=Kind.TRAINING.value)
    queued = fixed | gangs
    heads = list(queued.order_by("-priority", "seq").values_list("uid", "version", "not_before")[:limit])
    known = {uid: kept.pods[uid] for uid, version, _ in heads if kept.pods.get(uid, (None,))[0] == version}
    news = [uid for uid, _, _ in heads if uid not in known]
    for first in range(0, len(news), AT_ONCE):
        # One that was placed meanwhile is not among them.
        for row in queued.filter(uid__among=news[first : first + AT_ONCE]).select_related("team"):
            known[row.pk] = row.version, _pods(row)
    kept.pods = known
    pods: list[PodSpec] = []
    for uid, _, later in heads:
        _, gang = known.get(uid, (0, ()))
        if later is None or later <= at:
            if len(pods) + len(gang) > most_pods:
                break
            pods += gang
    return tuple(pods)


def starting() -> frozenset[str]:
    """The workloads that have places which their pods may not have taken yet."""
    phases = [phase.value for phase in COMING_UP]
    return frozenset(map(str, Workload.objects.filter(phase__in=phases).values_list("uid", flat=True)))


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


def _pods(row: Workload) -> tuple[PodSpec, ...]:
    if not row.workers_min == row.workers_max == row.workers:
        return ()
    return tuple(_pod(row, rank) for rank in range(members.companions(row.spec) + row.workers))


def _pod(row: Workload, rank: int) -> PodSpec:
    ask = role_ask(row.roles, rank) or Ask(
        share=Share(row.share_guarantee, row.share_limit, row.gpu_memory) if row.share_guarantee else None,
        cpu_milli=row.cpu_milli,
        memory=row.memory,
    )
    return PodSpec(
        workload=str(row.pk),
        attempt=row.attempt + 1,
        rank=rank,
        size=members.companions(row.spec) + row.workers,
        node="",
        gpus=(),
        milli=ask.share.guarantee if ask.share else WHOLE,
        gpu_memory=ask.share.memory if ask.share else 0,
        cpu_milli=ask.cpu_milli,
        memory=ask.memory,
        namespace=row.team.name,
        spec=row.spec,
    )


def _sentence(kind: str, message: str, data: Mapping[str, Any]) -> str:
    if message:
        return message
    workers: Sequence[Sequence[Any]] = data.get("workers", ())
    nodes = list(dict.fromkeys(str(worker[1]) for worker in workers))
    if nodes:
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")
        return f"{len(workers)} workers placed on {shown}." if len(workers) > 1 else f"Placed on {shown}."
    return f"{kind}."
