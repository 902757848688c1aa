"""The pods of the workloads that start next, which the cluster creates before they have a place."""

from dataclasses import dataclass, field
from uuid import UUID

from controlplane.cluster.port import PodSpec
from controlplane.jobspec import members
from controlplane.jobspec.podsets import role_ask
from controlplane.jobspec.scaling import is_native
from controlplane.models import Node, NodePool, Workload
from controlplane.security import notebookkeys
from gpushare.gpu import WHOLE, Share
from scheduler.model.workload import Kind, Phase, ResourceRequest

COMING_UP = (Phase.RESERVED, Phase.ADMITTED, Phase.STARTING, Phase.SCALING, Phase.DEGRADED)
MAX_PODS = 10_000  # of all that are made ahead; a team's namespace may have twice as many
AT_ONCE = 500  # rows read in one query


@dataclass
class Upcoming:
    """The pods of what waits, kept from one look to the next: a row is read again when its version is new."""

    pods: dict[UUID, tuple[int, tuple[PodSpec, ...]]] = field(default_factory=dict)  # uid -> version, pods


def upcoming(at: float, limit: int, kept: Upcoming, max_pods: int = MAX_PODS) -> tuple[PodSpec, ...]:
    """The pods of the first `limit` queued workloads, by priority and age, as their next attempt will have them.

    Whole gangs only, as far as `max_pods` go. Gangs whose size is decided only when they are placed are left out: a
    worker knows how many it has as peers.
    """
    fixed = Workload.objects.filter(phase=Phase.QUEUED.value, intent="", workers_min=1, workers_max=1)
    gangs = Workload.objects.filter(phase=Phase.QUEUED.value, intent="", kind=Kind.TRAINING.value)
    queued = fixed | gangs
    heads = list(queued.order_by("-priority", "seq").values_list("uid", "version", "not_before")[:limit])
    known = {uid: kept.pods[uid] for uid, version, _ in heads if kept.pods.get(uid, (None,))[0] == version}
    # Where back-ends have pods ask for other things, what a share's pod asks for follows from its place.
    parts = NodePool.objects.exclude(enforcer="").exists() or Node.objects.exclude(enforcer="").exists()
    news = [uid for uid, _, _ in heads if uid not in known]
    for first in range(0, len(news), AT_ONCE):
        # One that was placed meanwhile is not among them.
        for row in queued.filter(uid__among=news[first : first + AT_ONCE]).select_related("team"):
            known[row.pk] = row.version, () if row.share_guarantee and parts else _pods(row)
    kept.pods = known
    pods: list[PodSpec] = []
    for uid, _, later in heads:
        _, gang = known.get(uid, (0, ()))
        if later is None or later <= at:
            if len(pods) + len(gang) > max_pods:
                break
            pods += gang
    return tuple(pods)


def starting() -> frozenset[str]:
    """The workloads that have places which their pods may not have taken yet."""
    phases = [phase.value for phase in COMING_UP]
    return frozenset(map(str, Workload.objects.filter(phase__in=phases).values_list("uid", flat=True)))


def _pods(row: Workload) -> tuple[PodSpec, ...]:
    if not row.workers_min == row.workers_max == row.workers or "kubernetes" in row.spec or is_native(row.spec):
        return ()  # the pods of a queued object are made by its own controller
    spec = notebookkeys.with_token(members.counted(row.spec, row.roles), row.pk)
    return tuple(_pod(row, spec, rank) for rank in range(members.role_members(spec) + row.workers))


def _pod(row: Workload, spec: dict[str, object], rank: int) -> PodSpec:
    ask = role_ask(row.roles, rank) or ResourceRequest(
        share=Share(row.share_guarantee, row.share_limit, row.gpu_memory) if row.share_guarantee else None,
        cpu_milli=row.cpu_milli,
        memory=row.memory,
    )
    return PodSpec(
        workload=str(row.pk),
        attempt=row.attempt + 1,
        rank=rank,
        size=members.role_members(spec) + row.workers,
        node="",
        gpus=(),
        milli=ask.share.guarantee if ask.share else WHOLE,
        gpu_memory=ask.share.memory if ask.share else 0,
        cpu_milli=ask.cpu_milli,
        memory=ask.memory,
        namespace=row.team.name,
        spec=spec,
        limit=ask.share.limit if ask.share else 0,
        batch=row.batch or 0,
    )
