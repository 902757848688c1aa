"""What is observed of the machines: nodes, the clock, the use of each GPU."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models.functions import Now

from controlplane.cluster.port import GpuUse, Observation
from controlplane.models import Action, ClusterState, Gpu, Node, NodePool, bulk
from controlplane.services.audit import events
from controlplane.services.scheduling import changes, inforce
from controlplane.services.scheduling.leases import keep_rounds_still
from scheduler.model.snapshot import Node as SeenNode

_NODE = (
    "name", "pool_id", "gpu_model", "gpu_count", "gpu_memory", "cpu_milli", "memory", "zone", "rack", "nvlink", "ready",
    "schedulable", "lost_gpus", "takes_shares", "enforces_limits", "enforcer",
)  # fmt: skip


def state() -> ClusterState:
    """The one row about the cluster, created on first use."""
    found = ClusterState.objects.order_by("id").first()
    return found if found is not None else ClusterState.objects.create()


@dataclass(frozen=True, slots=True)
class Seen:
    """How far observation has come: the cluster's clock then, and where to go on."""

    now: float
    cursor: str
    is_first: bool  # nothing has been observed ever


def seen() -> Seen:
    """What `observed` noted last."""
    rows = bulk.select(ClusterState, ("now", "cursor", "observed_at"), order=("id",), limit=1)
    if not rows:
        state()
        return Seen(0.0, "", True)
    ((now, cursor, observed_at),) = rows
    return Seen(now, cursor, observed_at is None)


def observed(*, at: float, cursor: str) -> None:
    """Note how far observation has come; the caller has made sure that the clock does not go back."""
    ClusterState.objects.update(now=at, cursor=cursor, observed_at=Now())


def forget_cursor() -> None:
    """Have the next observation tell everything."""
    ClusterState.objects.exclude(cursor="").update(cursor="")


def sync(observation: Observation) -> bool:
    """Write the nodes of an observation; tell whether anything changed. Unknown pools are created."""
    if not observation.nodes and not observation.gone_nodes and not observation.is_full:
        return False
    known = {values[0]: values for values in Node.objects.values_list(*_NODE)}
    pools = _pools(observation.nodes)
    cordons = _cordons_to_come()
    seen = {
        node.name: _values(replace(node, schedulable=cordons.get(node.name, node.schedulable)), pools[node.pool])
        for node in observation.nodes
    }
    gone = set(observation.gone_nodes)
    if observation.is_full:
        gone |= known.keys() - seen.keys()
    gone &= known.keys()
    if _may_change_cell(seen, known):
        keep_rounds_still()
    bulk.insert(Node, _NODE, [values for name, values in seen.items() if name not in known])
    differing = [values for name, values in seen.items() if name in known and values != known[name]]
    bulk.update(Node, _NODE[1:], ("name",), [(*values[1:], values[0]) for values in differing])
    if gone:
        pks = list(Node.objects.filter(name__among=gone).values_list("pk", flat=True))
        bulk.delete(Gpu, "node_id", pks)
        bulk.delete(Node, "id", pks)
    is_changed = bool(gone or differing or seen.keys() - known.keys())
    if is_changed:
        _tell(observation, seen.keys() - known.keys(), gone, differing, known)
        changes.touch(None)
    return is_changed


def _may_change_cell(seen: Mapping[str, tuple[object, ...]], known: Mapping[str, tuple[object, ...]]) -> bool:
    """Whether a node comes or goes to another pool or rack, where these may be of different cells.

    Then no decider may commit meanwhile: the one by whose cell it was has not read that it is another's.
    """
    others = (name for name, values in seen.items() if _place(known.get(name, ())) != _place(values))
    return next(others, None) is not None and bool(inforce.now().cells)


def _place(values: Sequence[object]) -> tuple[object, ...]:
    return (values[_NODE.index("pool_id")], values[_NODE.index("rack")]) if values else ()


def measure(uses: Sequence[GpuUse]) -> None:
    """Write the last measured use of each GPU; of one that does not report any more, that nothing is known."""
    nodes = dict(bulk.select(Node, ("name", "id")))
    rows = {(nodes[u.node], u.index): (u.duty, u.memory) for u in uses if u.node in nodes}
    known = {(node, index): tuple(use) for node, index, *use in bulk.select(Gpu, _GPU)}
    bulk.insert(Gpu, _GPU, [(*key, *use) for key, use in rows.items() if key not in known])
    silent: dict[tuple[int, int], tuple[None, None]] = dict.fromkeys(known.keys() - rows.keys(), (None, None))
    differing = [(*use, *key) for key, use in {**rows, **silent}.items() if key in known and use != known[key]]
    bulk.update(Gpu, _GPU[2:], _GPU[:2], differing)


_GPU = ("node_id", "index", "duty", "memory_used")


def _pools(nodes: Iterable[SeenNode]) -> dict[str, int]:
    models = {node.pool: node.model for node in nodes}
    known = dict(NodePool.objects.values_list("name", "pk"))
    for name in sorted(models.keys() - known.keys()):
        known[name] = NodePool.objects.create(name=name, gpu_model=models[name]).pk
    return known


def _cordons_to_come() -> dict[str, bool]:
    """Nodes whose cordon the cluster has not been told yet, and whether they will be schedulable: we know better."""
    rows = Action.objects.filter(verb="cordon", done_at__isnull=True).order_by("id").values_list("payload", flat=True)
    return {payload["node"]: not payload["on"] for payload in rows}


def _values(node: SeenNode, pool: int) -> tuple[object, ...]:
    return (
        node.name, pool, node.model, node.gpus, node.gpu_memory, node.cpu_milli, node.memory, node.zone, node.rack,
        node.nvlink, node.ready, node.schedulable, list(node.lost), node.takes_shares,
        node.enforces_limits, node.enforcer,
    )  # fmt: skip


def _tell(
    observation: Observation,
    new: Iterable[str],
    gone: Iterable[str],
    differing: Sequence[tuple[object, ...]],
    known: dict[str, tuple[object, ...]],
) -> None:
    """One event for each node that came, went or changed; nodes that come with the first observation are one."""
    entries: list[tuple[str, str, dict[str, object]]] = [(name, "NodeGone", {}) for name in sorted(gone)]
    if not known:
        entries.append(("", "ClusterSeen", {"nodes": len(observation.nodes)}))
    else:
        entries += [(name, "NodeSeen", {}) for name in sorted(new)]
    for values in differing:
        name = str(values[0])
        before = known[name]
        what: dict[str, object] = {
            column: [before[i], values[i]]
            for i, column in enumerate(_NODE)
            if before[i] != values[i] and column != "pool_id"
        }
        entries.append((name, "NodeChanged", what))
    events.write(
        [
            events.Entry(cluster_at=observation.at, actor="loop:observe", kind=kind, name=name[:63], data=data)
            for name, kind, data in entries
        ]
    )
