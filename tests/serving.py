"""Our ASGI application behind a real uvicorn in this process, over the test's database."""

import contextlib
import threading
from collections.abc import Iterator

import uvicorn
from django.db import connection

from controlplane import asgi
from controlplane.runtime import wake
from tests.servers import free_port, wait_until


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Serve on this loopback port (0: a free one) until the block ends; yield the address. The test must commit."""
    handler, port = asgi.Handler(), port or free_port()
    server = uvicorn.Server(
        uvicorn.Config(handler, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        wait_until(lambda: server.started, "the server", 20)
        yield f"http://127.0.0.1:{port}"
    finally:
        wake.stopping.set()
        server.should_exit = True
        thread.join(20)
        _close(handler)
        wait_until(lambda: not any(one.name == "feed" for one in threading.enumerate()), "the feed's end", 20)
        wake.stopping.clear()


def _close(handler: asgi.Handler) -> None:
    """Close the connections that the handler's threads keep, so that the test database can be emptied."""
    together = threading.Barrier(asgi.THREADS)

    def close() -> None:
        together.wait(10)
        connection.close()

    for done in [handler._threads.submit(close) for _ in range(asgi.THREADS)]:
        done.result(20)
    handler._threads.shutdown()
