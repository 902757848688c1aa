"""On a real API server, with real requests: the activator divides them between two real servers by their revisions."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from controlplane.activator.client import Client
from controlplane.activator.routing import Said
from controlplane.activator.site import Limits, Site
from controlplane.cluster.port import Split
from tests.activator.test_kubernetes import CHAT, FIRST, World, world
from tests.controlplane.kubernetes.jobs import UID, job, pod_of

__all__ = ["world"]

OLD, NEW = "127.0.0.11", "127.0.0.12"  # addresses of the two replicas, on this machine
REQUESTS, AT_ONCE = 400, 4


def free_port() -> int:
    with socket.socket() as one:
        one.bind((OLD, 0))
        return int(one.getsockname()[1])


class Replica:
    """A small server of one revision: it answers who it is, and fails when it is told to."""

    def __init__(self, name: str) -> None:
        self.name, self.status = name, 200

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                body = self.name.encode()
                writer.write(b"HTTP/1.1 %d OK\r\ncontent-length: %d\r\n\r\n%s" % (self.status, len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def running(world: World, port: int) -> AsyncIterator[tuple[Site, int, dict[str, Replica]]]:
    """Both servers, and an activator in front of them."""
    loop = asyncio.get_running_loop()
    replicas = {OLD: Replica("old"), NEW: Replica("new")}
    servers = [await asyncio.start_server(one.handle, address, port) for address, one in replicas.items()]
    site = Site(world.directory, Limits())
    servers.append(await loop.create_server(partial(Client, site, FIRST), "127.0.0.1", 0))
    try:
        site.look()
        yield site, servers[-1].sockets[0].getsockname()[1], {one.name: one for one in replicas.values()}
    finally:
        for server in servers:
            server.close()
        site.close()


async def ask(port: int, requests: int) -> Counter[str]:
    """Who answered, of so many requests over a few kept connections from a pod of the team."""
    found: Counter[str] = Counter()

    async def client(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(OLD, 0))
        for _ in range(count):
            writer.write(b"GET / HTTP/1.1\r\nhost: chat\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            found[(await reader.readexactly(length)).decode()] += 1
        writer.close()

    await asyncio.gather(*(client(requests // AT_ONCE) for _ in range(AT_ONCE)))
    return found


def started(world: World) -> int:
    """A service with a replica of each of two revisions, whose pods are where the servers listen."""
    port = free_port()
    for rank, address in enumerate((OLD, NEW)):
        pod = pod_of(job(**{**CHAT, "port": port}), rank=rank)
        world.cluster.start([replace(pod, node="a", gpus=(rank,), revision=rank + 1)])
        path = f"/api/v1/namespaces/weft-nlp/pods/{pod.name}"
        world.wait(lambda path=path: world.server.request("GET", path)["status"].get("podIP"), "the pod runs")
        addressed = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        world.server.patch(f"{path}/status", addressed)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    world.switch().step()
    replicas = {f"{address}:{port}" for address in (OLD, NEW)}
    world.wait(
        lambda: (known := world.known()) and not known.is_direct and set(known.replicas) == replicas,
        "both replicas are known",
    )
    return port


def split(world: World, percent: int | None) -> None:
    """Have the requests split, and wait until the activator knows."""
    world.cluster.split(Split(UID, "chat", "nlp", 2, 1, percent, within=5.0, has_queue=True))
    world.wait(
        lambda: (known := world.known()) and (known.split.percent if known.split else None) == percent, "the split"
    )


@pytest.mark.parametrize("percent", [10, 50])
def test_real_requests_are_divided_by_weight_between_two_real_servers(world: World, percent: int) -> None:
    port = started(world)
    split(world, percent)

    async def go() -> None:
        async with running(world, port) as (site, listener, replicas):
            got = await ask(listener, REQUESTS)
            assert got.total() == REQUESTS
            assert 100 * got["new"] / REQUESTS == pytest.approx(percent, abs=2.0)
            gate = site.gate(FIRST)
            assert gate is not None
            assert gate.counts.revisions == {(2, "good"): got["new"], (1, "good"): got["old"]}
            replicas["new"].status = 500
            await ask(listener, REQUESTS)
            assert gate.counts.revisions[2, "failed"] == pytest.approx(REQUESTS * percent / 100, abs=8)
            assert gate.counts.revisions[1, "failed"] == 0

    asyncio.run(go())


def test_without_a_split_each_replica_gets_as_many_and_a_failed_revision_gets_none(world: World) -> None:
    port = started(world)

    async def go() -> None:
        async with running(world, port) as (_, listener, _replicas):
            assert min((await ask(listener, 100)).values()) > 0

    asyncio.run(go())
    split(world, 0)

    async def none() -> None:
        async with running(world, port) as (_, listener, _replicas):
            assert await ask(listener, 100) == {"old": 100}

    asyncio.run(none())
    split(world, None)
