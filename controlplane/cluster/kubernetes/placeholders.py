"""Devices with shares are held in Kubernetes' own accounting, each by one pod that asks for one GPU: a placeholder.

A share asks Kubernetes for no GPU, so without it a kubelet would give the share's device to a pod with whole GPUs too.
The placeholder comes before the first share is bound and goes after the last one is gone (KubeShare, HPDC'20). It names
what it was claimed for; a claim and a release both name the version that they saw, so of two at once one is refused.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from controlplane.cluster.kubernetes import names, podstatus
from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError
from controlplane.cluster.kubernetes.podstatus import Candidate, Placeholder, Worker
from controlplane.cluster.port import PodPhase

IMAGE = "busybox:1.36"
PATH = f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods"
WAIT_SECONDS = 8.0  # for a placeholder to run, or to be gone; a command that waits longer is refused and tried again
PAUSES = (0.05, 0.1, 0.2, 0.5)  # seconds between two looks
MANY_CLAIMANTS = 16  # then those that are gone are left out
GRACE_SECONDS = 1
NOBODY = 65534  # a user without rights
# The device plugin gives the first container its device and the second one the same (the kubelet reuses what a
# container of that kind had); its name gets into the pod's status, which needs neither rights nor a token.
SAYS_ITS_DEVICE = 'printf %s "${NVIDIA_VISIBLE_DEVICES:-}" > /dev/termination-log'
WAITS = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"

At = Callable[[str, int], Placeholder | None]


class Placeholders:
    """`at` is the informer's: what holds a device as far as it knows. patience: s that a command waits for one."""

    def __init__(self, api: Api, at: At, image: str = IMAGE, patience: float = WAIT_SECONDS) -> None:
        self._api = api
        self._at = at
        self._image = image
        self._patience = patience

    async def hold(self, node: str, gpu: int, claimant: str) -> str:
        """Have a device held for a share, "namespace/name"; what the runtime calls the device, else its number.

        Raises RefusedError or ClusterUnreachable.
        """
        holder = await self.claim(node, gpu, claimant)
        wait = _Wait(f"The placeholder of GPU {gpu} on {node} does not run", self._patience)
        while holder.phase is not PodPhase.RUNNING:
            if not holder.holds:
                raise RefusedError(409, "NotHeld", f"GPU {gpu} on {node} cannot be held for shares: {holder.reason}.")
            await wait.pause(holder.reason)
            found = await self._read(holder.name)
            if found is None or found.uid != holder.uid:
                raise RefusedError(409, "NotHeld", f"The placeholder of GPU {gpu} on {node} is gone.")
            holder = found
        return holder.device or str(gpu)

    async def claim(self, node: str, gpu: int, claimant: str) -> Placeholder:
        """Have a placeholder name this share as one that it was claimed for. Does not wait for it to run."""
        holder = self._at(node, gpu)
        wait = _Wait(f"The placeholder of before still holds GPU {gpu} on {node}", self._patience)
        while True:
            if holder is None:
                claimed = await self._create(node, gpu, claimant)
            elif holder.is_leaving or not holder.holds:
                claimed = None
                await self._delete(holder)
                await wait.pause(holder.reason)
            else:
                claimed = holder if claimant in holder.claimants else await self._add(holder, claimant)
            if claimed is not None:
                return claimed
            holder = await self._read(names.placeholder(node, gpu))

    async def give_back(self, node: str, gpus: tuple[int, ...]) -> None:
        """See that no placeholder that is left over holds these devices, which a pod is to have whole."""
        for gpu in gpus:
            holder = self._at(node, gpu)
            if holder is None:
                continue
            wait = _Wait(f"GPU {gpu} on {node} is still held for shares", self._patience)
            while (holder := await self._read(names.placeholder(node, gpu))) is not None:
                if not holder.is_leaving:
                    await self.release(holder)
                await wait.pause(", ".join(holder.claimants))

    async def release(self, holder: Placeholder) -> None:
        """Let a placeholder go if all that it was claimed for is gone, and nothing has claimed it since it was seen."""
        if not await self._present(holder):
            await self._delete(holder)

    async def _present(self, holder: Placeholder) -> tuple[str, ...]:
        """The claimants that are there and may be on the device, or come to be: the server is asked."""
        return tuple([one for one in holder.claimants if await self._may_use(one, holder)])

    async def _may_use(self, claimant: str, holder: Placeholder) -> bool:
        namespace, _, name = claimant.partition("/")
        try:
            found = podstatus.pod_of(await self._api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}"))
        except RefusedError as error:
            if error.status == 404:
                return False
            raise
        if isinstance(found, Candidate):
            return True  # it is bound next
        if not isinstance(found, Worker) or found.is_over:
            return False
        is_there = found.seen.node == holder.node and holder.gpu in found.devices
        return not found.is_placed or (is_there and (bool(found.reach) or len(found.devices) == 1))

    async def _create(self, node: str, gpu: int, claimant: str) -> Placeholder | None:
        try:
            body = manifest(node, gpu, self._image, claimant)
            return podstatus.placeholder_of(await self._api.request("POST", PATH, body))
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            return None

    async def _add(self, holder: Placeholder, claimant: str) -> Placeholder | None:
        """None: it has changed meanwhile."""
        known = holder.claimants if len(holder.claimants) < MANY_CLAIMANTS else await self._present(holder)
        meta = {
            "uid": holder.uid,
            "resourceVersion": str(holder.version),
            "annotations": {names.CLAIMANTS: ",".join((*known, claimant))},
        }
        try:
            answer = await self._api.request("PATCH", f"{PATH}/{holder.name}", {"metadata": meta}, kind=MERGE)
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            return None
        found = podstatus.placeholder_of(answer)
        return found if found is not None and not found.is_leaving else None

    async def _delete(self, holder: Placeholder) -> None:
        """Delete it as it was seen, unless it leaves already."""
        if holder.is_leaving:
            return
        preconditions = {"uid": holder.uid, "resourceVersion": str(holder.version)}
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        try:
            await self._api.request("DELETE", f"{PATH}/{holder.name}", body | {"gracePeriodSeconds": GRACE_SECONDS})
        except RefusedError as error:
            if error.status not in (404, 409):
                raise

    async def _read(self, name: str) -> Placeholder | None:
        try:
            return podstatus.placeholder_of(await self._api.request("GET", f"{PATH}/{name}"))
        except RefusedError as error:
            if error.status == 404:
                return None
            raise


class _Wait:
    """Pauses that grow, up to a deadline; then it is a refusal that says what was waited for."""

    def __init__(self, what: str, patience: float) -> None:
        self._what = what
        self._deadline = asyncio.get_running_loop().time() + patience
        self._looks = 0

    async def pause(self, why: str = "") -> None:
        """Let a little time pass. Raises RefusedError when it was too much."""
        if asyncio.get_running_loop().time() >= self._deadline:
            raise RefusedError(409, "NotHeld", f"{self._what}{f': {why}' if why else ''}.")
        await asyncio.sleep(PAUSES[min(self._looks, len(PAUSES) - 1)])
        self._looks += 1


def manifest(node: str, gpu: int, image: str, claimant: str) -> dict[str, Any]:
    """The placeholder of a device. It is made on its node in one write: what Kubernetes has to say is the kubelet's.

    It asks for no CPU and no memory, so that what a node offers to work does not depend on how many devices are shared.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.placeholder(node, gpu),
            "namespace": names.PLACEHOLDER_NAMESPACE,
            "labels": {names.PLACEHOLDER: "true"},
            "annotations": {names.GPUS: str(gpu), names.CLAIMANTS: claimant},
        },
        "spec": {
            "nodeName": node,
            "schedulerName": names.SCHEDULER_NAME,
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [_container("device", image, SAYS_ITS_DEVICE)],
            "containers": [_container("hold", image, WAITS)],
            "tolerations": [{"operator": "Exists"}],  # it holds what work is on, whatever the node's taints say by now
        },
    }


def _container(name: str, image: str, script: str) -> Json:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
        "resources": {"limits": {names.GPU_RESOURCE: "1"}, "requests": {names.GPU_RESOURCE: "1"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
