"""The demo's week: how it is made, and how a new demo starts from its end.

`simulate` runs the production loops for a week, as fast as they go; what came of it is committed as a file, since that
takes most of an hour. `open_demo` gives a new database that past. The simulated cluster is a new one then: it is
started a little before, is told to run what holds places, and goes on from the checkpoints.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings

from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.loops import actuate
from controlplane.loops.embedded import Driver
from controlplane.loops.wiring import Wiring, holder, simulated
from controlplane.queries.reports import week as rows
from controlplane.services.workloads import actions, presets, week
from controlplane.services.workloads.week import Ahead
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.demand import Demand
from controlplane.simulator.worlds.pastfile import Past
from controlplane.simulator.worlds.presets import START, Pace, Preset
from controlplane.simulator.worlds.profiles import PROFILES

# By the demo's start pods have come up, and services get all of their requests (demo.ROLLOUT).
AHEAD = Ahead(services=900.0, others=90.0)
# Services are looked at as often as the product does, else they meet no objective. Rounds come every 15 s in place of
# every 5 s: that takes a third of the time, and no page is looked at meanwhile.
PACE = Pace(slot=15.0)


def simulate(until: float, progress: Callable[[float], None] = lambda _: None) -> Past:
    """Run the demo in this empty database from the clock's first day to `until`, and tell what became of it."""
    preset = replace(catalogue.demonstration(catalogue.DEFAULT_LOAD, seed=0, start=START), pace=PACE)
    presets.load(preset=preset, password="", speed=preset.pace.speed)
    wiring = simulated(preset, in_memory=True)
    Driver(wiring, preset, contain=False).run_to(until, progress)
    return rows.taken(preset.identity, START, until)


def open_demo(preset: Preset, past: Past, *, password: str, speed: float) -> None:
    """Load the demo with its past, and have its cluster run what runs. Raises ValueError for another preset."""
    if not isinstance(preset.arrivals, Demand) or preset.start != past.until:
        raise ValueError(f"{preset.identity} does not begin where the demo's past ends, {_iso(past.until)}")
    presets.load(preset=preset, password=password, speed=speed)
    week.load(past=past, arrived=len(preset.arrivals.running()), ahead=AHEAD)
    conditions = Conditions(seed=preset.seed, start=preset.start - AHEAD.services)
    cluster = SimulatedCluster(preset.nodes, conditions, PROFILES, ClusterStore(settings.SIMULATED_STORE))
    for uid, (done, at) in week.checkpoints(preset.start, AHEAD.others).items():
        cluster.save(str(uid), done, at)
    for ahead in (AHEAD.services, AHEAD.others):
        cluster.advance(preset.start - ahead)
        while actions.due(at=cluster.now(), limit=1):
            actuate.run_once(Wiring(cluster, cluster, holder()))
    cluster.advance(preset.start)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
