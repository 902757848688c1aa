"""A person's browser at a notebook behind our proxy, as far as JupyterLab's own pages go: files, kernels, cells."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import aiohttp
import httpx

from controlplane.cluster.kubernetes.connection import find
from controlplane.domain import notebookhosts
from controlplane.models import Workload
from controlplane.notebookproxy.app import Proxy, Site
from controlplane.notebookproxy.gate import Gate
from controlplane.notebookproxy.kubernetes import KubernetesDoors
from tests.frontend.conftest import Visit
from tests.notebookproxy.rig import served
from tests.servers import free_port, wait_until

PROTOCOL = "v1.kernel.websocket.jupyter.org"  # what JupyterLab asks for; without it messages are plain JSON
PATIENCE = 60.0  # s


class Browser:
    """At the host of one notebook, with what Weft's page has given for it."""

    def __init__(self, visit: Visit, user: str, notebook: Workload, port: int) -> None:
        self._host = notebookhosts.origin(f"http://notebooks.localhost:{port}", notebook.pk)
        self._address = f"http://127.0.0.1:{port}"
        where = visit(user).get(f"/notebooks/{notebook.pk}/enter", {"to": "/lab"}).context["where"]
        self._http = httpx.Client(base_url=self._address, timeout=30, trust_env=False, headers=self._headers())
        answer = self._http.get(where.removeprefix(self._host))
        self._cookie = answer.headers["set-cookie"].partition(";")[0]
        self._http.cookies.clear()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What JupyterLab answers to a request of its own page."""
        answer = self._http.request(method, path, json=body, headers=self._headers() | {"Cookie": self._jar()})
        assert answer.is_success, (method, path, answer.status_code, answer.text[:300])
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def is_answered(self) -> bool:
        """Whether its page comes."""
        answer = self._http.get("/lab", headers={"Cookie": self._jar()})
        return answer.status_code == 200 and "jupyterlab" in answer.text.lower()

    def kernel(self) -> str:
        """Begin a kernel; its id."""
        return str(self.ask("POST", "/api/kernels", {"name": "python3"})["id"])

    def run(self, kernel: str, code: str) -> str:
        """What a cell prints."""
        return asyncio.run(self._run(kernel, code))

    def close(self) -> None:
        """Close it."""
        self._http.close()

    def _headers(self) -> dict[str, str]:
        return {"Host": self._host.removeprefix("http://"), "Origin": self._host, "X-XSRFToken": "2"}

    def _jar(self) -> str:
        return f"{self._cookie}; _xsrf=2"

    async def _run(self, kernel: str, code: str) -> str:
        message = uuid.uuid4().hex
        header = {"msg_id": message, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        asked = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        headers = self._headers() | {"Cookie": self._jar()}
        printed = ""
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{self._address}/api/kernels/{kernel}/channels", headers=headers) as socket,
        ):
            await socket.send_str(json.dumps(asked))
            while True:
                said = json.loads(await socket.receive_str(timeout=PATIENCE))
                if said["parent_header"].get("msg_id") != message:
                    continue
                assert said["msg_type"] != "error", said["content"]
                if said["msg_type"] == "stream":
                    printed += said["content"]["text"]
                if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
                    return printed


@contextmanager
def proxied(config: str, settings: Any, ask_seconds: float) -> Iterator[int]:
    """Our proxy over the cluster, that looks for pods as its account may; its port."""
    port, weft = free_port(), "http://weft.example"
    settings.NOTEBOOK_URL, settings.PUBLIC_URL = f"http://notebooks.localhost:{port}", weft
    with closing(KubernetesDoors(find(config), prefix="weft-")) as doors:
        site = Site(settings.NOTEBOOK_URL, weft)
        with served(lambda: Proxy(Gate(doors), site, ask_seconds).application(), port):
            yield port


@contextmanager
def opened(visit: Visit, user: str, notebook: Workload, port: int) -> Iterator[Browser]:
    """A browser at a notebook whose server answers."""
    with closing(Browser(visit, user, notebook, port)) as browser:
        wait_until(browser.is_answered, "JupyterLab's page", PATIENCE)
        yield browser
