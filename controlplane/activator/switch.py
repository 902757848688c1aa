"""What sends the traffic of a service through an activator, or direct: it writes EndpointSlices, and sees no request.

Through: a slice of ours lists the activator under the service's name, the Service has no selector, and the slices that
Kubernetes made from the selector are emptied. Direct: the selector is back, Kubernetes lists the pods, and our slice is
deleted once it does, however late. What is new is always there before what is old goes, so there is no moment without
an address. Kubernetes' controller may list pods once more after we took the selector away: it had not heard of it yet.
The next step empties that too. Its slices are never deleted: when it hears of the end of a slice before the answer to
its own request that made it, it waits for that slice ever after ("informer cache is out of date"), and lists no pod.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog

from controlplane.activator.directory import DirectoryError
from controlplane.activator.kubernetes import KubernetesDirectory
from controlplane.activator.routing import Routes, Said, decide
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError, all_of
from controlplane.cluster.port import ClusterUnreachable

PERIOD_SECONDS = 0.5
ASK_SECONDS = 0.5  # an activator that says nothing for so long gets no traffic
TURN_SECONDS, LOOK_SECONDS = 3.0, 0.05  # for Kubernetes to list a service's pods, and between two looks
MANAGER = "weft-activator"
OF_SERVICE, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
KUBERNETES = "endpointslice-controller.k8s.io"
APPLY = "application/apply-patch+yaml"
NOT_FOUND = 404

Hear = Callable[
    [Iterable[str]], Awaitable[list[Said]]
]  # what these activators say; those that say nothing are left out

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A Service with our queue, as it is now."""

    namespace: str
    name: str
    uid: str
    workload: str
    port: int | None
    ports: tuple[Json, ...]
    has_selector: bool


class Switch:
    """One for a cluster. `step` is one look at everything, and what it needs to be changed."""

    def __init__(
        self, api: Api, directory: KubernetesDirectory, ask: Hear, *, activators: Callable[[], Awaitable[list[str]]],
        ports: range, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._api, self._directory, self._ask = api, directory, ask
        self._activators, self._ports, self._clock = activators, ports, clock
        self.routes = Routes()

    def step(self) -> None:
        """Raises RefusedError or ClusterUnreachable."""
        self._api.call(self._step())

    async def _step(self) -> None:
        said = await self._ask(await self._activators())
        services, slices = await asyncio.gather(self._services(), self._slices())
        services = await self._give_ports(services)
        # Where each goes now is what the cluster says, also when another switch has written it.
        listed = {
            (_namespace(one), _of(one)): _addresses(one)[0] for one in slices if _is_ours(one) and _addresses(one)
        }
        through = {
            service.workload: listed[service.namespace, service.name]
            for service in services
            if not service.has_selector and (service.namespace, service.name) in listed
        }
        self.routes = decide(Routes(through, self.routes.left), self._clock(), said, self._ready(services))
        work = [self._turn(service, slices) for service in services if service.port is not None]
        ours = {(one.namespace, one.name) for one in services}
        work += [
            self._delete(one) for one in slices if _is_ours(one) and (_namespace(one), _of(one)) not in ours
        ]  # of a Service that has no queue any more
        for result in await all_of(work, 16):
            if isinstance(result, Exception):
                log.warning("service not switched", error=str(result))

    def _ready(self, services: Iterable[Found]) -> dict[str, int]:
        """Ready replicas of each service."""
        ready = {service.workload: 0 for service in services}
        with contextlib.suppress(DirectoryError):
            ready.update({one.workload: len(one.replicas) for one in self._directory.services()})
        return ready

    async def _services(self) -> list[Found]:
        query = {"labelSelector": f"{names.GATEWAY}=true"}
        return [_found(one) for one in (await self._api.request("GET", "/api/v1/services", query=query))["items"]]

    async def _slices(self) -> list[Json]:
        query = {"labelSelector": OF_SERVICE}
        answer = await self._api.request("GET", "/apis/discovery.k8s.io/v1/endpointslices", query=query)
        return list(answer["items"])

    async def _give_ports(self, services: list[Found]) -> list[Found]:
        """A port of the activators for each service: the lowest that none has; what two have, the later one loses."""
        taken: set[int] = set()
        lacking = []
        for service in services:
            if service.port is None or service.port in taken or service.port not in self._ports:
                lacking.append(service)
            else:
                taken.add(service.port)
        free = iter([port for port in self._ports if port not in taken])
        for service in lacking:
            if (port := next(free, None)) is None:
                log.warning("no port is left", service=service.name, namespace=service.namespace)
                break
            note = {"metadata": {"annotations": {names.QUEUE_PORT: str(port)}}}
            await self._api.request("PATCH", _path(service), note, kind=MERGE)
        return await self._services() if lacking else services

    async def _turn(self, service: Found, slices: list[Json]) -> None:
        """Let the service be as its route says."""
        mine = [one for one in slices if (_namespace(one), _of(one)) == (service.namespace, service.name)]
        ours = [one for one in mine if _is_ours(one)]
        theirs = [one for one in mine if one["metadata"]["labels"].get(MANAGED_BY) == KUBERNETES]
        if through := self.routes.through.get(service.workload):
            await self._send_through(service, through, ours, theirs)
        else:
            await self._send_direct(service, ours)

    async def _send_through(self, service: Found, through: str, ours: list[Json], theirs: list[Json]) -> None:
        if not ours or _addresses(ours[0]) != [through] or ours[0]["ports"][0]["port"] != service.port:
            body = _slice(service, through)
            await self._api.request("PATCH", _slice_path(service), body, query=_OURS, kind=APPLY)
        if service.has_selector:
            await self._api.request("PATCH", _path(service), {"spec": {"selector": None}}, kind=MERGE)
            log.info("through an activator", service=service.name, namespace=service.namespace)
        for one in theirs:
            if one["endpoints"]:
                await self._empty(one)

    async def _send_direct(self, service: Found, ours: list[Json]) -> None:
        patience = 0.0  # a step that waits holds up all services, so only the one that turns this one does
        if not service.has_selector:
            selector = {"spec": {"selector": {names.WORKLOAD: service.workload}}}
            await self._api.request("PATCH", _path(service), selector, kind=MERGE)
            log.info("direct", service=service.name, namespace=service.namespace)
            patience = TURN_SECONDS
        if ours and await self._is_listed(service, patience):
            for one in ours:
                await self._delete(one)

    async def _is_listed(self, service: Found, patience: float) -> bool:
        """Whether Kubernetes lists a ready pod of the service, once so many seconds are over at the latest."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{service.namespace}/endpointslices"
        query = {"labelSelector": f"{OF_SERVICE}={service.name},{MANAGED_BY}={KUBERNETES}"}
        until = time.monotonic() + patience
        while True:
            answer = await self._api.request("GET", path, query=query)
            if any(end["conditions"].get("ready") for one in answer["items"] for end in one["endpoints"] or ()):
                return True
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(LOOK_SECONDS)

    async def _empty(self, one: Json) -> None:
        await _unless_gone(self._api.request("PATCH", _its_path(one), {"endpoints": []}, kind=MERGE))

    async def _delete(self, one: Json) -> None:
        await _unless_gone(self._api.request("DELETE", _its_path(one)))


async def _unless_gone(request: Awaitable[object]) -> None:
    try:
        await request
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise


async def ask_all(addresses: Iterable[str], port: int) -> list[Said]:
    """What the activators at these addresses say."""
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        every = await asyncio.gather(*(_ask_one(session, address, port) for address in addresses))
    return [one for one in every if one is not None]


async def _ask_one(session: aiohttp.ClientSession, address: str, port: int) -> Said | None:
    host = f"[{address}]" if ":" in address else address
    try:
        async with session.get(f"http://{host}:{port}/signal") as answer:
            said: Mapping[str, Any] = await answer.json()
        if answer.status != 200 or said["is_draining"] or not said["is_ready"]:
            return None
        rates = {workload: float(one["rate"]) for workload, one in said["workloads"].items()}
        rates |= {workload: float(rate) for workload, rate in said["leaving"].items()}
        return Said(address, float(said["load"]), rates)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError):
        return None


def pods_of(api: Api, namespace: str) -> Callable[[], Awaitable[list[str]]]:
    """The addresses of the activators: the pods of their Deployment."""

    async def addresses() -> list[str]:
        query = {"labelSelector": f"app.kubernetes.io/name={MANAGER}"}
        answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods", query=query)
        running = [one for one in answer["items"] if not one["metadata"].get("deletionTimestamp")]
        return sorted(one["status"]["podIP"] for one in running if one["status"].get("podIP"))

    return addresses


def run(switch: Switch, ended: Callable[[float], bool]) -> None:
    """Step after step until `ended`, which waits for so long, says so."""
    while True:
        began = time.monotonic()
        try:
            switch.step()
        except (RefusedError, ClusterUnreachable) as error:
            log.warning("nothing was switched", error=str(error))
        if ended(max(0.05, PERIOD_SECONDS - (time.monotonic() - began))):
            return


_OURS = {"fieldManager": MANAGER, "force": "true"}


def _found(body: Json) -> Found:
    meta, spec = body["metadata"], body["spec"]
    port = (meta.get("annotations") or {}).get(names.QUEUE_PORT, "")
    return Found(
        meta["namespace"], meta["name"], meta["uid"], meta["labels"].get(names.WORKLOAD, ""),
        int(port) if port.isdigit() else None, tuple(spec["ports"]), bool(spec.get("selector")),
    )  # fmt: skip


def _slice(service: Found, address: str) -> Json:
    """The EndpointSlice that lists the activator; it goes with its Service."""
    owner = {"apiVersion": "v1", "kind": "Service", "name": service.name, "uid": service.uid}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service.name}-{MANAGER}",
            "namespace": service.namespace,
            "labels": {OF_SERVICE: service.name, MANAGED_BY: MANAGER},
            "ownerReferences": [owner],
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "ports": [{"name": one.get("name", ""), "port": service.port, "protocol": "TCP"} for one in service.ports],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def _addresses(one: Json) -> list[str]:
    return [end["addresses"][0] for end in one["endpoints"] or ()]


def _is_ours(one: Json) -> bool:
    return bool(one["metadata"]["labels"].get(MANAGED_BY) == MANAGER)


def _of(one: Json) -> str:
    return str(one["metadata"]["labels"][OF_SERVICE])


def _namespace(one: Json) -> str:
    return str(one["metadata"]["namespace"])


def _path(service: Found) -> str:
    return f"/api/v1/namespaces/{service.namespace}/services/{service.name}"


def _slice_path(service: Found) -> str:
    return _one_slice(service.namespace, f"{service.name}-{MANAGER}")


def _its_path(one: Json) -> str:
    return _one_slice(one["metadata"]["namespace"], one["metadata"]["name"])


def _one_slice(namespace: str, name: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
