"""A day of the same work, decided for by one decider or by four, on the product's own loops: what cells cost.

The clock goes in steps; in each what is over ends, what is due arrives, and rounds follow each other until nothing
changes any more. How long work runs follows from the seed, so that both days have the same work.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from controlplane.benchmarks.harness.figure import quantile
from controlplane.benchmarks.large import cellsload, load
from controlplane.benchmarks.scheduling.roundload import GPUS, Bench, Machines, prepare
from controlplane.models import Placement, Team, Workload

DAY, STEP = 86_400.0, 300.0  # seconds of the cluster's clock
MEAN_HOURS, SIGMA = 3.0, 0.8  # of running times: lognormal
PRESSURE = 1.05  # GPU-hours asked for, of those there are
MEAN_GPUS = 2.09  # of a job, as roundload.SIZES has them
ROUNDS = 3  # in one step at most


class Day(Bench):
    """A cluster through one day."""

    def __init__(self, machines: Machines, seed: int) -> None:
        super().__init__(machines, load.Models(seed))
        self._runs = random.Random(seed + 3)  # noqa: S311 - a load, not a secret
        self._seconds: dict[str, float] = {}  # how long each runs, by id
        self._ends: list[tuple[float, str]] = []
        self._seen: set[str] = set()
        self._owed = 0.0

    def step(self, rate: float) -> None:
        """One step later; `rate` jobs arrive in each second."""
        self.machines.ahead += STEP
        now = self.machines.now()
        over = []
        while self._ends and self._ends[0][0] <= now:
            over.append(heapq.heappop(self._ends)[1])
        self.machines.finish(set(over))
        self._act()
        self._owed += rate * STEP
        self._arrive(int(self._owed))
        self._owed -= int(self._owed)
        for _ in range(ROUNDS):
            if not self._decide() and not self._act():
                break
            while self._act():
                pass
        self._note(self.machines.now())

    def _arrive(self, jobs: int) -> None:
        self.submit_some(jobs)
        new = Workload.objects.order_by("-seq").values_list("pk", flat=True)[:jobs]
        for uid in reversed(list(new)):
            self._seconds[str(uid)] = self._runs.lognormvariate(0, SIGMA) * MEAN_HOURS * 3600 / 1.377  # exp(SIGMA²/2)

    def _note(self, now: float) -> None:
        """When what has started since will be over."""
        running = set(self.ids("Running"))
        for uid in running - self._seen:
            heapq.heappush(self._ends, (now + self._seconds[uid], uid))
        self._seen = running


def measure(options: Mapping[str, Any], *, with_cells: bool) -> dict[str, Any]:
    """A day on so many nodes; tell GPU-hours that work held, waits in seconds, and how evenly teams got theirs."""
    made = load.preset(options["nodes"])
    prepare(made)
    day = Day(Machines(made.nodes), options["seed"])
    if with_cells:
        cellsload.cut()
    began = day.machines.now()
    rate = PRESSURE * options["nodes"] * GPUS / (MEAN_GPUS * MEAN_HOURS * 3600)
    for _ in range(options["count"]):
        day.step(rate)
    return _found(began, day.machines.now())


def _found(began: float, ended: float) -> dict[str, Any]:
    held: dict[int, float] = defaultdict(float)
    rows = Placement.objects.filter(bound_at__isnull=False)
    for team, milli, bound, released in rows.values_list("workload__team", "milli", "bound_at", "released_at"):
        if bound is not None:
            held[team] += milli / 1000 * (min(ended, released or ended) - bound) / 3600
    started = Workload.objects.values_list("submitted_at", "first_started_at")
    waits = [(first or ended) - submitted for submitted, first in started]
    teams = [held.get(pk, 0.0) for pk in Team.objects.values_list("pk", flat=True)]
    even = sum(teams) ** 2 / (len(teams) * sum(one * one for one in teams)) if any(teams) else 1.0
    return {
        "gpu_hours": sum(teams),
        "jobs": len(waits),
        "wait_p50": quantile(waits, 0.5),
        "wait_p99": quantile(waits, 0.99),
        "evenness": even,
        "hours": (ended - began) / 3600,
    }


def one(options: Mapping[str, Any]) -> dict[str, Any]:
    """The day with one decider."""
    return measure(options, with_cells=False)


def four(options: Mapping[str, Any]) -> dict[str, Any]:
    """The day with four."""
    return measure(options, with_cells=True)
