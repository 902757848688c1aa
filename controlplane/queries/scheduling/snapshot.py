"""Rows -> the scheduler's snapshot, from scratch; what keeps one up to date is loops/keeper.py."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from controlplane.domain.cycle import Frame
from controlplane.domain.ondemand import is_on_demand
from controlplane.domain.phases import LIVE
from controlplane.domain.sharedemands import words
from controlplane.jobspec.podsets import roles_of, share_of_row
from controlplane.models import ClusterState, Placement, PlacementState, Takes, bulk
from controlplane.models import Node as NodeRow
from controlplane.models import Quota as QuotaRow
from controlplane.models import Team as TeamRow
from controlplane.models import Workload as WorkloadRow
from controlplane.models.lookups import Where
from controlplane.queries.cells.narrowed import narrowed, own
from controlplane.queries.scheduling import learning
from controlplane.queries.scheduling.demand import with_demand
from controlplane.queries.scheduling.moment import one_moment
from controlplane.queries.tenancy import shares
from gpushare.backends.catalogue import enforcer_of, follows
from gpushare.gpu import Enforcer
from scheduler.model.cell import CellView
from scheduler.model.history import History
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import (
    ACTIVE,
    ENDED,
    Assignment,
    Gang,
    Kind,
    Level,
    Phase,
    ResourceRequest,
    Topology,
    Workload,
)

_LEAVING = PlacementState.LEAVING.value
_STAYING = (PlacementState.RESERVED, PlacementState.BOUND)
_ENDED_TEXT = frozenset(phase.value for phase in ENDED)
_RUNS_TEXT = frozenset(phase.value for phase in ACTIVE)  # what waits starts as it was asked for, whatever was planned
Seats = dict[UUID, list[Assignment]]
Teams = dict[int, tuple[str, tuple[str, ...]]]  # by key: name, and what it demands of what holds its shares
_LEVELS = dict(enumerate(Level))


def full(at: float | None = None, view: CellView | None = None) -> Snapshot:
    """Everything at one moment; `at` is the cluster's clock, by default as last observed. With a view, what it has."""
    with one_moment():
        at = observed_at() if at is None else at
        cell = None if view is None else view.cell
        seen, _ = narrowed(frame(), view)
        return with_demand(seen.snapshot(at, workloads_of(None, cell=cell)), cell)


def some(uids: Iterable[UUID], at: float) -> Snapshot:
    """Only these workloads, without nodes, teams and quotas: what scaling looks at.

    The replica more that a service with standby has while its revision is being replaced is left out, as it is none
    of those that serve by turns: it would be found too many, or be put to sleep, at each look.
    """
    asked = list(uids)
    found, extra = workloads_of(asked, with_surge=False), _surging(asked)
    for number, w in enumerate(found):
        if ranks := extra.get(w.id):
            found[number] = replace(w, placement=tuple(a for a in w.placement if a.rank not in ranks))
    return Snapshot.build(at, (), (), (), found)


def _surging(uids: Sequence[UUID]) -> dict[str, frozenset[int]]:
    """The ranks of replicas beyond those that a service with standby wants, by its id: of the wanted revision, awake
    ones first."""
    found: dict[str, frozenset[int]] = {}
    columns = ("uid", "revision", "workers", "surge")
    for part in bulk.chunks(uids):
        surging: Where = {"uid__among": part, "standby__not": 0, "surge__not": 0}
        for uid, revision, workers, surge in bulk.select(WorkloadRow, columns, surging):
            mine: Where = {"workload_id": uid, "state__in": _STAYING}
            seats = list(bulk.select(Placement, ("rank", "revision", "asleep_at"), mine))
            new = sorted((at is not None, -rank) for rank, number, at in seats if number == revision)
            found[str(uid)] = frozenset(-rank for _, rank in new[: max(0, min(surge, len(seats) - workers))])
    return found


def observed_at() -> float:
    """The cluster's clock as of the last observation; 0 before the first."""
    return ClusterState.objects.order_by("id").values_list("now", flat=True).first() or 0.0


# --- rows to objects --------------------------------------------------------------------------


def frame(known: History | None = None) -> Frame:
    """Nodes, teams, quotas and shares; with what is `known` of history, else with what ended workloads teach now."""
    history = learning.learnt() if known is None else known
    return framed(tuple(node(values) for values in node_rows()), history)


def framed(nodes: tuple[Node, ...], history: History) -> Frame:
    """The frame with these nodes."""
    teams = TeamRow.objects.order_by("name").values_list("name", "parent__name", "shares_with_others")
    quotas = QuotaRow.objects.order_by("team__name", "pool__name").values_list(
        "team__name", "pool__name", "nominal", "borrowing_limit", "lending_limit", "weight"
    )
    return Frame(
        nodes,
        tuple(Team(*values) for values in teams),
        tuple(Quota(*values) for values in quotas),
        shares.decayed(),
        shares.used_up(),
        history,
    )


def node_rows(view: CellView | None = None) -> list[Sequence[Any]]:
    """What `node` needs of each machine, by name; with a view, of its own."""
    columns = (
        "name", "pool__name", "gpu_model", "gpu_count", "gpu_memory", "cpu_milli", "memory", "rack", "zone", "nvlink",
        "ready", "schedulable", "lost_gpus", "takes_shares", "enforces_limits", "enforcer",
        "pool__enforcer", "pool__takes",
    )  # fmt: skip
    if view is None:
        return list(bulk.select(NodeRow, columns, order=("name",)))
    names = list(NodeRow.objects.filter(own(view)).order_by("name").values_list("name", flat=True))
    rows = (row for part in bulk.chunks(names) for row in bulk.select(NodeRow, columns, {"name__among": part}))
    found = {row[0]: row for row in rows}
    return [found[name] for name in names if name in found]  # in the database's order, as of all


def node(values: Sequence[Any]) -> Node:
    """A machine by its row."""
    *machine, lost, is_labelled, enforces, says, chosen, takes = values
    takes_shares = is_labelled and takes != Takes.WHOLE
    enforcer = enforcer_of(chosen, says, enforces=enforces)
    kept = "" if enforcer in (Enforcer.ADVISORY, Enforcer.BACK_END) else enforcer.value
    takes_whole = takes != Takes.SHARES and enforcer is not Enforcer.ON_DEMAND  # whose notebooks use all of its GPUs
    return Node(*(*machine, tuple(lost), takes_whole, takes_shares, follows(enforcer), kept))


_COLUMNS = (
    "uid", "name", "team_id", "kind", "gpus", "share_guarantee", "share_limit", "gpu_memory", "cpu_milli", "memory",
    "gpu_models", "workers", "workers_min", "workers_max", "topology_require", "topology_prefer", "priority",
    "preemptible", "phase", "version", "seq", "attempt", "next_rank", "submitted_at", "queued_at", "started_at",
    "attained", "expected_seconds", "checkpoint_interval", "checkpointed_at", "grace_seconds", "not_before", "unmet",
    "reserved_after", "preempted_at", "preempted_by", "reason", "message", "reason_at", "failures", "deadline",
    "scaled_at", "finishing", "moving", "roles", "surge", "awake", "standby", "goes_to", "off",
    "workers_cap", "offloads", "spread", "role_counts", "asynchronous", "share_labels",
    "workers_planned", "batch_wanted", "at_risk",
)  # fmt: skip


_TEAM = ("id", "name", "share_demands")
_PHASE = _COLUMNS.index("phase")


def workloads_of(uids: Iterable[UUID] | None, *, with_surge: bool = True, cell: str | None = None) -> list[Workload]:
    """Those that have not ended, by order of submission; of all, or of some, or of one cell.

    with_surge: the count of a service whose revision is being replaced has the replica more than it is to have.
    """
    teams = {pk: (name, words(demands)) for pk, name, demands in bulk.select(TeamRow, _TEAM)}
    if uids is None and cell is not None:
        uids = [uid for (uid,) in bulk.select(WorkloadRow, ("uid",), {"phase__in": LIVE, "cell": cell}, order=("seq",))]
    if uids is None:
        seats = _placements({"is_settled": False})
        live = bulk.select(WorkloadRow, _COLUMNS, {"phase__in": LIVE}, order=("seq",))
        return [_workload(values, teams, seats, with_surge) for values in live]
    found: list[Workload] = []
    for part in bulk.chunks(uids):
        seats = _placements({"workload_id__among": part})
        of_these: Where = {"uid__among": part} if cell is None else {"uid__among": part, "cell": cell}
        for values in bulk.select(WorkloadRow, _COLUMNS, of_these):
            if values[_PHASE] not in _ENDED_TEXT:
                found.append(_workload(values, teams, seats, with_surge))
    return found if cell is None else sorted(found, key=lambda w: w.seq)


def _placements(of: Where) -> dict[UUID, list[Assignment]]:
    seats: dict[UUID, list[Assignment]] = {}
    columns = ("workload_id", "rank", "node", "gpus", "state", "bound_at", "asleep_at", "lender", "weights")
    live = bulk.select(Placement, columns, {**of, "state__not": PlacementState.RELEASED})
    for uid, rank, node, gpus, state, bound_at, *standby in live:
        one = Assignment(rank, node, tuple(gpus), state == _LEAVING, bound_at is None, *standby)
        seats.setdefault(uid, []).append(one)
    for placed in seats.values():
        placed.sort(key=lambda a: a.rank)
    return seats


def _workload(values: tuple[Any, ...], teams: Teams, seats: Seats, with_surge: bool) -> Workload:
    (uid, name, team, kind, gpus, guarantee, limit, gpu_memory, cpu_milli, memory,
     models, count, least, most, require, prefer, priority,
     preemptible, phase, version, seq, attempt, next_rank, submitted_at, queued_at, started_at,
     attained, expected, interval, checkpointed_at, grace, not_before, unmet,
     after, preempted_at, preempted_by, reason, message, reason_at, failures, deadline,
     scaled_at, finishing, moving, roles, surge, awake, standby, goes_to, off, cap, offloads,
     spread, role_counts, asynchronous, labels, planned, batch_wanted, at_risk) = values  # fmt: skip
    of_team, demands = teams[team]
    share = share_of_row(guarantee, limit, gpu_memory, labels, on_demand=is_on_demand(kind, offloads))
    ask = ResourceRequest(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models))
    return Workload(
        id=str(uid),
        name=name,
        team=of_team,
        kind=Kind(kind),
        ask=_demanding(ask, demands),
        gang=_gang(count + surge if with_surge else count, least, most, cap, planned if phase in _RUNS_TEXT else None),
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
        roles=tuple(replace(role, ask=_demanding(role.ask, demands)) for role in roles_of(roles)) if roles else (),
        awake=awake if awake is None or not with_surge else awake + surge,
        standby=standby,
        goes_to=tuple(goes_to or ()),
        off=tuple(off or ()),
        spread=spread,
        offloads=bool(offloads) and kind != Kind.NOTEBOOK,
        role_counts=tuple(role_counts or ()),
        asynchronous=bool(asynchronous),
        batch_wanted=batch_wanted,
        at_risk=bool(at_risk),
    )


def _demanding(ask: ResourceRequest, demands: tuple[str, ...]) -> ResourceRequest:
    """The ask with what its team demands of what holds a share."""
    return replace(ask, demands=demands) if demands and ask.share else ask


def _gang(count: int, least: int, most: int, *caps: int | None) -> Gang:
    """What it is to have; with no more workers than these, as far as there are any."""
    known = [cap for cap in caps if cap is not None]
    if not known:
        return Gang(count, least, most)
    cap = max(min(known), least)
    return Gang(min(count, cap), least, min(most, cap))


def _level(value: int | None) -> Level | None:
    return None if value is None else _LEVELS[value]
