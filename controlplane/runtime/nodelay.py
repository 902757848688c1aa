"""Answers leave at once, in as many packets as they are written in.

The server writes head and body one after the other. Without TCP_NODELAY the second waits until the client has
acknowledged the first, which a client with nothing to say puts off for 40 ms. asyncio sets the option only on sockets
that name their protocol, and those that a server makes before it starts its workers, or that we take a port with, do
not: Python's `accept` copies the 0 of the listening one.
"""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class NoDelay(HttpToolsProtocol):
    """uvicorn's own protocol; bounded.py adds to it, and is what servers are started with."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set the option on the connection, which is a TCP one unless the server listens at a path."""
        accepted: Any = transport.get_extra_info("socket")
        if accepted is not None and accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
