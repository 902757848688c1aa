"""What the cluster shows becomes what the database knows: pods -> placements -> phases.

Level-triggered: a full observation alone leads to the right state from any state, whatever was missed before; the
incremental ones in between only make it quicker.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from controlplane.cluster.port import ALIVE, Observation, PodSeen
from controlplane.domain.ids import uuids
from controlplane.lifecycle import resizing as lifecycle
from controlplane.lifecycle.admission import admit
from controlplane.lifecycle.canaries import Judged
from controlplane.lifecycle.pods import see, settle
from controlplane.lifecycle.sightings import STOP_AGAIN_SECONDS, Attempt, add_missing, by_workload, stop_strangers
from controlplane.lifecycle.state import BOUND, LEAVING, RESERVED, Seat, State
from controlplane.models import Action, Node, Placement, bulk
from controlplane.services.scheduling import clusters, revising, timeouts
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import dependencies, resizing
from controlplane.services.workloads.transitions import Batch

ACTOR = "loop:observe"
LONGEST_GRACE_SECONDS = 3600.0 + STOP_AGAIN_SECONDS  # as the job file allows
AT_ONCE = 4000  # workloads of a full observation that are locked together
STOPS_LOOKED_AT = 5000  # newest actions; one missed here is only told twice


@dataclass(frozen=True, slots=True)
class Applied:
    """What an observation led to."""

    pods: int = 0
    moves: int = 0
    orphans: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What was seen of the workloads with ids from `low` on and below `high`; None: no such bound."""

    observation: Observation
    low: UUID | None = None
    high: UUID | None = None


class Found(NamedTuple):
    """Whether a place became free, and how many pods should not be there."""

    freed: bool
    orphans: int


def apply(
    observation: Observation,
    *,
    lease: HeldLease,
    with_timeouts: bool = False,
    gang_timeout_seconds: float = 300.0,
    standings: Mapping[str, str] = MappingProxyType({}),
    judged: Mapping[str, Judged] = MappingProxyType({}),
    at_once: int = AT_ONCE,
) -> Applied:
    """Write one observation. With `with_timeouts`, also enforce deadlines and mend what no pod will ever report.

    A full one of many workloads is written in parts, each in a transaction of its own, so that what users do waits for
    one of them only. It counts as seen with the last: where one breaks off, all is asked for again.

    standings: how services that are being replaced stand against their objectives, by id; judged: of those with a
    canary, what both revisions have answered; at_once: workloads of a part.
    """
    parts = _parts(observation, at_once) if observation.is_full else [Part(observation)]
    moves = orphans = 0
    freed = False
    for part in parts[:-1]:
        with transaction.atomic():
            lease.check()
            now = clusters.seen().now
            batch = Batch(max(observation.at, now), ACTOR)
            found = _write(batch, part, is_late=observation.at < now)
            moves, orphans, freed = moves + batch.moves, orphans + found.orphans, freed or found.freed
    with transaction.atomic():
        lease.check()
        now = clusters.seen().now
        is_late = observation.at < now
        nodes_changed = False if is_late else clusters.sync(observation)
        batch = Batch(max(observation.at, now), ACTOR)
        due = timeouts.due(batch.at, gang_timeout_seconds) if with_timeouts else timeouts.Due()
        promised = timeouts.promised() if with_timeouts or nodes_changed or _may_free(observation) else []
        later = {*due.phases, *due.late, *due.overtaken, *due.resizing, *due.rolling, *promised}
        found = _write(batch, parts[-1], later, is_late=is_late)
        if with_timeouts:
            timeouts.enforce(batch, due, gang_timeout_seconds, standings, judged)
            batch.write()
        if freed or found.freed or with_timeouts or nodes_changed or observation.is_full:
            _admit(batch, promised)
            batch.write()
        if not is_late:
            clusters.observed(at=observation.at, cursor=observation.cursor)
    return Applied(len(observation.pods), moves + batch.moves, orphans + found.orphans)


def _write(batch: Batch, part: Part, later: Collection[UUID] = (), *, is_late: bool) -> Found:
    """Settle what was seen of a part of the workloads. later: what may have to be locked in this transaction, too."""
    observation = part.observation
    pods = by_workload(observation.pods)
    uids = dict.fromkeys(uuids(pods))
    if observation.is_full and not is_late:
        uids |= dict.fromkeys(_holders(part))
    if observation.gone_nodes:
        uids |= dict.fromkeys(_holders(part, observation.gone_nodes))
    batch.lock(uids, ahead=lambda: {*later, *dependencies.dependents({*uids, *later})})
    if not is_late:
        add_missing(batch, observation, pods, _started_lately(observation.at))
    freed = _settle_all(batch, pods)
    _see_resizes(batch, {} if is_late else pods, observation.is_full)
    revising.conclude(batch, batch.rows.values(), {})
    orphans = 0
    if observation.is_full and not is_late:
        orphans = stop_strangers(batch, observation, _may_be_ours, _stopped_lately(observation.at))
    batch.write()
    return Found(freed, orphans)


def _parts(observation: Observation, at_once: int) -> list[Part]:
    """A full observation cut by the ids of workloads; what is not of one is in the last."""
    known = sorted({*uuids(pod.workload for pod in observation.pods), *_holders(Part(observation))})
    cuts = [known[number] for number in range(at_once, len(known), at_once)]
    of: dict[int, list[PodSeen]] = {}
    for pod in observation.pods:
        uid = next(iter(uuids([pod.workload])), None)
        of.setdefault(len(cuts) if uid is None else bisect_right(cuts, uid), []).append(pod)
    ends = zip([None, *cuts], [*cuts, None], strict=True)
    return [
        Part(replace(observation, pods=tuple(of.get(number, ()))), low, high) for number, (low, high) in enumerate(ends)
    ]


def tick(observation: Observation, *, lease: HeldLease) -> None:
    """Note the time of an observation in which nothing changed."""
    with transaction.atomic():
        lease.check()
        clusters.observed(at=observation.at, cursor=observation.cursor)


def _may_free(observation: Observation) -> bool:
    """Whether a place may have become free."""
    return observation.is_full or bool(observation.gone_nodes) or any(p.phase not in ALIVE for p in observation.pods)


def _may_be_ours(uid: str) -> bool:
    return bool(uuids([uid]))


def _holders(part: Part, nodes: Iterable[str] | None = None) -> list[UUID]:
    """Workloads of a part whose workers should be on machines; on some of them only, if given."""
    held = Placement.objects.filter(is_settled=False, state__in=(BOUND, LEAVING), bound_at__isnull=False)
    if nodes is not None:
        held = held.filter(node__among=list(nodes))
    if part.low is not None:
        held = held.filter(workload__gte=part.low)
    if part.high is not None:
        held = held.filter(workload__lt=part.high)
    return list(held.values_list("workload", flat=True).distinct())


def _settle_all(batch: Batch, pods: dict[str, list[PodSeen]]) -> bool:
    """Apply what was seen, workload by workload; tell whether a place became free."""
    freed = False
    for row in sorted(batch.rows.values(), key=lambda row: row.uid):
        seen = pods.get(row.id, [])
        ends = see(batch, row, seen)
        freed = freed or bool(ends)
        settle(batch, row, ends, seen)
    return freed


def _see_resizes(batch: Batch, pods: dict[str, list[PodSeen]], is_full: bool) -> None:
    """Take note of what nodes did of the resizes that they were told; those that none was told are told again."""
    rows = [row for row in batch.rows.values() if row.resize is not None]
    for row in rows:
        lifecycle.see(batch, row, pods.get(row.id, ()))
    if rows and is_full:
        resizing.repeat(batch, rows, pods)
    resizing.conclude(batch, rows)


# --- what the log of actions says -------------------------------------------------------------


def _started_lately(at: float) -> Callable[[Collection[State]], set[Attempt]]:
    def of(rows: Collection[State]) -> set[Attempt]:
        uids = uuids(row.id for row in rows)
        starts = Action.objects.filter(Q(done_at__isnull=True) | Q(done_at__gte=at), verb="start", workload__among=uids)
        return {(str(uid), attempt) for uid, attempt in starts.values_list("workload", "attempt")}

    return of


def _stopped_lately(at: float) -> set[Attempt]:
    """Attempts that were told to stop and still may take their time."""
    newest = bulk.select(Action, ("id",), order=("-id",), limit=1)
    oldest = newest[0][0] - STOPS_LOOKED_AT if newest else 0
    lately = Q(done_at__isnull=True) | Q(done_at__gt=at - LONGEST_GRACE_SECONDS)
    rows = Action.objects.filter(lately, verb="stop", id__gt=oldest).order_by()
    return {
        (str(uid), attempt)
        for uid, attempt, done_at, payload in rows.values_list("workload", "attempt", "done_at", "payload")
        if done_at is None or done_at > at - float(payload.get("grace", 0.0)) - STOP_AGAIN_SECONDS
    }


# --- places that were waited for --------------------------------------------------------------


def _admit(batch: Batch, uids: Sequence[UUID]) -> None:
    """Start what waited for others to leave, once they have; give up places on nodes that are out of use."""
    if not uids:
        return
    batch.lock(uids)
    rows = [batch.rows[str(uid)] for uid in sorted(uids)]
    awaited = {other for row in rows for other in row.reserved_after}
    staying = Placement.objects.filter(workload__among=uuids(awaited), state=LEAVING, is_settled=False)
    leaving = {str(uid) for uid in staying.values_list("workload", flat=True)}
    lost = _out_of_use([seat for row in rows for seat in batch.live(row) if seat.state == RESERVED])
    for row in rows:
        admit(batch, row, leaving, lambda seat: seat.pk in lost)


def _out_of_use(places: Sequence[Seat]) -> set[int]:
    """Keys of the places whose node or devices are out of use."""
    nodes = Node.objects.filter(name__among={seat.node for seat in places}, ready=True, schedulable=True)
    broken = {name: set(lost) for name, lost in nodes.values_list("name", "lost_gpus")}
    near = [seat.pk for seat in places if broken.get(seat.node)]
    devices = dict(Placement.objects.filter(pk__among=near).values_list("pk", "gpus")) if near else {}
    return {s.pk for s in places if s.node not in broken or broken[s.node].intersection(devices.get(s.pk, ()))}
