"""Pods of queued objects: their controllers make them, gated; Weft lets them go to their places, and has them end.

An object with a field for that is suspended until its workload has places, and again when it has to leave. Weft changes
nothing else of it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.adopted import kinds, status
from controlplane.adopted.kinds import OwnerKind
from controlplane.cluster.kubernetes import names, podstatus, serving
from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError, all_of
from controlplane.cluster.kubernetes.backends import choice
from controlplane.cluster.kubernetes.placeholders import Placeholders
from controlplane.cluster.kubernetes.pods import has_share, whole_gpus
from controlplane.cluster.kubernetes.podstatus import Candidate, Worker
from controlplane.cluster.port import PodPhase, PodSeen, PodSpec
from controlplane.jobspec import members
from controlplane.jobspec.scaling import is_native
from scheduler.model.workload import MAIN_ROLE

PODS_SECONDS = 4.0  # for a controller to make the pods of an object that is let go
LOOK_SECONDS = 0.02
LEFT_ALONE = "NotYet"

Delete = Callable[[Worker, float | None], Any]
Pair = tuple[PodSpec, Candidate]


def is_queued(pod: PodSpec) -> bool:
    """Whether a worker is a pod that the controller of a queued object makes."""
    return "kubernetes" in pod.spec or is_native(pod.spec)


def _object_of(pod: PodSpec) -> tuple[OwnerKind, str]:
    """Kind and name of the object that a worker is of."""
    if is_native(pod.spec):
        return kinds.DEPLOYMENT, names.address_service(pod.workload, str(pod.spec["name"]))
    told: Any = pod.spec["kubernetes"]
    return next(one for one in kinds.KINDS if one.kind == told["kind"]), str(told["name"])


class Queued:
    """Start and stop the pods of queued objects. `find` and `candidates` are the informer's."""

    def __init__(
        self,
        api: Api,
        find: Callable[[str], Worker | None],
        candidates: Callable[[str], tuple[Candidate, ...]],
        prefix: str,
        placeholders: Placeholders,
        guards: serving.Guards,
    ) -> None:
        self._api = api
        self._placeholders = placeholders
        self._guards = guards
        self._find = find
        self._candidates = candidates
        self._prefix = prefix

    async def start(self, wanted: Sequence[PodSpec]) -> None:
        """Let these go to their places together. Raises RefusedError or ClusterUnreachable."""
        first = wanted[0]
        kind, name = _object_of(first)
        namespace = names.namespace(first.namespace, self._prefix)
        path = kind.path(namespace, name)
        missing = [pod for pod in wanted if not self._is_there(pod)]
        if not missing:
            return
        await self._suspend(kind, path, first.workload, False)
        if is_native(first.spec):
            await serving.serve(self._api, first, namespace)
        pairs = await self._pods(missing)
        results = await all_of(self._device(pod, candidate) for pod, candidate in pairs)
        if not any(isinstance(r, BaseException) for r in results):
            held = zip(pairs, results, strict=True)
            results = await all_of(self._bind(pod, candidate, device) for (pod, candidate), device in held)
        problems = [r for r in results if isinstance(r, BaseException)]
        for problem in sorted(problems, key=lambda p: isinstance(p, RefusedError)):
            if isinstance(problem, RefusedError) and kind.suspend:
                await self._suspend(kind, path, first.workload, True)  # all or none
            raise problem
        if is_native(first.spec):
            await self._own(pairs, namespace)

    async def _own(self, pairs: Sequence[Pair], namespace: str) -> None:
        """Tie what stands around the replicas of a service of ours to these pods."""
        workers = [(pod, _as_worker(pod, candidate)) for pod, candidate in pairs]
        await serving.own(self._api, workers, namespace)
        await self._guards.put(workers, namespace)

    def _is_there(self, pod: PodSpec) -> bool:
        worker = self._find(pod.name)
        if worker is None:
            return False
        if (worker.seen.node, worker.seen.gpus) != (pod.node, pod.gpus) and not worker.is_over:
            raise RefusedError(409, "Elsewhere", f"{worker.pod} is on {worker.seen.node} already, not on {pod.node}.")
        return True

    async def _pods(self, wanted: Sequence[PodSpec]) -> list[Pair]:
        """A pod for each of these, once the controller has made them."""
        namespace = names.namespace(wanted[0].namespace, self._prefix)
        until = time.monotonic() + PODS_SECONDS
        while True:
            found = [one for one in self._candidates(wanted[0].workload) if one.namespace == namespace]
            pairs = matched(wanted, found)
            if len(pairs) == len(wanted):
                return pairs
            if time.monotonic() >= until:
                fit = f", of {len(found)} that wait" if found else ""
                message = (
                    f"Of {len(wanted)} pods that are to start, its controller has made {len(pairs)} that fit{fit}."
                )
                raise RefusedError(404, LEFT_ALONE, message)
            await asyncio.sleep(LOOK_SECONDS)

    async def _device(self, pod: PodSpec, candidate: Candidate) -> str:
        """Have a share's device held; what the runtime calls it. Of whole GPUs that none is held for shares."""
        if not has_share(pod):
            await self._placeholders.give_back(pod.node, pod.gpus)
            return ""
        if choice.of(pod).is_asked_for:
            message = (
                f"{pod.node} enforces shares by {pod.enforcer}, which a pod has to ask for when it is made, and this "
                "one was made by its controller. Let the team demand another back-end, or submit a job file."
            )
            raise RefusedError(409, "NotGiven", message)
        return await self._placeholders.hold(pod.node, pod.gpus[0], f"{candidate.namespace}/{candidate.called}")

    async def _bind(self, pod: PodSpec, candidate: Candidate, device: str) -> None:
        path = f"/api/v1/namespaces/{candidate.namespace}/pods/{candidate.called}"
        try:
            gates: Json = {"metadata": {"uid": candidate.uid}, "spec": {"schedulingGates": None}}
            await self._api.text("PATCH", path, gates, kind=MERGE)
            await self._api.text("POST", f"{path}/binding", _binding(pod, candidate, device))
        except RefusedError as error:
            if error.status not in (404, 409) or not await self._is_bound(pod, path):
                raise

    async def _is_bound(self, pod: PodSpec, path: str) -> bool:
        """Read back: a write whose answer was lost is refused when it is repeated, and was done all the same."""
        try:
            found = podstatus.pod_of(await self._api.request("GET", path))
        except RefusedError as error:
            if error.status == 404:
                return False
            raise
        return isinstance(found, Worker) and found.name == pod.name and found.seen.node == pod.node

    async def stop(self, workers: Sequence[Worker], delete: Delete, grace: float) -> None:
        """Have these end: by their object where it can be suspended, else each by itself, and a new one is made."""
        kind = _kind(workers[0].owner.partition("/")[0])
        path = kind.path(workers[0].namespace, workers[0].owner.partition("/")[2])
        if kind.suspend and await self._leaves(kind, path, workers[0].seen.workload):
            return
        for worker in workers:
            if not worker.is_over:
                await delete(worker, grace)

    async def _leaves(self, kind: OwnerKind, path: str, uid: str) -> bool:
        """Suspend an object; tell whether its controller takes its pods away: not where it is gone, or has ended."""
        try:
            return status.end_in(kind, await self._suspend(kind, path, uid, True)) is None
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            return False

    async def _suspend(self, kind: OwnerKind, path: str, uid: str, on: bool) -> Json:
        if not kind.suspend:
            return {}
        return await self._api.request("PATCH", path, suspension(kind, on, {"uid": uid}), kind=MERGE)


def _as_worker(pod: PodSpec, candidate: Candidate) -> Worker:
    """A candidate once it is bound as this worker, for what only needs its name and uid."""
    seen = PodSeen(pod.workload, pod.attempt, pod.rank, pod.node, pod.gpus, PodPhase.PENDING)
    place = candidate.namespace, candidate.uid, candidate.version
    return Worker(*place, seen, None, "", 0.0, called=candidate.called, owner=candidate.owner)


def suspension(kind: OwnerKind, on: bool, metadata: Json) -> Json:
    """The change that suspends an object or lets it go, if its metadata is as given."""
    change: Any = on
    for part in reversed(kind.suspend):
        change = {part: change}
    return {"metadata": metadata, **change}


def matched(wanted: Sequence[PodSpec], found: Sequence[Candidate]) -> list[Pair]:
    """A pod for each rank that has one: of its pod set and of its size, in the order of their numbers."""
    left = list(found)
    pairs = []
    for pod in sorted(wanted, key=lambda pod: pod.rank):
        pod_set, ask = _set_of(pod), (whole_gpus(pod), pod.cpu_milli, pod.memory)
        fit = next((one for one in left if (one.pod_set, one.ask) == (pod_set, ask)), None)
        if fit is not None:
            left.remove(fit)
            pairs.append((pod, fit))
    return pairs


def _set_of(pod: PodSpec) -> str:
    role, _ = members.role_of(pod.spec, pod.rank)
    if is_native(pod.spec):
        return MAIN_ROLE
    return str(pod.spec["kubernetes"]["main"]) if role == MAIN_ROLE else role  # type: ignore[index]


def _kind(name: str) -> OwnerKind:
    return next(one for one in kinds.KINDS if one.kind == name)


def _binding(pod: PodSpec, candidate: Candidate, device: str) -> Json:
    """Node, GPUs, attempt and rank are one write: the labels and annotations of a Binding become the pod's."""
    meta = {
        "name": candidate.called,
        "uid": candidate.uid,
        "labels": {names.ATTEMPT: str(pod.attempt), names.RANK: str(pod.rank)},
        "annotations": {names.GPUS: names.gpus_text(pod.gpus)} | ({names.DEVICE: device} if device else {}),
    }
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.node},
    }  # fmt: skip
