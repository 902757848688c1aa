"""Preempted on a real node: SIGTERM, a checkpoint on the team's storage, and on from there."""

from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import NAMESPACE, Product

# Counts steps, saves at SIGTERM only and then ends well, which is no success. After a start from a checkpoint it is
# done with ten steps more.
TRAIN = """
step=$(cat /data/step 2>/dev/null || echo 0); last=$((step > 0 ? step + 10 : 1000000))
echo "starts at step $step"
trap 'echo $step >/data/step; echo "saved step $step"; exit 0' TERM
while [ $step -lt $last ]; do step=$((step + 1)); echo $step >/data/now; sleep 0.1 & wait $!; done
"""


def test_a_preempted_job_saves_at_sigterm_and_resumes_at_that_step(
    product: Product, node: RealNode, kubernetes: TestCluster
) -> None:
    data = claim(kubernetes, node, NAMESPACE, "data")
    low = product.submit(
        "low", TRAIN, gpus=2, volumes=[{"claim": "data", "path": "/data"}], checkpoint={"grace": "30s"}
    )
    product.until(lambda: (data / "now").exists() and int((data / "now").read_text() or 0) > 5, "five steps")
    product.until_phase(low, "Running")

    high = product.submit("high", "sleep 1", gpus=2, priority_class="high")
    product.until_phase(high, "Succeeded")
    saved = int((data / "step").read_text())
    product.until_phase(low, "Succeeded", attempt=2)

    assert saved > 5
    assert product.log(low) == [f"starts at step {saved}"]
    assert int((data / "now").read_text()) == saved + 10
    assert low.failures == 0
    assert product.story(low) == [
        ("Submitted", ""),
        ("Admitted", ""),
        ("Running", ""),
        ("Evicted", "Preempted"),
        ("Preempted", ""),
        ("Requeued", ""),
        ("Admitted", ""),
        ("Running", ""),
        ("Succeeded", ""),
    ]
