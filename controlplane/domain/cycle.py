"""A round's input as bytes: whole, or as the difference to the round before; and its digest. Free of the database.

A snapshot's digest is the sum of its rows' hashes, so it does not depend on their order and is kept up to date by the
rows that change. It begins with the form of these rows, as another version of Weft may write them otherwise.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, fields, replace
from hashlib import blake2b
from typing import Any, NamedTuple, get_args

from autoscaler.latency import ANSWER
from autoscaler.limits import Limits
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.native import Native
from autoscaler.observed import Signal
from autoscaler.profile import Profile
from controlplane.domain import lawstate
from controlplane.jobspec.podsets import ask_of, ask_values, roles_of, roles_values
from gpushare.gpu import Share
from scheduler.model.decision import Decision
from scheduler.model.demand import NO_DEMAND, Demand, Shape
from scheduler.model.history import UNKNOWN, History
from scheduler.model.partial_cycle import PartialCycle, Start
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Budget, Quota, Team, Use
from scheduler.model.workload import Assignment, Gang, Kind, Level, Phase, ResourceRequest, Role, Topology, Workload

LAYOUT = 1  # raise it when rows are written otherwise with the same fields
_MODULUS = 1 << 128
_WORKLOAD = tuple(f.name for f in fields(Workload))
_SIMPLE = tuple(n for n in _WORKLOAD if n not in ("ask", "gang", "topology", "placement", "roles"))
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def workload_text(w: Workload) -> str:
    """One workload as canonical JSON: equal workloads have equal text."""
    nested = (
        ask_values(w.ask),
        (w.gang.count, w.gang.min, w.gang.max),
        (w.topology.require, w.topology.prefer),
        tuple((a.rank, a.node, a.gpus, a.leaving, a.reserved, *_standby(a)) for a in w.placement),
        *([roles_values(w.roles)] if w.roles else ()),
    )  # fmt: skip
    return _encode((tuple(getattr(w, name) for name in _SIMPLE), nested))


def _standby(a: Assignment) -> tuple[float | str | None, ...]:
    if a.weights:
        return a.asleep_at, a.lender, a.weights
    return (a.asleep_at, a.lender) if a.lender or a.asleep_at is not None else ()


def workload_of(text: str) -> Workload:
    """The workload that `workload_text` wrote."""
    simple, (ask, gang, topology, placement, *roles) = json.loads(text)
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in zip(_SIMPLE, simple, strict=False)
    }  # a field that is newer than a stored round has its default there
    values["kind"], values["phase"] = Kind(values["kind"]), Phase(values["phase"])
    require, prefer = (level if level is None else Level(level) for level in topology)
    return Workload(
        ask=ask_of(ask),
        roles=roles_of(roles[0]) if roles else (),
        gang=Gang(*gang),
        topology=Topology(require, prefer),
        placement=tuple(Assignment(rank, node, tuple(gpus), *flags) for rank, node, gpus, *flags in placement),
        **values,
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """What is not a workload: nodes, teams, quotas, recent usage, budgets that are used up, what history teaches."""

    nodes: tuple[Node, ...]
    teams: tuple[Team, ...]
    quotas: tuple[Quota, ...]
    use: tuple[Use, ...] = ()
    budgets: tuple[Budget, ...] = ()
    history: History = UNKNOWN

    @property
    def text(self) -> str:
        """Canonical JSON."""
        parts = (self.nodes, self.teams, self.quotas, self.use, self.budgets)
        entities = [[_values(entity) for entity in part] for part in parts]
        return _encode([*entities, [self.history.runs, self.history.ratios, self.history.mistakes]])

    @staticmethod
    def of(text: str) -> "Frame":
        """The frame that `text` wrote."""
        nodes, teams, quotas, *later = json.loads(text)
        use, budgets, history = (*later, (), (), ())[:3]  # rounds of earlier versions kept less
        return Frame(
            tuple(_node(values) for values in nodes),
            tuple(Team(*values) for values in teams),
            tuple(Quota(*values) for values in quotas),
            tuple(Use(*values) for values in use),
            tuple(Budget(*values) for values in budgets),
            _history(*history) if history else UNKNOWN,
        )

    def snapshot(self, at: float, workloads: Iterable[Workload], demand: Demand = NO_DEMAND) -> Snapshot:
        """The snapshot with these workloads, from scratch."""
        kept = self.use, self.budgets, demand, self.history
        return Snapshot.build(at, self.nodes, self.teams, self.quotas, workloads, *kept)


def _node(values: list[Any]) -> Node:
    named = dict(zip((f.name for f in fields(Node)), values, strict=False))  # later fields have their default
    return Node(**{**named, "lost": tuple(named["lost"])})


def _history(runs: list[Any], ratios: list[float], mistakes: list[list[float]]) -> History:
    return History(tuple((group, tuple(values)) for group, values in runs), tuple(ratios), tuple(map(tuple, mistakes)))


def _values(entity: Node | Team | Quota | Use | Budget) -> list[Any]:
    return [getattr(entity, f.name) for f in fields(entity)]


def demand_text(demand: Demand) -> str:
    """A demand as canonical JSON. It is no row, so digests leave it out."""
    return _encode([(ask_values(shape.ask), shape.count, shape.slots) for shape in demand.shapes])


def demand_of_text(text: str) -> Demand:
    """The demand that `demand_text` wrote."""
    return Demand(tuple(Shape(ask_of(values), count, slots) for values, count, slots in json.loads(text)))


def row_hash(text: str) -> int:
    """What one row adds to a digest."""
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())


def total(hashes: Iterable[int]) -> int:
    """The order-free sum of row hashes."""
    return sum(hashes) % _MODULUS


def digest_of(snapshot: Snapshot) -> str:
    """The digest from scratch; `queries.snapshot` keeps the same up to date by differences."""
    kept = snapshot.use, snapshot.budgets, snapshot.history
    frame = Frame(snapshot.inventory.nodes, snapshot.teams, snapshot.quotas, *kept)
    return digest_text(
        total((row_hash(frame.text), *(row_hash(workload_text(w)) for w in snapshot.workloads.values())))
    )


def digest_text(value: int) -> str:
    """A digest: the form of the rows, and 32 hexadecimal digits."""
    return f"{FORM}{value % _MODULUS:032x}"


def is_of_this_form(digest: str) -> bool:
    """Whether a stored digest counts rows as this version writes them; else it cannot be compared with one of now."""
    return digest.startswith(FORM)


def _form() -> str:
    """The form of the rows and decisions, by the names of all fields in their order: a new field makes another form."""
    rows = (Workload, ResourceRequest, Role, Share, Gang, Topology, Assignment, Node, Team, Quota, Use, Budget, History)
    named = _encode([LAYOUT, *([f.name for f in fields(part)] for part in (*rows, *get_args(Decision)))])
    return f"{row_hash(named) >> 96:08x}-"


FORM = _form()


@dataclass(frozen=True, slots=True)
class Difference:
    """What a round saw that the stored round before it did not: texts of changed workloads, ids of those gone.

    frame is the text of nodes, teams and quotas where these changed, demand that of the demand; scope is what the
    round tried, if not all. A base is the difference to nothing.
    """

    at: float
    changed: Mapping[str, str]
    gone: tuple[str, ...] = ()
    frame: str | None = None
    demand: str | None = None
    scope: PartialCycle | None = None

    def pack(self) -> bytes:
        """Compressed bytes for the Cycle row."""
        scope = None if self.scope is None else _scope_values(self.scope)
        whole = _encode([self.at, list(self.changed.values()), list(self.gone), self.frame, self.demand, scope])
        return zlib.compress(whole.encode(), level=1)


def _scope_values(scope: PartialCycle) -> list[Any]:
    starts = [
        (uid, start.at, start.bound, start.pool, [(a.rank, a.node, a.gpus) for a in start.places])
        for uid, start in scope.starts
    ]
    return [scope.teams, starts, scope.asked]


def _scope_of(teams: list[str], starts: list[list[Any]], asked: Iterable[str] = ()) -> PartialCycle:
    kept = [
        (uid, Start(at, bound, pool, tuple(Assignment(rank, node, tuple(gpus)) for rank, node, gpus in places)))
        for uid, at, bound, pool, places in starts
    ]
    return PartialCycle(tuple(teams), tuple(kept), tuple(asked))


class Input(NamedTuple):
    """One stored input, unpacked: frame and demand only where they changed."""

    at: float
    changed: list[Workload]
    gone: list[str]
    frame: Frame | None
    demand: Demand | None
    scope: PartialCycle | None


def unpack(packed: bytes) -> Input:
    """What `Difference.pack` packed."""
    at, changed, gone, frame, *rest = json.loads(zlib.decompress(packed))
    demand, scope = (*rest, None, None)[:2]  # inputs of earlier versions have less
    return Input(
        at,
        [workload_of(text) for text in changed],
        gone,
        None if frame is None else Frame.of(frame),
        None if demand is None else demand_of_text(demand),
        None if scope is None else _scope_of(*scope),
    )


def rebuild(inputs: Iterable[bytes], before: Snapshot | None = None) -> Snapshot:
    """The snapshot that the last of these inputs was; none may be missing.

    before: what the one before the first of them was; without it the first must be a base.
    """
    known = Snapshot.build(0.0, (), (), (), ()) if before is None else before
    at, demand = known.at, known.demand
    frame: Frame | None = None
    scope: PartialCycle | None = None
    changed: dict[str, Workload] = {}
    gone: set[str] = set()
    for packed in inputs:
        at, new, left, other, asked, scope = unpack(packed)
        frame, demand = other or frame, asked or demand
        for uid in left:
            changed.pop(uid, None)
        gone.update(left)
        changed.update((w.id, w) for w in new)
    gone -= changed.keys()
    if frame is None:
        found = known.replace(at=at, changed=changed.values(), gone=gone)
    else:
        there = {uid: w for uid, w in {**known.workloads, **changed}.items() if uid not in gone}
        found = frame.snapshot(at, there.values())
    return replace(found, demand=demand, scope=scope)


class OtherRuleError(Exception):
    """A stored round cannot be decided again: its rule is no longer there. The message says so."""


def pack_scaling(snapshot: Snapshot, metrics: Metrics) -> bytes:
    """The whole input of a scaling round: the services, and what was measured of them."""
    texts = [workload_text(w) for w in snapshot.workloads.values()]
    measured = [_measured(service) for service in metrics.services.values()]
    return zlib.compress(_encode([snapshot.at, texts, measured]).encode(), level=1)


def unpack_scaling(packed: bytes) -> tuple[Snapshot, Metrics]:
    """What `pack_scaling` packed. Raises OtherRuleError for what an earlier version packed."""
    at, texts, measured = json.loads(zlib.decompress(packed))
    services = {}
    for values in measured:
        if "samples" in values:
            raise OtherRuleError("It was decided by the scaling rule of an earlier version of Weft.")
        services[values["workload"]] = ServiceMetrics(
            workload=values["workload"],
            objective=Objective(**values["objective"]) if values["objective"] else None,
            scrape=None if values["scrape"] is None else lawstate.scrape_of(values["scrape"]),
            state=None if values["state"] is None else lawstate.state_of(values["state"]),
            ready=values["ready"],
            start_seconds=values["start_seconds"],
            signal=Signal(*values["signal"]) if values.get("signal") else None,
            idle_after=values.get("idle_after"),
            loaded=tuple(values.get("loaded", ())),
            native=Native(*values["native"]) if values.get("native") else None,
            limits=Limits(*values["limits"]) if values.get("limits") else None,
            profile=Profile(*values["profile"]) if values.get("profile") else None,
        )
    return Snapshot.build(at, (), (), (), map(workload_of, texts)), Metrics(services)


def _promised(objective: Objective) -> dict[str, Any]:
    """As rounds have always had it, and what it is measured on where that is not the whole answer."""
    values = asdict(objective)
    return values if objective.of != ANSWER else {name: value for name, value in values.items() if name != "of"}


def _measured(service: ServiceMetrics) -> dict[str, Any]:
    return {
        "workload": service.workload,
        "objective": None if service.objective is None else _promised(service.objective),
        "scrape": None if service.scrape is None else lawstate.plain_scrape(service.scrape),
        "state": None if service.state is None else lawstate.plain(service.state),
        "ready": service.ready,
        "start_seconds": service.start_seconds,
        "signal": None if service.signal is None else [service.signal.waiting, service.signal.rate],
        **({} if service.idle_after is None else {"idle_after": service.idle_after}),
        **({"loaded": service.loaded} if service.loaded else {}),
        **({} if service.native is None else {"native": astuple(service.native)}),
        **({} if service.limits is None else {"limits": astuple(service.limits)}),
        **({} if service.profile is None else {"profile": astuple(service.profile)}),
    }
