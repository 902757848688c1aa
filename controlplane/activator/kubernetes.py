"""The port `Directory` over Kubernetes: Services with our queue in front, and the ready pods of their workloads.

It only reads. A Service without a selector has the activators in its EndpointSlices; one with a selector has its pods.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import structlog

from autoscaler.lanes import Bounds
from autoscaler.latency import ANSWER, MEASURES
from controlplane.activator.directory import DirectoryError, Service, Split
from controlplane.activator.filedirectory import PATIENCE_SECONDS, WAITING, number
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api, Json
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.kubernetes.reflector import Feed, Reflector
from controlplane.cluster.port import ClusterUnreachable

Key = tuple[str, str]  # namespace and name

log = structlog.get_logger(__name__)


class Copy:
    """Services with our queue, and of each pod of a workload: its uid, address, whether it is ready, its revision."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._services: dict[Key, Json] = {}
        self._pods: dict[Key, tuple[str, str, bool, int]] = {}
        self._pod_at: dict[str, Key] = {}  # by address, of every pod that has one of its own
        self._hosts: set[str] = set()  # addresses of nodes, as their own pods have them
        self._versions: dict[str, dict[Key, int]] = {"services": {}, "pods": {}}
        self._number = 0

    @property
    def number(self) -> int:
        """Of the newest change."""
        return self._number

    def tick(self, at: float) -> None:
        """Nothing here changes by time."""

    def feeds(self) -> list[Feed]:
        """Where both are listed, and what happens to what comes."""
        return [
            Feed(
                "/api/v1/services", self._list_services, self._put_service, self._drop_service,
                lambda: self._known("services"), (names.GATEWAY,),
            ),
            Feed(
                "/api/v1/pods", self._list_pods, self._put_pod, self._drop_pod, lambda: self._known("pods"),
                (names.WORKLOAD,),
            ),
        ]  # fmt: skip

    def all(self) -> tuple[Service, ...]:
        """Every service that has its port, by namespace and name; one that cannot be read is left out and told of."""
        with self._lock:
            services, pods = dict(self._services), tuple(self._pods.items())
        ready: dict[tuple[str, str], list[str]] = {}
        revisions: dict[str, int] = {}
        for (namespace, _), (workload, address, is_ready, revision) in sorted(pods):
            if is_ready:
                ready.setdefault((namespace, workload), []).append(address)
                revisions[address] = revision
        found: dict[int, Service] = {}
        for key, body in sorted(services.items()):
            try:
                service = read(body, ready, revisions)
            except DirectoryError as error:
                log.warning("service left out", service="/".join(key), error=str(error))
                continue
            if service is not None:
                found.setdefault(service.port, service)  # a port that two have is the first one's
        return tuple(found.values())

    def namespace_at(self, address: str) -> str | None:
        """The namespace of the pod with this address; empty: a node's own; None: not known."""
        if address in self._hosts:
            return ""
        key = self._pod_at.get(address)
        return key[0] if key else None

    def _known(self, kind: str) -> dict[Key, int]:
        with self._lock:
            return dict(self._versions[kind])

    def _list_services(self, items: Iterable[Json], at: float) -> None:
        with self._lock:
            self._services, self._versions["services"] = {}, {}
            for one in items:
                self._take_service(one)
            self._number += 1

    def _put_service(self, one: Json, at: float) -> None:
        with self._lock:
            self._services.pop(_key(one), None)
            self._versions["services"].pop(_key(one), None)
            self._take_service(one)
            self._number += 1

    def _take_service(self, one: Json) -> None:
        if (one["metadata"].get("labels") or {}).get(names.GATEWAY) == "true":
            self._services[_key(one)] = one
            self._versions["services"][_key(one)] = int(one["metadata"]["resourceVersion"])

    def _drop_service(self, one: Json, at: float) -> None:
        with self._lock:
            self._services.pop(_key(one), None)
            self._versions["services"].pop(_key(one), None)
            self._number += 1

    def _list_pods(self, items: Iterable[Json], at: float) -> None:
        with self._lock:
            self._pods, self._versions["pods"], self._pod_at = {}, {}, {}
            for one in items:
                self._take_pod(one)
            self._number += 1

    def _put_pod(self, one: Json, at: float) -> None:
        with self._lock:
            before = self._pods.get(_key(one))
            self._take_pod(one)
            if self._pods.get(_key(one)) != before:
                self._number += 1

    def _take_pod(self, one: Json) -> None:
        for each in one.get("status", {}).get("podIPs") or ():
            if one["spec"].get("hostNetwork"):
                self._hosts.add(each["ip"])
            else:
                self._pod_at[each["ip"]] = _key(one)
        labels = one["metadata"].get("labels") or {}
        workload = labels.get(names.WORKLOAD)
        if workload:
            address, is_asleep = one.get("status", {}).get("podIP") or "", labels.get(names.SERVING) == "false"
            revision = labels.get(names.REVISION, "")
            number = int(revision) if revision.isascii() and revision.isdigit() else 0
            is_open = bool(address) and _is_ready(one) and not is_asleep
            self._pods[_key(one)] = (workload, address, is_open, number)
            self._versions["pods"][_key(one)] = int(one["metadata"]["resourceVersion"])

    def _drop_pod(self, one: Json, at: float) -> None:
        with self._lock:
            self._versions["pods"].pop(_key(one), None)
            for each in one.get("status", {}).get("podIPs") or ():
                if self._pod_at.get(each["ip"]) == _key(one):
                    del self._pod_at[each["ip"]]
            if self._pods.pop(_key(one), None) is not None:
                self._number += 1


class KubernetesDirectory:
    """One for a process."""

    def __init__(
        self, access: Access, *, prefix: str = "weft-", clock: Callable[[], float] = time.time
    ) -> None:  # fmt: skip
        self._prefix = prefix  # of the namespaces of teams
        self._api = Api(access, in_flight=8, name="activator-watches")
        self._copy = Copy()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._reflector = Reflector(self._api, self._copy, self._copy.feeds(), clock=clock, tell=self._tell)
        self._reflector.start()

    def services(self) -> tuple[Service, ...]:
        """All of them as last heard, also while the server is silent. Raises DirectoryError before it has spoken."""
        if not all(feed.lists for feed in self._reflector.feeds):
            try:
                self._reflector.require()
            except ClusterUnreachable as error:
                raise DirectoryError(f"The API server has not told of services yet: {error}") from error
        return self._copy.all()

    def may_ask(self, service: Service, peer: str) -> bool:
        """Its own team's pods, and those of no team, such as gateways; an address that is not known yet may not."""
        namespace = self._copy.namespace_at(peer)
        return namespace is not None and (namespace == service.namespace or not namespace.startswith(self._prefix))

    def on_news(self, tell: Callable[[], None]) -> None:
        """Called by the reflector's thread."""
        self._listeners = (*self._listeners, tell)

    def close(self) -> None:
        """End the thread."""
        self._listeners = ()
        self._api.close()

    def _tell(self) -> None:
        for tell in self._listeners:
            tell()


def read(
    body: Json, ready: Mapping[tuple[str, str], list[str]], revisions: Mapping[str, int] = MappingProxyType({})
) -> Service | None:
    """A service out of its Service; None: the switch has given it no port yet. Raises DirectoryError.

    ready: addresses of its ready pods; revisions: theirs, by address.
    """
    meta, spec = body["metadata"], body["spec"]
    notes = meta.get("annotations") or {}
    workload = meta["labels"].get(names.WORKLOAD, "")
    if names.QUEUE_PORT not in notes:
        return None
    try:
        given = json.loads(notes.get(names.QUEUE, "{}"))
        port = int(notes[names.QUEUE_PORT])
    except ValueError as error:
        raise DirectoryError(f"annotation {names.QUEUE} or {names.QUEUE_PORT} cannot be read: {error}") from error
    if not isinstance(given, dict) or not workload:
        raise DirectoryError(f"annotation {names.QUEUE} is no object, or label {names.WORKLOAD} is missing")
    target = target_port(spec)
    pods = ready.get((meta["namespace"], workload), ())
    replicas = tuple(f"{_host(address)}:{target}" for address in pods)
    is_direct = bool(spec.get("selector"))
    made_of = tuple(zip(replicas, (revisions.get(address, 0) for address in pods), strict=True))
    split = _split(notes.get(names.SPLIT), made_of)
    return Service(workload, port, bounds(given), replicas, is_direct, meta["namespace"], split)


def _split(note: str | None, made_of: tuple[tuple[str, int], ...]) -> Split | None:
    """How its requests are split as the annotation has it. Raises DirectoryError."""
    if note is None:
        return None
    try:
        given = json.loads(note)
    except ValueError as error:
        raise DirectoryError(f"annotation {names.SPLIT} cannot be read: {error}") from error
    if not isinstance(given, dict):
        raise DirectoryError(f"annotation {names.SPLIT} is no object")
    revision = int(number(given, names.SPLIT, "revision", 1, 1_000_000_000))
    percent = int(number(given, names.SPLIT, "percent", 0, 100))
    within = None if given.get("within") is None else number(given, names.SPLIT, "within", 0, 86_400)
    of = given.get("of", ANSWER)
    if of not in MEASURES:
        raise DirectoryError(f"annotation {names.SPLIT} has an objective of {of!r}. Use {' or '.join(MEASURES)}.")
    return Split(revision, percent, made_of, within, of)


def bounds(given: Mapping[str, Any]) -> Bounds:
    """The bounds as the annotation has them. Raises DirectoryError."""
    return Bounds(
        slots=int(number(given, names.QUEUE, "slots", 1, 100_000)),
        late_after=number(given, names.QUEUE, "late_after", 0, 86_400, 1.0),
        waiting=int(number(given, names.QUEUE, "waiting", 0, 1_000_000, WAITING)),
        patience=number(given, names.QUEUE, "patience", 0, 86_400, PATIENCE_SECONDS),
    )


def target_port(spec: Mapping[str, Any]) -> int:
    """The port that the pods listen on; ours is a number."""
    port = spec["ports"][0]
    return int(port.get("targetPort") or port["port"])


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _is_ready(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _key(one: Json) -> Key:
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]
