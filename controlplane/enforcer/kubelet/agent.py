"""What brings shares into pods on a node: the kubelet says which pod has which slot, the API server what it may use."""

import threading
import time
from pathlib import Path

import grpc
import structlog

from controlplane.cluster.kubernetes.connection import Access, NoClusterError, find
from controlplane.enforcer import inside, residents
from controlplane.enforcer.cudacheckpoint import CudaCheckpoint
from controlplane.enforcer.kubelet import plugin
from controlplane.enforcer.kubelet.plugin import Node, Plugin
from controlplane.enforcer.kubelet.pods import Pods
from controlplane.enforcer.kubelet.slots import Slots
from controlplane.enforcer.suspender import NotDone

# s between two looks: while a slot's pod is not known, and else; one that is not ours never will be
SOON, RARELY, HOPE = 0.1, 2.0, 60.0
COUNT = 256  # slots of a node: more containers with shares than it has room for

__all__ = ["Agent", "NoClusterError", "of"]

log = structlog.get_logger(__name__)


class Agent:
    """One for a node. It works in threads of its own, beside the daemon that serves the folders."""

    def __init__(
        self, root: Path, node: Node, name: str, access: Access, *, can_move: bool, count: int = COUNT
    ) -> None:
        """can_move: the node has a tool that moves memory between GPUs; that is offered as a resource of its own."""
        self._node, self._slots = node, Slots(root, count)
        self._woken, self._ended = threading.Event(), threading.Event()
        self._plugins = [Plugin(node, self._slots, self._woken.set)]
        self._plugins += [Plugin(node, self._slots, resource=inside.ON_DEMAND)] if can_move else []
        self._pods = Pods(access, name, self._woken.set)
        runs = [*(one.run for one in self._plugins), self._run]
        self._threads = [threading.Thread(target=run, daemon=True) for run in runs]

    def start(self) -> None:
        """Begin."""
        self._slots.root.mkdir(parents=True, exist_ok=True)
        self._pods.start()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all of it. What containers have stays."""
        self._ended.set()
        self._woken.set()
        for one in self._plugins:
            one.close()
        self._pods.close()
        for thread in self._threads:
            thread.join()

    def look(self) -> bool:
        """Have the folders follow; whether all that the kubelet gave is known. Raises grpc.RpcError, OSError."""
        held = plugin.holders(self._node)
        if (machine := self._pods.machine()) is not None:
            residents.write(self._slots.root, machine)
        return self._slots.follow({slot: self._pods.share(pod) for slot, pod in held.items()})

    def _run(self) -> None:
        said, is_whole, woken_at = "", False, time.monotonic()
        while not self._ended.is_set():
            try:
                is_whole, told = self.look(), ""
            except (grpc.RpcError, OSError, ValueError) as error:
                is_whole, told = False, str(error)
            if told and told != said:
                log.warning("shares_not_followed", error=told)
            said = told
            has_hope = time.monotonic() - woken_at < HOPE
            if self._woken.wait(SOON if has_hope and not is_whole else RARELY):
                woken_at = time.monotonic()
            self._woken.clear()


def of(root: Path, kubelet: Path, programs: Path, name: str, tool: str) -> Agent:
    """The agent of the node of this name, in the cluster that its pod's account or KUBECONFIG names.

    tool: cuda-checkpoint, as it is called there. Raises NoClusterError.
    """
    return Agent(root, Node(kubelet, programs), name, find(), can_move=_can_move(tool))


def _can_move(tool: str) -> bool:
    try:
        return CudaCheckpoint(tool).can_move
    except NotDone as error:
        log.info("nothing_on_demand", why=str(error))
        return False
