"""All services of one activator, its clients, and how busy it is."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from controlplane.activator.client import Client
from controlplane.activator.counts import Counted
from controlplane.activator.directory import Directory, DirectoryError, Service
from controlplane.activator.gate import Gate
from controlplane.activator.heads import Network

TICK_SECONDS = 0.5
FULL = 0.8  # of its limit: from here on traffic is to go direct

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one activator takes. requests_per_second: what was measured of it; 0: only its processor time counts."""

    connections: int = 4_000  # each may hold 64 KiB of a body, and what was read with it
    body: int = 64 * 2**20  # bytes
    requests_per_second: float = 0.0
    trusted: Sequence[Network] = field(default=())  # peers whose X-Forwarded headers are believed


class Site:
    """One for a process; used from its event loop only."""

    def __init__(self, directory: Directory, limits: Limits) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits, self.trusted, self.max_body = limits, limits.trusted, limits.body
        self.is_draining = False
        self.is_ready = False
        self._directory = directory
        self._gates: dict[str, Gate] = {}  # by workload
        self._by_port: dict[int, Gate] = {}
        self._known: tuple[Service, ...] = ()
        self.clients: set[Client] = set()
        self._processor = (self.loop.time(), time.process_time())
        self._processor_part = 0.0
        directory.on_news(self._hear)

    def _hear(self) -> None:
        """From any thread."""
        self.loop.call_soon_threadsafe(self.look)

    def gate(self, port: int) -> Gate | None:
        """The service behind a port of ours."""
        return self._by_port.get(port)

    def may_ask(self, gate: Gate, peer: str) -> bool:
        """Whether requests of this address may reach the service."""
        return self._directory.may_ask(gate.service, peer)

    def join(self, client: Client) -> bool:
        """A client has come; False: there are as many as may."""
        if len(self.clients) >= self.limits.connections:
            return False
        self.clients.add(client)
        return True

    def part(self, client: Client) -> None:
        """A client has gone."""
        self.clients.discard(client)

    @property
    def running(self) -> int:
        """Requests that wait or are served."""
        return sum(gate.lanes.waiting + gate.lanes.running for gate in self._gates.values())

    @property
    def load(self) -> float:
        """The part of its limit that is used, of one core's time or of the requests that were measured."""
        limit, now = self.limits.requests_per_second, self.loop.time()
        rate = sum(gate.counts.recent.rate(now) for gate in self._gates.values())
        return max(self._processor_part, rate / limit if limit else 0.0)

    def look(self) -> None:
        """Take over what the directory knows now; while it knows nothing, the last is kept."""
        try:
            services = self._directory.services()
        except DirectoryError as error:
            log.warning("services not read", error=str(error))
            return
        self.is_ready = True
        if services == self._known:
            return
        self._known = services
        for gone in self._gates.keys() - {service.workload for service in services}:
            self._gates.pop(gone).close()
        for service in services:
            if (gate := self._gates.get(service.workload)) is None:
                self._gates[service.workload] = Gate(service)
            elif gate.service != service:
                gate.use(service)
        self._by_port = {gate.service.port: gate for gate in self._gates.values()}

    def tick(self) -> None:
        """Each half second."""
        self.look()
        now, used = self.loop.time(), time.process_time()
        before, used_before = self._processor
        if now - before >= 1.0:
            self._processor_part, self._processor = (used - used_before) / (now - before), (now, used)
        for gate in self._gates.values():
            gate.tick(now)
        for client in tuple(self.clients):
            client.tick(now)

    def close(self) -> None:
        """Cut what is left."""
        for client in tuple(self.clients):
            client.abort()
        for gate in self._gates.values():
            gate.close()

    def counted(self) -> Iterator[Counted]:
        """What there is to tell of each service. Of one that goes direct nothing is known here, and nothing is told."""
        now = self.loop.time()
        for workload, gate in sorted(self._gates.items()):
            if gate.service.is_direct:
                continue
            gate.counts.worked(now)
            yield workload, gate.counts, gate.lanes  # type: ignore[misc]

    def signal(self) -> dict[str, Any]:
        """What the loop that scales asks for each second; leaving: requests a second of services that go direct."""
        now = self.loop.time()
        direct = {workload: gate for workload, gate in self._gates.items() if gate.service.is_direct}
        return {
            "load": round(self.load, 3),
            "is_full": self.load > FULL,
            "is_draining": self.is_draining,
            "is_ready": self.is_ready,
            "workloads": {
                workload: {
                    "waiting": gate.lanes.waiting,
                    "rate": round(gate.counts.recent.rate(now), 3),
                    "running": gate.lanes.running,
                    "ready": len(gate.lanes.ready),
                }
                for workload, gate in sorted(self._gates.items())
                if workload not in direct
            },
            "leaving": {workload: round(gate.counts.recent.rate(now), 3) for workload, gate in sorted(direct.items())},
        }
