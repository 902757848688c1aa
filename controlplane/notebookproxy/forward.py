"""Requests and WebSockets passed on to a notebook's server, and its answers back, as they come."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import ClientSession, ClientTimeout, ClientWebSocketResponse, DummyCookieJar, WSMsgType, hdrs, web
from aiohttp.client_exceptions import WSServerHandshakeError
from multidict import CIMultiDict
from yarl import URL

CONNECT_SECONDS = 10.0
BEAT_SECONDS = 30.0  # both ends of a WebSocket are asked so often whether they are there
MOST_MESSAGE = 64 * 2**20  # bytes of one message
GOING_AWAY, POLICY = 1001, 1008
# Of one connection, not of what is sent by it (RFC 9110, 7.6.1), and what an end of a WebSocket says of itself.
HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade")
)  # fmt: skip
OF_SOCKETS = "sec-websocket-"

Socket = web.WebSocketResponse | ClientWebSocketResponse
Use = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: host:port, the token to tell it, if any, and our cookie's name, which it is not told."""

    address: str
    token: str
    cookie: str

    def url(self, request: web.Request) -> URL:
        """Path and query as they came, not read and written anew."""
        return URL(f"http://{self.address}{request.raw_path}", encoded=True)


def session() -> ClientSession:
    """Connections to servers; made in the event loop. Nothing that one visitor gets is kept for another."""
    timeout = ClientTimeout(total=None, connect=CONNECT_SECONDS)
    return ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False, timeout=timeout, trust_env=False)


async def pass_on(request: web.Request, client: ClientSession, target: Target) -> web.StreamResponse:
    """Ask the notebook's server. Raises aiohttp's ClientError where it cannot be asked."""
    async with client.request(
        request.method,
        target.url(request),
        headers=asked(request, target),
        data=request.content if request.can_read_body else None,
        allow_redirects=False,
    ) as answer:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        response.headers.extend(answered(answer.headers, target))
        await response.prepare(request)
        async for part in answer.content.iter_any():
            await response.write(part)
        await response.write_eof()
        return response


async def pass_socket(
    request: web.Request, client: ClientSession, target: Target, used: Use, ends: Use
) -> web.StreamResponse:
    """A WebSocket until an end closes it, or `ends` returns. Raises ClientError where the server cannot be asked."""
    wanted = [one.strip() for one in request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",") if one.strip()]
    try:
        theirs = await client.ws_connect(
            target.url(request), headers=asked(request, target), protocols=wanted,
            max_msg_size=MOST_MESSAGE, heartbeat=BEAT_SECONDS,
        )  # fmt: skip
    except WSServerHandshakeError as refused:
        return web.Response(status=refused.status if refused.status >= 400 else 502, text="It opens no WebSocket here.")
    async with theirs:
        spoken = [theirs.protocol] if theirs.protocol else ()
        ours = web.WebSocketResponse(protocols=spoken, max_msg_size=MOST_MESSAGE, heartbeat=BEAT_SECONDS)
        await ours.prepare(request)
        works = [_pump(ours, theirs, used), _pump(theirs, ours, None), ends()]
        tasks = [asyncio.ensure_future(work) for work in works]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        code = POLICY if tasks[2] in done else theirs.close_code or GOING_AWAY
        await ours.close(code=code if code not in (1005, 1006) else GOING_AWAY)
        return ours


def asked(request: web.Request, target: Target) -> CIMultiDict[str]:
    """The headers of what the server is asked: the visitor's, without what is ours, and from whom they came."""
    headers = _without_hop(request.headers)
    for name in [name for name in headers if name.lower().startswith(OF_SOCKETS)]:
        headers.popall(name, None)
    cookies = "; ".join(one for one in _cookies(request.headers) if one.partition("=")[0] != target.cookie)
    headers.popall(hdrs.COOKIE, None)
    if cookies:
        headers[hdrs.COOKIE] = cookies
    if target.token:
        headers[hdrs.AUTHORIZATION] = f"token {target.token}"
    headers["X-Forwarded-For"] = request.remote or ""
    headers["X-Forwarded-Proto"] = request.scheme
    return headers


def answered(headers: Mapping[str, str], target: Target) -> CIMultiDict[str]:
    """The headers of an answer: cookies are the notebook's own host's, and none is ours."""
    found = _without_hop(headers)
    given = found.popall(hdrs.SET_COOKIE, [])
    for one in given:
        name, *rest = [part.strip() for part in one.split(";")]
        if name.partition("=")[0].strip() != target.cookie:
            kept = [part for part in rest if not part.lower().startswith("domain")]
            found.add(hdrs.SET_COOKIE, "; ".join([name, *kept]))
    return found


async def _pump(source: Socket, sink: Socket, used: Use | None) -> None:
    """Pass messages on until the source is closed."""
    async for message in source:
        if used is not None:
            await used()
        if message.type is WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _without_hop(headers: Mapping[str, str]) -> CIMultiDict[str]:
    found = CIMultiDict(headers)
    named = {one.strip().lower() for value in found.getall(hdrs.CONNECTION, []) for one in value.split(",")}
    for name in {name for name in found if name.lower() in HOP or name.lower() in named}:
        found.popall(name, None)
    return found


def _cookies(headers: Mapping[str, str]) -> list[str]:
    return [one.strip() for value in CIMultiDict(headers).getall(hdrs.COOKIE, []) for one in value.split(";") if one]
