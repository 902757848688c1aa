"""The demo's machines and teams under its own driver, with no work but what a test submits."""

from dataclasses import replace
from pathlib import Path

from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.loops.embedded import Driver
from controlplane.loops.wiring import FULL_SLOTS, Wiring
from controlplane.runtime.wake import Bell
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.profiles import PROFILES


def quiet_demo() -> Driver:
    """Loaded into this empty database, and a minute old."""
    preset = replace(catalogue.load(seed=0, data=Path("nowhere")), arrivals=())
    presets.load(preset=preset, password="demo-password", speed=60.0)
    cluster = SimulatedCluster(preset.nodes, Conditions(seed=preset.seed, start=preset.start), PROFILES)
    wiring = Wiring(cluster, cluster, "test", full_seconds=FULL_SLOTS * preset.pace.slot)
    made = Driver(wiring, preset, Bell(), contain=False)
    made.run_to(preset.start + 60)
    return made
