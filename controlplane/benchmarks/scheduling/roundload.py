"""The load of `round`, and the process that decides: a full cluster whose work comes and goes."""

import math
import random
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management import call_command
from django.db import connection

from controlplane.benchmarks.scheduling.podless import Podless
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.jobspec.spec import Spec, parse
from controlplane.loops import actuate, observe, schedule
from controlplane.loops.wiring import Wiring
from controlplane.models import Workload, bulk
from controlplane.queries.scheduling import snapshot as snapshots
from controlplane.runtime import tuning
from controlplane.services.scheduling import policy
from controlplane.services.workloads import presets, submission
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.cycle import schedule as core
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

NODES, TEAMS, GPUS = 1250, 200, 8
RUN, WAIT = 5000, 1000
ENDING = 0.01  # of what runs, before a full round
STEP_SECONDS = 60.0  # of the cluster's clock between two rounds, so that what runs may be preempted as in real life
POOL = Pool("a100", "A100")
# GPUs of a worker (0: half of one), workers, part of the submissions
SIZES = ((1, 1, 0.46), (0, 1, 0.14), (2, 1, 0.2), (4, 1, 0.1), (8, 1, 0.06), (1, 4, 0.03), (8, 2, 0.01))


def preset(nodes: int) -> Preset:
    """So many nodes in racks of 25; teams that own the cluster in equal parts and may borrow as much again."""
    names = [f"team-{number:03}" for number in range(TEAMS)]
    nominal = nodes * GPUS * WHOLE // TEAMS
    machines = tuple(
        Node(f"n{i:04}", POOL.name, POOL.gpu_model, GPUS, 81_920, 128_000, 1_048_576, rack=f"r{i // 25:02}", nvlink=8)
        for i in range(nodes)
    )
    quotas = tuple(Quota(name, POOL.name, nominal, nominal) for name in names)
    return Preset("round", 1.0, 0, machines, (POOL,), tuple(map(Team, names)), quotas, ())


class Load:
    """Job files: which team and size each has follows from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a load, not a secret
        self._number = 0

    def job(self, gpus: int | None = None) -> Spec:
        """The next one; of `gpus` whole GPUs, or of any size."""
        each, workers, _ = self._random.choices(SIZES, [part for *_, part in SIZES])[0]
        if gpus is not None:
            each, workers = gpus, 1
        self._number += 1
        asked: dict[str, Any] = {"gpus": each} if each else {"gpu_share": {"guarantee": 0.5, "memory": "10Gi"}}
        return parse(
            {
                "type": "training",
                "name": f"job-{self._number}",
                "team": f"team-{self._random.randrange(TEAMS):03}",
                "image": "registry.example/train:1",
                "priority_class": self._random.choice(("low", "normal", "high")),
                "resources": {"cpu": 2, "memory": "8Gi", **asked},
                "workers": {"count": workers},
            }
        )

    def some(self, items: Sequence[str], count: int) -> list[str]:
        """So many of these, drawn."""
        return self._random.sample(list(items), min(count, len(items)))


class Machines(Podless):
    """A cluster without pods, whose clock can be put forward."""

    ahead = 0.0

    def now(self) -> float:
        """Real time, and what it was put forward."""
        return time.time() + self.ahead


@dataclass(frozen=True, slots=True)
class Took:
    """One round: seconds from the changed rows to the commit, those of the core, and what it placed."""

    seconds: float
    core_seconds: float
    placed: int


class Bench:
    """Weft's tables and loops in one process, and the cluster they drive."""

    def __init__(self, nodes: int, load: Load) -> None:
        self._load = load
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
        made = preset(nodes)
        presets.load(preset=made, password=connection.settings_dict["NAME"], speed=1.0)
        presets.forget_world(now=time.time())
        self.machines = Machines(made.nodes)
        self._wiring = Wiring(self.machines, Unmeasured(), "benchmark")
        observe.run_once(self._wiring)

    def fill(self, jobs: int) -> None:
        """Submit so many and let them settle."""
        for first in range(0, jobs, 500):
            self.submit([self._load.job() for _ in range(first, min(first + 500, jobs))])
        while self._decide() or self._act():
            pass

    def submit(self, specs: Sequence[Spec]) -> None:
        """Submit, as of now."""
        submission.submit_all([Submission(spec, actor="benchmark", at=self.machines.now()) for spec in specs])

    def ids(self, phase: str, gpus: int | None = None) -> list[str]:
        """The workloads in this phase, by submission; only those of one worker with so many GPUs."""
        where = {"phase": phase, **({} if gpus is None else {"gpus": gpus, "workers": 1})}
        return [str(uid) for (uid,) in bulk.select(Workload, ("uid",), where, order=("seq",))]

    def turn_over(self, ratio: float) -> None:
        """This ratio of what runs ends, and as many arrive."""
        running = self.ids("Running")
        ending = self._load.some(running, math.ceil(len(running) * ratio))
        self._end(ending)
        self.submit([self._load.job() for _ in ending])

    def event(self) -> None:
        """One workload of one GPU ends and others take its place; then one of one GPU arrives."""
        self._end(self._load.some(self.ids("Running", 1), 1))
        while self._decide() or self._act():
            pass
        self.submit([self._load.job(1)])

    def round(self) -> Took:
        """One round of the schedule loop on what has changed, timed; then the cluster does what was decided."""
        before = snapshots.full(self.machines.now())
        placed = len(self.ids("Queued"))
        began = time.monotonic()
        schedule.run_once(self._wiring)
        seconds = time.monotonic() - began
        settings = policy.current()[0].scheduling
        began = time.monotonic()
        core.schedule(before, settings)
        core_seconds = time.monotonic() - began
        placed -= len(self.ids("Queued"))
        while self._act():
            pass
        return Took(seconds, core_seconds, placed)

    def _end(self, uids: Sequence[str]) -> None:
        self.machines.ahead += STEP_SECONDS
        self.machines.finish(set(uids))
        observe.run_once(self._wiring)

    def _decide(self) -> int:
        return schedule.run_once(self._wiring).did

    def _act(self) -> int:
        return actuate.run_once(self._wiring).did + observe.run_once(self._wiring).did


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the cluster, then time rounds and events."""
    tuning.collect_less_often()  # as every worker does
    bench = Bench(options["nodes"], Load(options["seed"]))
    bench.fill(round((RUN + WAIT) * options["nodes"] / NODES))
    found: dict[str, Any] = {"running": len(bench.ids("Running")), "waiting": len(bench.ids("Queued"))}
    rounds = []
    for _ in range(options["count"]):
        bench.turn_over(ENDING)
        rounds.append(bench.round())
    events = []
    for _ in range(options["count"]):
        bench.event()
        events.append(bench.round())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found | {
        "rounds": [took.seconds for took in rounds],
        "cores": [took.core_seconds for took in rounds],
        "placed": [took.placed for took in rounds],
        "events": [took.seconds for took in events],
        "events_placed": sum(took.placed > 0 for took in events),
        "mib": peak / 1024,
    }
