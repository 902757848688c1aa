"""The port `Objects` over a real Kubernetes: our custom resources, watched by a reflector of their own.

A process that does not hold the lease of `intake` watches nothing: the watch begins with the first round that needs it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from controlplane.cluster.kubernetes.api import Api, Json, RefusedError, all_of
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.kubernetes.reflector import Feed, Reflector
from controlplane.cluster.port import ClusterUnreachable
from controlplane.kubeobjects.names import API_VERSION, TEAM, TEAMS, WORKLOAD, WORKLOADS
from controlplane.kubeobjects.port import Thing

FIRST_LIST_SECONDS = 60.0
ASK_SECONDS = 60.0  # between two looks whether the definitions and the policy are there
FIELD_MANAGER = "weft-intake"
APPLY = "application/apply-patch+yaml"
POLICY = "weft-objects"
PLURAL = {WORKLOAD: WORKLOADS, TEAM: TEAMS}
NOT_FOUND, CONFLICT = 404, 409

log = structlog.get_logger(__name__)


class ObjectStore:
    """Objects of one or more kinds by namespace and name; the reflector's thread writes, the loop's reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[tuple[str, str], Json]] = {kind: {} for kind in PLURAL}
        self._number = 0

    @property
    def number(self) -> int:
        """Of the newest change."""
        return self._number

    def tick(self, at: float) -> None:
        """Nothing here changes by time."""

    def feed(self, kind: str) -> Feed:
        """Where a kind is listed, and what happens to what comes."""
        path = f"/apis/{API_VERSION}/{PLURAL[kind]}"
        return Feed(
            path,
            partial(self._list, kind),
            partial(self._put, kind),
            partial(self._drop, kind),
            partial(self._of, kind),
        )

    def all(self) -> tuple[Thing, ...]:
        """Every object, the oldest first."""
        with self._lock:
            every = [one for found in self._found.values() for one in found.values()]
        every.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
        return tuple(map(Thing, every))

    def _list(self, kind: str, items: Iterable[Json], at: float) -> None:
        with self._lock:
            self._found[kind] = {_key(one): {"kind": kind, **one} for one in items}  # items of a list have no kind
            self._number += 1

    def _put(self, kind: str, one: Json, at: float) -> None:
        with self._lock:
            self._found[kind][_key(one)] = one
            self._number += 1

    def _drop(self, kind: str, one: Json, at: float) -> None:
        with self._lock:
            known = self._found[kind].get(_key(one))
            if known is not None and known["metadata"]["uid"] == one["metadata"]["uid"]:
                del self._found[kind][_key(one)]
            self._number += 1

    def _of(self, kind: str) -> dict[tuple[str, str], int]:
        with self._lock:
            return {key: int(one["metadata"]["resourceVersion"]) for key, one in self._found[kind].items()}


class KubernetesObjects:
    """One instance for a process; one thread uses it, the loop's."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._clock = clock
        self._calls = Api(access, in_flight=8, name="kubernetes-objects")
        self._watches: Api | None = None
        self._store = ObjectStore()
        self._reflector: Reflector | None = None
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._answers: dict[str, tuple[float, bool]] = {}  # by path: when it was asked, monotonic, and what came

    def close(self) -> None:
        """End the threads."""
        self._calls.close()
        if self._watches is not None:
            self._watches.close()

    def are_there(self) -> bool:
        """Whether the definitions are installed. Asked again now and then while they are not."""
        return self._reflector is not None or self._has(f"/apis/{API_VERSION}")

    def are_fenced(self) -> bool:
        """Whether the policy is in force by which an object's author is who sent it."""
        return self._has(f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/{POLICY}")

    def number(self) -> int:
        """It grows with each change of any of them; begins to watch. Raises ClusterUnreachable when it is too old."""
        reflector = self._watching()
        reflector.require()
        return self._store.number

    def all(self) -> tuple[Thing, ...]:
        """Every one, as last heard."""
        return self._store.all()

    def check(self) -> None:
        """Compare what is known with a list of the server's, and mend it."""
        self._watching().check(self._clock())

    def write(self, statuses: Sequence[tuple[Thing, Mapping[str, Any]]]) -> int:
        """Write these statuses by server-side apply, where the object has not changed since it was read."""
        results = self._calls.call(all_of([self._write(thing, status) for thing, status in statuses], 8))
        missed = 0
        for result in results:
            if isinstance(result, ClusterUnreachable):
                raise result
            if isinstance(result, RefusedError):
                missed += 1
                if result.status not in (NOT_FOUND, CONFLICT):
                    log.warning("status not written", error=str(result))
        return missed

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have this called by the reflector's thread after each change."""
        self._listeners = (*self._listeners, tell)

    async def _write(self, thing: Thing, status: Mapping[str, Any]) -> None:
        meta = {"name": thing.name, "resourceVersion": thing.body["metadata"]["resourceVersion"], "uid": thing.uid}
        within = f"namespaces/{thing.namespace}/" if thing.namespace else ""
        path = f"/apis/{API_VERSION}/{within}{PLURAL[thing.kind]}/{thing.name}/status"
        body = {"apiVersion": API_VERSION, "kind": thing.kind, "metadata": meta, "status": dict(status)}
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        await self._calls.request("PATCH", path, body, query=query, kind=APPLY)

    def _has(self, path: str) -> bool:
        now = time.monotonic()
        asked, found = self._answers.get(path, (-ASK_SECONDS, False))
        if now - asked >= ASK_SECONDS:
            try:
                self._calls.call(self._calls.request("GET", path))
                found = True
            except RefusedError as error:
                if error.status not in (NOT_FOUND, 403):
                    raise ClusterUnreachable(f"The API server refuses {path}: {error}") from error
                found = False
            self._answers[path] = now, found
        return found

    def _tell_news(self) -> None:
        for tell in self._listeners:
            tell()

    def _watching(self) -> Reflector:
        if self._reflector is None:
            self._watches = Api(self._access, in_flight=8, name="kubernetes-object-watches")
            feeds = [self._store.feed(kind) for kind in PLURAL]
            self._reflector = Reflector(
                self._watches, self._store, feeds, clock=self._clock, tell=self._tell_news
            )  # fmt: skip
            self._reflector.start()
        self._reflector.wait(FIRST_LIST_SECONDS)
        return self._reflector


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]
