"""The processes of `cells`: one fills the cluster and drives it, others decide for the cells that WEFT_CELLS names.

The driver and the deciders are asked line by line on their standard input, and answer with a line of JSON each. While
they are asked nothing they renew their leases, as a worker's loops would.
"""

import json
import select
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controlplane.benchmarks.large import load
from controlplane.benchmarks.scheduling.roundload import GPUS, Bench, Machines, prepare
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.domain.deciders import is_decider
from controlplane.loops import lease, schedule, wiring
from controlplane.loops.wiring import Wiring
from controlplane.models import Node, Placement, PlacementState, Workload
from controlplane.queries.scheduling.snapshot import observed_at
from controlplane.runtime import tuning
from controlplane.services.scheduling import policy
from gpushare.gpu import WHOLE
from scheduler.model.settings import Settings
from scheduler.model.workload import ENDED

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]
CELLS = ("east", "north", "south", "west")
IDLE_SECONDS = 1.0  # between two renewals of leases while nothing is asked
POLL_SECONDS = 0.25


def cut() -> None:
    """Have the racks in four cells, by turns, so that each has both models."""
    racks = sorted(Node.objects.values_list("rack", flat=True).distinct())
    named = {cell: {"racks": racks[number :: len(CELLS)]} for number, cell in enumerate(CELLS)}
    policy.change(changes={"scheduling": {"cells": named}}, author="benchmark")


def fill(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the cells as `round-large` fills its cluster, one process deciding for all of them."""
    made = load.preset(options["nodes"])
    prepare(made)
    bench = Bench(Machines(made.nodes), load.Models(options["seed"]))
    cut()
    policy.change(changes={"scheduling": {"max_changes": load.AT_ONCE}}, author="benchmark")
    jobs, running = (round(part * options["nodes"] * GPUS) for part in (load.RUN + load.WAIT, load.RUN))
    bench.submit_some(round(running * load.EASILY))
    bench.settle_at_once()
    policy.change(changes={"scheduling": {"max_changes": Settings().max_changes}}, author="benchmark")
    bench.submit_some(jobs - round(running * load.EASILY))
    bench.settle_at_once()
    bench.leave()
    return {"running": len(bench.ids("Running")), "waiting": len(bench.ids("Queued"))}


class Driver(Bench):
    """Ends and submits work, and does what was decided; it decides nothing."""

    def turn(self, ratio: float) -> dict[str, Any]:
        """This part of what runs ends, and as much arrives."""
        self.turn_over(ratio)
        return {"now": self.machines.now()}

    def act(self) -> dict[str, Any]:
        """Do all that was decided."""
        while self._act():
            pass
        return {"waiting": len(self.ids("Queued")), "running": len(self.ids("Running"))}


def drive(options: Mapping[str, Any]) -> dict[str, Any]:
    """The driver, until its standard input ends."""
    machines = Machines(load.preset(options["nodes"]).nodes)
    machines.ahead = max(0.0, observed_at() - time.time())
    machines.resume(load.pods())
    driver = Driver(machines, load.Models(options["seed"] + 2, Workload.objects.count()))
    return _serve(
        {"turn": lambda said: driver.turn(said["ratio"]), "act": lambda _: driver.act(), "check": lambda _: checked()},
        lambda: None,
    )


def checked() -> dict[str, Any]:
    """How many live workloads there are, and how many devices are held more than once."""
    held: dict[tuple[str, int], int] = defaultdict(int)
    rows = Placement.objects.filter(state__in=(PlacementState.BOUND, PlacementState.LEAVING))
    for node, gpus, milli in rows.values_list("node", "gpus", "milli"):
        for index in gpus:
            held[node, index] += milli // len(gpus)
    ended = [phase.value for phase in ENDED]
    return {"live": Workload.objects.exclude(phase__in=ended).count(), "twice": sum(m > WHOLE for m in held.values())}


class Decider:
    """One process that decides for the cells of WEFT_CELLS."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._wiring = Wiring(machines, Unmeasured(), wiring.holder())

    def round(self, now: float) -> dict[str, Any]:
        """One turn of the schedule loop, at this time of the cluster's clock."""
        self._machines.ahead = now - time.time()
        began, cpu = time.monotonic(), time.process_time()
        report = schedule.run_once(self._wiring)
        took = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
        return {**took, "did": report.did, "cells": sorted(self._held())}

    def take(self, cell: str) -> dict[str, Any]:
        """Stand by until this cell is ours and a round of it is over."""
        while f"keeper:{cell}" not in self._wiring.kept:
            schedule.run_once(self._wiring)
            time.sleep(POLL_SECONDS)
        return {"cells": sorted(self._held())}

    def seen(self) -> dict[str, Any]:
        """How many live workloads the snapshots have that it keeps."""
        keepers = [kept for key, kept in self._wiring.kept.items() if key.startswith("keeper:")]
        return {"seen": sum(len(keeper.whole().changed) for keeper in keepers)}

    def idle(self) -> None:
        """Keep the leases."""
        for one in lease.held_for(self._wiring, "schedule"):
            one.renew_held()

    def _held(self) -> Iterator[str]:
        for one in lease.held_for(self._wiring, "schedule"):
            if one.is_held and is_decider(one.name):
                yield one.name.partition("/")[2]


def decide(options: Mapping[str, Any]) -> dict[str, Any]:
    """A decider, until its standard input ends."""
    tuning.collect_less_often()  # as every worker does
    decider = Decider(Machines(load.preset(options["nodes"]).nodes))
    return _serve(
        {
            "round": lambda said: decider.round(said["now"]),
            "take": lambda said: decider.take(said["cell"]),
            "seen": lambda _: decider.seen(),
        },
        decider.idle,
    )


def _serve(answers: Mapping[str, Answer], idle: Callable[[], None]) -> dict[str, Any]:
    """Answer line by line; nothing is asked any more once the input ends."""
    while True:
        if not select.select([sys.stdin], [], [], IDLE_SECONDS)[0]:
            idle()
            continue
        line = sys.stdin.readline()
        if not line:
            return {}
        said = json.loads(line)
        sys.stdout.write(json.dumps(answers[said["do"]](said)) + "\n")
        sys.stdout.flush()
