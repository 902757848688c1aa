"""What pods printed, as lines with times."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api, RefusedError
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.kubernetes.quantities import seconds
from controlplane.cluster.port import LogLine, PodPhase

LONGEST = 2**20  # bytes of each pod's answer
MAX_PODS = 64


async def lines(api: Api, workers: Sequence[Worker], tail: int, since: float | None) -> tuple[LogLine, ...]:
    """The last `tail` lines of these workers together, by time; those after `since` only."""
    begun = [worker for worker in workers if worker.seen.phase != PodPhase.PENDING][:MAX_PODS]
    parts = await asyncio.gather(*(_of_one(api, worker, tail, since) for worker in begun))
    found = sorted((line for part in parts for line in part), key=lambda line: line.at)
    return tuple(found[-tail:])


async def _of_one(api: Api, worker: Worker, tail: int, since: float | None) -> list[LogLine]:
    path = f"/api/v1/namespaces/{worker.namespace}/pods/{worker.pod}/log"
    query = {"container": names.CONTAINER, "timestamps": "true", "tailLines": str(tail), "limitBytes": str(LONGEST)}
    if since is not None:
        query["sinceTime"] = datetime.fromtimestamp(int(since), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        text = await api.text("GET", path, query=query, accept="*/*")
    except RefusedError:  # it does not run yet, or is gone
        return []
    return [line for line in parse(text.decode(errors="replace"), worker.seen.rank) if since is None or line.at > since]


def parse(text: str, rank: int) -> list[LogLine]:
    """`2026-01-01T00:00:00.123456789Z the line`, one each; what has no time (a cut line) is left out."""
    found = []
    for row in text.split("\n"):
        stamp, _, rest = row.partition(" ")
        at = seconds(stamp) if stamp[:2].isdigit() else None
        if at is not None:
            found.append(LogLine(at, rank, rest))
    return found
