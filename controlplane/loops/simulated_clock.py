"""A simulated cluster in production: its clock follows the real one, and its people submit.

The loops then run as separate processes on one shared store. The holder of the lease `clock` moves it. That is for
trying the production set-up out and for tests of it; only the embedded driver's runs are the same every time.
"""

from django.conf import settings

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.loops.embedded import Submissions
from controlplane.loops.wiring import Wiring
from controlplane.services.scheduling import clock, leases
from controlplane.services.workloads.presets import loaded
from controlplane.simulator.worlds import catalogue

MAX_SECONDS = 600.0  # of the cluster's clock in one step: after a pause of the machine it does not jump


def follow(wiring: Wiring) -> None:
    """Move a simulated cluster's clock on by the real time since the last observation; nothing for a real cluster."""
    if not isinstance(wiring.cluster, SimulatedCluster):
        return
    lease = leases.acquire(name="clock", holder=wiring.holder)
    world = loaded()
    if lease is None or world is None or world.paused:
        return
    if world.observed_at is not None:
        passed = (clock.database_now() - world.observed_at).total_seconds() * world.speed
        at = world.now + min(max(passed, 0.0), MAX_SECONDS)
        if at > wiring.cluster.now():
            wiring.cluster.advance(at)
    preset = wiring.kept.get("preset")
    if preset is None:
        preset = wiring.kept["preset"] = catalogue.again(world.preset, settings.WEFT_DATA)
    Submissions(preset).submit(wiring.cluster.now())
    leases.release(lease=lease)
