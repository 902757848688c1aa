"""The proxy's server: which notebook a request is for, whether its visitor may go there, and what they are told else.

A visitor comes from Weft's page with a ticket, which becomes a cookie of the notebook's own host. With each request
that cookie is asked: its session lives, its person is a member who may act, the notebook runs.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, hdrs, web
from django.db.utils import DatabaseError
from yarl import URL

from controlplane.domain import notebookhosts
from controlplane.notebookproxy import forward
from controlplane.notebookproxy.doors import DoorError
from controlplane.notebookproxy.gate import REMEMBERED_SECONDS, Gate
from controlplane.queries.accounts import visiting
from controlplane.queries.accounts.visiting import No, Seat
from controlplane.security import notebookkeys
from controlplane.security.notebookkeys import TICKET, Visit
from controlplane.services.workloads import idle

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
MOST_AT_ONCE = 2_000  # requests and WebSockets; more are asked to come again
ASK_SECONDS = 30.0  # kernels of notebooks that look idle are asked so often whether they are busy
ANSWER_SECONDS = 5.0
BUSY = ("busy", "starting")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    """Where the proxy and Weft's pages are reached, without a slash at the end."""

    proxy: str
    weft: str

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the proxy by https."""
        return self.proxy.startswith("https://")

    @property
    def cookie(self) -> str:
        """Its name. Browsers take one with this prefix from the host itself only, and by https."""
        return "__Host-weft-notebook" if self.is_secure else "weft-notebook"

    def door(self, notebook: UUID, path: str = "/") -> URL:
        """Weft's page that lets a visitor in, and brings a parked notebook back."""
        return URL(f"{self.weft}/notebooks/{notebook}/enter").with_query(to=path)


class Proxy:
    """One for a process."""

    def __init__(self, gate: Gate, site: Site, ask_seconds: float = ASK_SECONDS) -> None:
        self._gate, self._site, self._ask_seconds = gate, site, ask_seconds
        self._client: ClientSession | None = None
        self._at_once = 0

    def application(self) -> web.Application:
        """To be served."""
        made = web.Application()
        made.router.add_route("*", "/{path:.*}", self.answer)
        made.cleanup_ctx.append(self._running)
        return made

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request or WebSocket."""
        notebook = notebookhosts.notebook(self._site.proxy, request.host)
        if notebook is None:
            return web.Response(text="ok") if request.path == "/healthz" else _told(404, "There is no notebook here.")
        if ticket := request.query.get(TICKET):
            return self._enter(request, notebook, ticket)
        visit = notebookkeys.by_cookie(request.cookies.get(self._site.cookie, ""))
        if visit is None or visit.notebook != notebook:
            return self._to_weft(request, notebook)
        if not self._is_own(request, notebook):
            return _told(403, "This came from a page that is not the notebook's own. Nothing was passed on.")
        if self._at_once >= MOST_AT_ONCE:
            return _told(503, "Too much is under way here. Try again in a few seconds.", {"Retry-After": "5"})
        self._at_once += 1
        try:
            return await self._pass(request, visit)
        finally:
            self._at_once -= 1

    def _enter(self, request: web.Request, notebook: UUID, ticket: str) -> web.StreamResponse:
        """A ticket becomes a cookie, and is gone from the address."""
        visit = notebookkeys.by_ticket(ticket)
        clean = request.rel_url.without_query_params(TICKET)
        if visit is None or visit.notebook != notebook:  # it was used too late, or is a copy
            return self._to_weft(request, notebook, str(clean))
        response = web.Response(status=303, headers={"Location": str(clean), "Referrer-Policy": "no-referrer"})
        response.set_cookie(
            self._site.cookie, notebookkeys.cookie(visit), httponly=True, secure=self._site.is_secure, samesite="Lax"
        )
        return response

    def _to_weft(self, request: web.Request, notebook: UUID, path: str = "") -> web.StreamResponse:
        """Who opens a page is sent to sign in; what a page asks for by itself is told so."""
        door = self._site.door(notebook, path or request.raw_path)
        if request.method == "GET" and "text/html" in request.headers.get(hdrs.ACCEPT, ""):
            return web.Response(status=303, headers={"Location": str(door)})
        return _told(401, f"You are not signed in. Open {self._site.door(notebook)}")

    def _is_own(self, request: web.Request, notebook: UUID) -> bool:
        """Whether what changes something, or opens a WebSocket, was sent by the notebook's own pages."""
        if request.method in SAFE and not _is_socket(request):
            return True
        told = urlsplit(request.headers.get(hdrs.ORIGIN, ""))
        return f"{told.scheme}://{told.netloc}".lower() == notebookhosts.origin(self._site.proxy, notebook).lower()

    async def _pass(self, request: web.Request, visit: Visit) -> web.StreamResponse:
        try:
            way = await self._gate.way(visit)
        except (DoorError, DatabaseError) as error:
            log.warning("way not known", notebook=str(visit.notebook), error=str(error))
            return _told(503, "Where this notebook is cannot be learned just now.", {"Retry-After": "5"})
        if isinstance(way, No):
            return self._refused(request, visit, way)
        seat, address = way
        target = forward.Target(address, seat.token, self._site.cookie)
        assert self._client is not None  # noqa: S101 - set before anything is answered
        try:
            if _is_socket(request):
                return await forward.pass_socket(
                    request, self._client, target, lambda: self._gate.note_use(visit), lambda: self._until_out(visit)
                )
            if request.method not in SAFE:
                await self._gate.note_use(visit)
            return await forward.pass_on(request, self._client, target)
        except (ClientError, TimeoutError) as error:
            log.info("notebook not reached", notebook=str(visit.notebook), error=repr(error))
            return _told(502, "The notebook's server does not answer. If it has just started, try again in a moment.")

    def _refused(self, request: web.Request, visit: Visit, no: No) -> web.StreamResponse:
        if no is No.NOT_YOURS:
            return _told(403, "Only members of this notebook's team may use it; viewers may not.")
        if no is No.SIGN_IN or "text/html" in request.headers.get(hdrs.ACCEPT, ""):
            return self._to_weft(request, visit.notebook)  # that page says what it does now, and brings it back
        return _told(409, f"The notebook does not run. Open {self._site.door(visit.notebook)}")

    async def _until_out(self, visit: Visit) -> None:
        """Return when the visitor may be there no longer; while that is not known, they may."""
        while True:
            await asyncio.sleep(REMEMBERED_SECONDS)
            try:
                if isinstance(await self._gate.way(visit), No):
                    return
            except (DoorError, DatabaseError):
                continue

    async def _running(self, _: web.Application) -> Any:
        """Around the time in which the proxy serves."""
        async with forward.session() as client:
            self._client = client
            asks = asyncio.create_task(self._ask_kernels(client))
            yield
            asks.cancel()
            await asyncio.gather(asks, return_exceptions=True)
        self._gate.close()

    async def _ask_kernels(self, client: ClientSession) -> None:
        """Count a kernel that computes as use, also where no device and no CPU says so."""
        while True:
            await asyncio.sleep(self._ask_seconds)
            try:
                seats = await self._gate.in_thread(visiting.looking_idle)
            except DatabaseError as error:
                log.warning("idle notebooks not known", error=str(error))
                continue
            await asyncio.gather(*(self._ask(client, seat) for seat in seats))

    async def _ask(self, client: ClientSession, seat: Seat) -> None:
        try:
            address = await self._gate.in_thread(self._gate.address, seat)
            if address is None:
                return
            headers = {hdrs.AUTHORIZATION: f"token {seat.token}"}
            timeout = ClientTimeout(total=ANSWER_SECONDS)
            async with client.get(f"http://{address}/api/kernels", headers=headers, timeout=timeout) as answer:
                kernels = await answer.json(content_type=None) if answer.status == 200 else []
            states = [one.get("execution_state") for one in kernels if isinstance(one, dict)]
            if any(state in BUSY for state in states):
                await self._gate.in_thread(idle.note_use, seat.notebook)
        except (ClientError, TimeoutError, ValueError, DoorError, DatabaseError) as error:
            log.debug("kernels not asked", notebook=str(seat.notebook), error=repr(error))


def _is_socket(request: web.Request) -> bool:
    return request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"


def _told(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
