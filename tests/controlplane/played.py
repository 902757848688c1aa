"""One job file played with the production loops on the simulated cluster."""

from collections.abc import Iterator
from typing import Any

from controlplane.cluster.simulated import START, Conditions, SimulatedCluster
from controlplane.loops.embedded import Driver
from controlplane.loops.wiring import Wiring
from controlplane.models import Workload
from controlplane.runtime.wake import Bell
from controlplane.services.workloads import presets
from controlplane.simulator.worlds.presets import Arrival, Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota, Team
from tests.controlplane.simulation import NODES, PROFILES


class _Once:
    """One job file is submitted at the beginning."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def __iter__(self) -> Iterator[Arrival]:
        yield Arrival(START, (self._document,), "alice")


def play(document: dict[str, Any], seconds: float) -> tuple[SimulatedCluster, Workload]:
    """The workload of this job file after so long with the production loops, and the cluster, on which it is alone."""
    preset = Preset(
        "one", 1.0, 0, NODES, (Pool("pool", "A100"), Pool("small", "T4")), (Team("nlp"),),
        (Quota("nlp", "pool", nominal=8 * WHOLE),), _Once(document), start=START,
    )  # fmt: skip
    presets.load(preset=preset, password="demo-password", speed=60.0)
    world = SimulatedCluster(NODES, Conditions(seed=0, start=START), PROFILES)
    Driver(Wiring(world, world, "test"), preset, Bell(), contain=False).run_to(START + seconds)
    return world, Workload.objects.get(name=document["name"])
