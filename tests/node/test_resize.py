"""A worker that gets another size while it runs: the kernel holds it to that, and it is not started again."""

from controlplane.cluster.port import PodPhase
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import Product


def test_another_size_is_in_the_cgroup_of_the_same_process(product: Product, node: RealNode) -> None:
    train = product.submit("train", "exec sleep 600", memory="64Mi")
    product.until_phase(train, "Running")
    product.until(lambda: bool(processes(node)), "the shell to have become the program")
    (process,) = processes(node)
    assert node.size(process) == (100, 64)

    product.cluster.resize(str(train.pk), 1, 0, cpu_milli=200, memory=96)

    product.until(lambda: node.size(process) == (200, 96), "the other size")
    (pod,) = product.cluster.observe(None).pods
    assert pod.phase == PodPhase.RUNNING
    assert processes(node) == [process]


def processes(node: RealNode) -> list[int]:
    return [pid for pid, command in node.commands.items() if command == "sleep 600"]
