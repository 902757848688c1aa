"""A gang on a real node: its workers meet at the names that Weft gives them, sum over the pod network, and resume."""

import json
from pathlib import Path

from controlplane.models import Workload
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode import training
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import GPUS, NAMESPACE, Product

TIMES = 2  # it is preempted
STEPS = 5  # of each attempt, at least
IMAGE = "registry.example/python:1"
LEFT_AND_CAME_BACK = [("Evicted", "Preempted"), ("Preempted", ""), ("Requeued", ""), ("Admitted", ""), ("Running", "")]


def test_a_gang_that_sums_over_the_pod_network_resumes_at_the_step_of_its_checkpoint(
    product: Product, node: RealNode, kubernetes: TestCluster
) -> None:
    data = claim(kubernetes, node, NAMESPACE, "gang")
    source = Path(training.__file__).read_text()
    gang = product.submit(
        "gang", "", workers=GPUS, image=IMAGE, command=["python3", "-c"], args=[source, "/data"],
        volumes=[{"claim": "gang", "path": "/data"}], checkpoint={"grace": "30s"},
    )  # fmt: skip
    saved = 0
    for attempt in range(1, TIMES + 1):
        product.until(lambda: now(data) >= saved + STEPS, f"{STEPS} steps")  # noqa: B023  it is over within the turn
        product.until_phase(gang, "Running", attempt)
        assert_all_start_at(product, gang, saved)
        preempt(product, attempt)
        before, (saved, total) = saved, json.loads((data / "checkpoint.json").read_text())
        assert saved >= before + STEPS
        assert total == training.expected(saved, GPUS)

    product.until(lambda: now(data) > saved, "a step more")
    (data / "enough").touch()
    product.until_phase(gang, "Succeeded", TIMES + 1)

    assert_all_start_at(product, gang, saved)
    step, total = json.loads((data / "checkpoint.json").read_text())
    assert total == training.expected(step, GPUS)
    assert [product.log(gang, rank)[-1] for rank in range(GPUS)] == [
        f"rank {rank} ends at step {step} with {total}" for rank in range(GPUS)
    ]
    assert gang.failures == 0
    story = [("Submitted", ""), ("Admitted", ""), ("Running", ""), *TIMES * LEFT_AND_CAME_BACK, ("Succeeded", "")]
    assert product.story(gang) == story


def now(data: Path) -> int:
    """The step that was done last."""
    file = data / "now"
    return int(file.read_text() or 0) if file.exists() else 0


def assert_all_start_at(product: Product, gang: Workload, step: int) -> None:
    """Each worker of the attempt, at an address of its own that the first one has met it at."""
    (peers, first, *_), (second, *_) = product.log(gang, 0), product.log(gang, 1)
    assert peers.split()[1] == second.split()[3] != first.split()[3]
    starts = [line.partition(" starts at step ")[2] for line in (first, second)]
    assert starts == [str(step)] * GPUS


def preempt(product: Product, number: int) -> None:
    high = product.submit(f"high-{number}", "sleep 1", gpus=GPUS, priority_class="high")
    product.until_phase(high, "Succeeded")
