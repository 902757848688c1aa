"""The HTTPS server that the API server asks: one address, /review, and /healthz for its own probe."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import structlog
import uvicorn

from controlplane.adopted.kinds import CRON_JOB, kind_of
from controlplane.kubeobjects.names import GROUP
from controlplane.webhook import cronjobs, objects, owners, pods, review
from controlplane.webhook.review import Asked, DeniedError, Json, Lookup

LARGEST = 8 * 2**20  # bytes; an object of Kubernetes has at most 3 MiB, and an update comes with what was before
RENEWAL_SECONDS = 10.0  # between two looks at the certificate's file
PATH, HEALTH = "/review", "/healthz"

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = structlog.get_logger(__name__)


async def answer(asked: Asked, lookup: Lookup) -> Json:
    """The answer to one request."""
    try:
        if (asked.group, asked.kind) == ("", "Pod"):
            made = await pods.review(asked, lookup)
        elif (asked.group, asked.kind) == CRON_JOB:
            made = await cronjobs.review(asked, lookup)
        elif asked.group == GROUP:
            made = await objects.review(asked, lookup)
        elif (kind := kind_of(f"{asked.group}/v1", asked.kind)) is not None:
            made = await owners.review(asked, kind, lookup)
        else:
            return review.allowed(asked.uid, [])
    except DeniedError as error:
        return review.denied(asked.uid, str(error))
    return review.allowed(asked.uid, review.difference(asked.object, made))


class Application:
    """The server as uvicorn runs it."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"] == HEALTH:
            await _say(send, 200, b"ok")
        elif scope["path"] != PATH or scope["method"] != "POST":
            await _say(send, 404, b"Only POST /review is answered here.")
        elif (body := await _body(receive)) is None:
            await _say(send, 413, b"The review is too large.")
        else:
            await self._review(body, send)

    async def _review(self, body: bytes, send: Send) -> None:
        try:
            asked = review.read(orjson.loads(body))
        except ValueError as error:
            await _say(send, 400, str(error).encode())
            return
        try:
            found = await answer(asked, self._lookup)
        except Exception as error:  # what cannot be looked up is not let in: the API server refuses it, and says why
            log.exception("review failed", kind=asked.kind, namespace=asked.namespace, error=str(error))
            await _say(send, 500, b"Weft cannot look up what it has to know. Try again.")
            return
        await _say(send, 200, orjson.dumps(found), b"application/json")


async def _body(receive: Receive) -> bytes | None:
    parts, size = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _say(send: Send, status: int, body: bytes, kind: bytes = b"text/plain; charset=utf-8") -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(lookup: Lookup, *, host: str, port: int, certificate: Path, key: Path) -> None:
    """Serve until a signal ends it. The certificate is read again when its file changes."""
    config = uvicorn.Config(
        Application(lookup), host=host, port=port, ssl_certfile=str(certificate), ssl_keyfile=str(key), lifespan="off",
        access_log=False, log_config=None, timeout_keep_alive=120, timeout_graceful_shutdown=10,
    )  # fmt: skip
    asyncio.run(_serve(config, certificate, key))


async def _serve(config: uvicorn.Config, certificate: Path, key: Path) -> None:
    config.load()
    context = config.ssl
    assert context is not None  # noqa: S101 - it was given a certificate
    renewal = asyncio.create_task(_renew(context, certificate, key))
    try:
        await uvicorn.Server(config).serve()
    finally:
        renewal.cancel()


async def _renew(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Connections that come after a renewal get the new certificate."""
    known = _times(certificate, key)
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        now = _times(certificate, key)
        if now == known:
            continue
        try:
            context.load_cert_chain(certificate, key)
            known = now
        except (OSError, ssl.SSLError) as error:  # half written: looked at again
            log.warning("certificate not read", error=str(error))


def _times(*paths: Path) -> tuple[int, ...]:
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
