"""ASGI entry."""

import asyncio
import contextlib
import contextvars
import os
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import IO, Any

import django
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.db import close_old_connections, connection
from django.http import HttpResponse, HttpResponseBase
from django.urls import get_resolver, set_script_prefix

from controlplane.api.parked import Parked
from controlplane.runtime import tuning

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
PART = 128 * 1024  # bytes of a file that are read at once
THREADS = 4  # of one process, each keeps its connection to the database; more only take turns at one interpreter


class Handler(ASGIHandler):
    """Django's handler, with all of a request in one of a few threads that stay, and keep their database connections.

    Left to itself, Django starts a thread for each request, changes between it and the event loop a dozen times, and
    gets a connection anew: together several times what the request itself costs. Streams are sent by the event loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._door = import_module("controlplane.guards.door")  # Django has to be set up before
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web")
        # Django would put the connection back after each request.
        signals.request_started.disconnect(close_old_connections)
        signals.request_finished.disconnect(close_old_connections)

    def load_middleware(self, is_async: bool = False) -> None:
        """Make the chain of middleware a synchronous one."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"Weft answers HTTP, not {scope['type']}.")
        if wait := self._door.wait(scope):
            headers, content = self._door.answer(wait)
            await send({"type": "http.response.start", "status": 429, "headers": headers})
            await send({"type": "http.response.body", "body": content})
            return
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        response = await self._in_thread(self._answer, scope, body)
        if isinstance(response, Parked) and not await self._is_filled(response, receive):
            return
        if response.streaming:
            await self._stream(response, receive, send)
        else:
            await self.send_response(response, send)

    def create_request(
        self, scope: Mapping[str, Any], body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        """The request, or the answer to one that cannot be read: Django raises for some parameters of a media type."""
        try:
            made = super().create_request(scope, body_file)
            if made[0] is not None and "'" in made[0].META.get("HTTP_ACCEPT", ""):  # none of those raises without
                _ = made[0].accepted_types
        except ValueError:
            message = "The header Content-Type or Accept cannot be read. Send a plain one, such as application/json."
            return None, HttpResponse(message, status=400, content_type="text/plain; charset=utf-8")
        return made

    def _in_thread(self, work: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(self._threads, context.run, work, *args)

    def _answer(self, scope: dict[str, Any], body: IO[bytes]) -> HttpResponseBase:
        close_unless_fit()
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refused = self.create_request(scope, body)
        response: Any = refused if request is None else self.get_response(request)
        response._handler_class = self.__class__
        if response.streaming and not response.is_async:
            rest = iter(response.streaming_content)
            response.streaming_content = self._parts(rest, _together(rest))
        elif not response.streaming and not isinstance(response, Parked):
            response.close()
        body.close()
        return response  # type: ignore[no-any-return]

    async def _parts(self, rest: Iterator[bytes], part: bytes) -> AsyncIterator[bytes]:
        """A file, part by part as it is taken: a slow reader must not hold all of it in memory."""
        while part:
            yield part
            part = await self._in_thread(_together, rest) if len(part) >= PART else b""

    async def _is_filled(self, response: Parked, receive: Receive) -> bool:
        """Have an answer filled in once what it waits for has happened; tell whether the client is still there."""
        waits = asyncio.create_task(response.until_told())
        gone = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait([waits, gone], return_when=asyncio.FIRST_COMPLETED)
            is_there = not gone.done()
            if is_there:
                await self._in_thread(_filled, response)
            return is_there
        finally:
            await _cancelled(waits, gone)
            await self._in_thread(response.close)

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send until the stream ends or the client has gone."""
        tasks = [
            asyncio.create_task(self.send_response(response, send)),
            asyncio.create_task(self.listen_for_disconnect(receive)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(*tasks)
            await self._in_thread(response.close)


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, RequestAborted):
            await task


def _filled(response: Parked) -> None:
    close_unless_fit()
    response.fill()


def _together(pieces: Iterable[bytes]) -> bytes:
    """The next PART of a file, or its end; read in a thread, because the event loop must not wait for a disk."""
    found, size = [], 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size >= PART:
            break
    return b"".join(found)


def close_unless_fit() -> None:
    """Close this thread's database connection if an error left it in doubt or the server has hung up.

    The next statement opens another. A connection that is fine says nothing of itself, so this costs no statement.
    """
    opened = connection.connection
    if opened is None:
        return
    if connection.errors_occurred or has_hung_up(opened):
        connection.close()


def has_hung_up(opened: Any) -> bool:
    """Whether a connection between two statements has something to read: the end, or the server's last words."""
    descriptor = getattr(opened, "fileno", None)
    if descriptor is None:  # SQLite
        return False
    try:
        poll = select.poll()
        poll.register(descriptor(), select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))
    except Exception:  # noqa: BLE001 - psycopg's own, of a closed connection, which is what is asked
        return True


django.setup(set_prefix=False)
application = Handler()
get_resolver().url_patterns  # noqa: B018 - loads all views now: the first request need not, nor the search for garbage
tuning.collect_less_often()
tuning.take_turns_often()
