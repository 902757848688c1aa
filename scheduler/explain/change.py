"""What could be different so that a waiting workload starts, and what each difference means for a snapshot."""

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Quota
from scheduler.model.workload import Gang, Level, Phase, ResourceRequest, Topology, Workload

ANY = "any"  # GPU model, or place of the workers


class ChangeKind(StrEnum):
    """The kinds of change, each with what makes one change smaller than another."""

    WORKERS = "workers"  # fewer workers: as many as possible stay
    GPUS = "gpus"  # fewer whole GPUs a worker
    SHARE = "share"  # a smaller guarantee
    GPU_MEMORY = "gpu_memory"  # less memory on each GPU
    CPU = "cpu"  # fewer cores a worker
    MEMORY = "memory"  # less host memory a worker
    MODEL = "model"  # one more GPU model, the one with the least memory; else any
    TOPOLOGY = "topology"  # the next looser required level
    PRIORITY = "priority"  # the lowest higher priority
    NOMINAL = "nominal"  # the least milli-GPU more nominal quota in one row
    BORROWING = "borrowing"  # the least milli-GPU more borrowing limit in one row
    STOP = "stop"  # the workload whose stop loses least


IN_QUOTA = frozenset({ChangeKind.NOMINAL, ChangeKind.BORROWING})
OF_THE_ASK = frozenset(ChangeKind) - IN_QUOTA - {ChangeKind.PRIORITY, ChangeKind.STOP}
# Where a change starts the workload, larger ones of the kind nearly always do, so that halves may be skipped.
MONOTONE = frozenset(
    {ChangeKind.WORKERS, ChangeKind.GPUS, ChangeKind.SHARE, ChangeKind.GPU_MEMORY, ChangeKind.CPU, ChangeKind.MEMORY}
)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, in the units of `ResourceRequest`, `Quota` and `Level`; the `after` of a stop is its loss.

    target is the team of a quota, the name of a priority class, or the id of the workload to stop.
    """

    kind: ChangeKind
    before: int | str
    after: int | str
    target: str = ""
    pool: str = ""
    preemptible: bool = True  # of the priority class


@dataclass(frozen=True, slots=True)
class Choice:
    """How a request names a change: the figures of `Change`, written as text; of a stop only the target."""

    kind: ChangeKind
    after: str = ""
    target: str = ""
    pool: str = ""

    def is_of(self, change: Change) -> bool:
        """Whether this is the change that was named."""
        is_same = (change.kind, change.target, change.pool) == (self.kind, self.target, self.pool)
        return is_same and (self.kind is ChangeKind.STOP or str(change.after) == self.after)


@dataclass(frozen=True, slots=True)
class PriorityOffer:
    """A priority that may be had: the name of its class, its value, whether such work may be preempted."""

    name: str
    value: int
    preemptible: bool = True


def changed(snapshot: Snapshot, uid: str, change: Change) -> Snapshot:
    """The world in which the change was made for this workload."""
    match change.kind:
        case ChangeKind.NOMINAL | ChangeKind.BORROWING:
            return replace(snapshot, quotas=_with_quota(snapshot.quotas, change))
        case ChangeKind.STOP:
            return _without(snapshot, snapshot.workloads[change.target])
        case _:
            return snapshot.replace(changed=(asking(snapshot.workloads[uid], change),))


def asking(workload: Workload, change: Change) -> Workload:
    """The workload with another ask or another priority."""
    gang, to = workload.gang, change.after
    match change.kind:
        case ChangeKind.TOPOLOGY:
            require = None if to == ANY else Level[str(to).upper()]
            return replace(workload, topology=Topology(require, workload.topology.prefer))
        case ChangeKind.PRIORITY:
            return replace(workload, priority=int(to), preemptible=change.preemptible)
        case ChangeKind.WORKERS:
            is_rigid, count = gang.min == gang.count == gang.max, int(to)
            return replace(workload, gang=Gang(count, count, count) if is_rigid else replace(gang, min=count))
        case _:
            return replace(workload, ask=_ask(workload.ask, change))


def _ask(ask: ResourceRequest, change: Change) -> ResourceRequest:
    if change.kind is ChangeKind.MODEL:
        return replace(ask, models=() if change.after == ANY else (*ask.models, str(change.after)))
    to = int(change.after)
    match change.kind:
        case ChangeKind.SHARE if ask.share:
            return replace(ask, share=replace(ask.share, guarantee=to))
        case ChangeKind.GPU_MEMORY if ask.share and ask.share.on_demand:
            memory = ask.memory - ask.share.on_demand + to  # what it books of the node's memory goes with it
            return replace(ask, memory=memory, share=replace(ask.share, on_demand=to))
        case ChangeKind.GPU_MEMORY if ask.share:
            return replace(ask, share=replace(ask.share, memory=to))
        case ChangeKind.GPU_MEMORY:
            return replace(ask, gpu_memory=to)
        case ChangeKind.CPU:
            return replace(ask, cpu_milli=to)
        case ChangeKind.MEMORY:
            return replace(ask, memory=to + (ask.share.on_demand if ask.share else 0))
        case _:
            return replace(ask, gpus=to)


def _with_quota(quotas: tuple[Quota, ...], change: Change) -> tuple[Quota, ...]:
    to, key = int(change.after), (change.target, change.pool)
    if not any((q.team, q.pool) == key for q in quotas):
        return (*quotas, Quota(*key, to))
    is_nominal = change.kind is ChangeKind.NOMINAL
    return tuple(
        q if (q.team, q.pool) != key else replace(q, nominal=to) if is_nominal else replace(q, borrowing=to)
        for q in quotas
    )


def _without(snapshot: Snapshot, workload: Workload) -> Snapshot:
    """As `stop` leaves it: its pods end with their grace; a place that was only reserved is given up at once."""
    bound = tuple(replace(a, leaving=True) for a in workload.placement if not a.reserved)
    if workload.phase is Phase.RESERVED or not bound:
        return snapshot.replace(gone=(workload.id,))
    return snapshot.replace(changed=(replace(workload, phase=Phase.STOPPING, placement=bound, after=()),))
