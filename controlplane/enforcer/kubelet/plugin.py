"""The node's device plugin for shares: the kubelet gives a slot to each container that asks for one, and mounts it.

A pod of level `restricted` may mount nothing of the node, and needs not: what a device plugin brings, the kubelet
mounts by itself. So a container gets three things with its slot: the folder with its socket and page, the library, and
the variables that have the loader preload it.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from controlplane.enforcer import inside
from controlplane.enforcer.build import LIBRARY
from controlplane.enforcer.kubelet import api, messages
from controlplane.enforcer.kubelet.slots import Slots

SOCKETS = {inside.RESOURCE: "weft-gpu-shares.sock", inside.ON_DEMAND: "weft-on-demand.sock"}
PATIENCE = 30  # s that `weft-gpu-run` waits for the share's folder to be served
LOOK = 1.0  # s between two looks whether the kubelet was started again

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """Where things are on the node. kubelet: its folder; library: the folder with what `build` made."""

    kubelet: Path
    library: Path

    def socket(self, resource: str = inside.RESOURCE) -> Path:
        """Ours, where the kubelet looks for it."""
        return self.kubelet / api.PLUGINS / SOCKETS[resource]


class Plugin:
    """Offers the slots. given: called after each slot that a container gets.

    inside.ON_DEMAND as the resource only says what the node can do: nothing asks for it, and nothing is given.
    """

    def __init__(
        self, node: Node, slots: Slots, given: Callable[[], None] = lambda: None, resource: str = inside.RESOURCE
    ) -> None:
        self._node, self._slots, self._given, self._resource = node, slots, given, resource
        self._socket = node.socket(resource)
        self._server: Any = None
        self._ended = threading.Event()

    def run(self) -> None:
        """Serve until `close`. A kubelet that starts again forgets its plugins and removes their sockets."""
        while not self._ended.is_set():
            if self._server is not None and self._socket.exists():
                self._ended.wait(LOOK)
                continue
            try:
                self._serve()
            except (grpc.RpcError, OSError, RuntimeError) as error:
                log.warning("not_registered", kubelet=str(self._node.kubelet), error=_said(error))
                self._stop()
                self._ended.wait(LOOK)
        self._stop()

    def close(self) -> None:
        """End it."""
        self._ended.set()

    def _serve(self) -> None:
        self._stop()
        self._socket.unlink(missing_ok=True)
        nothing = dict.fromkeys(
            ("GetDevicePluginOptions", "GetPreferredAllocation", "PreStartContainer"), lambda _, __: b""
        )
        methods = {**nothing, "Allocate": self._allocated}
        self._server = api.serve(self._socket, lambda: self._slots.names, methods)
        api.register(self._socket, self._resource)
        log.info("slots_offered", resource=self._resource, count=self._slots.count)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop(None)
            self._server = None

    def _allocated(self, asked: bytes, context: Any) -> bytes:
        if self._resource != inside.RESOURCE:
            why = f"{self._resource} is not given; {inside.RESOURCE} is"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
        answers: list[tuple[int, messages.Value]] = []
        for container in messages.fields(asked, 1):
            names = messages.texts(container, 1)
            try:
                (name,) = names
                folder = self._slots.mounted(name)
            except (OSError, ValueError) as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"a container has one slot; {names}: {error}")
            answers.append((1, self._given_with(folder)))
        self._given()
        return messages.encode(answers)

    def _given_with(self, folder: Path) -> api.Parts:
        variables = {
            "WEFT_GPU_ENFORCER": inside.FOLDER,
            "WEFT_GPU_ENFORCER_PATIENCE": str(PATIENCE),
            "LD_PRELOAD": f"{inside.PROGRAMS}/{LIBRARY}",
        }
        mounts = [(inside.FOLDER, folder, 0), (inside.PROGRAMS, self._node.library, 1)]
        given: list[tuple[int, messages.Value]] = [(1, [(1, name), (2, value)]) for name, value in variables.items()]
        given += [(2, [(1, there), (2, str(here)), (3, read_only)]) for there, here, read_only in mounts]
        return given


def holders(node: Node) -> dict[str, tuple[str, str]]:
    """The pod, as namespace and name, that has each slot now. Raises grpc.RpcError."""
    found = api.owners(api.list_pods(node.kubelet), inside.RESOURCE)
    return {slot: (namespace, pod) for slot, (namespace, pod, _) in found.items()}


def _said(error: Exception) -> str:
    details = getattr(error, "details", None)
    return str(details()) if callable(details) else str(error)
