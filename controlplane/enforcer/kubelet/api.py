"""The kubelet's two small APIs: device plugins (v1beta1), and which pod has which device (`podresources/v1`).

Source: Kubernetes' `pluginapi.proto` and `podresources`, whose fields are named by their numbers here.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from controlplane.enforcer.kubelet import messages

VERSION = "v1beta1"
PLUGINS, POD_RESOURCES = "device-plugins", "pod-resources/kubelet.sock"  # in the kubelet's folder
KUBELET = "kubelet.sock"  # its own, among the plugins'
SECONDS = 10.0  # for a call

Parts = Sequence[tuple[int, messages.Value]]
Unary = Callable[[bytes, Any], bytes]
Owner = tuple[str, str, str]  # namespace, pod, container


def serve(socket: Path, devices: Callable[[], Sequence[str]], methods: Mapping[str, Unary]) -> Any:
    """Begin to offer these devices, all of them well, at a socket. methods: what else the kubelet may call, by name.

    Returns the server. Raises OSError or RuntimeError.
    """

    def listed(_: bytes, context: Any) -> Iterator[bytes]:
        """All of them, for as long as the kubelet listens."""
        yield messages.encode([(1, [(1, name), (2, "Healthy")]) for name in devices()])
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait()

    handlers = {name: grpc.unary_unary_rpc_method_handler(answer) for name, answer in methods.items()}
    handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(listed)
    server = grpc.server(ThreadPoolExecutor(8, thread_name_prefix="kubelet"))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", handlers),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    return server


def register(socket: Path, resource: str, options: Parts = ()) -> None:
    """Have the kubelet know what is offered at a socket beside its own. Raises grpc.RpcError."""
    asked: list[tuple[int, messages.Value]] = [(1, VERSION), (2, socket.name), (3, resource)]
    asked += [(4, options)] if options else []
    call(socket.with_name(KUBELET), f"/{VERSION}.Registration/Register", messages.encode(asked))


def owners(answer: bytes, resource: str) -> dict[str, Owner]:
    """The container that has each device of a resource, by the kubelet's list."""
    found = {}
    for pod in messages.fields(answer, 1):
        (name,), (namespace,) = messages.texts(pod, 1), messages.texts(pod, 2)
        for container in messages.fields(pod, 3):
            for given in messages.fields(container, 2):
                if messages.texts(given, 1) == [resource]:
                    (of,) = messages.texts(container, 1)
                    found.update(dict.fromkeys(messages.texts(given, 2), (namespace, name, of)))
    return found


def list_pods(kubelet: Path) -> bytes:
    """That list, as it is now. Raises grpc.RpcError."""
    return call(kubelet / POD_RESOURCES, "/v1.PodResourcesLister/List", b"")


def call(socket: Path, method: str, message: bytes) -> bytes:
    """The answer to one call of a server at a socket. Raises grpc.RpcError."""
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        answer: bytes = channel.unary_unary(method)(message, timeout=SECONDS, wait_for_ready=True)
        return answer
