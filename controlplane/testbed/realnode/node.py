"""A real node of a test cluster: containerd and the kubelet, whose pods are processes of this machine.

    with real_node(cluster, folder, gpus=2) as node:
        ...

It needs root. Its images are `pause`, `shell` and `python` (images.py), of any registry's name, with tag 1.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.testbed import processes
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode import devices, dns, images, keeper, programs, settings
from controlplane.testbed.realnode.settings import LOG, NAME, Place

MOST_NODES = 250  # on one machine
READY_SECONDS = 60.0  # 2 to 3 s when the machine is idle
GPU = devices.RESOURCE
PATH = f"/api/v1/nodes/{NAME}"
MIB = 2**20
POOL, MODEL, GPU_MEMORY = "real", "T4", 16 * 1024  # MiB


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node that runs."""

    place: Place
    process: "subprocess.Popen[bytes]"

    @property
    def log(self) -> Path:
        """What the kubelet has printed."""
        return self.place.folder / LOG

    def storage(self, name: str) -> tuple[Path, Path]:
        """A folder that lasts as long as the node: its path there, for a local volume, and on this machine."""
        folder = self.place.folder / "lib" / "claims" / name
        folder.mkdir(parents=True)
        return Path("/var/lib/claims", name), folder

    def use(self, device: int, percent: int, used: int) -> None:
        """Have a device do so much, as the programs on it would: those of a share are given no folder of it. In MiB."""
        (self.place.folder / "lib" / "gpus" / str(device) / "use").write_text(f"{percent} {used}")

    @property
    def exporter(self) -> str:
        """Where its GPUs are measured, as HOST:PORT, at /metrics."""
        return f"{self.place.address}:{devices.PORT}"

    @property
    def commands(self) -> Mapping[int, str]:
        """The processes in its pods: their command lines by process id."""
        found = {}
        for top in keeper.CGROUPS.glob(f"*/{self.place.cgroup}"):
            for folder, _, _ in os.walk(top):  # unlike glob, it passes over a cgroup that ends meanwhile
                with contextlib.suppress(OSError):  # the cgroup, or one of its processes, has just ended
                    for pid in map(int, Path(folder, "cgroup.procs").read_text().split()):
                        found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        return found

    def size(self, pid: int) -> tuple[int, int] | None:
        """The CPU (milli) and memory (MiB) that the kernel lets a process have; None once it has ended.

        By cgroups of version 1.
        """
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
            paths = {
                name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")
            }
            cpu, memory = (keeper.CGROUPS / name / paths[name].lstrip("/") for name in ("cpu", "memory"))
            quota, period = (int((cpu / f"cpu.cfs_{part}_us").read_text()) for part in ("quota", "period"))
            return quota * 1000 // period, int((memory / "memory.limit_in_bytes").read_text()) // MIB
        except OSError:
            return None

    @property
    def enforcer_library(self) -> Path:
        """The folder of what is brought into containers with shares; build it there before `enforces`."""
        return self.place.folder / settings.ENFORCER_LIBRARY

    @property
    def enforcer_tools(self) -> Path:
        """The folder of the driver's tool; it looks there when it begins."""
        return self.place.folder / settings.ENFORCER_TOOLS

    @property
    def counters(self) -> str:
        """Where it tells what shares have had, once it runs."""
        return f"http://{self.place.address}:9465/metrics"

    @property
    def shares(self) -> Path:
        """The folder of what it serves."""
        return self.place.folder / settings.ENFORCER_SHARES

    def enforces(self, kubeconfig: Path) -> None:
        """From now on our own back-end holds shares to their parts here, by that account."""
        draft = self.place.folder / "draft.kubeconfig"
        draft.write_bytes(kubeconfig.read_bytes())
        draft.replace(self.place.folder / settings.ENFORCER)

    def check(self) -> None:
        """Raise RuntimeError with its log if it has ended by itself."""
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(f"the node ended with {code}:\n{self.log.read_text(errors='replace')[-5000:]}")


@contextlib.contextmanager
def real_node(cluster: TestCluster, folder: Path, *, gpus: int = 2) -> Iterator[RealNode]:
    """Join a node with pretended GPUs to the cluster, with its files in `folder`. Raises MissingError.

    Yields when it is ready; nothing of it is left afterwards.
    """
    programs.find_all()
    busybox, python, cni = programs.find("busybox"), programs.find_python(), programs.find_cni()
    images.write(folder / "registry", busybox, python)
    registry = images.serve(folder / "registry")
    try:
        place = _claimed(folder)
        settings.write(place, cluster.layout, f"http://127.0.0.1:{registry.server_port}", cni)
        command = [sys.executable, "-m", keeper.__name__, str(folder), str(place.number), _labels(gpus)]
        command.append(f"{gpus} {GPU_MEMORY} {MODEL}")
        with processes.running(command, log=folder / LOG) as process:
            node = RealNode(place, process)
            _wait_until_ready(cluster, node, gpus)
            with dns.serving(place.address, cluster):
                yield node
        cluster.delete(PATH)
    finally:
        registry.shutdown()
        registry.server_close()


def _claimed(folder: Path) -> Place:
    """A bridge that none had, by which no two nodes have one network."""
    ip = programs.find("iproute2")
    said = ""
    for number in range(MOST_NODES):
        place = Place(folder, number)
        command = [str(ip), "link", "add", place.bridge, "type", "bridge"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return place
        said = done.stderr
    raise RuntimeError(f"no bridge can be made: {said}")


def _labels(gpus: int) -> str:
    """As GPU feature discovery would set them."""
    labels = {
        "nvidia.com/gpu.product": MODEL,
        "nvidia.com/gpu.memory": GPU_MEMORY,
        "nvidia.com/gpu.count": gpus,
        "weft.dev/pool": POOL,
        "weft.dev/shares": "true",
    }
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _wait_until_ready(cluster: TestCluster, node: RealNode, gpus: int) -> None:
    def is_ready() -> bool:
        node.check()
        if not cluster.exists(PATH):
            return False
        found = cluster.request("GET", PATH)
        conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", ())}
        has_gpus = found["status"].get("allocatable", {}).get(GPU) == str(gpus)
        return conditions.get("Ready") == "True" and has_gpus and not found["spec"].get("taints")

    cluster.wait_for(is_ready, "the real node", READY_SECONDS)
