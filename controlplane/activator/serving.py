"""The activator's processes: one that holds the listening sockets and nothing else, and one that serves.

When the one that serves dies, only what it was serving is lost: the sockets stay open, new connections wait in them for
the few milliseconds that a new one needs, which is forked from what is loaded already.
"""

import asyncio
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

import structlog

from controlplane.activator import admin
from controlplane.activator.client import Client
from controlplane.activator.directory import Directory
from controlplane.activator.site import TICK_SECONDS, Limits, Site

BACKLOG = 1024
SETTLE_SECONDS = 3.0  # after a signal to end: others learn meanwhile that nothing new is to be sent here
DRAIN_SECONDS = 30.0  # then what is still served is cut
SHORT_SECONDS, PAUSE_SECONDS = 1.0, 1.0  # one that lived for less is not followed at once

log = structlog.get_logger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Its protocol is named, so that asyncio sets TCP_NODELAY. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


class Keeper:
    """The process that holds the sockets: it has a child serve, and another when that one dies."""

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve
        self._child = 0
        self._is_ending = False

    def run(self) -> int:
        """Until a signal, which the child gets too. Gives the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        while not self._is_ending:
            began = time.monotonic()
            self._child = os.fork()
            if self._child == 0:
                _be_child(self._serve)
            self._follow(began)
        return 0

    def _follow(self, began: float) -> None:
        if self._is_ending:  # the signal came before there was a child
            os.kill(self._child, signal.SIGTERM)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        if self._is_ending:
            return
        log.error("the serving process died", status=os.waitstatus_to_exitcode(status))
        if time.monotonic() - began < SHORT_SECONDS:
            time.sleep(PAUSE_SECONDS)

    def _end(self, number: int, _: object) -> None:
        self._is_ending = True
        if self._child:
            os.kill(self._child, signal.SIGTERM)


def _be_child(serve: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        serve()
        status = 0
    except BaseException as error:  # the parent's code is not to go on here
        log.exception("serving ended", error=str(error))
    finally:
        os._exit(status)


def allow_files() -> None:
    """As many open files as this process may have: a request needs two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(make: Callable[[], Directory], limits: Limits, ports: Mapping[int, socket.socket], own: socket.socket) -> None:
    """Serve in this process until a signal, or the parent's end."""
    allow_files()
    asyncio.run(_run(make, limits, ports, own))


async def _run(
    make: Callable[[], Directory], limits: Limits, ports: Mapping[int, socket.socket], own: socket.socket
) -> None:
    loop = asyncio.get_running_loop()
    directory = make()
    site = Site(directory, limits)
    site.look()
    ending, parent = asyncio.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    runner = await admin.serve(site, own)
    servers = [
        await loop.create_server(partial(Client, site, port), sock=listener, backlog=BACKLOG)
        for port, listener in ports.items()
    ]
    log.info("activator serves", ports=len(servers))
    while not ending.is_set() and os.getppid() == parent:
        await _sleep(ending, TICK_SECONDS)
        try:
            site.tick()
        except Exception as error:  # what it could not do now it does with the next one; requests go on
            log.exception("tick failed", error=str(error))
    site.is_draining = True
    until = loop.time() + SETTLE_SECONDS
    while loop.time() < until:
        await asyncio.sleep(TICK_SECONDS)
        site.tick()
    for server in servers:
        server.close()
    until = loop.time() + DRAIN_SECONDS
    while site.running and loop.time() < until:
        await asyncio.sleep(TICK_SECONDS)
        site.tick()
    await runner.cleanup()
    directory.close()


async def _sleep(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
