"""What the informer knows: pods and nodes as they stand, and in which order they changed. No network, no clock.

The reflector's thread writes, the loops' threads read; one lock keeps them apart.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.cluster.kubernetes import nodes as machines
from controlplane.cluster.kubernetes import podstatus
from controlplane.cluster.kubernetes.held import Device, Held
from controlplane.cluster.kubernetes.nodes import Machine
from controlplane.cluster.kubernetes.podstatus import Candidate, Foreign, Placeholder, Pod, Worker
from controlplane.cluster.port import PodPhase, PodSeen
from scheduler.model.snapshot import Node

Json = Mapping[str, Any]
Key = tuple[str, str]

GPU_LOST = "GpuLost"
KEEP_SECONDS = 600.0  # how long a pod that is gone is told of; a cursor older than that gets everything


@dataclass(frozen=True, slots=True)
class Change:
    """The newest that is known of one pod or node; None: a node that is gone."""

    number: int
    item: PodSeen | Node | None


@dataclass(frozen=True, slots=True)
class Page:
    """What changed after a number, or everything when is_full."""

    number: int
    is_full: bool
    pods: tuple[PodSeen, ...]
    nodes: tuple[Node, ...]
    gone_nodes: tuple[str, ...]


class Store:
    """Pods and nodes by name, and the order of their changes."""

    def __init__(self, lost_after: float) -> None:
        self._lost_after = lost_after  # seconds that a node may be silent before its workers are given up
        self._lock = threading.RLock()
        self._pods: dict[Key, Pod] = {}
        self._keys: dict[str, Key] = {}  # of workers, by their name alone: it holds a uid
        self._of_workload: dict[str, set[str]] = {}
        self._candidates: dict[str, set[Key]] = {}  # by workload: pods of queued objects that have no place yet
        self._on_node: dict[str, set[Key]] = {}
        self._foreign_on: dict[str, set[Key]] = {}  # those of others among them
        self._held = Held()
        self._machines: dict[str, Machine] = {}
        self._missing_since: dict[str, float] = {}  # nodes that pods name and that are unknown
        self._ghosts: set[str] = set()  # workers given up with their node, whose pods are still there
        self._changes: dict[Key, Change] = {}  # ("pod" or "node", name), oldest change first
        self._gone: dict[Key, float] = {}  # when, oldest first
        self._postponed: set[str] | None = None  # nodes to look at again once a whole list is in
        self._number = 0
        self._forgotten = 0

    # --- what the informer writes --------------------------------------------------------------

    def list_pods(self, items: Iterable[Json], at: float) -> None:
        """Everything there is: what is not listed is gone."""
        with self._lock:
            listed = {podstatus.key_of(pod): pod for pod in items}
            for key in [key for key in self._pods if key not in listed]:
                self._remove(key, "", at)
            self._postponed = set()
            for key, pod in listed.items():
                self._put(key, podstatus.pod_of(pod, self._pods.get(key)), at)
            touched, self._postponed = self._postponed, None
            for node in touched:
                self._refresh(node)

    def put_pod(self, pod: Json, at: float) -> None:
        """A pod as it is now."""
        with self._lock:
            key = podstatus.key_of(pod)
            self._put(key, podstatus.pod_of(pod, self._pods.get(key)), at)

    def drop_pod(self, pod: Json, at: float) -> None:
        """A pod is no longer there; this was its last state."""
        with self._lock:
            key = podstatus.key_of(pod)
            known = self._pods.get(key)
            if isinstance(known, Worker) and known.uid != pod["metadata"]["uid"]:
                return  # another one of the same name is there already
            last = podstatus.pod_of(pod, known)
            if isinstance(last, Worker):
                self._put(key, last, at)
            self._remove(key, podstatus.disruption(pod.get("status") or {}), at)

    def list_nodes(self, items: Iterable[Json], at: float) -> None:
        """Everything there is: what is not listed is gone."""
        with self._lock:
            listed = {node["metadata"]["name"]: machines.machine_of(node) for node in items}
            for name in [name for name in self._machines if name not in listed]:
                self._drop_node(name, at)
            for name, machine in listed.items():
                self._put_node(name, machine)

    def put_node(self, node: Json, at: float) -> None:
        """A node as it is now."""
        with self._lock:
            self._put_node(node["metadata"]["name"], machines.machine_of(node))

    def drop_node(self, node: Json, at: float) -> None:
        """A node is no longer there."""
        with self._lock:
            self._drop_node(node["metadata"]["name"], at)

    def tick(self, at: float) -> None:
        """Give up the workers of nodes that have been silent for too long; forget what went long ago."""
        with self._lock:
            for name, machine in self._machines.items():
                if machine.unready_since is not None and at - machine.unready_since >= self._lost_after:
                    self._give_up(name, at)
            for name in [name for name in self._on_node if name not in self._machines]:
                if at - self._missing_since.setdefault(name, at) >= self._lost_after:
                    self._give_up(name, at)
            self._forget(at)

    # --- what others read --------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Of the newest change: it grows with each change that an observation shows, and with nothing else."""
        return self._number

    def since(self, number: int | None) -> Page:
        """What changed after this number; everything for None or one that is too old or unknown."""
        with self._lock:
            is_full = number is None or not self._forgotten <= number <= self._number
            changes = self._changes.items() if is_full else self._after(number or 0)
            pods, nodes, gone = [], [], []
            for (_, name), change in changes:
                if isinstance(change.item, PodSeen):
                    pods.append(change.item)
                elif change.item is not None:
                    nodes.append(change.item)
                elif not is_full:
                    gone.append(name)
            return Page(self._number, is_full, tuple(pods), tuple(nodes), tuple(gone))

    def worker(self, name: str) -> Worker | None:
        """The pod of ours with this name, placed or not."""
        with self._lock:
            found = self._pods.get(self._keys.get(name, ("", "")))
            return found if isinstance(found, Worker) else None

    def workers_of(self, workload: str) -> tuple[Worker, ...]:
        """The pods of one workload by attempt and rank."""
        with self._lock:
            found = [self.worker(name) for name in self._of_workload.get(workload, ())]
            return tuple(sorted((w for w in found if w), key=lambda w: (w.seen.attempt, w.seen.rank)))

    def candidates(self, workload: str) -> tuple[Candidate, ...]:
        """The pods of a queued object that wait for a place and stay, in their order."""
        with self._lock:
            found = [self._pods[key] for key in self._candidates.get(workload, ())]
            waiting = [c for c in found if isinstance(c, Candidate) and not c.is_leaving]
            return tuple(sorted(waiting, key=lambda c: (c.pod_set, c.order)))

    def alive(self, workload: str) -> int:
        """How many pods a queued object has that have not ended and are to stay, with a place or without."""
        with self._lock:
            placed = (w for w in self.workers_of(workload) if not (w.is_leaving or w.is_over))
            return sum(w.name not in self._ghosts for w in placed) + len(self.candidates(workload))

    def others(self) -> dict[str, tuple[int, int]]:
        """How many pods that are not ours run in each namespace, and how many whole GPUs they have."""
        with self._lock:
            found: dict[str, tuple[int, int]] = {}
            for (namespace, _), pod in self._pods.items():
                if isinstance(pod, Foreign):
                    pods, gpus = found.get(namespace, (0, 0))
                    found[namespace] = pods + 1, gpus + pod.gpus
            return found

    def unplaced(self) -> tuple[Worker, ...]:
        """Pods of ours that wait for a place."""
        with self._lock:
            return tuple(p for p in self._pods.values() if isinstance(p, Worker) and not p.is_placed)

    def ghosts(self) -> tuple[Worker, ...]:
        """Workers that were given up with their node, and have not been told to leave yet."""
        with self._lock:
            found = [self.worker(name) for name in self._ghosts]
            return tuple(w for w in found if w and not w.is_leaving)

    def node(self, name: str) -> Node | None:
        """What a node offers."""
        with self._lock:
            change = self._changes.get(("node", name))
            return change.item if change and isinstance(change.item, Node) else None

    def device(self, node: str, gpu: int) -> str:
        """What the node's own software calls a GPU; empty where it does not say."""
        with self._lock:
            return machines.device_of(self._machines.get(node), gpu)

    def placeholder(self, node: str, gpu: int) -> Placeholder | None:
        """What holds a device for shares."""
        with self._lock:
            return self._held.at(node, gpu)

    def held(self) -> frozenset[Device]:
        """The devices that placeholders hold."""
        with self._lock:
            return self._held.devices()

    def idle_placeholders(self) -> tuple[Placeholder, ...]:
        """Those that hold a device which no share is on."""
        with self._lock:
            return tuple(self._held.idle.values())

    def unheld(self) -> tuple[tuple[Device, str], ...]:
        """Devices that shares are on and no placeholder holds, each with one of the shares."""
        with self._lock:
            return tuple(self._held.unheld.items())

    def workloads(self) -> frozenset[str]:
        """Workloads that have a pod."""
        with self._lock:
            return frozenset(self._of_workload)

    def versions(self) -> dict[Key, int]:
        """The version of each pod of ours."""
        with self._lock:
            return {key: p.version for key, p in self._pods.items() if not isinstance(p, Foreign)}

    def node_versions(self) -> dict[Key, int]:
        """The version of each node."""
        with self._lock:
            return {("", name): machine.version for name, machine in self._machines.items()}

    # --- inside ------------------------------------------------------------------------------

    def _after(self, number: int) -> Iterator[tuple[Key, Change]]:
        for key in reversed(self._changes):
            change = self._changes[key]
            if change.number <= number:
                return
            yield key, change

    def _note(self, key: Key, item: PodSeen | Node | None, at: float = 0.0, *, is_gone: bool = False) -> None:
        self._gone.pop(key, None)
        if is_gone:
            self._gone[key] = at
        before = self._changes.get(key)
        if before is not None and before.item == item:
            return
        self._number += 1
        self._changes.pop(key, None)
        self._changes[key] = Change(self._number, item)

    def _forget(self, at: float) -> None:
        while self._gone:
            key, gone_at = next(iter(self._gone.items()))
            if at - gone_at < KEEP_SECONDS:
                return
            del self._gone[key]
            self._forgotten = max(self._forgotten, self._changes.pop(key).number)

    def _put(self, key: Key, pod: Pod | None, at: float) -> None:
        old = self._pods.get(key)
        if isinstance(old, Worker):
            if not isinstance(pod, Worker) or old.uid != pod.uid:
                self._remove(key, "", at)  # deleted and made again between two lists
            elif pod.version < old.version:
                return
            elif old.is_over and not pod.is_over:
                pod = replace(pod, seen=old.seen)  # it was over before it was told to leave
        self._set(key, old, pod)

    def _set(self, key: Key, old: Pod | None, pod: Pod | None) -> None:
        self._unlink(key, old)
        if pod is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = pod
            self._link(key, pod)
        if isinstance(pod, Worker) and pod.is_placed and pod.name not in self._ghosts:
            self._note(("pod", pod.name), self._blamed(pod))
        for node in {_node_of(old), _node_of(pod)} - {""}:
            self._refresh(node)

    def _remove(self, key: Key, reason: str, at: float) -> None:
        old = self._pods.pop(key, None)
        self._unlink(key, old)
        if isinstance(old, Worker):
            self._keys.pop(old.name, None)
            names = self._of_workload.get(old.seen.workload, set())
            names.discard(old.name)
            if not names:
                self._of_workload.pop(old.seen.workload, None)
            if old.is_placed:
                is_ghost = old.name in self._ghosts
                self._ghosts.discard(old.name)
                last = self._changes[("pod", old.name)].item if is_ghost else self._blamed(podstatus.gone(old, reason))
                self._note(("pod", old.name), last, at, is_gone=True)
        if node := _node_of(old):
            self._refresh(node)

    def _link(self, key: Key, pod: Pod) -> None:
        if isinstance(pod, Candidate):
            self._candidates.setdefault(pod.workload, set()).add(key)
        if isinstance(pod, Worker):
            self._keys[pod.name] = key
            self._of_workload.setdefault(pod.seen.workload, set()).add(pod.name)
        self._held.link(key, pod)
        if node := _node_of(pod):
            self._on_node.setdefault(node, set()).add(key)
            if isinstance(pod, Foreign):
                self._foreign_on.setdefault(node, set()).add(key)

    def _unlink(self, key: Key, pod: Pod | None) -> None:
        self._held.unlink(key, pod)
        if isinstance(pod, Candidate):
            self._candidates[pod.workload].discard(key)
            if not self._candidates[pod.workload]:
                del self._candidates[pod.workload]
        node = _node_of(pod)
        if node and node in self._on_node:
            self._foreign_on.get(node, set()).discard(key)
            self._on_node[node].discard(key)
            if not self._on_node[node]:
                del self._on_node[node]
                self._foreign_on.pop(node, None)
                self._missing_since.pop(node, None)

    def _put_node(self, name: str, machine: Machine) -> None:
        old = self._machines.get(name)
        if old is not None and machine.version < old.version:
            return
        self._machines[name] = machine
        self._missing_since.pop(name, None)
        self._refresh(name)
        if machine.node.lost and (old is None or machine.node.lost != old.node.lost):
            for key in self._on_node.get(name, ()):
                pod = self._pods[key]
                if isinstance(pod, Worker) and pod.is_over and pod.name not in self._ghosts:
                    self._note(("pod", pod.name), self._blamed(pod))

    def _blamed(self, pod: Worker) -> PodSeen:
        """The worker as it is shown: one that failed on a device which its node says is lost failed because of that."""
        lost = machine.node.lost if (machine := self._machines.get(pod.seen.node)) else ()
        if pod.seen.phase == PodPhase.FAILED and pod.seen.reason == "Error" and set(lost) & set(pod.seen.gpus):
            return replace(pod.seen, reason=GPU_LOST)
        return pod.seen

    def _drop_node(self, name: str, at: float) -> None:
        if self._machines.pop(name, None) is not None:
            self._give_up(name, at)
            self._note(("node", name), None, at, is_gone=True)

    def _give_up(self, node: str, at: float) -> None:
        for key in self._on_node.get(node, ()):
            pod = self._pods[key]
            if isinstance(pod, Worker) and not pod.is_over and pod.name not in self._ghosts:
                self._ghosts.add(pod.name)
                self._note(("pod", pod.name), podstatus.gone(pod, "NodeLost").seen)
        self._refresh(node)

    def _refresh(self, name: str) -> None:
        if self._postponed is not None:
            self._postponed.add(name)
            return
        if (machine := self._machines.get(name)) is None:
            return
        if not (self._foreign_on.get(name) or machine.unknown_lost or self._ghosts):
            # The usual case, at each change of each pod: nothing of what is ours changes what the node offers us.
            self._note(("node", name), machine.node)
            return
        pods = [self._pods[key] for key in self._on_node.get(name, ())]
        workers = [p for p in pods if isinstance(p, Worker)]
        foreign = [p for p in pods if isinstance(p, Foreign)]
        before = self._changes.get(("node", name))
        lost = before.item.lost if before and isinstance(before.item, Node) else ()
        used = {index for w in workers if not w.is_over for index in w.devices} | self._held.on(name)
        has_ghosts = any(w.name in self._ghosts for w in workers)
        self._note(("node", name), machines.offered(machine, foreign, used, lost, has_ghosts))


def _node_of(pod: Pod | None) -> str:
    if isinstance(pod, Worker):
        return pod.seen.node
    return pod.node if isinstance(pod, Foreign) else ""


def is_alive(pod: PodSeen) -> bool:
    """Whether it runs or is to run."""
    return pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)
