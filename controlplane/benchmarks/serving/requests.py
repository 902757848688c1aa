"""`requests`: what it costs to simulate the services of the demo request by request.

- `demo_core_percent`: processor time for the demo's services, each at its most replicas, and ten more that pipelines
  have brought out, in percent of one core at the demo's default speed. The cluster lies in a file and is moved and
  asked as often as the demo does; the same without services is taken off.
- `request_microseconds`: processor time of one request of a busy service that is simulated alone.
"""

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.cluster.port import PodSpec
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.traffic import Drawn, Rate, Sizes
from controlplane.cluster.simulated import START, SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.presets import Arrival, Document
from controlplane.simulator.worlds.profiles import PROFILES
from scheduler.model.snapshot import Node
from scheduler.placement.compiled import HAS_NUMBA

GOAL_PERCENT = 15.0
HOURS = 2.0
PIPELINES = 10
RATE, SLOTS, SECONDS = 300.0, 16, 0.05  # of the service that is simulated alone


def run(options: Options, progress: Progress) -> Result:
    """Simulate two hours of the demo's services with and without their requests."""
    preset = catalogue.load(data=options.data)
    first = [document for arrival in _started(preset.arrivals) for document in arrival.documents]
    files = [document for document in first if document["type"] == "inference"]
    late = {"type": "inference", "objective": {"p95_latency": "250ms"}, "replicas": {"min": 1, "max": 2}}
    files += [{**late, "simulated": {"rate": {"base": 15.0, "rollout": 600.0}}}] * PIPELINES
    _seconds(preset.nodes, files, 0.1)  # compiles
    progress(0.1, "without services")
    without, _ = _seconds(preset.nodes, (), HOURS)
    progress(0.2, "with services")
    busy, answered = _seconds(preset.nodes, files, HOURS)
    progress(0.8, "one service alone")
    share = 100 * (busy - without) * preset.pace.speed / (HOURS * 3600)
    return Result(
        (
            Figure("requests.demo_core_percent", round(share, 2), "%", GOAL_PERCENT),
            Figure("requests.request_microseconds", round(_alone(), 3), "us"),
        ),
        (
            f"{len(files)} services, {answered / (HOURS * 3600):.0f} requests a second of the cluster's time at speed "
            f"{preset.pace.speed:g}; numba is {'there' if HAS_NUMBA else 'not there'}",
        ),
    )


def _started(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Those that are there when the demo starts."""
    for arrival in arrivals:
        if arrival.at > START:
            return
        yield arrival


def _seconds(nodes: tuple[Node, ...], files: Sequence[Document], hours: float) -> tuple[float, int]:
    """(processor seconds, requests that were answered) of so many hours."""
    with tempfile.TemporaryDirectory() as folder:
        store = ClusterStore(Path(folder) / "cluster.sqlite3")
        cluster = SimulatedCluster(nodes, profiles=PROFILES, store=store)
        places = iter([(node.name, index) for node in nodes for index in range(node.gpus)])
        names = [f"service-{number}" for number in range(len(files))]
        for name, file in zip(names, files, strict=True):
            for rank in range(int(file["replicas"]["max"])):
                node, index = next(places)
                cluster.start([PodSpec(name, 1, rank, 1, node, (index,), 1000, 0, 0, 0, "team", dict(file))])
        began = time.process_time()
        for slot in range(1, round(hours * 3600 / 5) + 1):
            cluster.advance(START + 5.0 * slot)
            if slot % 3 == 0:
                cluster.services(dict.fromkeys(names))
            if slot % 12 == 0:
                cluster.services(dict.fromkeys(names))
                cluster.gpus()
                cluster.pods(names)
        spent = time.process_time() - began
        answered = sum(totals.answered for totals in cluster.answered(names).values())
        store.close()
    return spent, answered


def _alone() -> float:
    """Microseconds of a request."""
    traffic = Drawn(Rate("alone", RATE, amplitude=0.0), Sizes("lognormal"))
    one = Run(traffic, Setup(), State.begin(0.0))
    one.change(0.0, [Replica("a", SLOTS, SECONDS)])
    began = time.process_time()
    one.to(3600.0)
    return 1e6 * (time.process_time() - began) / (RATE * 3600.0)
