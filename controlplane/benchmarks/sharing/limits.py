"""`limits`: a service on shares whose limit is raised before another replica starts, against replicas alone.

One service on the simulated cluster, request by request: requests of 50 ms at its first limit of 0.3 of a GPU, four at
once in a replica, 95 % within 500 ms, at most 6 replicas, each on another GPU, which takes 5 to 60 s to start. Four
hours after a quarter of an hour that does not count. Loads: *even* 60 requests/s; *step* 50, in bursts of five minutes
150; *wave* 20 to 180 within two hours. The rest of each GPU is idle, or another workload has half of it guaranteed and
uses it at all times (*beside*). `max_limit` is 0.9, or not given (*alone*).

- `guarantee_ratio`: hours of guaranteed GPU with the limit raised, over those alone, the geometric mean of the three
  loads where the GPU is idle otherwise; `guarantee_ratio_beside`: where half of it is another's.
- `late_percent_max`, `late_percent_max_beside`: requests over the objective, of the worst load.
- `changes_per_hour`: changes of replicas or limit, of the busiest load.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from autoscaler.law import State
from autoscaler.limits import Limits
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.scale import scale
from autoscaler.settings import Settings
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.cluster.port import PodPhase, PodSeen, PodSpec
from controlplane.cluster.serving.outcomes import BOUNDS, Totals
from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.world import Conditions
from gpushare.gpu import WHOLE, Share
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.workload import Gang, Kind, Phase, ResourceRequest, Workload

GUARANTEE, MOST, HALF = 300, 900, 500  # milli-GPU
REPLICAS = 6
WITHIN = 0.5
LOOK, BEGIN, HOURS = 15.0, 900.0, 4
HOUR = 3600.0
START = 30.0  # s, told to the law as what the first replica took
LOADS = {
    "even": {"base": 60.0, "amplitude": 0.0, "burst_part": 0.0},
    "step": {"base": 50.0, "amplitude": 0.0, "burst": 3.0, "burst_part": 0.1},
    "wave": {"base": 100.0, "amplitude": 0.8, "period": 7200.0, "burst_part": 0.0},
}
NODE = Node("a", "pool", "A100", REPLICAS, 81_920, 960_000, 8_388_608)


def run(options: Options, progress: Progress) -> Result:
    """Each load, alone and with the limit raised, on GPUs that are idle otherwise and beside another workload."""
    hours = options.repeat or HOURS
    cells = [(load, beside, most) for load in LOADS for beside in (0, HALF) for most in (0, MOST)]
    found: dict[tuple[str, int, int], Outcome] = {}
    for number, (load, beside, most) in enumerate(cells):
        progress(number / len(cells), f"{load}{', beside another' if beside else ''}{', raised' if most else ''}")
        outcomes = [Loop(LOADS[load], beside, most, seed).run(hours * HOUR) for seed in options.seeds]
        found[load, beside, most] = Outcome(*(sum(parts) / len(outcomes) for parts in zip(*outcomes, strict=True)))
    ratios = {
        beside: math.prod(found[load, beside, MOST].hours / found[load, beside, 0].hours for load in LOADS)
        ** (1 / len(LOADS))
        for beside in (0, HALF)
    }
    late = {beside: max(found[load, beside, MOST].late for load in LOADS) for beside in (0, HALF)}
    changes = max(found[load, beside, MOST].changes for load in LOADS for beside in (0, HALF)) / hours
    figures = (
        Figure("limits.guarantee_ratio", round(ratios[0], 3), "x", 0.6),
        Figure("limits.guarantee_ratio_beside", round(ratios[HALF], 3), "x", 0.7),
        Figure("limits.late_percent_max", round(late[0], 3), "%", 0.1),
        Figure("limits.late_percent_max_beside", round(late[HALF], 3), "%"),
        Figure("limits.changes_per_hour", round(changes, 1), "1/h", 6.0),
    )
    return Result(figures, tuple(_note(*cell, found[cell]) for cell in cells))


class Outcome(NamedTuple):
    """Hours of guaranteed GPU, percent of the requests that were late, and changes of replicas or limit."""

    hours: float
    late: float
    changes: float


def _note(load: str, beside: int, most: int, outcome: Outcome) -> str:
    where = "half of each GPU is another's" if beside else "GPUs idle otherwise"
    how = f"limit up to {most / WHOLE:g}" if most else "replicas alone"
    told = f"{outcome.hours:.2f} GPU hours, {outcome.late:.3f} % late, {outcome.changes:.0f} changes"
    return f"{load}, {where}, {how}: {told}"


@dataclass
class Loop:
    """One service, looked at every 15 s; its replicas start on GPUs of their own as soon as they are wanted."""

    rate: dict[str, float]
    beside: int
    most: int
    seed: int
    limit: int = GUARANTEE
    count: int = 1
    milli_seconds: float = 0.0
    changes: int = 0
    next_rank: int = 0
    state: State | None = None
    cluster: SimulatedCluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster([NODE], conditions=Conditions(seed=self.seed))
        if self.beside:
            part = self.beside / WHOLE
            file: dict[str, object] = {
                "type": "training",
                "resources": {"gpu_share": {"guarantee": part, "limit": part}},
            }
            for gpu in range(REPLICAS):
                worker = PodSpec(f"t{gpu}", 1, 0, 1, "a", (gpu,), self.beside, 1000, 1000, 1000, "nlp", file)
                self.cluster.start([worker])
        self._start()

    def run(self, seconds: float) -> Outcome:
        """The seconds after the first quarter of an hour."""
        self._follow(BEGIN)
        before = deepcopy(self._answered())
        self.milli_seconds, self.changes = 0.0, 0
        self._follow(seconds)
        return Outcome(self.milli_seconds / WHOLE / HOUR, _late(before, self._answered()), self.changes)

    def _follow(self, seconds: float) -> None:
        end = self.cluster.now() + seconds
        while self.cluster.now() < end:
            self.cluster.advance(self.cluster.now() + LOOK)
            self.milli_seconds += LOOK * GUARANTEE * len(self._live())
            self._look()

    def _look(self) -> None:
        at, live = self.cluster.now(), self._live()
        gang = Gang(self.count, 1, REPLICAS)
        ask = ResourceRequest(share=Share(GUARANTEE, self.limit, 1000))
        service = Workload("s", "chat", "nlp", Kind.INFERENCE, ask, gang, phase=Phase.RUNNING)
        known = ServiceMetrics(
            "s",
            Objective(WITHIN),
            self.cluster.scrapes(["s"]).get("s"),
            self.state,
            ready=sum(pod.phase == PodPhase.RUNNING for pod in live.values()),
            start_seconds=START,
            limits=Limits(GUARANTEE, self.most, WHOLE - self.beside) if self.most else None,
        )
        found = scale(Snapshot.build(at, (), (), (), (service,)), Metrics({"s": known}), Settings())
        self.state = found.states.get("s", self.state)
        for decision in found.decisions:
            self.changes += 1
            if (limit := getattr(decision, "limit", None)) is not None:
                self.limit = limit
                self.cluster.limit("s", 1, sorted(live), limit)
            self.count = getattr(decision, "workers", self.count)
            self.cluster.stop("s", 1, sorted(live)[self.count :], 5.0)
            self._start()

    def _live(self) -> dict[int, PodSeen]:
        pods = self.cluster.observe(None).pods
        there = (PodPhase.PENDING, PodPhase.RUNNING)
        return {pod.rank: pod for pod in pods if pod.workload == "s" and pod.phase in there}

    def _start(self) -> None:
        live = self._live()
        taken = {pod.gpus for pod in live.values()}
        free = [(gpu,) for gpu in range(REPLICAS) if (gpu,) not in taken]
        part = GUARANTEE / WHOLE
        file: dict[str, object] = {
            "type": "inference",
            "objective": {"p95_latency": WITHIN},
            "replicas": {"min": 1, "max": REPLICAS},
            "resources": {"gpu_share": {"guarantee": part, "limit": part}},
            "simulated": {"rate": self.rate},
        }
        for gpus in free[: max(0, self.count - len(live))]:
            rank, self.next_rank = self.next_rank, self.next_rank + 1  # a rank is never used twice
            pod = PodSpec("s", 1, rank, 1, "a", gpus, GUARANTEE, 1000, 1000, 1000, "nlp", file, limit=self.limit)
            self.cluster.start([pod])

    def _answered(self) -> Totals:
        return self.cluster.answered(["s"])["s"]


def _late(before: Totals, after: Totals) -> float:
    """Percent of the requests between two moments that took longer than the objective, or failed."""
    bound = int(np.searchsorted(BOUNDS, WITHIN))
    came = [t.answered + t.refused + t.failed for t in (before, after)]
    in_time = after.within[bound] - before.within[bound]
    return 100.0 * (1.0 - in_time / (came[1] - came[0]))
