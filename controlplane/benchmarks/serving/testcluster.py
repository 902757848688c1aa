"""`test-cluster`: how long the Kubernetes for tests takes to start, and to be gone."""

import tempfile
import time
from pathlib import Path
from statistics import median

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.testbed import binaries
from controlplane.testbed.kubernetes import test_cluster
from controlplane.testbed.nodes import fleet

ROUNDS = 3
FEW, MANY = 3, 1213  # the nodes of the tests, and as many as openb has
START_SECONDS = 6.0


def run(options: Options, progress: Progress) -> Result:
    """Start a small one three times and a large one once."""
    binaries.find(lambda text: progress(0.0, text))
    small = []
    for i in range(ROUNDS):
        progress(i / (ROUNDS + 1), f"start {i + 1} of {ROUNDS} with {FEW} nodes")
        small.append(_start_and_stop(FEW))
    progress(ROUNDS / (ROUNDS + 1), f"start with {MANY} nodes")
    large = _start_and_stop(MANY)
    starts = ", ".join(f"{start:.1f}" for start, _ in small)
    return Result(
        (
            Figure("test-cluster.start_seconds", round(median(s for s, _ in small), 2), "s", START_SECONDS),
            Figure("test-cluster.stop_seconds", round(median(s for _, s in small), 2), "s"),
            Figure("test-cluster.start_many_seconds", round(large[0], 2), "s"),
        ),
        (f"{ROUNDS} starts with {FEW} nodes: {starts} s; start_many: {MANY} nodes",),
    )


def _start_and_stop(count: int) -> tuple[float, float]:
    """Seconds until pods can be made on all nodes, and until all is ended and deleted."""
    with tempfile.TemporaryDirectory(prefix="weft-benchmark-") as folder:
        began = time.monotonic()
        with test_cluster(Path(folder), nodes=fleet(count)):
            ready = time.monotonic()
            start = ready - began
    return start, time.monotonic() - ready
