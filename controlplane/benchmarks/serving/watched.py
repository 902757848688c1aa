"""The Kubernetes adapter on an API server that is only lists and watches in memory: for loads without pods.

What the adapter hears, keeps and tells is its own: reflector, store, `observe`, `on_news`. Lists and lines of the
watches come from memory, and commands change that memory. As with a server, a command answers at once and what it did
is heard later, in the reflector's thread: one line when a pod runs, one when it has ended, several together when they
happen together.
"""

import asyncio
import heapq
import threading
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson

from controlplane.benchmarks.scheduling.podless import RUN_FOR
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.port import Address, Note, PodSpec, pod_name
from controlplane.testbed.nodes import manifest
from scheduler.model.snapshot import Node

Json = dict[str, Any]

ADDRESS = "http://memory"  # never spoken to
QUANTUM = 0.02  # seconds; ends happen in steps of so long
NAMESPACE = "benchmark"


@dataclass
class Feed:
    """One kind of object: what there is, and every change of it in order, as lines of a watch."""

    objects: dict[str, Json] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)


class Memory:
    """Pods that run for the time that their workload's label says, and nodes that stay as they are."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._feeds = {"pods": Feed(), "nodes": Feed()}
        self._ends: list[tuple[float, str]] = []
        self._readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        with self._lock:
            for node in nodes:
                self._put("nodes", "ADDED", manifest(node))
        threading.Thread(target=self._end_in_time, name="memory", daemon=True).start()

    # --- commands -----------------------------------------------------------------------------

    def run(self, pods: Sequence[PodSpec]) -> None:
        """Run these from now on; those that are there already are left alone."""
        now = time.time()
        with self._lock:
            for pod in pods:
                if pod.name not in self._feeds["pods"].objects:
                    labels = pod.spec.get("labels")
                    self._put("pods", "ADDED", _running(pod, now))
                    heapq.heappush(self._ends, (now + float(dict(labels)[RUN_FOR]), pod.name))  # type: ignore[call-overload]
        self._ring()

    def delete(self, pods: Collection[str]) -> None:
        """Take these away at once."""
        with self._lock:
            for name in pods:
                if thing := self._feeds["pods"].objects.get(name):
                    self._put("pods", "DELETED", thing)
                    del self._feeds["pods"].objects[name]
        self._ring()

    def _end_in_time(self) -> None:
        while True:
            time.sleep(QUANTUM)
            now, ended = time.time(), False
            with self._lock:
                while self._ends and self._ends[0][0] <= now:
                    _, name = heapq.heappop(self._ends)
                    if thing := self._feeds["pods"].objects.get(name):
                        self._put("pods", "MODIFIED", _succeeded(thing, now))
                        ended = True
            if ended:
                self._ring()

    def _put(self, kind: str, event: str, thing: Json) -> None:
        self._version += 1
        meta = {"uid": thing["metadata"]["name"], **thing["metadata"], "resourceVersion": str(self._version)}
        made, feed = {**thing, "metadata": meta}, self._feeds[kind]
        feed.objects[meta["name"]] = made
        feed.versions.append(self._version)
        feed.lines.append(orjson.dumps({"type": event, "object": made}) + b"\n")

    def _ring(self) -> None:
        for loop, event in self._readers:
            loop.call_soon_threadsafe(event.set)

    # --- lists and watches ----------------------------------------------------------------------

    def list(self, kind: str) -> bytes:
        """All there is, on one page."""
        with self._lock:
            items = list(self._feeds[kind].objects.values())
            return orjson.dumps({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def watch(self, kind: str, version: int) -> AsyncIterator[bytes]:
        """What changed after this version, then what changes from now on."""
        heard, feed = asyncio.Event(), self._feeds[kind]
        with self._lock:
            self._readers.append((asyncio.get_running_loop(), heard))
            place = sum(known <= version for known in feed.versions)
        while True:
            heard.clear()
            with self._lock:
                lines, place = feed.lines[place:], len(feed.lines)
            if lines:
                yield b"".join(lines)
            else:
                await heard.wait()


def _running(pod: PodSpec, at: float) -> Json:
    started = {"state": {"running": {"startedAt": _stamp(at)}}}
    labels = {names.WORKLOAD: pod.workload, names.ATTEMPT: str(pod.attempt), names.RANK: str(pod.rank)}
    annotations = {names.GPUS: names.gpus_text(pod.gpus)}
    return {
        "metadata": {"name": pod.name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": pod.node},
        "status": {"phase": "Running", "containerStatuses": [started]},
    }


def _succeeded(pod: Json, at: float) -> Json:
    (started,) = pod["status"]["containerStatuses"]
    began = started["state"]["running"]["startedAt"]
    ended = {"state": {"terminated": {"startedAt": began, "finishedAt": _stamp(at), "exitCode": 0}}}
    return {**pod, "status": {"phase": "Succeeded", "containerStatuses": [ended]}}


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Answer:
    """To a GET of the informer's: a list, or the lines of a watch."""

    status = 200

    def __init__(self, memory: Memory, kind: str, version: int | None) -> None:
        self._memory, self._kind = memory, kind
        self.content = SimpleNamespace(iter_any=lambda: memory.watch(kind, version or 0))

    async def __aenter__(self) -> "_Answer":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> bytes:
        """A list."""
        return self._memory.list(self._kind)


class _MemoryApi(Api):
    """The event loop and thread of an Api; what it is asked for comes from memory."""

    def __init__(self, access: Access, memory: Memory) -> None:
        super().__init__(access, name="kubernetes-reflector")
        self._memory = memory

    def open(self, path: str, *, query: Any = None, **_: Any) -> Any:
        """The answer to a GET."""
        kind = path.partition("?")[0].rpartition("/")[2]
        is_watch = bool(query and query.get("watch"))
        return _Answer(self._memory, kind, int(query["resourceVersion"]) if is_watch else None)


class WatchedCluster(KubernetesCluster):
    """The adapter; what it would write to a server goes to the memory that it watches."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(Access(ADDRESS, None, None))
        self._memory = Memory(nodes)

    def _api_to_watch(self) -> Api:
        return _MemoryApi(self._access, self._memory)

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Run these."""
        self._memory.run(pods)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """Take these away."""
        self._memory.delete([pod_name(workload, attempt, rank) for rank in ranks])

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Nothing: there are no pods to make ahead."""

    def publish(self, notes: Sequence[Note]) -> None:
        """Nothing: no one looks at them."""

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Nothing to do."""

    def held(self) -> frozenset[tuple[str, int]]:
        """Nothing is shared."""
        return frozenset()

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Nothing to do."""

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Nothing to do."""

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Nothing to do."""

    def keep_address(self, address: Address, *, on: bool) -> None:
        """Nothing to do."""

    def guard(self, address: Address, least: int) -> None:
        """Nothing to do."""

    def cordon(self, node: str, on: bool) -> None:
        """Nothing to do."""
