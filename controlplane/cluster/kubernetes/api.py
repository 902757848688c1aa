"""Raw JSON requests to the API server: one event loop in a thread of its own, many requests in flight.

Typed models cost ten times the decoding, and threads twice the CPU of this; all else (accounts, tokens, certificates)
is the official client's, see connection.py. What the server refuses is a RefusedError; when it does not answer, or
says that it cannot now, the request is tried again a few times and is then ClusterUnreachable.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp

from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.kubernetes.wire import Answer, Wires
from controlplane.cluster.port import ClusterUnreachable

T = TypeVar("T")
Json = dict[str, Any]

TRIES = 3
PAUSES = (0.1, 0.5)  # seconds between tries; a Retry-After of the server's counts, up to a limit
LONGEST_PAUSE = 2.0
SECONDS = 8.0  # for one request; the lease of a loop lasts 10
CONNECT_SECONDS = 3.0
FORBIDDEN, UNAVAILABLE = 403, 503
BUSY = (429, 500, 502, UNAVAILABLE, 504)
LONGEST_CALL = 110.0  # seconds; less than a round of a loop may take
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class RefusedError(Exception):
    """The server answered, with a no. `reason` is Kubernetes' word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or reason or str(status))
        self.status = status
        self.reason = reason


class Api:
    """Requests from any thread. Close it to end its thread."""

    def __init__(self, access: Access, *, in_flight: int = 64, name: str = "kubernetes-calls") -> None:
        self.access = access
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._wires = Wires(access.url, access.tls, access.server_name, CONNECT_SECONDS)
        # Waiting for a turn is no time-out: ten thousand writes may be asked for at once.
        self._turn = asyncio.Semaphore(in_flight)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], seconds: float = LONGEST_CALL) -> T:
        """Run this on the event loop and wait for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except FutureTimeoutError as error:
            future.cancel()
            raise ClusterUnreachable(f"No end after {seconds:.0f} s.") from error

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run this on the event loop; its result comes later."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this on the event loop; do not wait."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End the thread; what is in flight is cut off."""
        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5.0)
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    async def request(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str] | None = None,
        kind: str = "application/json", accept: str = "application/json", tries: int = TRIES,
    ) -> Json:  # fmt: skip
        """One request, as JSON. Raises RefusedError or ClusterUnreachable."""
        text = await self.text(method, path, body, query=query, kind=kind, accept=accept, tries=tries)
        answer: Json = json.loads(text)
        return answer

    async def text(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str] | None = None,
        kind: str = "application/json", accept: str = "application/json", tries: int = TRIES,
    ) -> bytes | bytearray:  # fmt: skip
        """One request, as the server answers it."""
        problem = ""
        data = b"" if body is None else json.dumps(body).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        send = partial(self._send, method, target, self._headers(kind, accept), data)
        for number in range(tries):
            pause = PAUSES[min(number, len(PAUSES) - 1)]
            try:
                answer = await send()
                if answer.status == FORBIDDEN:
                    answer = await self._confirmed(answer, send)
                if answer.status < 400:
                    return answer.body
                if answer.status not in BUSY:
                    raise refused(answer.status, answer.body)
                problem = str(refused(answer.status, answer.body))
                pause = max(pause, _retry_after(answer))
            except (TimeoutError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            if number + 1 < tries:
                await asyncio.sleep(pause)
        raise ClusterUnreachable(problem)

    async def _send(self, method: str, target: str, headers: Mapping[str, str], data: bytes) -> Answer:
        async with self._turn:
            return await self._wires.request(method, target, headers, data, SECONDS)

    async def _confirmed(self, no: Answer, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """What the server says again once it is ready: one that just started does not know all rights yet."""
        ready = await self._send("GET", "/readyz", self._headers("", "*/*"), b"")
        return await send() if ready.status < 400 else replace(no, status=UNAVAILABLE)

    def open(
        self, path: str, *, timeout: aiohttp.ClientTimeout, query: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> Any:  # fmt: skip
        """The answer to a GET as it comes, for a reader that takes it line by line, or all of a long one."""
        return self.session().get(
            self.access.url + path, params=query, headers=self._headers("", accept), timeout=timeout,
            server_hostname=self.access.server_name,
        )  # fmt: skip

    def _headers(self, kind: str, accept: str) -> dict[str, str]:
        # Uncompressed: the server would spend a second on a long list that the network carries in a quarter of one.
        headers = {**self.access.headers(), "Accept": accept, "Accept-Encoding": "identity"}
        return headers | {"Content-Type": kind} if kind else headers

    def session(self) -> aiohttp.ClientSession:
        """The connections; made by the event loop's own thread."""
        if self._session is None:
            tls = self.access.tls if self.access.tls is not None else True
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=60.0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._wires.close()
        if self._session is not None:
            await self._session.close()


async def all_of(works: Iterable[Coroutine[Any, Any, Any]], at_once: int = 64) -> list[Any]:
    """Do all, so many at once; results, refusals and ClusterUnreachable in their order. Other exceptions are raised."""
    todo = list(works)
    results: list[Any] = [None] * len(todo)
    queue = iter(enumerate(todo))

    async def some() -> None:
        for number, work in queue:
            try:
                results[number] = await work
            except (RefusedError, ClusterUnreachable) as error:
                results[number] = error

    count = min(at_once, len(todo))
    if count == 1:  # no task for the usual case
        await some()
    else:
        await asyncio.gather(*(some() for _ in range(count)))
    return results


def refused(status: int, content: bytes | bytearray) -> RefusedError:
    """The error that an answer is: a Status object, or whatever a proxy in between wrote."""
    try:
        answer = json.loads(content)
        reason, message = str(answer.get("reason", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", content[:200].decode(errors="replace")
    return RefusedError(status, reason, message or f"status {status}")


def _retry_after(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), LONGEST_PAUSE) if text.isdigit() else 0.0
