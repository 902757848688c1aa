"""An elastic training on a real node: workers come and go, no step is lost, and its loss goes on falling."""

import json
from pathlib import Path
from typing import Any

from controlplane.services.scheduling import policy
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode import elastic
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import NAMESPACE, Product

STEPS = 20  # with each number of workers, at least
UNTIL_TOLD = "trap 'exit 0' TERM; while :; do sleep 0.2; done"  # a shell that is process 1 ignores it else
HASTE = {"settle_seconds": 0, "surplus_after_seconds": 0}


def test_workers_come_and_go_while_the_loss_of_a_training_falls(
    product: Product, node: RealNode, kubernetes: TestCluster
) -> None:
    policy.change(changes={"scheduling": HASTE}, author="root")
    data = claim(kubernetes, node, NAMESPACE, "elastic")
    gang = product.submit(
        "gang", "", image="registry.example/python:1", command=["python3", "-c"],
        args=[Path(elastic.__file__).read_text(), "/data", "1", "leave"], memory="128Mi",
        workers={"count": 1, "max": 2}, volumes=[{"claim": "elastic", "path": "/data"}], checkpoint={"grace": "30s"},
    )  # fmt: skip

    def is_at(ranks: int, more_than: int) -> bool:
        done = steps(data)
        return len(done) > more_than + STEPS and all(len(one[2]) == ranks for one in done[-STEPS:])

    product.until(lambda: is_at(2, 0), "a worker that came")
    grown = len(steps(data))
    other = product.submit("other", UNTIL_TOLD, priority_class="high")
    product.until(lambda: is_at(1, grown), "a worker that left for what waited")
    product.until_phase(other, "Running")
    shrunk = len(steps(data))
    stop(product, other)
    product.until(lambda: is_at(2, shrunk), "a worker that came back")
    (data / "enough").touch()
    product.until_phase(gang, "Succeeded")

    done = steps(data)
    assert [one[1] for one in done] == list(range(1, len(done) + 1)), "each step was done once, in its order"
    assert done[-1][4] == sum(one[1] * sum(rank + 1 for rank in one[2]) for one in done), "by whom it says"
    sizes = [len(one[2]) for one in done]
    assert [size for size, before in zip(sizes, [0, *sizes], strict=False) if size != before][-3:] == [2, 1, 2]
    losses = [one[5] for one in done]
    assert all(after <= before + 0.01 for before, after in zip(losses, losses[1:], strict=False)), "it never jumps up"
    marks = [losses[0], losses[grown - 1], losses[shrunk - 1], losses[-1]]
    assert marks == sorted(marks, reverse=True) and marks[-1] < 0.5 * marks[0], marks
    assert gang.failures == 0
    assert [kind for kind, _ in product.story(gang) if kind == "Evicted"] == []


def steps(data: Path) -> list[Any]:
    """A line for each step that was done."""
    file = data / "steps"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def stop(product: Product, workload: Any) -> None:
    """As a person does."""
    from controlplane.services.workloads import workloads

    workload.refresh_from_db()
    workloads.stop(workload=workload, actor="alice")
    product.until_phase(workload, "Stopped")
