"""The GPUs that a real node pretends to have: a device plugin, and an exporter in the DCGM exporter's format.

`python -m controlplane.testbed.realnode.devices COUNT MEMORY MODEL NODE ADDRESS`, within the node's namespaces.

The kubelet gives devices to containers, as it does with NVIDIA's plugin: by what it says, the exporter names the pod of
each. The last devices are given first, so that their numbers are never by chance those that Weft has in its books. A
device does what the program that has it writes to /run/gpus/NUMBER/use: how busy it is in per cent, and MiB.
"""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from controlplane.enforcer.kubelet import api, messages
from controlplane.enforcer.kubelet.api import Owner

RESOURCE = "nvidia.com/gpu"
KUBELET = Path("/var/lib/kubelet")
SOCKET = KUBELET / api.PLUGINS / "weft-gpus.sock"
FOLDER = Path("/var/lib/gpus")
PORT = 9400  # the DCGM exporter's
OPTIONS: api.Parts = [(2, 1)]  # it says which devices it would give
MODES = 0o777  # programs in containers are some user or other
METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
}

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
    methods: dict[str, api.Unary] = {
        "GetDevicePluginOptions": lambda _, __: messages.encode(OPTIONS),
        "GetPreferredAllocation": lambda asked, _: _preferred(asked),
        "Allocate": lambda asked, _: _allocated(gpus, asked),
    }
    server = api.serve(SOCKET, lambda: gpus.ids, methods)
    api.register(SOCKET, RESOURCE, OPTIONS)
    server.wait_for_termination()


# --- device plugin ----------------------------------------------------------------------------


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


def _exporter(gpus: Gpus, address: str) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(gpus, api.owners(api.list_pods(KUBELET), RESOURCE)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer((address, PORT), Handler)


def _read(arguments: Sequence[str]) -> tuple[Gpus, str]:
    count, memory, model, node, address = arguments
    return Gpus(int(count), int(memory), model, node), address


if __name__ == "__main__":
    main(*_read(sys.argv[1:]))
