"""The load of `round-large`, and its two processes: one fills the cluster, the other takes over and decides.

The load is that of `round` (scheduling/roundload.py) with two GPU models, each a pool of its own in which every team
owns a part: of five jobs two name the one model, two the other, and one takes either.
"""

import random
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from controlplane.benchmarks.scheduling.roundload import (
    ENDING,
    GPUS,
    TEAMS,
    Bench,
    Load,
    Machines,
    Took,
    prepare,
)
from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.models import Placement, PlacementState, Workload
from controlplane.queries.scheduling.snapshot import observed_at
from controlplane.runtime import tuning
from controlplane.services.scheduling import policy
from controlplane.simulator.worlds.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team
from scheduler.policies.warm import warm

RUN, WAIT = 0.48, 0.1  # workloads that run, and that wait, for each GPU: 24,000 and 5,000 on 50,000
SLOWLY = 0.001  # of what runs ends before a round of slow turnover
POOLS = (Pool("a100", "A100"), Pool("h100", "H100"))
FIRST = 5 / 8  # of the machines are of the first pool
NAMED = (2, 2, 1)  # of so many jobs: name the first model, the second, none
AT_ONCE = 1_000_000  # changes that a round may make while the cluster is filled
EASILY = 0.8  # of what will run finds room without making others leave


def preset(nodes: int) -> Preset:
    """So many nodes in racks of 25; teams that own each pool in equal parts and may borrow as much again."""
    names = [f"team-{number:03}" for number in range(TEAMS)]
    first = round(nodes * FIRST)
    machines, quotas = list[Node](), list[Quota]()
    for pool, numbers in zip(POOLS, (range(first), range(first, nodes)), strict=True):
        nominal = len(numbers) * GPUS * WHOLE // TEAMS
        quotas += [Quota(name, pool.name, nominal, nominal) for name in names]
        machines += [
            Node(
                f"n{i:05}", pool.name, pool.gpu_model, GPUS, 81_920, 128_000, 1_048_576, rack=f"r{i // 25:03}", nvlink=8
            )
            for i in numbers
        ]
    return Preset("round-large", 1.0, 0, tuple(machines), POOLS, tuple(map(Team, names)), tuple(quotas), ())


class Models(Load):
    """The job files of `round`, of which most name a GPU model."""

    def __init__(self, seed: int, first: int = 0) -> None:
        super().__init__(seed, first)
        self._of_models = random.Random(seed + 1)  # noqa: S311 - a load, not a secret

    def models(self) -> dict[str, Any]:
        """The model that the next one names, if any."""
        (number,) = self._of_models.choices(range(len(NAMED)), NAMED)
        return {"gpu_model": [POOLS[number].gpu_model]} if number < len(POOLS) else {}


def fill(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the cluster: so much is submitted that about 0.48 workloads a GPU run and 0.1 wait.

    As long as there is room for all, a round may change as much as it likes: with production's 500 it would only take
    more rounds. What then competes is decided as in production.
    """
    made = preset(options["nodes"])
    prepare(made)
    bench = Bench(Machines(made.nodes), Models(options["seed"]))
    policy.change(changes={"scheduling": {"max_changes": AT_ONCE}}, author="benchmark")
    jobs, running = (round(part * options["nodes"] * GPUS) for part in (RUN + WAIT, RUN))
    bench.submit_some(round(running * EASILY))
    bench.settle_at_once()
    policy.change(changes={"scheduling": {"max_changes": Settings().max_changes}}, author="benchmark")
    bench.submit_some(jobs - round(running * EASILY))
    bench.settle_at_once()
    return {"running": len(bench.ids("Running")), "waiting": len(bench.ids("Queued"))}


def decide(options: Mapping[str, Any]) -> dict[str, Any]:
    """Take over a filled cluster, then time rounds and events."""
    tuning.collect_less_often()  # as every worker does, and the next line too
    warm()
    machines = Machines(preset(options["nodes"]).nodes)
    machines.ahead = max(0.0, observed_at() - time.time())
    machines.resume(pods())
    bench = Bench(machines, Models(options["seed"] + 2, Workload.objects.count()))
    bench.turn_over(ENDING)
    takeover = bench.round()
    bench.settle()
    found = {"running": len(bench.ids("Running")), "waiting": len(bench.ids("Queued"))}
    rounds = [_turned_over(bench, ENDING) for _ in range(options["count"])]
    bench.settle()  # what quick turnover left to be done is no part of slow turnover
    slow = [_turned_over(bench, SLOWLY) for _ in range(options["count"])]
    events = [_event(bench) for _ in range(options["count"])]
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    runs = {"rounds": rounds, "slow": slow, "events": events}
    return found | {name: _columns(some) for name, some in runs.items()} | {"takeover": asdict(takeover), "mib": mib}


def _turned_over(bench: Bench, ratio: float) -> Took:
    bench.turn_over(ratio)
    return bench.round()


def _event(bench: Bench) -> Took:
    bench.event()
    return bench.round()


def _columns(some: Sequence[Took]) -> dict[str, list[float]]:
    return {name: [asdict(took)[name] for took in some] for name in Took.__dataclass_fields__}


def pods() -> list[PodSeen]:
    """What runs, as the database has it."""
    held = Placement.objects.filter(state=PlacementState.BOUND, released_at=None)
    columns = ("workload_id", "attempt", "rank", "node", "gpus", "bound_at")
    return [
        PodSeen(str(uid), attempt, rank, node, tuple(gpus), PodPhase.RUNNING, at)
        for uid, attempt, rank, node, gpus, at in held.order_by("id").values_list(*columns)
    ]
