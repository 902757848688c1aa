"""Make pods, bind them, take them away: writes that may be repeated, each with a precondition that fences it.

A pod is created without a node and then bound; node and GPUs are one write, as the annotations of a Binding become the
pod's. A share's device is held by a placeholder before it is bound. A gang is bound together. If the server refuses one
of its workers, all of them are taken away again; if it does not answer, what was done stays and the next try goes on
from there.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

from controlplane.cluster.kubernetes import names, pods, podstatus, serving
from controlplane.cluster.kubernetes.api import STRATEGIC, Api, Json, RefusedError, all_of
from controlplane.cluster.kubernetes.backends import choice
from controlplane.cluster.kubernetes.backends.parts import Parts, is_scheduled
from controlplane.cluster.kubernetes.placeholders import Placeholders
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.port import PodSpec

REMEMBERED = 50_000  # pods made by this process, which the informer may not show yet
IN_BACKGROUND = 8  # requests at once for what nothing waits for
AHEAD_AT_ONCE = 1000  # pods made ahead in one call, about; the next call goes on, and meanwhile others have their turn
TRIES = 2  # of a start whose prepared pod turns out to be gone
ROLL_BACK_SECONDS = 1.0  # grace of workers that were bound a moment ago

T = TypeVar("T")
_BUILT_OF = attrgetter(*(field.name for field in fields(PodSpec) if field.name not in ("node", "gpus")))

Find = Callable[[str], Worker | None]


class Binder:
    """`find` is the informer's; what was made here and is not in it yet is remembered."""

    def __init__(
        self,
        api: Api,
        find: Find,
        prefix: str,
        placeholders: Placeholders | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._api = api
        self._parts = Parts(api) if parts is None else parts
        self._placeholders = Placeholders(api, lambda node, gpu: None) if placeholders is None else placeholders
        self.guards = serving.Guards(api)
        self._found = find
        self._prefix = prefix
        self._made: OrderedDict[str, Worker] = OrderedDict()
        self._void: OrderedDict[str, None] = OrderedDict()  # uids that are gone, whatever the informer still says
        # What was built for a name, and its digest: to build it again for each bind would cost as much as the bind.
        self._built: OrderedDict[str, tuple[PodSpec, str]] = OrderedDict()

    def find(self, name: str) -> Worker | None:
        """The pod of this name as far as we know."""
        worker = self._found(name)
        return self._made.get(name) if worker is None or worker.uid in self._void else worker

    # --- start -------------------------------------------------------------------------------

    async def start(self, wanted: Sequence[PodSpec]) -> None:
        """Bind these pods together, creating what is missing. Raises RefusedError or ClusterUnreachable."""
        wanted = list({pod.name: pod for pod in wanted}.values())
        for number in range(TRIES):
            await self._exist(wanted)
            devices = await self._hold(wanted)
            results = await all_of(self._bind(pod, device) for pod, device in zip(wanted, devices, strict=True))
            refusals = [r for r in results if isinstance(r, RefusedError)]
            if not refusals:
                _raise(results)
                return
            if number + 1 == TRIES or not all(r.status == 404 for r in refusals):
                await self._roll_back(wanted)
                raise refusals[0]

    async def _exist(self, wanted: Sequence[PodSpec]) -> None:
        missing = [pod for pod in wanted if not await self._is_there(pod)]
        if not missing:
            return
        await serving.serve(self._api, missing[0], self._namespace(missing[0]))
        results = await all_of(self._create(pod) for pod in missing)
        if any(isinstance(r, RefusedError) for r in results):
            await self._roll_back(wanted)
        _raise(results)
        await self._own(missing)

    async def _hold(self, wanted: Sequence[PodSpec]) -> list[str]:
        """Have each share's device held before it is bound, and none of another's; what the runtime calls the device.

        Empty for pods without a share. A device that cannot be held takes the whole gang away again.
        """
        results = await all_of(self._device(pod) for pod in wanted)
        if any(isinstance(r, RefusedError) for r in results):
            await self._roll_back(wanted)
        _raise(results)
        return results

    async def _device(self, pod: PodSpec) -> str:
        worker = self.find(pod.name)
        if (worker is not None and worker.is_placed) or not pods.has_gpu(pod):
            return ""
        if not pods.has_share(pod):
            await self._placeholders.give_back(pod.node, pod.gpus)
            return ""
        if choice.of(pod).accounts:
            return ""
        claimant = f"{self._namespace(pod)}/{pod.name}"
        held = await all_of(self._placeholders.hold(pod.node, gpu, claimant) for gpu in _gpus(pod))
        _raise(held)
        return ",".join(held)

    async def _is_there(self, pod: PodSpec) -> bool:
        worker = self.find(pod.name)
        if worker is None:
            return False
        if worker.is_placed or worker.digest == self._digest(pod):
            return True
        await self.delete(worker, 0.0, is_unchanged=True)  # prepared from an older job file
        self._forget(worker)
        return False

    async def _create(self, pod: PodSpec) -> None:
        body = self._manifest(pod)
        body["metadata"]["annotations"][names.DIGEST] = self._digest(pod, body)
        try:
            made = await self._api.request("POST", self._path(pod.namespace), body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            made = await self._api.request("GET", f"{self._path(pod.namespace)}/{pod.name}")
        worker = podstatus.pod_of(made)
        if not isinstance(worker, Worker) or worker.name != pod.name:
            raise RefusedError(409, "Foreign", f"A pod named {pod.name} exists and is not ours.")
        self._remember(worker)

    def _digest(self, pod: PodSpec, body: Json | None = None) -> str:
        """Of this pod as it is built, wherever it goes."""
        built = self._built.get(pod.name)
        if built is None or not _is_built_alike(pod, built[0]):
            built = pod, digest(self._manifest(pod) if body is None else body)
            _keep(self._built, pod.name, built)
        return built[1]

    def _remember(self, worker: Worker) -> None:
        _keep(self._made, worker.name, worker)

    def _forget(self, worker: Worker) -> None:
        self._made.pop(worker.name, None)
        _keep(self._void, worker.uid, None)

    async def _bind(self, pod: PodSpec, device: str) -> None:
        worker = self.find(pod.name)
        if worker is None:
            raise RefusedError(404, "NotFound", f"{pod.name} is gone.")
        if is_scheduled(pod) and not worker.is_over:
            # Also of one that is placed: kube-scheduler may have been quick with a claim that was left over.
            await self._parts.claim(pod, self._namespace(pod), worker.uid)
            await self._parts.bound(pod, f"{self._path(pod.namespace)}/{pod.name}")
            return
        if not worker.is_placed:
            try:
                more = self._parts.annotations(pod) if pods.has_share(pod) else {}
                binding = _binding(pod, worker, device, more)
                await self._api.text("POST", f"{self._path(pod.namespace)}/{pod.name}/binding", binding)
                return
            except RefusedError as error:
                worker = await self._after_refusal(pod, worker, error)
        if (worker.seen.node, worker.seen.gpus) != (pod.node, pod.gpus) and not worker.is_over:
            raise RefusedError(409, "Elsewhere", f"{pod.name} is on {worker.seen.node} already, not on {pod.node}.")
        if worker.is_leaving and not worker.is_over:
            raise RefusedError(409, "Leaving", f"{pod.name} of before is still leaving.")

    async def _after_refusal(self, pod: PodSpec, worker: Worker, error: RefusedError) -> Worker:
        """Read back: a write whose answer was lost is refused when it is repeated, and was done all the same."""
        if error.status not in (404, 409):
            raise error
        found = await self._read(pod)
        if found is None or found.uid != worker.uid:
            self._forget(worker)
            if found is not None:
                self._remember(found)
        if found is None or (not found.is_placed and (found.is_leaving or found.uid != worker.uid)):
            raise RefusedError(404, "NotFound", f"{pod.name} is gone.") from error
        if not found.is_placed:
            raise error
        return found

    async def _read(self, pod: PodSpec) -> Worker | None:
        try:
            found = podstatus.pod_of(await self._api.request("GET", f"{self._path(pod.namespace)}/{pod.name}"))
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        return found if isinstance(found, Worker) else None

    async def _roll_back(self, wanted: Sequence[PodSpec]) -> None:
        """Take the whole gang away. What is not reached now is an orphan that the next full observation finds."""
        known = [(pod, self.find(pod.name)) for pod in wanted]
        await all_of(
            self.delete(worker, None if worker.is_placed else ROLL_BACK_SECONDS) for _, worker in known if worker
        )

    # --- before and after --------------------------------------------------------------------

    async def prepare(self, wanted: Sequence[PodSpec]) -> list[RefusedError]:
        """Create what is missing, or the first of it, without a node; return what was refused.

        Raises ClusterUnreachable.
        """
        gangs: dict[str, list[PodSpec]] = {}
        count = 0
        for pod in wanted:
            if self.find(pod.name) is None and (count < AHEAD_AT_ONCE or pod.workload in gangs):
                gangs.setdefault(pod.workload, []).append(pod)
                count += 1
        results = await all_of((self._prepare(gang) for gang in gangs.values()), IN_BACKGROUND)
        _raise([r for r in results if not isinstance(r, RefusedError)])
        return [r for r in results if isinstance(r, RefusedError)]

    async def _prepare(self, gang: Sequence[PodSpec]) -> None:
        await serving.serve(self._api, gang[0], self._namespace(gang[0]))
        _raise(await all_of(self._create(pod) for pod in gang))
        await self._own(gang)

    async def _own(self, made: Sequence[PodSpec]) -> None:
        workers = [(pod, worker) for pod in made if (worker := self.find(pod.name))]
        await serving.own(self._api, workers, self._namespace(made[0]))
        await self.guards.put(workers, self._namespace(made[0]))

    async def delete(self, worker: Worker, grace: float | None, *, is_unchanged: bool = False) -> None:
        """Delete this very pod (None: with the grace it was made with); one that is gone is done.

        With `is_unchanged` only if nothing was written to it since: a bind that comes first wins.
        """
        preconditions = {"uid": worker.uid} | ({"resourceVersion": str(worker.version)} if is_unchanged else {})
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        if grace is not None:
            body["gracePeriodSeconds"] = max(1, round(grace))  # 0 would not wait for the node to have stopped it
        self._made.pop(worker.name, None)
        path = f"/api/v1/namespaces/{worker.namespace}/pods/{worker.pod}"
        try:
            await self._api.request("DELETE", path, body)
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            if error.status == 409 and not is_unchanged and await self._is_still_there(path, worker):
                raise  # a conflict with another write, and not because this pod is gone

    async def _is_still_there(self, path: str, worker: Worker) -> bool:
        """Whether this very pod is there and has not been told to leave."""
        try:
            meta = (await self._api.request("GET", path))["metadata"]
        except RefusedError as error:
            if error.status != 404:
                raise
            return False
        return bool(meta["uid"] == worker.uid and meta.get("deletionTimestamp") is None)

    async def resize(self, worker: Worker, cpu_milli: int | None, memory: int) -> None:
        """Change CPU (None: not) and memory of the running container."""
        amounts = {"memory": f"{memory}Mi"} | ({} if cpu_milli is None else {"cpu": f"{cpu_milli}m"})
        container = {"name": names.CONTAINER, "resources": {"requests": amounts, "limits": amounts}}
        path = f"/api/v1/namespaces/{worker.namespace}/pods/{worker.pod}/resize"
        body = {"metadata": {"uid": worker.uid}, "spec": {"containers": [container]}}
        try:
            await self._api.request("PATCH", path, body, kind=STRATEGIC)
        except RefusedError as error:
            if error.status != 404:
                raise

    async def limit(self, worker: Worker, milli: int) -> None:
        """Say on this very pod what its share may use at most; what enforces it reads it there. A gone one is done."""
        await self._annotate_or_label(worker, {"annotations": {names.LIMIT: str(milli)}})

    async def rotate(self, worker: Worker, *, on: bool) -> None:
        """Have the Service send requests to this very pod, or not; one that is gone is done."""
        await self._annotate_or_label(worker, {"labels": {names.SERVING: "true" if on else "false"}})

    async def _annotate_or_label(self, worker: Worker, given: Json) -> None:
        path = f"/api/v1/namespaces/{worker.namespace}/pods/{worker.pod}"
        body = {"metadata": {"uid": worker.uid, **given}}
        try:
            await self._api.request("PATCH", path, body, kind=STRATEGIC)
        except RefusedError as error:
            if error.status not in (404, 409):
                raise

    def _manifest(self, pod: PodSpec) -> Json:
        try:
            return pods.build(pod, namespace=names.namespace(pod.namespace, self._prefix))
        except ValueError as error:  # a stored job file that no job file may be any more
            raise RefusedError(422, "Invalid", str(error)) from error

    def _namespace(self, pod: PodSpec) -> str:
        return names.namespace(pod.namespace, self._prefix)

    def _path(self, team: str) -> str:
        return f"/api/v1/namespaces/{names.namespace(team, self._prefix)}/pods"


def _keep(kept: OrderedDict[str, T], name: str, value: T) -> None:
    """Add the newest; let the oldest go."""
    kept.pop(name, None)
    kept[name] = value
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)


def _is_built_alike(one: PodSpec, other: PodSpec) -> bool:
    """Whether two pods of one name are built alike: all counts but where they go, unless the pod says it."""
    if is_scheduled(one) and (one.node, one.gpus) != (other.node, other.gpus):
        return False
    return _BUILT_OF(one) == _BUILT_OF(other)


def digest(manifest: Json) -> str:
    """Of a pod as it was built."""
    return hashlib.blake2b(json.dumps(manifest).encode(), digest_size=8).hexdigest()


def _gpus(pod: PodSpec) -> tuple[int, ...]:
    """The devices that it is bound to: on demand all that it may be moved to, its own first."""
    return (*pod.gpus, *(gpu for gpu in pod.reach if gpu not in pod.gpus))


def _binding(pod: PodSpec, worker: Worker, device: str, more: dict[str, str]) -> Json:
    given = {names.GPUS: names.gpus_text(_gpus(pod))} | ({names.DEVICE: device} if device else {}) | more
    meta = {"name": pod.name, "uid": worker.uid, "annotations": given}
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.node},
    }  # fmt: skip


def _raise(results: Sequence[object]) -> None:
    """Raise what went wrong: not reaching the server before a refusal, since it says nothing about the pod."""
    problems = [r for r in results if isinstance(r, BaseException)]
    for problem in sorted(problems, key=lambda p: isinstance(p, RefusedError)):
        raise problem
