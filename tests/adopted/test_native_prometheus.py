"""Services that Kubernetes' own autoscaler scales on a load that a real Prometheus has scraped of our activator.

Real are the activator and the requests that it holds, Prometheus, our queries, the external metrics server behind the
API server's aggregator, and the autoscaler. The pods are KWOK's, so the requests go to a server of this process.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from autoscaler.lanes import Bounds
from controlplane.activator import admin
from controlplane.activator.client import Client
from controlplane.activator.directory import Service
from controlplane.activator.site import Limits as Takes
from controlplane.activator.site import Site
from controlplane.adopted import native as adopted
from controlplane.cluster.prometheus.connection import Limits
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.models import ServiceScaler
from controlplane.queries.workloads.external import STALE_SECONDS
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus, scrape
from tests import servers
from tests.activator.rig import ASK, HOST, OK, FixedDirectory
from tests.adopted.rig import NAMESPACE, rig
from tests.adopted.test_native import SITE, replicas, scaler, serving
from tests.adopted.test_native_services import Native, writers

pytestmark = [pytest.mark.kubernetes, pytest.mark.prometheus, pytest.mark.django_db(transaction=True)]

SCRAPE, WINDOW = 0.2, 4.0  # s
LOOKS = 3
TARGET = 9000  # thousandths of requests: nine of a replica's ten slots
AUTOSCALER = "horizontal-pod-autoscaler"
METRIC = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/{adopted.IN_FLIGHT}"


class Queue:
    """An activator in a thread of its own with one service, before a server that answers when it is told to."""

    def __init__(self) -> None:
        self.metrics = servers.free_port()
        self._directory = FixedDirectory()
        self._open: list[asyncio.StreamWriter] = []
        self._end, self._free = asyncio.Event(), asyncio.Event()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._is_up.wait(20.0)

    def stand_before(self, uid: str) -> None:
        """From now on this is the service, with ten requests at once; its one replica is ours."""
        self._directory.say(Service(uid, 1, Bounds(10, 1.0, 100, 600.0), (f"{HOST}:{self._replica}",)))

    def answer(self, count: int) -> None:
        """So many requests come, one after the other, and are answered at once."""
        self._loop.call_soon_threadsafe(self._free.set)
        asyncio.run_coroutine_threadsafe(self._ask(count), self._loop).result(30.0)
        self._loop.call_soon_threadsafe(self._free.clear)

    def hold(self, count: int) -> None:
        """So many more come, and stay."""
        asyncio.run_coroutine_threadsafe(self._come(count), self._loop).result(30.0)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(20.0)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        site = Site(self._directory, Takes())
        replica = await asyncio.start_server(self._reply, HOST, 0)
        activator = await self._loop.create_server(partial(Client, site, 1), HOST, 0)
        self._replica, self._port = (one.sockets[0].getsockname()[1] for one in (replica, activator))
        runner = await admin.serve(site, socket.create_server((HOST, self.metrics)))
        self._is_up.set()
        await self._end.wait()
        self._free.set()  # nobody is to wait any more
        for server in (activator, replica):
            server.close()
        site.close()
        for writer in self._open:
            writer.transport.abort()
        await runner.cleanup()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self._free.wait()
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _ask(self, count: int) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(HOST, self._port)
            writer.write(ASK)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            writer.close()

    async def _come(self, count: int) -> None:
        for _ in range(count):
            _, writer = await asyncio.open_connection(HOST, self._port)
            self._open.append(writer)
            writer.write(ASK)


@dataclass
class World:
    """The product over a Prometheus that scrapes an activator; `away` ends it."""

    native: Native
    queue: Queue
    metrics: PrometheusMetrics
    away: Callable[[], None]

    def start(self) -> str:
        """A service that has answered requests, and whose target is what follows from them; its uid."""
        uid = self.native.submit()
        self.queue.stand_before(uid)
        self.native.until_phase(uid, "Running")

        def is_learned() -> bool:
            self.queue.answer(5)
            return ServiceScaler.objects.filter(workload=uid, target=TARGET).exists()

        self.native.until(is_learned, "the target that follows from what is answered")
        self.native.until(lambda: self.told(uid) == 0.0, "a load of nothing")
        return uid

    def told(self, uid: str) -> float | None:
        """What the API server answers an autoscaler that asks for the load; None: it is not known."""
        asked = f"{METRIC}?labelSelector=weft.dev/workload%3D{uid}"
        items = self.native.rig.server.request("GET", asked)["items"]
        return int(items[0]["value"].removesuffix("m")) / 1000 if items else None

    def age(self, uid: str) -> None:
        """Three minutes after the last look at its load: the autoscaler looks some times more and has no value."""
        ServiceScaler.objects.update(at=F("at") - STALE_SECONDS)
        self.native.until(lambda: self.told(uid) is None, "the end of what was known")
        before = self.complaints()
        self.native.until(lambda: self.complaints() >= before + LOOKS, "looks of the autoscaler without a value")
        assert self.told(uid) is None

    def complaints(self) -> int:
        """How often the autoscaler has said that it has no value."""
        query = "?fieldSelector=involvedObject.name=chat,reason=FailedGetExternalMetric"
        found = self.native.rig.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/events{query}")["items"]
        return sum(one.get("count") or 1 for one in found if one["source"].get("component") == AUTOSCALER)


@pytest.fixture
def world(kubernetes: TestCluster, tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[World]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    settings.CLUSTER, settings.ADMISSION, settings.EXTERNAL_METRICS = "kubernetes", True, True
    with (
        closing(Queue()) as queue,
        ExitStack() as scraping,
        rig(kubernetes, tmp_path, SITE) as made,
        serving(kubernetes, tmp_path),
    ):
        url = scraping.enter_context(prometheus(tmp_path, scrape({"gateway": f"{HOST}:{queue.metrics}"}, SCRAPE)))
        metrics = PrometheusMetrics(Settings(url, window_seconds=WINDOW, limits=Limits(rest=0.0)))
        yield World(Native(made, metrics), queue, metrics, scraping.close)


def test_a_load_that_prometheus_scraped_has_kubernetes_scale_it(world: World) -> None:
    uid = world.start()
    assert replicas(world.native.rig) == 1
    world.queue.hold(25)
    world.native.until(lambda: world.told(uid) == 25.0, "ten that run and fifteen that wait")
    world.native.until(lambda: world.native.settled(uid, 3), "three replicas")
    assert writers(world.native.owner()) == [("kube-controller-manager", "scale")]
    row = ServiceScaler.objects.get(workload=uid)
    assert (row.in_flight, row.target) == (25_000, TARGET)


def test_without_prometheus_the_replicas_stay_as_they_are(world: World) -> None:
    uid = world.start()
    world.queue.hold(15)
    world.native.until(lambda: world.native.settled(uid, 2), "two replicas")
    world.away()
    world.queue.hold(60)  # which nobody sees: they would be for more than the most
    world.native.turn()
    assert world.told(uid) == 15.0, "the last that was known, for three minutes"
    world.age(uid)
    assert (replicas(world.native.rig), scaler(world.native.rig)["status"]["desiredReplicas"]) == (2, 2)
    assert world.native.settled(uid, 2)


def test_without_the_activator_prometheus_knows_nothing_and_the_replicas_stay_as_they_are(world: World) -> None:
    uid = world.start()
    world.queue.hold(15)
    world.native.until(lambda: world.native.settled(uid, 2), "two replicas")
    world.queue.close()
    servers.wait_until(lambda: world.metrics.scrapes([uid]) == {}, "the end of its series")
    world.age(uid)
    assert (replicas(world.native.rig), scaler(world.native.rig)["status"]["desiredReplicas"]) == (2, 2)
    assert world.native.settled(uid, 2)
