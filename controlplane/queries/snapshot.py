"""Rows -> the scheduler's snapshot: from scratch, or kept up to date by what changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from django.db import transaction

from controlplane.cycle import Difference, Frame, demand_text, digest_text, row_hash, workload_text
from controlplane.models import Change, ClusterState, Placement, PlacementState, bulk
from controlplane.models import Node as NodeRow
from controlplane.models import Quota as QuotaRow
from controlplane.models import Team as TeamRow
from controlplane.models import Workload as WorkloadRow
from controlplane.queries import learning, shares
from controlplane.queries.demand import asked_of_late, with_demand
from controlplane.queries.moment import one_moment
from controlplane.rolevalues import roles_of
from gpushare.gpu import Share
from scheduler.decision import Decision
from scheduler.demand import Demand
from scheduler.history import History
from scheduler.placement.forecast import next_count
from scheduler.scope import News, news
from scheduler.snapshot import Node, Snapshot
from scheduler.team import Quota, Team
from scheduler.workload import ENDED, Ask, Assignment, Gang, Kind, Level, Phase, Topology, Workload

# Of the cluster's clock, between two looks at decayed use and budgets, and at what ended work teaches. That is a
# thousand workloads' worth, so an hour changes little; as long as nothing is known it is looked for each time.
FRAME_SECONDS, LEARN_SECONDS = 600.0, 3600.0
_LIVE = tuple(phase.value for phase in Phase if phase not in ENDED)
_LEAVING = PlacementState.LEAVING.value
_ENDED_TEXT = frozenset(phase.value for phase in ENDED)
_LEVELS = dict(enumerate(Level))


class Fence(Protocol):
    """A held lease: `check` raises inside the transaction once it is another's."""

    @property
    def epoch(self) -> int:
        """Grows with each new holder."""

    def check(self) -> None:
        """Raise unless the lease is still ours."""


def full(at: float | None = None) -> Snapshot:
    """Everything at one moment; `at` is the cluster's clock, by default as last observed."""
    with one_moment():
        at = _observed_at() if at is None else at
        frame = _frame()
        workloads = _workloads(None)
        return with_demand(frame.snapshot(at, workloads))


def some(uids: Iterable[UUID], at: float) -> Snapshot:
    """Only these workloads, without nodes, teams and quotas: what scaling looks at."""
    return Snapshot.build(at, (), (), (), _workloads(uids))


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot, how it differs from the one taken before, and its digest."""

    snapshot: Snapshot
    changed: Difference
    is_base: bool  # nothing was taken before: `changed` is everything
    digest: str
    news: News | None = None  # who is to be tried; None: everybody


class SnapshotKeeper:
    """The snapshot of one holder of the schedule lease, kept between rounds as long as the epoch lasts.

    `take` reads again what Change rows name and deletes them, in one transaction fenced by the lease: if that fails,
    nothing is lost. A new epoch starts from scratch, since others may have consumed Change rows meanwhile.
    """

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._snapshot = Snapshot.build(0.0, (), (), (), ())
        self._hashes: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._frame = ""
        self._framed_at = 0.0
        self._learnt_at = 0.0
        self._sum = 0
        self._followed: dict[str, str] = {}
        self._demand = demand_text(Demand())
        self._count_at = 0  # the submission with which demand is counted again

    def take(self, lease: Fence, at: float | None = None) -> Taken:
        """The snapshot as of now. Raises what `lease.check` raises."""
        if self._epoch != lease.epoch:
            return self._base(lease, at)
        if not bulk.select(
            Change, ("id",), "LIMIT 1"
        ):  # nothing to write; whatever is decided on this is fenced when it commits
            at = self._snapshot.at if at is None else at
            self._snapshot = self._snapshot.replace(at=at)
            followed, self._followed = self._followed, {}
            return Taken(self._snapshot, Difference(at, followed), False, digest_text(self._sum), News())
        with transaction.atomic():
            lease.check()
            hints = bulk.select(Change, ("id", "workload"))
            uids = {uid for _, uid in hints if uid is not None}
            changed = _workloads(uids) if uids else []
            at = _observed_at() if at is None else at
            frame = self._newer_frame(at, is_hinted=any(uid is None for _, uid in hints))
            _forget(hints)
        return self._next(at, changed, {str(uid) for uid in uids}, frame)

    def follow(self, decisions: Iterable[Decision]) -> None:
        """Apply decisions that were just committed, so that their rows need not be read again.

        This relies on `Snapshot.after` and `services.decisions.commit` meaning the same; the tests and the audit
        compare this snapshot with one read from scratch.
        """
        made = list(decisions)
        named = {d.workload for d in made}
        self._snapshot = self._snapshot.after(made)
        texts = self._exchange([self._snapshot.workloads[uid] for uid in named if uid in self._snapshot.workloads])
        self._followed |= texts

    def _newer_frame(self, at: float, *, is_hinted: bool) -> Frame | None:
        """The frame if it is time to look, or if nodes, teams or quotas are hinted at; of it what may have changed."""
        now = self._snapshot
        is_old = not self._framed_at <= at < self._framed_at + FRAME_SECONDS
        may_learn = not now.history.runs or not self._learnt_at <= at < self._learnt_at + LEARN_SECONDS
        if is_hinted or (is_old and may_learn):
            return _frame(None if is_old and may_learn else now.history)
        if is_old:
            return Frame(now.inventory.nodes, now.teams, now.quotas, shares.decayed(), shares.used_up(), now.history)
        return None

    def _exchange(self, changed: Iterable[Workload]) -> dict[str, str]:
        """Put these workloads' texts in the place of the ones before, in the digest too."""
        texts = {w.id: workload_text(w) for w in changed}
        for uid, text in texts.items():
            new = row_hash(text)
            self._sum += new - self._hashes.get(uid, 0)
            self._hashes[uid] = new
        self._texts |= texts
        return texts

    def _base(self, lease: Fence, at: float | None) -> Taken:
        """Everything from scratch. The rows are read after the hints, so no hint that is deleted is newer than them."""
        self._epoch = None
        self._followed = {}
        with transaction.atomic():
            lease.check()
            hints = bulk.select(Change, ("id", "workload"))
            frame = _frame()
            workloads = _workloads(None)
            _forget(hints)
            at = _observed_at() if at is None else at
            self._snapshot = frame.snapshot(at, workloads)
            self._count_demand()
        self._framed_at = self._learnt_at = at
        self._texts = {w.id: workload_text(w) for w in workloads}
        self._hashes = {uid: row_hash(text) for uid, text in self._texts.items()}
        self._frame = frame.text
        self._sum = row_hash(self._frame) + sum(self._hashes.values())
        self._epoch = lease.epoch
        return Taken(self._snapshot, self.whole(), True, digest_text(self._sum))

    def whole(self) -> Difference:
        """The last snapshot as the difference to nothing."""
        return Difference(self._snapshot.at, dict(self._texts), (), self._frame, self._demand)

    def _count_demand(self) -> str:
        """Count again what was asked for of late; the text."""
        demand, last = asked_of_late(self._snapshot)
        self._snapshot = replace(self._snapshot, demand=demand, choosers={})
        self._count_at = next_count(last)
        self._demand = demand_text(demand)
        return self._demand

    def _next(self, at: float, changed: list[Workload], named: set[str], frame: Frame | None) -> Taken:
        gone = tuple(sorted(uid for uid in named - {w.id for w in changed} if uid in self._texts))
        for uid in gone:
            del self._texts[uid]
            self._sum -= self._hashes.pop(uid)
            self._followed.pop(uid, None)
        texts = {**self._followed, **self._exchange(changed)}
        self._followed = {}
        new = None if frame is not None else news(self._snapshot.workloads, changed, gone)
        self._snapshot = self._snapshot.replace(at=at, changed=changed, gone=gone)
        if frame is not None:
            self._sum += row_hash(frame.text) - row_hash(self._frame)
            self._frame = frame.text
            self._learnt_at = self._learnt_at if frame.history is self._snapshot.history else at
            self._framed_at = at
            self._snapshot = _framed(self._snapshot, frame)
        is_due = max((w.seq for w in changed), default=0) >= self._count_at
        asked = self._count_demand() if is_due else None
        difference = Difference(at, texts, gone, None if frame is None else frame.text, asked)
        return Taken(self._snapshot, difference, False, digest_text(self._sum), new)


def _framed(before: Snapshot, frame: Frame) -> Snapshot:
    """The snapshot with another frame. What follows from nodes, teams and quotas is kept where they are the same."""
    if (frame.nodes, frame.teams, frame.quotas) == (before.inventory.nodes, before.teams, before.quotas):
        return replace(before, use=frame.use, budgets=frame.budgets, history=frame.history)
    made = frame.snapshot(before.at, before.workloads.values(), before.demand)
    return replace(made, choosers=before.choosers)


def _observed_at() -> float:
    return ClusterState.objects.order_by("id").values_list("now", flat=True).first() or 0.0


def _forget(hints: list[tuple[int, Any]]) -> None:
    bulk.delete(Change, "id", [number for number, _ in hints])


# --- rows to objects --------------------------------------------------------------------------


def _frame(known: History | None = None) -> Frame:
    """Nodes, teams, quotas and shares; with what is `known` of history, else with what ended workloads teach now."""
    nodes = NodeRow.objects.order_by("name").values_list(
        "name", "pool__name", "gpu_model", "gpu_count", "gpu_memory", "cpu_milli", "memory", "rack", "zone", "nvlink",
        "ready", "schedulable", "lost_gpus",
    )  # fmt: skip
    teams = TeamRow.objects.order_by("name").values_list("name", "parent__name")
    quotas = QuotaRow.objects.order_by("team__name", "pool__name").values_list(
        "team__name", "pool__name", "nominal", "borrowing_limit", "lending_limit", "weight"
    )
    return Frame(
        tuple(Node(*values[:-1], tuple(values[-1])) for values in nodes),
        tuple(Team(*values) for values in teams),
        tuple(Quota(*values) for values in quotas),
        shares.decayed(),
        shares.used_up(),
        learning.learnt() if known is None else known,
    )


_COLUMNS = (
    "uid", "name", "team_id", "kind", "gpus", "share_guarantee", "share_limit", "gpu_memory", "cpu_milli", "memory",
    "gpu_models", "workers", "workers_min", "workers_max", "topology_require", "topology_prefer", "priority",
    "preemptible", "phase", "version", "seq", "attempt", "next_rank", "submitted_at", "queued_at", "started_at",
    "attained", "expected_seconds", "checkpoint_interval", "checkpointed_at", "grace_seconds", "not_before", "unmet",
    "reserved_after", "preempted_at", "preempted_by", "reason", "message", "reason_at", "failures", "deadline",
    "scaled_at", "finishing", "moving", "roles",
)  # fmt: skip


_PHASE = _COLUMNS.index("phase")


def _workloads(uids: Iterable[UUID] | None) -> list[Workload]:
    """Those that have not ended, by order of submission; of all, or of some."""
    teams = dict(bulk.select(TeamRow, ("id", "name")))
    if uids is None:
        seats = _placements("""WHERE NOT "is_settled" AND "state" <> 'Released'""", ())
        live = f'WHERE "phase" IN {bulk.marks(_LIVE)} ORDER BY "seq"'
        return [_workload(values, teams, seats) for values in bulk.select(WorkloadRow, _COLUMNS, live, _LIVE)]
    found: list[Workload] = []
    for part in bulk.chunks(uids):
        theirs, keys = bulk.among(Placement, "workload_id", part)
        seats = _placements(f"""WHERE {theirs} AND "state" <> 'Released'""", keys)
        named, keys = bulk.among(WorkloadRow, "uid", part)
        for values in bulk.select(WorkloadRow, _COLUMNS, f"WHERE {named}", keys):
            if values[_PHASE] not in _ENDED_TEXT:
                found.append(_workload(values, teams, seats))
    return found


def _placements(where: str, values: Sequence[Any]) -> dict[UUID, list[Assignment]]:
    seats: dict[UUID, list[Assignment]] = {}
    columns = ("workload_id", "rank", "node", "gpus", "state", "bound_at")
    for uid, rank, node, gpus, state, bound_at in bulk.select(Placement, columns, where, values):
        seats.setdefault(uid, []).append(Assignment(rank, node, tuple(gpus), state == _LEAVING, bound_at is None))
    for placed in seats.values():
        placed.sort(key=lambda a: a.rank)
    return seats


def _workload(values: tuple[Any, ...], teams: dict[int, str], seats: dict[UUID, list[Assignment]]) -> Workload:
    (uid, name, team, kind, gpus, guarantee, limit, gpu_memory, cpu_milli, memory,
     models, count, least, most, require, prefer, priority,
     preemptible, phase, version, seq, attempt, next_rank, submitted_at, queued_at, started_at,
     attained, expected, interval, checkpointed_at, grace, not_before, unmet,
     after, preempted_at, preempted_by, reason, message, reason_at, failures, deadline,
     scaled_at, finishing, moving, roles) = values  # fmt: skip
    share = Share(guarantee, limit, gpu_memory) if guarantee else None
    return Workload(
        id=str(uid),
        name=name,
        team=teams[team],
        kind=Kind(kind),
        ask=Ask(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models)),
        gang=Gang(count, least, most),
        topology=Topology(_level(require), _level(prefer)),
        priority=priority,
        preemptible=preemptible,
        phase=Phase(phase),
        version=version,
        seq=seq,
        attempt=attempt,
        next_rank=next_rank,
        submitted_at=submitted_at,
        queued_at=queued_at,
        started_at=started_at,
        attained=attained,
        expected_seconds=expected,
        checkpoint_interval=interval,
        checkpointed_at=checkpointed_at,
        grace_seconds=grace,
        not_before=not_before,
        unmet=tuple(unmet),
        placement=tuple(seats.get(uid, ())),
        after=tuple(after),
        preempted_at=tuple(preempted_at),
        preempted_by=tuple(preempted_by),
        reason=reason,
        message=message,
        reason_at=reason_at,
        failures=failures,
        deadline=deadline,
        scaled_at=scaled_at,
        finishing=bool(finishing),
        moving=bool(moving),
        roles=roles_of(roles) if roles else (),
    )


def _level(value: int | None) -> Level | None:
    return None if value is None else _LEVELS[value]
