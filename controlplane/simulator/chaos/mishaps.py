"""What people and machines do to a run besides work: stops, suspensions, other quotas, lost nodes and devices.

Each function draws one mishap and says what happened; None: there was nothing for it to happen to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.simulator.chaos.store import Store
from controlplane.simulator.replay import turn
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota
from scheduler.model.workload import Phase, Workload


@dataclass
class Scene:
    """Where mishaps happen: the store, the cluster itself, and the quotas and nodes it began with."""

    store: Store
    cluster: SimulatedCluster
    rng: np.random.Generator
    quotas: tuple[Quota, ...]

    def __post_init__(self) -> None:
        self.nodes = self.store.snapshot.inventory.nodes

    def anybody(self, *phases: Phase) -> Workload | None:
        """A living workload, in one of these phases if any are named."""
        found = [w for w in self.store.snapshot.workloads.values() if not phases or w.phase in phases]
        return found[int(self.rng.integers(len(found)))] if found else None

    def any_node(self, **values: object) -> Node | None:
        """A node of the cluster with these values."""
        found = [n for n in self.cluster.observe(None).nodes if all(getattr(n, k) == v for k, v in values.items())]
        return found[int(self.rng.integers(len(found)))] if found else None


def _user_stops(scene: Scene) -> str | None:
    if (w := scene.anybody()) is None:
        return None
    turn.stop(scene.store, w.id, "user")
    return f"{w.id} ({w.phase})"


def _user_suspends(scene: Scene) -> str | None:
    if (w := scene.anybody()) is None:
        return None
    turn.suspend(scene.store, w.id, "user")
    return f"{w.id} ({w.phase})"


def _user_resumes(scene: Scene) -> str | None:
    if (w := scene.anybody(Phase.HELD, Phase.SUSPENDED)) is None:
        return None
    turn.resume(scene.store, w.id, "user")
    return w.id


def _quota_changes(scene: Scene) -> str:
    """One quota becomes a part of what it was at first, or that again."""
    rows = list(scene.store.snapshot.quotas)
    at = int(scene.rng.integers(len(rows)))
    first = scene.quotas[at]
    nominal = int(first.nominal * scene.rng.choice([0.5, 0.75, 1.0, 1.0])) // WHOLE * WHOLE
    lending = None if first.lending is None else min(first.lending, nominal)
    told = f"{first.team}/{first.pool}: {rows[at].nominal} -> {nominal}"
    rows[at] = replace(first, nominal=nominal, lending=lending)
    scene.store.rebuild(quotas=rows)
    return told


def _node_is_lost(scene: Scene) -> str | None:
    if (node := scene.any_node(ready=True)) is None:
        return None
    scene.cluster.lose_node(node.name)
    return node.name


def _node_returns(scene: Scene) -> str | None:
    if (node := scene.any_node(ready=False) or scene.any_node(schedulable=False)) is None:
        return None
    scene.cluster.restore_node(node.name)
    scene.cluster.cordon(node.name, False)
    return node.name


def _gpu_is_lost(scene: Scene) -> str | None:
    if (node := scene.any_node(ready=True)) is None:
        return None
    index = int(scene.rng.integers(node.gpus))
    scene.cluster.lose_gpu(node.name, index)
    return f"{node.name}/{index}"


def _node_is_removed(scene: Scene) -> str | None:
    if (node := scene.any_node()) is None:
        return None
    scene.cluster.remove_node(node.name)
    return node.name


def _node_is_added(scene: Scene) -> str | None:
    there = {node.name for node in scene.cluster.observe(None).nodes}
    missing = [node for node in scene.nodes if node.name not in there]
    if not missing:
        return None
    scene.cluster.add_nodes(missing[:1])
    return missing[0].name


def _node_is_cordoned(scene: Scene) -> str | None:
    if (node := scene.any_node(ready=True, schedulable=True)) is None:
        return None
    scene.cluster.cordon(node.name, True)
    return node.name


MISHAPS: Mapping[str, Callable[[Scene], str | None]] = {
    "user_stops": _user_stops,
    "user_suspends": _user_suspends,
    "user_resumes": _user_resumes,
    "quota_changes": _quota_changes,
    "node_is_lost": _node_is_lost,
    "node_returns": _node_returns,
    "gpu_is_lost": _gpu_is_lost,
    "node_is_removed": _node_is_removed,
    "node_is_added": _node_is_added,
    "node_is_cordoned": _node_is_cordoned,
}
# How often each happens, beside the weights of engine.WEIGHTS.
ODDS: Mapping[str, float] = {
    "user_stops": 0.8,
    "user_suspends": 0.6,
    "user_resumes": 0.6,
    "quota_changes": 0.15,
    "node_is_lost": 0.12,
    "node_returns": 0.15,
    "gpu_is_lost": 0.1,
    "node_is_removed": 0.03,
    "node_is_added": 0.05,
    "node_is_cordoned": 0.12,
}
