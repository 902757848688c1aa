"""Decisions as Kubernetes events, so that `kubectl describe pod` says what our pages say."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError, all_of
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.port import Note

COMPONENT = "weft"
LONGEST_MESSAGE = 1024  # bytes; the API server refuses longer ones
LONGEST_REASON = 128
IN_BACKGROUND = 8  # requests at once: binds go first

log = structlog.get_logger(__name__)


def event(note: Note, worker: Worker, at: float) -> Json:
    """The event on this pod. The same decision has the same name, so that telling it twice counts it twice."""
    what = f"{worker.uid}/{note.reason}/{note.message}"
    time = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{worker.pod}.{hashlib.blake2b(what.encode(), digest_size=8).hexdigest()}",
            "namespace": worker.namespace,
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "name": worker.pod, "namespace": worker.namespace, "uid": worker.uid,
        },
        "reason": note.reason[:LONGEST_REASON],
        "message": cut(note.message),
        "type": "Warning" if note.is_warning else "Normal",
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }  # fmt: skip


def cut(message: str) -> str:
    """As much of a message as an event may hold."""
    data = message.encode()
    return message if len(data) <= LONGEST_MESSAGE else data[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."


async def send(api: Api, events: Sequence[Json]) -> None:
    """Write them; one that exists is counted up. What is refused is only logged. Raises ClusterUnreachable."""
    results = await all_of((_send(api, body) for body in events), IN_BACKGROUND)
    for result in results:
        if isinstance(result, RefusedError):
            log.info("event not written", error=str(result))
        elif isinstance(result, BaseException):
            raise result


async def _send(api: Api, body: Json) -> None:
    path = f"/api/v1/namespaces/{body['metadata']['namespace']}/events"
    try:
        await api.request("POST", path, body)
    except RefusedError as error:
        if error.reason != "AlreadyExists":
            raise
        name = body["metadata"]["name"]
        known = await api.request("GET", f"{path}/{name}")
        again = {"count": int(known.get("count") or 1) + 1, "lastTimestamp": body["lastTimestamp"]}
        await api.request("PATCH", f"{path}/{name}", again, kind=MERGE)
