"""A notebook's server of our own, and the proxy in front of it, both on loopback ports of this process."""

import asyncio
import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from controlplane.notebookproxy.app import Proxy, Site
from controlplane.notebookproxy.doors import FileDoors
from controlplane.notebookproxy.gate import Gate
from controlplane.queries.accounts.visiting import Seat
from tests.servers import free_port

PAGE = """<!doctype html><title>lab</title><h1>The lab</h1><p id=said></p><script>
const socket = new WebSocket(`ws://${location.host}/api/kernels/1/channels`);
socket.onopen = () => socket.send('1 + 1');
socket.onmessage = (one) => { document.getElementById('said').textContent = one.data; };
socket.onclose = (one) => { document.title = `closed ${one.code}`; };
</script>"""


@dataclass
class Lab:
    """Answers as Jupyter's server does where the proxy looks, and tells what it was asked."""

    kernels: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)  # method, path, headers

    def application(self) -> web.Application:
        """To be served."""
        made = web.Application()
        made.router.add_get("/api/kernels", self._kernels)
        made.router.add_get("/api/kernels/1/channels", self._channel)
        made.router.add_route("*", "/{path:.*}", self._page)
        return made

    def _note(self, request: web.Request) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.method, request.raw_path, headers))

    async def _kernels(self, request: web.Request) -> web.Response:
        self._note(request)
        return web.json_response(self.kernels)

    async def _channel(self, request: web.Request) -> web.WebSocketResponse:
        self._note(request)
        socket = web.WebSocketResponse(protocols=["v1.kernel.websocket.jupyter.org"], max_msg_size=0)
        await socket.prepare(request)
        async for one in socket:
            if one.type is WSMsgType.TEXT:
                await socket.send_str(f"out: {one.data}")
            elif one.type is WSMsgType.BINARY:
                await socket.send_bytes(one.data[::-1])
        return socket

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        body = await request.read()
        if body:
            return web.Response(body=body[::-1], headers={"X-Length": str(len(body))})
        answer = web.Response(text=PAGE, content_type="text/html")
        answer.headers.add("Set-Cookie", "_xsrf=2; Path=/; Domain=.localhost")
        answer.headers.add("Set-Cookie", "weft-notebook=stolen; Path=/")
        return answer


@contextlib.contextmanager
def served(made: Callable[[], web.Application], port: int) -> Iterator[None]:
    """Serve an application in a thread with an event loop of its own."""
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(made(), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner

    runners: list[web.AppRunner] = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        runners.append(loop.run_until_complete(start()))
        ready.set()
        loop.run_forever()

    thread = threading.Thread(target=run, name="served")
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(runners[0].cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


@dataclass
class Rig:
    """A lab behind a proxy."""

    lab: Lab
    port: int  # the proxy's
    file: Path

    def open(self, notebook: Any) -> None:
        """The lab is this notebook's server."""
        self.file.write_text(json.dumps({str(notebook): f"127.0.0.1:{self.lab_port}"}))

    lab_port: int = 0


@contextlib.contextmanager
def proxied(folder: Path, weft: str, settings: Any, ask_seconds: float = 60.0) -> Iterator[Rig]:
    """Both, with the settings of this test that say where they are."""
    lab, port, lab_port = Lab(), free_port(), free_port()
    file = folder / "notebooks.json"
    file.write_text("{}")
    settings.NOTEBOOK_URL, settings.PUBLIC_URL = f"http://notebooks.localhost:{port}", weft
    site = Site(settings.NOTEBOOK_URL, weft)
    with (
        served(lab.application, lab_port),
        served(lambda: Proxy(Gate(FileDoors(file)), site, ask_seconds).application(), port),
    ):
        yield Rig(lab, port, file, lab_port)


def seat(name: str) -> Seat:
    """A notebook of team nlp on Jupyter's port."""
    return Seat(uuid.UUID(int=7), 1, "nlp", name, 8888, "token")
