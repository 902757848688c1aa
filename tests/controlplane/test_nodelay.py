"""Answers do not wait for the client to acknowledge their first packet."""

import socket
import threading
from typing import Any

import httpx
import uvicorn

from controlplane.runtime.nodelay import NoDelay
from tests.servers import wait_until


async def hello(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def test_connections_of_a_socket_that_does_not_name_its_protocol_send_at_once() -> None:
    listener = socket.create_server(("127.0.0.1", 0))  # as uvicorn makes it before it starts its workers
    assert listener.proto == 0
    server = uvicorn.Server(uvicorn.Config(hello, http=NoDelay, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        wait_until(lambda: server.started, "the server", 20)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert client.get("/").text == "hello"
            [connection] = server.server_state.connections
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    finally:
        server.should_exit = True
        thread.join(20)
