"""The external metrics API (`external.metrics.k8s.io/v1beta1`): what Weft measures of services, for autoscalers.

The API server's aggregator asks, with a certificate of its own; it has checked the rights of whoever asked it. The TLS
layer refuses all others. A value that is not known is no item: then an autoscaler leaves the replicas as they are.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson
import structlog

from controlplane.adopted.native import METRICS, METRICS_GROUP, METRICS_VERSION, WORKLOAD

GROUP_VERSION = f"{METRICS_GROUP}/{METRICS_VERSION}"
ROOT = f"/apis/{GROUP_VERSION}"
HEALTH = "/healthz"
_VALUE = re.compile(rf"{ROOT}/namespaces/(?P<namespace>[a-z0-9-]+)/(?P<metric>[a-z0-9.-]+)")
_EQUALS = re.compile(rf"{re.escape(WORKLOAD)}={{1,2}}(?P<uid>[0-9a-f-]{{36}})")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = structlog.get_logger(__name__)


class Value(NamedTuple):
    """One measured value: thousandths, and when (Unix time)."""

    milli: int
    at: float


Read = Callable[[str, str, str], Value | None]  # metric, namespace and uid of a workload -> its value


class Application:
    """The server as uvicorn runs it. `read` may block: it runs in a thread."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path = scope["path"].rstrip("/")
        if path == HEALTH:
            await _say(send, 200, b"ok", b"text/plain")
        elif scope["method"] != "GET":
            await _refuse(send, 405, "MethodNotAllowed", "Only GET is answered here.")
        elif (known := _DISCOVERY.get(path)) is not None:
            await _say(send, 200, orjson.dumps(known))
        elif (found := _VALUE.fullmatch(path)) is not None:
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            await self._value(send, found, (query.get("labelSelector") or [""])[0])
        else:
            await _refuse(send, 404, "NotFound", f"There is nothing at {path[:200]}.")

    async def _value(self, send: Send, asked: "re.Match[str]", selector: str) -> None:
        if asked["metric"] not in METRICS:
            known = " or ".join(METRICS)
            await _refuse(send, 404, "NotFound", f"There is no metric {asked['metric']}. Ask for {known}.")
            return
        chosen = _EQUALS.fullmatch(selector)
        if chosen is None:
            await _refuse(send, 400, "BadRequest", f"Select one workload by its label: {WORKLOAD}=UID.")
            return
        try:
            value = await asyncio.to_thread(self._read, asked["metric"], asked["namespace"], chosen["uid"])
        except Exception as error:  # the database does not answer: not known, which is never 0
            log.exception("metric not read", workload=chosen["uid"], error=str(error))
            await _refuse(send, 503, "ServiceUnavailable", "Weft cannot look it up. Try again.")
            return
        items = [] if value is None else [_item(asked["metric"], chosen["uid"], value)]
        await _say(send, 200, orjson.dumps(_listed("ExternalMetricValueList", items)))


def _item(metric: str, uid: str, value: Value) -> Mapping[str, Any]:
    at = datetime.fromtimestamp(value.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"metricName": metric, "metricLabels": {WORKLOAD: uid}, "timestamp": at, "value": f"{value.milli}m"}


def _listed(kind: str, items: list[Any]) -> Mapping[str, Any]:
    return {"kind": kind, "apiVersion": GROUP_VERSION, "metadata": {}, "items": items}


_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": GROUP_VERSION,
    "resources": [
        {
            "name": name, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        }
        for name in METRICS
    ],
}  # fmt: skip
_VERSION = {"groupVersion": GROUP_VERSION, "version": METRICS_VERSION}
_GROUP = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": METRICS_GROUP,
    "versions": [_VERSION],
    "preferredVersion": _VERSION,
}
_DISCOVERY: Mapping[str, Any] = {
    ROOT: _RESOURCES,
    f"/apis/{METRICS_GROUP}": _GROUP,
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]},
}


async def _refuse(send: Send, status: int, reason: str, message: str) -> None:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }
    await _say(send, status, orjson.dumps(body))


async def _say(send: Send, status: int, body: bytes, kind: bytes = b"application/json") -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
