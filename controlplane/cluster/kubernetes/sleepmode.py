"""Weights of replicas on standby are moved by their own servers, as vLLM's sleep mode does it; Weft only says when.

The contract (docs/standby.md#what-a-server-has-to-do) is on the service's port: `POST /sleep?level=1` moves the weights
to host memory and frees the device, `POST /wake_up` brings them back, and `GET /is_sleeping` answers
`{"is_sleeping": true}` as long as they are away. Requests go straight to the pod, as Prometheus' do: so none of our
accounts gets a right to have the API server talk to tenants' pods. Of what answers, nothing is followed and little is
read. First the pod gets the memory for the weights, in place, so that Kubernetes counts it too.

Where the weights are is an annotation of the pod, as JSON: `in` (host, device, refused, or empty while they move),
`at`, `memory` (MiB that they take of the node) and `why`. So each process of ours knows it, also after a restart.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog

from controlplane.cluster.kubernetes import names, podstatus
from controlplane.cluster.kubernetes.api import STRATEGIC, Api, RefusedError
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.kubernetes.quantities import weights_of
from controlplane.cluster.port import ON_DEVICE, ON_HOST, REFUSED, ClusterUnreachable

RESIZED_SECONDS = 30.0  # in which the node has to give the pod the memory
MOVED_SECONDS = 90.0  # in which the server has to say that it is done
PAUSE = 0.5  # s between two looks
ANSWER = aiohttp.ClientTimeout(total=10.0, connect=3.0)
MOST_READ = 4096  # bytes of an answer
LEAST_REFUSAL, LEAST_ERROR = 300, 500  # HTTP: what is not done is asked no more, what went wrong is looked at again

log = structlog.get_logger(__name__)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """Memory of a pod in MiB: without its weights, and of these."""

    beside: int
    weights: int


class SleepMode:
    """One instance for an adapter; `begin` may be called from any thread, the rest runs on the API's event loop."""

    def __init__(self, api: Api, clock: Callable[[], float], resize: Callable[..., Any]) -> None:
        self._api, self._clock, self._resize = api, clock, resize
        self._under_way: set[tuple[str, bool]] = set()
        self._turns: dict[str, asyncio.Lock] = {}  # by pod: one move after the other

    def begin(self, worker: Worker, size: Size, *, on: bool) -> None:
        """Have weights moved to host memory (on) or back; what came of it is found on the pod."""
        key = worker.uid, on
        if key not in self._under_way:
            self._under_way.add(key)
            self._api.spawn(self._move(worker, size, on=on))

    async def _move(self, worker: Worker, size: Size, *, on: bool) -> None:
        turn = self._turns.setdefault(worker.uid, asyncio.Lock())
        try:
            async with turn:
                await (self._to_host(worker, size) if on else self._to_device(worker, size))
        except RefusedError as error:
            await self._quietly(worker, self._refuse(worker, size, str(error), on=on))
        except ClusterUnreachable as error:  # it is asked for again after a while
            log.info("weights not moved", pod=worker.name, error=str(error))
        finally:
            self._under_way.discard((worker.uid, on))
            if not any((worker.uid, way) in self._under_way for way in (True, False)):
                self._turns.pop(worker.uid, None)

    async def _to_host(self, worker: Worker, size: Size) -> None:
        if not await self._are_in(worker, ON_HOST):
            await self._note(worker, "", size.weights)
            await self._resize(worker, None, size.beside + size.weights)
            await self._is_resized(worker, size.beside + size.weights)
            await self._told(worker, "sleep?level=1", is_sleeping=True)
        await self._note(worker, ON_HOST, size.weights)

    async def _to_device(self, worker: Worker, size: Size) -> None:
        if not await self._are_in(worker, ON_DEVICE):
            await self._note(worker, "", size.weights)
            await self._told(worker, "wake_up", is_sleeping=False)
            await self._resize(worker, None, size.beside)
        await self._note(worker, ON_DEVICE, 0)

    async def _are_in(self, worker: Worker, where: str) -> bool:
        annotations = (await self._pod(worker))["metadata"].get("annotations") or {}
        return weights_of(annotations).seen[0] == where

    async def _refuse(self, worker: Worker, size: Size, why: str, *, on: bool) -> None:
        """It stays as it was: what does not go to host memory needs none there."""
        if on:
            await self._resize(worker, None, size.beside)
        await self._note(worker, REFUSED, 0 if on else size.weights, why)

    async def _quietly(self, worker: Worker, work: Any) -> None:
        try:
            await work
        except (RefusedError, ClusterUnreachable) as error:
            log.info("weights not moved", pod=worker.name, error=str(error))

    # --- the server ---------------------------------------------------------------------------

    async def _told(self, worker: Worker, what: str, *, is_sleeping: bool) -> None:
        """Ask the server, and wait until it says so of itself: its answer may take longer than a request may."""
        server = _server(await self._pod(worker))
        until = self._clock() + MOVED_SECONDS
        async with aiohttp.ClientSession(timeout=ANSWER) as session:
            if await self._is_sleeping(session, server) is is_sleeping:
                return
            await _ask(session, "POST", f"{server}/{what}")
            while await self._is_sleeping(session, server) is not is_sleeping:
                if self._clock() > until:
                    path = what.partition("?")[0]
                    raise RefusedError(504, "Timeout", f"/{path} was not done in {MOVED_SECONDS:.0f} s")
                await asyncio.sleep(PAUSE)

    async def _is_sleeping(self, session: aiohttp.ClientSession, server: str) -> bool | None:
        """What it says; None: nothing, just now. Raises RefusedError where it knows no such question."""
        text = await _ask(session, "GET", f"{server}/is_sleeping")
        if text is None:
            return None
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, Mapping) or not isinstance(answer.get("is_sleeping"), bool):
            raise RefusedError(502, "NoSleepMode", "/is_sleeping does not answer with is_sleeping true or false")
        return bool(answer["is_sleeping"])

    # --- the pod ------------------------------------------------------------------------------

    async def _is_resized(self, worker: Worker, memory: int) -> None:
        until = self._clock() + RESIZED_SECONDS
        while True:
            pod = await self._pod(worker)
            _, has, reason, message = podstatus.resized(pod["metadata"], pod["spec"], pod.get("status") or {})
            if has == memory:
                return
            if reason:
                raise RefusedError(409, reason, message or f"its node does not give it {memory} MiB: {reason}")
            if self._clock() > until:
                raise RefusedError(504, "Timeout", f"its node has not given it {memory} MiB in {RESIZED_SECONDS:.0f} s")
            await asyncio.sleep(PAUSE)

    async def _pod(self, worker: Worker) -> Json:
        return await self._api.request("GET", _path(worker))

    async def _note(self, worker: Worker, where: str, memory: int, why: str = "") -> None:
        told: Json = {"in": where, "at": self._clock(), "memory": memory} | ({"why": why[:300]} if why else {})
        body = {"metadata": {"uid": worker.uid, "annotations": {names.WEIGHTS: json.dumps(told)}}}
        await self._api.request("PATCH", _path(worker), body, kind=STRATEGIC)


def _path(worker: Worker) -> str:
    return f"/api/v1/namespaces/{worker.namespace}/pods/{worker.pod}"


async def _ask(session: aiohttp.ClientSession, method: str, url: str) -> bytes | None:
    """What a replica's server answers; None: nothing in time, or that it cannot now. Raises RefusedError for a no."""
    try:
        async with session.request(method, url, allow_redirects=False) as answer:
            text = await answer.content.read(MOST_READ)
    except (TimeoutError, aiohttp.ClientError, OSError):
        return None
    if answer.status >= LEAST_ERROR:
        return None
    if answer.status >= LEAST_REFUSAL:
        path = url.partition("?")[0].rpartition("/")[2]
        raise RefusedError(answer.status, "NoSleepMode", f"{method} /{path} was answered with {answer.status}")
    return text


def _server(pod: Json) -> str:
    ports = [int(port["containerPort"]) for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
    address = str((pod.get("status") or {}).get("podIP", ""))
    if not ports or not address:
        raise RefusedError(422, "NoServer", "the replica has no address and port at which its server could be asked")
    return f"http://[{address}]:{ports[0]}" if ":" in address else f"http://{address}:{ports[0]}"
