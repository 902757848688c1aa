"""The port `Cluster` over a real Kubernetes. One instance serves all loops of a process, from any thread."""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

import structlog

from controlplane.cluster.kubernetes import names, notes, podlog, serving
from controlplane.cluster.kubernetes.api import MERGE, Api, RefusedError
from controlplane.cluster.kubernetes.backends.parts import Parts
from controlplane.cluster.kubernetes.binder import Binder
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.kubernetes.held import Device
from controlplane.cluster.kubernetes.owned.owners import KubernetesOwners
from controlplane.cluster.kubernetes.placeholders import IMAGE, WAIT_SECONDS, Placeholders
from controlplane.cluster.kubernetes.podstatus import Worker, pod_of
from controlplane.cluster.kubernetes.queued import Queued, is_queued
from controlplane.cluster.kubernetes.reflector import PAGE, Reflector, of_cluster
from controlplane.cluster.kubernetes.sleepmode import Size, SleepMode
from controlplane.cluster.kubernetes.store import Store
from controlplane.cluster.port import Address, LogLine, Note, Observation, PodSpec, Split, pod_name

LOST_SECONDS = 60.0  # a node that does not answer for so long is given up, with what runs there
FIRST_LIST_SECONDS = 60.0
UNWANTED_SECONDS = 60.0  # a pod that was prepared is kept for so long after it was last wanted
ASK_AGAIN_SECONDS = 10.0

log = structlog.get_logger(__name__)


class KubernetesCluster:
    """Watching starts with the first call that needs it; a process that only reads logs never watches."""

    commands_at_once = 16

    def __init__(
        self,
        access: Access,
        *,
        prefix: str = "weft-",
        lost_after: float = LOST_SECONDS,
        clock: Callable[[], float] = time.time,
        page: int = PAGE,
        placeholder_image: str = IMAGE,
        placeholder_patience: float = WAIT_SECONDS,
        has_autoscalers: bool = False,
    ) -> None:
        self._clock = clock
        self._page = page
        self._latest = 0.0
        self._prefix = prefix
        self._id = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._calls = Api(access)
        self._watches: Api | None = None
        self._access = access
        self._store = Store(lost_after)
        self._reflector: Reflector | None = None
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._placeholders = Placeholders(self._calls, self._store.placeholder, placeholder_image, placeholder_patience)
        self._binder = Binder(
            self._calls, self._store.worker, prefix, self._placeholders, Parts(self._calls, self._store.device, clock)
        )
        self._sleep = SleepMode(self._calls, self.now, self._binder.resize)
        self._queued = Queued(
            self._calls, self._store.worker, self._store.candidates, prefix, self._placeholders, self._binder.guards
        )
        self.owners = KubernetesOwners(self._calls, clock, self._watched, prefix, has_autoscalers=has_autoscalers)
        self._unwanted: dict[str, float] = {}  # pods that were prepared: since when they are not wanted
        self._asked: dict[str, float] = {}  # ghosts that were told to leave, and unwanted pods: when, monotonic

    def close(self) -> None:
        """End the threads."""
        self._calls.close()
        if self._watches is not None:
            self._watches.close()

    def now(self) -> float:
        """This machine's clock, which never goes back. The machines' clocks are assumed to agree (NTP)."""
        with self._lock:
            self._latest = max(self._latest, self._clock())
            return self._latest

    # --- observe -----------------------------------------------------------------------------

    def observe(self, cursor: str | None) -> Observation:
        """Changes since cursor, out of the informer; everything, checked against the server, for None or a strange one.

        Raises ClusterUnreachable also when the informer is too old to be believed.
        """
        at = self.now()
        reflector = self._watching()
        number = self._number(cursor)
        page = None if number is None else self._store.since(number)
        if page is None or page.is_full:
            reflector.check(at)
            page = self._store.since(None)
        else:
            reflector.require()
        self._dismiss_ghosts()
        self._settle_placeholders()
        return Observation(at, f"{self._id}:{page.number}", page.is_full, page.pods, page.nodes, page.gone_nodes)

    def held(self) -> frozenset[Device]:
        """The devices that placeholders hold, as far as the informer knows."""
        self._watching()
        return self._store.held()

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have `tell` called by the reflector's thread after each change of pods of ours on nodes, or of nodes.

        It begins with the watching, so a process that does not observe hears nothing.
        """
        with self._lock:
            self._listeners = (*self._listeners, tell)

    def _tell_news(self) -> None:
        for tell in self._listeners:
            tell()

    def _number(self, cursor: str | None) -> int | None:
        source, _, number = (cursor or "").partition(":")
        return int(number) if source == self._id and number.isdigit() else None

    def _watching(self) -> Reflector:
        with self._lock:
            if self._reflector is None:
                self._watches = self._api_to_watch()
                self._reflector = Reflector(
                    self._watches,
                    self._store,
                    of_cluster(self._store),
                    clock=self._clock,
                    page=self._page,
                    tell=self._tell_news,
                )
                self._reflector.start()
        self._reflector.wait(FIRST_LIST_SECONDS)
        return self._reflector

    def _api_to_watch(self) -> Api:
        """For the informer: an event loop of its own."""
        return Api(self._access, in_flight=8, name="kubernetes-reflector")

    def _watched(self) -> Store:
        self._watching()
        return self._store

    def _dismiss_ghosts(self) -> None:
        """Have the pods of lost nodes end when their node comes back: they have been given up."""
        for worker in self._store.ghosts():
            if self._is_new(worker.name):
                self._calls.spawn(self._delete_quietly(worker, None))

    def _settle_placeholders(self) -> None:
        """Have each device with shares held, as one whose placeholder was evicted is not, and no other."""
        for holder in self._store.idle_placeholders():
            if self._is_new(f"{holder.name} {holder.version}"):
                self._calls.spawn(self._quietly(self._placeholders.release(holder), holder.name))
        for (node, gpu), share in self._store.unheld():
            if self._is_new(f"{node} {gpu} {share}"):
                self._calls.spawn(self._quietly(self._placeholders.claim(node, gpu, share), share))

    async def _quietly(self, work: Coroutine[Any, Any, object], name: str) -> None:
        try:
            await work
        except Exception as error:  # it is tried again with one of the next rounds
            log.info("placeholder not settled", name=name, error=str(error))

    def _is_new(self, name: str) -> bool:
        now = time.monotonic()
        if now - self._asked.get(name, -ASK_AGAIN_SECONDS) < ASK_AGAIN_SECONDS:
            return False
        self._asked = {n: at for n, at in self._asked.items() if now - at < ASK_AGAIN_SECONDS} | {name: now}
        return True

    async def _delete_quietly(self, worker: Worker, grace: float | None, *, is_unchanged: bool = False) -> None:
        try:
            await self._binder.delete(worker, grace, is_unchanged=is_unchanged)
        except Exception as error:  # it is tried again with one of the next rounds
            log.info("pod not deleted", pod=worker.name, error=str(error))

    # --- commands ----------------------------------------------------------------------------

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Create what is missing, then bind all together; a gang that cannot be is taken away whole."""
        if pods:
            self._watching()
            self._calls.call(self._queued.start(pods) if is_queued(pods[0]) else self._binder.start(pods))

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Let these pods exist, and in the end no others without a node but those of the workloads in `starting`.

        What the server refuses is left to `start`.
        """
        self._watching()
        refused = self._calls.call(self._binder.prepare(pods))
        if refused:
            log.info("pods not prepared", pods=len(refused), first=str(refused[0]))
        self._dismiss_unwanted({pod.name for pod in pods}, starting)

    def _dismiss_unwanted(self, wanted: Collection[str], starting: Collection[str]) -> None:
        now, unwanted = self.now(), {}
        for worker in self._store.unplaced():
            if worker.name in wanted or worker.seen.workload in starting or worker.is_leaving:
                continue
            since = unwanted[worker.name] = self._unwanted.get(worker.name, now)
            if now - since >= UNWANTED_SECONDS and self._is_new(worker.name):
                self._calls.spawn(self._delete_quietly(worker, None, is_unchanged=True))
        self._unwanted = unwanted

    def publish(self, notes_: Sequence[Note]) -> None:
        """One Kubernetes event for each, on the workload's first pod."""
        self._watching()
        bodies = []
        for note in notes_:
            workers = self._store.workers_of(note.workload)
            if workers:
                first = next(w for w in workers if w.seen.attempt == workers[-1].seen.attempt)
                bodies.append(notes.event(note, first, self.now()))
        self._calls.call(notes.send(self._calls, bodies))

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """Delete these pods with this grace. Those that have ended stay: their logs may be wanted."""
        if ranks:
            self._watching()
            self._calls.call(self._stop(workload, attempt, ranks, grace_seconds))

    async def _stop(self, workload: str, attempt: int, ranks: Sequence[int], grace: float) -> None:
        workers = await self._workers(workload, attempt, ranks)
        if queued := [worker for worker in workers if worker.owner]:
            await self._queued.stop(queued, self._binder.delete, grace)
            return
        for worker in workers:
            if not worker.is_over:
                await self._binder.delete(worker, grace)

    async def _workers(self, workload: str, attempt: int, ranks: Sequence[int]) -> list[Worker]:
        """Those of these ranks that there are."""
        found = [self._binder.find(pod_name(workload, attempt, rank)) for rank in ranks]
        workers = [worker for worker in found if worker]
        if len(workers) < len(ranks):  # the informer may be a moment behind another process that made them
            listed = await self._list(workload)
            workers = [w for w in listed if w.seen.attempt == attempt and w.seen.rank in ranks]
        return workers

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Patch the pod's CPU and memory in place (`pods/resize`)."""
        self._watching()
        worker = self._binder.find(pod_name(workload, attempt, rank))
        if worker is not None and worker.is_placed and not worker.is_over:
            self._calls.call(self._binder.resize(worker, cpu_milli, memory + worker.host_memory))

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Write it in these replicas' annotations, where what enforces shares on their nodes reads it."""
        if ranks:
            self._watching()
            self._calls.call(self._limit(workload, attempt, ranks, milli))

    async def _limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        for worker in await self._workers(workload, attempt, ranks):
            if worker.has_share and not worker.is_over:
                await self._binder.limit(worker, milli)

    def split(self, split: Split) -> None:
        """Write it on the service's Service, where the activator reads it, or into Istio's objects."""
        self._calls.call(serving.split(self._calls, split, names.namespace(split.namespace, self._prefix)))

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Label these replicas as those that the Service sends requests to, or not."""
        if ranks:
            self._watching()
            self._calls.call(self._rotate(workload, attempt, ranks, on=on))

    async def _rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        for worker in await self._workers(workload, attempt, ranks):
            if not worker.is_over:
                await self._binder.rotate(worker, on=on)

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Have the servers of these replicas move their weights (sleepmode.py), which goes on in the background."""
        if not ranks:
            return
        self._watching()
        for worker in self._calls.call(self._workers(workload, attempt, ranks)):
            if not worker.is_over and not worker.is_leaving:
                self._sleep.begin(worker, Size(memory, weights), on=on)

    def keep_address(self, address: Address, *, on: bool) -> None:
        """Take its pods' ownership off its Service, or give it an owner that is no more."""
        self._calls.call(
            serving.keep_address(self._calls, address, names.namespace(address.namespace, self._prefix), on=on)
        )

    def guard(self, address: Address, least: int) -> None:
        """Write it into the service's PodDisruptionBudget."""
        namespace = names.namespace(address.namespace, self._prefix)
        self._calls.call(serving.guard(self._calls, address.workload, least, namespace))

    def cordon(self, node: str, on: bool) -> None:
        """Set the node unschedulable or not."""
        try:
            body = {"spec": {"unschedulable": on or None}}
            self._calls.call(self._calls.request("PATCH", f"/api/v1/nodes/{node}", body, kind=MERGE))
        except RefusedError as error:
            if error.status != 404:
                raise

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """The last `tail` lines of one worker (None: of all, by time), those after `since` only."""
        if tail <= 0:
            return ()
        return self._calls.call(self._logs(workload, attempt, rank, tail, since))

    async def _logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        workers = self._store.workers_of(workload) or await self._list(workload)
        chosen = [w for w in workers if w.seen.attempt == attempt and rank in (None, w.seen.rank)]
        return await podlog.lines(self._calls, chosen, tail, since)

    async def _list(self, workload: str) -> tuple[Worker, ...]:
        """The pods of one workload as the server has them."""
        query = {"labelSelector": f"{names.WORKLOAD}={workload}"}
        answer = await self._calls.request("GET", "/api/v1/pods", query=query)
        found = [pod_of(item) for item in answer["items"]]
        return tuple(worker for worker in found if isinstance(worker, Worker))
