"""The GPUs that a real node pretends to have: a device plugin, and an exporter in the DCGM exporter's format.

`python -m controlplane.testbed.realnode.devices COUNT MEMORY MODEL NODE ADDRESS`, within the node's namespaces.

The kubelet gives devices to containers, as it does with NVIDIA's plugin: by what it says, the exporter names the pod of
each. The last devices are given first, so that their numbers are never by chance those that Weft has in its books. A
device does what the program that has it writes to /run/gpus/NUMBER/use: how busy it is in per cent, and MiB.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc

from controlplane.testbed.realnode import messages

RESOURCE, VERSION = "nvidia.com/gpu", "v1beta1"
KUBELET = Path("/var/lib/kubelet")
PLUGINS, POD_RESOURCES = KUBELET / "device-plugins", KUBELET / "pod-resources" / "kubelet.sock"
SOCKET = "weft-gpus.sock"
FOLDER = Path("/var/lib/gpus")
PORT = 9400  # the DCGM exporter's
OPTIONS: Sequence[tuple[int, messages.Value]] = [(2, 1)]  # it says which devices it would give
SECONDS = 10.0  # for a call
MODES = 0o777  # programs in containers are some user or other
METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
}

Owner = tuple[str, str, str]  # namespace, pod, container
FREE: Owner = ("", "", "")


@dataclass(frozen=True, slots=True)
class Gpus:
    """What the node pretends to have."""

    count: int
    memory: int  # MiB
    model: str
    node: str

    @property
    def ids(self) -> list[str]:
        """Their UUIDs, by number."""
        return [f"GPU-{self.node}-{number}" for number in range(self.count)]

    def use(self, number: int) -> tuple[float, float]:
        """Per cent and MiB, as the program that has it says; nothing before it says anything."""
        file = FOLDER / str(number) / "use"
        said = file.read_text().split() if file.exists() else []
        return (float(said[0]), float(said[1])) if len(said) == 2 else (0.0, 0.0)


def main(gpus: Gpus, address: str) -> None:
    """Serve both until the node ends."""
    FOLDER.mkdir()
    for number in range(gpus.count):
        (FOLDER / str(number)).mkdir()
        (FOLDER / str(number)).chmod(MODES)
    threading.Thread(target=_exporter(gpus, address).serve_forever, name="exporter", daemon=True).start()
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((_handlers(gpus),))
    server.add_insecure_port(f"unix://{PLUGINS / SOCKET}")
    server.start()
    asked = messages.encode([(1, VERSION), (2, SOCKET), (3, RESOURCE), (4, OPTIONS)])
    _call(PLUGINS / "kubelet.sock", f"/{VERSION}.Registration/Register", asked)
    server.wait_for_termination()


# --- device plugin ----------------------------------------------------------------------------


def _handlers(gpus: Gpus) -> Any:
    def unary(answer: Callable[[bytes], bytes]) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda asked, _: answer(asked))

    methods = {
        "GetDevicePluginOptions": unary(lambda _: messages.encode(OPTIONS)),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(lambda _, context: _listed(gpus, context)),
        "GetPreferredAllocation": unary(_preferred),
        "Allocate": unary(lambda asked: _allocated(gpus, asked)),
    }
    return grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", methods)


def _listed(gpus: Gpus, context: Any) -> Iterator[bytes]:
    """All of them, well; and never anything else."""
    yield messages.encode([(1, [(1, uuid), (2, "Healthy")]) for uuid in gpus.ids])
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait()


def _preferred(asked: bytes) -> bytes:
    """The last ones of those that it may give."""
    answers: list[tuple[int, messages.Value]] = []
    for container in messages.fields(asked, 1):
        available, size = messages.texts(container, 1), messages.number(container, 3)
        answers.append((1, [(1, uuid) for uuid in sorted(available)[-size:]]))
    return messages.encode(answers)


def _allocated(gpus: Gpus, asked: bytes) -> bytes:
    """What a container gets with its devices: their names, and a folder of each."""
    answers: list[tuple[int, messages.Value]] = []
    for container in messages.fields(asked, 1):
        given = messages.texts(container, 1)
        numbers = [gpus.ids.index(uuid) for uuid in given]
        for number in numbers:
            (FOLDER / str(number) / "use").unlink(missing_ok=True)
        visible = [(1, "NVIDIA_VISIBLE_DEVICES"), (2, ",".join(given))]
        mounts = [(2, [(1, f"/run/gpus/{number}"), (2, str(FOLDER / str(number)))]) for number in numbers]
        answers.append((1, [(1, visible), *mounts]))
    return messages.encode(answers)


# --- exporter ---------------------------------------------------------------------------------


def page(gpus: Gpus, owners: Mapping[str, Owner]) -> str:
    """What the DCGM exporter would say, with the container that has each device."""
    lines = []
    for name, help_text in METRICS.items():
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
        for number, uuid in enumerate(gpus.ids):
            namespace, pod, container = owners.get(uuid, FREE)
            busy, used = gpus.use(number) if pod else (0.0, 0.0)
            values = {"UTIL": busy, "FREE": gpus.memory - used, "USED": used, "ERRORS": 0.0}
            labels = {
                "gpu": number, "UUID": uuid, "pci_bus_id": f"00000000:00:{number + 4:02X}.0",
                "device": f"nvidia{number}", "modelName": gpus.model, "Hostname": gpus.node,
                "container": container, "namespace": namespace, "pod": pod,
            }  # fmt: skip
            told = ",".join(f'{label}="{value}"' for label, value in labels.items())
            lines.append(f"{name}{{{told}}} {values[name.rpartition('_')[2]]:g}")
    return "\n".join(lines) + "\n"


def owners(answer: bytes) -> dict[str, Owner]:
    """The container that has each of our devices, by the kubelet's list."""
    found = {}
    for pod in messages.fields(answer, 1):
        (name,), (namespace,) = messages.texts(pod, 1), messages.texts(pod, 2)
        for container in messages.fields(pod, 3):
            for given in messages.fields(container, 2):
                if messages.texts(given, 1) == [RESOURCE]:
                    (of,) = messages.texts(container, 1)
                    found.update(dict.fromkeys(messages.texts(given, 2), (namespace, name, of)))
    return found


def _exporter(gpus: Gpus, address: str) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listed = _call(POD_RESOURCES, "/v1.PodResourcesLister/List", b"")
            body = page(gpus, owners(listed)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer((address, PORT), Handler)


def _call(socket: Path, method: str, message: bytes) -> bytes:
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        answer: bytes = channel.unary_unary(method)(message, timeout=SECONDS, wait_for_ready=True)
        return answer


def _read(arguments: Sequence[str]) -> tuple[Gpus, str]:
    count, memory, model, node, address = arguments
    return Gpus(int(count), int(memory), model, node), address


if __name__ == "__main__":
    main(*_read(sys.argv[1:]))
