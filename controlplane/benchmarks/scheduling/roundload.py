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
from controlplane.loops import lease as leases
from controlplane.loops.wiring import Wiring
from controlplane.models import Cycle, Workload, bulk
from controlplane.queries.scheduling import snapshot as snapshots
from controlplane.runtime import tuning
from controlplane.services.scheduling import policy
from controlplane.services.workloads import presets, submission
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.cycle import schedule as core
from scheduler.model.decision import Wait
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
    """Job files: which team and size each has follows from the seed. first: how many there were before.

    is_whole: those that ask for half a GPU ask for one.
    """

    def __init__(self, seed: int, first: int = 0, *, is_whole: bool = False) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a load, not a secret
        self._number, self._is_whole = first, is_whole

    def job(self, gpus: int | None = None) -> Spec:
        """The next one; of `gpus` whole GPUs, or of any size."""
        each, workers, _ = self._random.choices(SIZES, [part for *_, part in SIZES])[0]
        if gpus is not None:
            each, workers = gpus, 1
        self._number += 1
        each = each or int(self._is_whole)
        asked: dict[str, Any] = {"gpus": each} if each else {"gpu_share": {"guarantee": 0.5, "memory": "10Gi"}}
        asked |= self.models()
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

    def models(self) -> dict[str, Any]:
        """What the next one says of GPU models; there is one model here."""
        return {}

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
    """One round from the changed rows to the commit: seconds by the clock and of this process's processor, changes.

    changes: workloads placed or made to leave. placed: how many fewer wait after it.
    """

    seconds: float
    cpu_seconds: float
    changes: int
    placed: int


def prepare(made: Preset) -> None:
    """Weft's tables, with this preset."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    presets.load(preset=made, password=connection.settings_dict["NAME"], speed=1.0)
    presets.forget_world(now=time.time())


class Bench:
    """Weft's loops in one process, and the cluster they drive."""

    def __init__(self, machines: Machines, load: Load) -> None:
        self._load = load
        self.machines = machines
        self._wiring = Wiring(self.machines, Unmeasured(), "benchmark")
        observe.run_once(self._wiring)

    def fill(self, jobs: int) -> None:
        """Submit so many and let them settle."""
        self.submit_some(jobs)
        self.settle()

    def submit_some(self, jobs: int) -> None:
        """Submit the next so many."""
        for first in range(0, jobs, 500):
            self.submit([self._load.job() for _ in range(first, min(first + 500, jobs))])

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
        self.settle()
        self.submit([self._load.job(1)])

    def settle(self) -> None:
        """Have rounds follow each other until nothing changes any more."""
        while self._decide() or self._act():
            pass

    def settle_at_once(self) -> None:
        """The same with few rounds: the cluster does all that one decided before the next."""
        while self._decide() or self._act():
            while self._act():
                pass

    def round(self) -> Took:
        """One round of the schedule loop on what has changed, timed; then the cluster does what was decided."""
        took = self.decide()
        while self._act():
            pass
        return took

    def round_and_core(self) -> tuple[Took, float]:
        """The same, and the seconds that the core alone takes on the same input, from scratch."""
        before = snapshots.full(self.machines.now())
        took = self.decide()
        settings = policy.current()[0].scheduling
        began = time.monotonic()
        core.schedule(before, settings)
        core_seconds = time.monotonic() - began
        while self._act():
            pass
        return took, core_seconds

    def decide(self) -> Took:
        """One round of the schedule loop, timed; nothing else."""
        waiting, last = len(self.ids("Queued")), _last_round()
        began, began_cpu = time.monotonic(), time.process_time()
        schedule.run_once(self._wiring)
        seconds, cpu_seconds = time.monotonic() - began, time.process_time() - began_cpu
        number, counts = _last_round()
        changes = sum(count for kind, count in counts.items() if kind != Wait.__name__) if number != last[0] else 0
        return Took(seconds, cpu_seconds, changes, waiting - len(self.ids("Queued")))

    def leave(self) -> None:
        """Give the leases back: another process goes on."""
        leases.release_all(self._wiring)

    def _end(self, uids: Sequence[str]) -> None:
        self.machines.ahead += STEP_SECONDS
        self.machines.finish(set(uids))
        observe.run_once(self._wiring)

    def _decide(self) -> int:
        return schedule.run_once(self._wiring).did

    def _act(self) -> int:
        return actuate.run_once(self._wiring).did + observe.run_once(self._wiring).did


def _last_round() -> tuple[int, Mapping[str, int]]:
    """The number of the last round that decided anything, 0 before the first, and what it decided by kind."""
    rows = Cycle.objects.filter(loop="schedule").order_by("-id").values_list("id", "counts")
    return rows.first() or (0, {})


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the cluster, then time rounds and events."""
    bench = _filled(options, Load(options["seed"]))
    found: dict[str, Any] = {"running": len(bench.ids("Running")), "waiting": len(bench.ids("Queued"))}
    rounds = []
    for _ in range(options["count"]):
        bench.turn_over(ENDING)
        rounds.append(bench.round_and_core())
    events = []
    for _ in range(options["count"]):
        bench.event()
        events.append(bench.round())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found | {
        "rounds": [took.seconds for took, _ in rounds],
        "cpu": [took.cpu_seconds for took, _ in rounds],
        "cores": [core_seconds for _, core_seconds in rounds],
        "placed": [took.placed for took, _ in rounds],
        "changes": [took.changes for took, _ in rounds],
        "events": [took.seconds for took in events],
        "events_placed": sum(took.placed > 0 for took in events),
        "mib": peak / 1024,
    }


def measure_whole(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same without shares of GPUs: the processor time of full rounds."""
    bench = _filled(options, Load(options["seed"], is_whole=True))
    cpu = []
    for _ in range(options["count"]):
        bench.turn_over(ENDING)
        cpu.append(bench.round().cpu_seconds)
    return {"cpu": cpu}


def _filled(options: Mapping[str, Any], load: Load) -> Bench:
    tuning.collect_less_often()  # as every worker does
    made = preset(options["nodes"])
    prepare(made)
    bench = Bench(Machines(made.nodes), load)
    bench.fill(round((RUN + WAIT) * options["nodes"] / NODES))
    return bench
