"""A worker that gets another size while it runs: the kernel holds it to that, and it is not started again."""

from pathlib import Path

from controlplane.cluster.port import PodPhase
from controlplane.testbed.realnode.keeper import CGROUPS
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import Product

MIB = 2**20


def test_another_size_is_in_the_cgroup_of_the_same_process(product: Product, node: RealNode) -> None:
    train = product.submit("train", "exec sleep 600", memory="64Mi")
    product.until_phase(train, "Running")
    (process,) = processes(node)
    assert size(process) == (100, 64 * MIB)

    product.cluster.resize(str(train.pk), 1, 0, cpu_milli=200, memory=96)

    product.until(lambda: size(process) == (200, 96 * MIB), "the other size")
    (pod,) = product.cluster.observe(None).pods
    assert pod.phase == PodPhase.RUNNING
    assert processes(node) == [process]


def processes(node: RealNode) -> list[int]:
    return [pid for pid, command in node.commands.items() if command == "sleep 600"]


def size(process: int) -> tuple[int, int]:
    """The CPU (milli) and memory (bytes) that the kernel lets a process have: by cgroups of version 1."""
    lines = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    paths = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    cpu, memory = (CGROUPS / name / paths[name].lstrip("/") for name in ("cpu", "memory"))
    quota, period = (int((cpu / f"cpu.cfs_{part}_us").read_text()) for part in ("quota", "period"))
    return quota * 1000 // period, int((memory / "memory.limit_in_bytes").read_text())
