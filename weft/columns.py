"""The tables of the CLI, one for each kind of thing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.answers import Json, Node, Workload
from weft.ledger import Gpu
from weft.output import Column, clock, gpus, measured, memory, since, span

Table = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One row of the usage report."""

    document: Json

    @property
    def name(self) -> str:
        """What the row is about."""
        return str(self.document.get("team") or self.document.get("user") or "")


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """One row of the SLA report."""

    document: Json

    @property
    def name(self) -> str:
        """What the row is about."""
        return f"{self.document.get('team')}/{self.document.get('service')}"


@dataclass(frozen=True, slots=True)
class Held:
    """One line of the ledger: a GPU, and one worker on it; empty where it is free."""

    gpu: Gpu
    tenant: Json


def workloads(now: str | None) -> Table:
    """Columns of workloads; `now` is the cluster's clock."""
    return (
        Column("TEAM", lambda w: w.team),
        Column("NAME", lambda w: w.name),
        Column("TYPE", lambda w: w.type),
        Column("PHASE", lambda w: w.phase),
        Column("STANDING", lambda w: (w.standing or "-").capitalize()),
        Column("WORKERS", _workers),
        Column("GPUS", lambda w: gpus(w.resources.get("milli_gpu")), right=True),
        Column("AGE", lambda w: since(w.submitted_at, now), right=True),
        Column("PRIORITY", lambda w: w.priority_class, wide=True),
        Column("USER", lambda w: w.created_by or "-", wide=True),
        Column("ATTEMPT", lambda w: str(w.attempt), wide=True, right=True),
        Column("UID", lambda w: w.uid, wide=True),
        Column("REASON", lambda w: w.reason or "-"),
        Column("MESSAGE", lambda w: w.message, wide=True),
    )


def queue(now: str | None) -> Table:
    """Columns of what waits, in order."""
    return (
        Column("POSITION", lambda w: str(w.position or "-"), right=True),
        Column("TEAM", lambda w: w.team),
        Column("NAME", lambda w: w.name),
        Column("TYPE", lambda w: w.type),
        Column("PRIORITY", lambda w: w.priority_class),
        Column("GPUS", lambda w: gpus(w.resources.get("milli_gpu")), right=True),
        Column("WAIT", lambda w: since(w.document.get("queued_at"), now), right=True),
        Column("EXPECTED START", lambda w: _start(w.document.get("expected_start")), right=True),
        Column("UID", lambda w: w.uid, wide=True),
        Column("REASON", lambda w: w.reason or "-"),
        Column("MESSAGE", lambda w: w.message),
    )


NODES: Table = (
    Column("NAME", lambda n: n.name),
    Column("POOL", lambda n: n.pool),
    Column("STATE", lambda n: _state(n)),
    Column("GPU", lambda n: n.gpu_model or "-"),
    Column("GPUS", lambda n: str(n.gpu_count), right=True),
    Column("ALLOCATED", lambda n: gpus(n.allocated_milli), right=True),
    Column("COMPUTING", lambda n: measured(computing(n)), right=True),
    Column("ZONE", lambda n: n.zone or "-", wide=True),
    Column("RACK", lambda n: n.rack or "-", wide=True),
    Column("UNHEALTHY", lambda n: _unhealthy(n), wide=True),
    Column("ENFORCED BY", lambda n: n.enforced_by or "-", wide=True),
    Column("GUARANTEES", lambda n: _guarantees(n), wide=True),
)
LEDGER: Table = (
    Column("GPU", lambda h: h.gpu.name),
    Column("POOL", lambda h: h.gpu.pool, wide=True),
    Column("MODEL", lambda h: h.gpu.gpu_model or "-", wide=True),
    Column("HELD BY", lambda h: _holder(h)),
    Column("AS", lambda h: _hold(h.tenant)),
    Column("GUARANTEED", lambda h: gpus(h.tenant.get("milli")), right=True),
    Column("LIMIT", lambda h: gpus(h.tenant.get("may_use_milli")), right=True),
    Column("MEMORY", lambda h: memory(h.tenant.get("may_use_memory_mib")), right=True),
    Column("ITS USE", lambda h: _ratio(h.tenant.get("measured_duty"), 0), right=True),
    Column("ITS MEMORY USED", lambda h: memory(h.tenant.get("measured_memory_mib")), wide=True, right=True),
    Column("GPU'S USE", lambda h: _ratio(h.gpu.duty, 0), right=True),
    Column("GPU'S MEMORY USED", lambda h: memory(h.gpu.memory_used_mib), wide=True, right=True),
    Column("NEIGHBOURS", lambda h: str(h.gpu.neighbours), right=True),
    Column("ENFORCED BY", lambda h: h.gpu.enforced_by or "-"),
)
POOLS: Table = (
    Column("NAME", lambda p: p.name),
    Column("GPU", lambda p: p.gpu_model or "-"),
    Column("NODES", lambda p: str(p.nodes), right=True),
    Column("GPUS", lambda p: str(p.gpus), right=True),
    Column("TAKES", lambda p: p.takes or "-"),
    Column("SHARE NODES", lambda p: str(p.share_nodes), wide=True, right=True),
    Column("ENFORCED BY", lambda p: p.enforced_by or "-", wide=True),
    Column("GUARANTEES", lambda p: _guarantees(p), wide=True),
)
CELLS: Table = (
    Column("NAME", lambda c: c.name),
    Column("DECIDER", lambda c: str(c.decider.get("state", "-"))),
    Column("LAST ROUND", lambda c: _round(c.decider.get("seconds_since_round")), right=True),
    Column("NODES", lambda c: str(c.nodes), right=True),
    Column("GPUS", lambda c: gpus(c.capacity_milli), right=True),
    Column("ALLOCATED", lambda c: gpus(c.allocated_milli), right=True),
    Column("RUNNING", lambda c: str(c.running), right=True),
    Column("WAITING", lambda c: str(c.waiting), right=True),
    Column("POOLS", lambda c: ",".join(c.node_pools) or "-", wide=True),
    Column("RACKS", lambda c: ",".join(c.racks) or "-", wide=True),
    Column("HOLDER", lambda c: c.decider.get("holder") or "-", wide=True),
)
TEAMS: Table = (
    Column("NAME", lambda t: t.name),
    Column("PARENT", lambda t: t.parent or "-", wide=True),
    Column("ROLE", lambda t: t.role or "-", wide=True),
    Column("SHARES WITH OTHERS", lambda t: "yes" if t.shares_with_others else "no", wide=True),
    Column("SHARES DEMAND", lambda t: ",".join(t.share_demands) or "-", wide=True),
    Column("REALLOCATION", lambda t: t.reallocation, wide=True),
    Column("NOMINAL", lambda t: gpus(t.nominal_milli), right=True),
    Column("ALLOCATED", lambda t: gpus(t.allocated_milli), right=True),
    Column("BORROWED", lambda t: gpus(t.borrowed_milli), right=True),
    Column("COMPUTING", lambda t: measured(t.computing_milli), right=True),
    Column("RUNNING", lambda t: str(t.running), right=True),
    Column("WAITING", lambda t: str(t.waiting), right=True),
)
QUOTAS: Table = (
    Column("TEAM", lambda q: q.team),
    Column("POOL", lambda q: q.pool),
    Column("NOMINAL", lambda q: gpus(q.nominal_milli), right=True),
    Column("MAY BORROW", lambda q: _limit(q.borrowing_limit_milli), right=True),
    Column("MAY LEND", lambda q: _limit(q.lending_limit_milli), right=True),
    Column("WEIGHT", lambda q: str(q.weight), right=True),
)
SHARES: Table = (
    Column("TEAM", lambda s: s.team),
    Column("POOL", lambda s: s.pool),
    Column("NOMINAL", lambda s: gpus(s.nominal_milli), right=True),
    Column("ENTITLED", lambda s: gpus(s.entitled_milli), right=True),
    Column("ALLOCATED", lambda s: gpus(s.allocated_milli), right=True),
    Column("RECENT USAGE", lambda s: gpus(s.recent_usage_milli), right=True),
)
BUDGETS: Table = (
    Column("TEAM", lambda b: b.team),
    Column("PERIOD", lambda b: b.period),
    Column("GPU HOURS", lambda b: str(b.gpu_hours), right=True),
    Column("USED", lambda b: f"{b.used_hours:.1f}", right=True),
    Column("WHEN USED UP", lambda b: "nothing new starts" if b.is_hard else "only a notice"),
    Column("UNTIL", lambda b: b.until, wide=True),
)
PRIORITIES: Table = (
    Column("NAME", lambda p: p.name + (" (default)" if p.is_default else "")),
    Column("VALUE", lambda p: str(p.value), right=True),
    Column("PREEMPTIBLE", lambda p: "yes" if p.preemptible else "no"),
)
OWNED: Table = (
    Column("TEAM", lambda r: r.team),
    Column("POOL", lambda r: r.pool),
    Column("NOMINAL", lambda r: gpus(r.owned.nominal_milli if r.owned else 0), right=True),
    Column("ENTITLED", lambda r: gpus(r.share.entitled_milli if r.share else None), right=True),
    Column("ALLOCATED", lambda r: gpus(r.share.allocated_milli if r.share else None), right=True),
    Column("MAY BORROW", lambda r: _limit(r.owned.borrowing_limit_milli if r.owned else None), right=True),
    Column("MAY LEND", lambda r: _limit(r.owned.lending_limit_milli if r.owned else None), right=True, wide=True),
    Column("WEIGHT", lambda r: str(r.owned.weight if r.owned else 1), right=True, wide=True),
)
HOURS: Table = (
    Column("ALLOCATED GPU-HOURS", lambda u: _hours(u.document, "allocated"), right=True),
    Column("COMPUTED GPU-HOURS", lambda u: _hours(u.document, "computed"), right=True),
    Column("UTILISATION", lambda u: _part(u.document), right=True),
)
USAGE: Table = (
    Column("TEAM", lambda u: u.document.get("team") or "-"),
    Column("USER", lambda u: u.document.get("user") or "-", wide=True),
    Column("FROM", lambda u: clock(u.document.get("start")), wide=True),
    *HOURS,
)
MONTH: Table = (
    Column("SERVICE", lambda r: r.name),
    Column("KEPT", lambda r: {None: "-", True: "yes", False: "no"}[r.document.get("is_kept")]),
    Column("TARGET", lambda r: _ratio(r.document.get("availability_target"), 2), right=True),
    Column("ATTAINMENT", lambda r: _ratio(r.document.get("attainment"), 3), right=True),
    Column("BUDGET LEFT", lambda r: _ratio(r.document.get("budget_left"), 0), right=True),
    Column("REQUESTS", lambda r: str(r.document.get("requests")), right=True),
    Column("LATE", lambda r: str(r.document.get("over_objective")), right=True),
    Column("MET", lambda r: _minutes(r.document, "met"), right=True, wide=True),
    Column("AT RISK", lambda r: _minutes(r.document, "at_risk"), right=True),
    Column("VIOLATED", lambda r: _minutes(r.document, "violated"), right=True),
    Column("NOT KNOWN", lambda r: _minutes(r.document, "not_known"), right=True),
    Column("GPU-HOURS", lambda r: f"{r.document.get('allocated_gpu_hours', 0):.1f}", right=True),
    Column("WORST MINUTE", lambda r: clock(r.document.get("worst_minute")), wide=True),
)
PLACEMENT: Table = (
    Column("RANK", lambda w: str(w.get("rank")), right=True),
    Column("ROLE", lambda w: f"{w.get('role', 'worker')} {w.get('index', w.get('rank'))}"),
    Column("NODE", lambda w: str(w.get("node"))),
    Column("GPUS", lambda w: ",".join(map(str, w.get("gpus") or [])) or "-"),
    Column("ALLOCATED", lambda w: gpus(w.get("milli")), right=True),
    Column("STATE", lambda w: str(w.get("state"))),
    Column("POD", lambda w: str(w.get("pod_phase") or "-")),
)
EVENTS: Table = (
    Column("TIME", lambda e: clock(e.cluster_at)),
    Column("KIND", lambda e: e.kind),
    Column("BY", lambda e: e.actor),
    Column("REASON", lambda e: e.reason or "-"),
    Column("MESSAGE", lambda e: " ".join(filter(None, (e.message, _price(e))))),
)


def _price(event: Any) -> str:
    """What it cost a training that GPUs were taken of it; empty for all else, and from a server of before."""
    return str((event.document.get("reclaim_price") or {}).get("sentence", ""))


def usage(by: Sequence[str], *, has_start: bool) -> Table:
    """Return the columns of a report of GPU hours, grouped by these."""
    start = (Column("FROM", lambda u: clock(u.document.get("start"))),) if has_start else ()
    return (*start, *(_grouped("name" if one == "workload" else one, one) for one in by), *HOURS)


def computing(node: Node) -> int | None:
    """Return the milli-GPU of a node that compute, as last measured; None if no device was."""
    duties = [gpu["duty"] for gpu in node.gpus if gpu.get("duty") is not None]
    return round(sum(duties) * 1000) if duties else None


def _workers(workload: Workload) -> str:
    return f"{workload.workers.get('running', 0)}/{workload.workers.get('count', 0)}"


def _start(expected: Mapping[str, Any] | None) -> str:
    return clock(expected["median"]) if expected else "-"


def _state(node: Node) -> str:
    state = "Ready" if node.ready else "NotReady"
    return state if node.schedulable else f"{state},Cordoned"


def _guarantees(of: Any) -> str:
    """What holds of a share there, with a mark where nothing of it was seen on a GPU."""
    held = ",".join(of.guarantees)
    return f"{held}{'' if of.verified else ' (not verified)'}" if held else "-"


def _holder(held: Held) -> str:
    """Team and name; of other teams' workloads the team alone."""
    if not held.tenant:
        return "free" if held.gpu.healthy else "unhealthy"
    return f"{held.tenant.get('team')}/{held.tenant.get('name') or '-'}"


def _hold(tenant: Json) -> str:
    on_gpu = tenant.get("on_gpu")
    where = ",host-memory" if tenant.get("in_host_memory") else f",gpu-{on_gpu}" if on_gpu is not None else ""
    return f"{tenant.get('hold', '-')}{where}{',leaving' if tenant.get('is_leaving') else ''}"


def _round(seconds: float | None) -> str:
    """How long ago a decider's last round was."""
    return "-" if seconds is None else f"{span(seconds)} ago"


def _unhealthy(node: Node) -> str:
    return ",".join(str(gpu.get("index")) for gpu in node.gpus if not gpu.get("healthy", True)) or "-"


def _limit(milli: int | None) -> str:
    return "no limit" if milli is None else gpus(milli)


def _grouped(field: str, head: str) -> Column:
    return Column(head.upper(), lambda u: str(u.document.get(field) or "-"))


def _hours(row: Mapping[str, Any], what: str) -> str:
    return f"{row.get(f'{what}_milli_seconds', 0) / 3_600_000:.2f}"


def _part(row: Mapping[str, Any]) -> str:
    held = row.get("allocated_milli_seconds") or 0
    return f"{row.get('computed_milli_seconds', 0) / held:.0%}" if held else "-"


def _ratio(part: float | None, digits: int) -> str:
    """A part as percent, rounded down: 99.9996 % is not told as 100."""
    if part is None:
        return "-"
    scale = 10**digits
    return f"{math.floor(part * 100 * scale + 1e-9) / scale:.{digits}f} %"


def _minutes(row: Mapping[str, Any], what: str) -> str:
    minutes = row.get(f"{what}_minutes") or 0
    return span(60.0 * minutes) if minutes else "-"
