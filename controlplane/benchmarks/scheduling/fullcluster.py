"""A full cluster of 1,250 nodes x 8 GPUs with 200 teams and 1,000 waiting workloads, as a snapshot without a database.

Every team owns about what it holds, so that little can be reclaimed, and what waits asks more than is free: the round
refuses nearly all workloads, as on a cluster that has been busy for long.
"""

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Assignment, Gang, Kind, Phase, ResourceRequest, Workload

AT = 1_000_000.0
NODES, GPUS, TEAMS, WAITING = 1250, 8, 200, 1000
MODELS = ("a100", "h100")


def full_cluster(seed: int) -> Snapshot:
    """The same seed gives the same cluster."""
    rng = np.random.default_rng(seed)
    nodes = [
        Node(
            f"n{i:04}", MODELS[i % 2], MODELS[i % 2], GPUS, 81_920, 128_000, 1_048_576, f"r{i // 16}", f"z{i // 320}", 8
        )
        for i in range(NODES)
    ]
    running = [workload for i in range(NODES) for workload in _on_node(rng, i)]
    held: dict[tuple[str, str], int] = {}
    for workload in running:
        key = (workload.team, MODELS[int(workload.placement[0].node[1:]) % 2])
        held[key] = held.get(key, 0) + workload.held_milli
    teams = [Team(f"t{i}") for i in range(TEAMS)]
    quotas = [Quota(t.name, model, held.get((t.name, model), 0) // WHOLE * WHOLE) for t in teams for model in MODELS]
    waiting = [_waiting(rng, len(running) + i) for i in range(WAITING)]
    return Snapshot.build(AT, nodes, teams, quotas, [*running, *waiting])


def _on_node(rng: np.random.Generator, node: int) -> list[Workload]:
    """Work that fills a node, but for a GPU now and then."""
    found, first = [], int(rng.random() < 0.1)
    while first < GPUS:
        gpus = min(int(rng.choice([1, 1, 2, 2, 4, 8])), GPUS - first)
        name = f"run-{node}-{first}"
        place = Assignment(0, f"n{node:04}", tuple(range(first, first + gpus)))
        found.append(
            Workload(
                name, name, f"t{rng.integers(TEAMS)}", Kind.TRAINING, _ask(gpus), priority=int(rng.choice([100, 200])),
                phase=Phase.RUNNING, seq=node * GPUS + first, attempt=1, placement=(place,),
                started_at=AT - float(rng.integers(100, 90_000)),
            )
        )  # fmt: skip
        first += gpus
    return found


def _waiting(rng: np.random.Generator, seq: int) -> Workload:
    workers = int(rng.choice([1, 1, 2, 4, 8, 16]))
    return Workload(
        f"wait-{seq}", f"wait-{seq}", f"t{rng.integers(TEAMS)}", Kind.TRAINING, _ask(int(rng.choice([1, 2, 4, 8]))),
        Gang(workers, workers, workers), priority=int(rng.choice([0, 100])), seq=NODES * GPUS + seq,
        queued_at=AT - float(rng.integers(0, 9000)),
    )  # fmt: skip


def _ask(gpus: int) -> ResourceRequest:
    return ResourceRequest(gpus=gpus, cpu_milli=8000 * gpus, memory=65_536 * gpus)
