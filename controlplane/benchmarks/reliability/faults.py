"""A proxy before the API server that loses, repeats, delays and garbles what goes through it (docs/promises.md#faults).

It speaks plain HTTP to the program under test and holds the token itself.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp
from aiohttp import web
from kubernetes.client import Configuration

from controlplane.cluster.kubernetes.connection import Access, of
from controlplane.testbed.kubernetes import TestCluster

Matches = Callable[[str, str], bool]
START_SECONDS = 10.0
POLL_SECONDS = 0.05


@dataclass
class Fault:
    """What happens to the next `times` requests that match, of a method and path."""

    matches: Matches
    times: int
    status: int = 0  # answered instead of the server's; 0: the connection is cut
    is_done: bool = True  # whether the server does it all the same
    retry_after: int | None = None


@dataclass
class Faults:
    """All that can be wrong. Change it at any time, from any thread."""

    requests: list[Fault] = field(default_factory=list)
    drop_lines: Callable[[dict], bool] = lambda event: False  # type: ignore[type-arg]  # of watches
    repeat_lines: bool = False
    gone: int = 0  # so many watches end with 410 now
    is_silent: bool = False  # connections stay open, nothing comes, nor do new ones get an answer
    half_open: int = 0  # watches with a number up to this one stay open and say nothing any more
    delay: float = 0.0  # seconds before each answer
    hits: int = 0
    conflicts: int = 0  # 409 of the server itself
    watches: int = 0


class Proxy:
    """Runs in a thread of its own."""

    def __init__(self, server: TestCluster, token: str) -> None:
        self.faults = Faults()
        self._server = server
        self._token = token
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._port = 0

    def access(self) -> Access:
        """How the one under test reaches the API server."""
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self._port}"
        return of(configuration)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError("the fault proxy does not listen")

    def stop(self) -> None:
        """End the thread; what is open is cut."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())

    async def _serve(self) -> None:
        tls = ssl.create_default_context(cafile=str(self._server.ca))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._pass_on(request)
        except (aiohttp.ClientError, OSError):  # the server is away: so are we
            return self._answer(request, Fault(lambda method, path: True, 1))

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        while self.faults.is_silent:
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(self.faults.delay)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": request.headers["Accept"]}
        if kind := request.headers.get("Content-Type"):
            headers["Content-Type"] = kind
        fault = self._fault(request)
        if fault is not None and not fault.is_done:
            return self._answer(request, fault)
        url = self._server.url + request.path_qs
        async with self._session.request(request.method, url, data=await request.read(), headers=headers) as upstream:
            if request.query.get("watch"):
                return await self._stream(request, upstream)
            body = await upstream.read()
            self.faults.conflicts += upstream.status == HTTPStatus.CONFLICT
            if fault is not None:
                return self._answer(request, fault)
            return web.Response(status=upstream.status, body=body, content_type=upstream.content_type)

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults.requests:
            if fault.times > 0 and fault.matches(request.method, request.path):
                fault.times -= 1
                self.faults.hits += 1
                return fault
        return None

    def _answer(self, request: web.Request, fault: Fault) -> web.Response:
        if not fault.status:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        return web.json_response({"kind": "Status", "message": "a fault"}, status=fault.status, headers=headers)

    async def _stream(self, request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        self.faults.watches += 1
        number = self.faults.watches
        response = web.StreamResponse(status=upstream.status)
        await response.prepare(request)
        rest = b""
        chunks = upstream.content.iter_any().__aiter__()
        pending = asyncio.ensure_future(chunks.__anext__())
        while True:
            done, _ = await asyncio.wait([pending], timeout=POLL_SECONDS)
            while self.faults.is_silent or number <= self.faults.half_open:
                await asyncio.sleep(POLL_SECONDS)
            if self.faults.gone > 0:
                self.faults.gone -= 1
                pending.cancel()
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
                await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                return response
            if not done:
                continue
            try:
                *lines, rest = (rest + pending.result()).split(b"\n")
            except StopAsyncIteration:
                return response
            for line in lines:
                await self._line(response, line)
            pending = asyncio.ensure_future(chunks.__anext__())

    async def _line(self, response: web.StreamResponse, line: bytes) -> None:
        if line and self.faults.drop_lines(json.loads(line)):
            self.faults.hits += 1
            return
        await response.write(line + b"\n")
        if self.faults.repeat_lines:
            await response.write(line + b"\n")


@contextmanager
def proxy(server: TestCluster, token: str) -> Iterator[Proxy]:
    """A proxy for the time of a `with` block; what uses it has the rights of this token."""
    one = Proxy(server, token)
    one.start()
    try:
        yield one
    finally:
        one.stop()
