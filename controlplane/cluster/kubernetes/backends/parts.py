"""Shares that Kubernetes accounts itself: their claims, what their Bindings say, those that kube-scheduler binds."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.cluster.kubernetes.api import Api, Json, RefusedError
from controlplane.cluster.kubernetes.backends import choice, dra
from controlplane.cluster.port import PodSpec

WAIT_SECONDS = 8.0  # for kube-scheduler to bind a pod; one that waits longer is refused and tried again
PAUSES = (0.05, 0.1, 0.2, 0.5)  # seconds between two looks

DeviceOf = Callable[[str, int], str]


class Parts:
    """`device` is the informer's: what the software of a node calls one of its GPUs."""

    def __init__(
        self, api: Api, device: DeviceOf = lambda node, gpu: "", clock: Callable[[], float] = time.time
    ) -> None:
        self._api = api
        self._device = device
        self._clock = clock

    def annotations(self, pod: PodSpec) -> dict[str, str]:
        """What the Binding of a share adds. Raises RefusedError where its device is not known."""
        backend = choice.of(pod)
        device = self._device(pod.node, pod.gpus[0]) if pod.gpus else ""
        given = backend.annotations(pod, device, self._clock())
        if given and not device:
            message = (
                f"{pod.node} has not registered GPU {pod.gpus[0]} with {pod.enforcer}, which is to hold the share."
            )
            raise RefusedError(409, "NotGiven", message)
        return given

    async def claim(self, pod: PodSpec, namespace: str, uid: str) -> None:
        """Make what has to be there beside the pod with this uid; one that is there already is its own or refused."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid}
        wanted = choice.of(pod).claim(pod, owner)
        if wanted is None:
            return
        try:
            await self._api.request("POST", dra.path(namespace), wanted)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            found = await self._api.request("GET", f"{dra.path(namespace)}/{pod.name}")
            if not any(one.get("uid") == uid for one in found["metadata"].get("ownerReferences") or ()):
                message = f"The claim of {pod.name} of before is still leaving."
                raise RefusedError(409, "Leaving", message) from error

    async def bound(self, pod: PodSpec, path: str) -> None:
        """Wait until kube-scheduler has bound a pod. Raises RefusedError with what it says where it does not."""
        until, looks = asyncio.get_running_loop().time() + WAIT_SECONDS, 0
        while True:
            found = await self._api.request("GET", path)
            node = found["spec"].get("nodeName", "")
            if node:
                if node != pod.node:
                    raise RefusedError(409, "Elsewhere", f"{pod.name} is on {node} already, not on {pod.node}.")
                return
            if asyncio.get_running_loop().time() >= until:
                raise RefusedError(409, "NotGiven", f"kube-scheduler gives {pod.name} no device: {_why(found)}")
            await asyncio.sleep(PAUSES[min(looks, len(PAUSES) - 1)])
            looks += 1


def _why(found: Json) -> str:
    """What kube-scheduler says of a pod that it has not bound."""
    conditions: list[Mapping[str, Any]] = (found.get("status") or {}).get("conditions") or []
    told = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
    return str(told.get("message") or "it has not looked at it. Does it run, and is DRA switched on?")[:500]


def is_scheduled(pod: PodSpec) -> bool:
    """Whether kube-scheduler binds the pod: it finds the device of a share."""
    return choice.of(pod).is_scheduled
