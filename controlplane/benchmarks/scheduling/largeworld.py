"""A database as a large cluster has it: what `page-large` looks at. Written at once, with no loop behind it.

1,200 nodes of 8 GPUs in 60 racks, 200 teams in 20 groups, 8,000 workloads: 6 in 10 running, 3 in 10 waiting, the rest
ended. Places are true (no GPU is held twice), so that the order of the queue and the map are worked out in full.
`api-large` has it in another size.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from controlplane.jobspec.spec import parse
from controlplane.models import (
    ClusterState,
    Event,
    Gpu,
    Node,
    NodePool,
    Placement,
    PlacementState,
    PriorityClass,
    Team,
    TeamSample,
    Usage,
    Workload,
)
from controlplane.services.workloads import presets
from controlplane.simulator.worlds.presets import START, Pool, Preset
from scheduler.model import team as tenants
from scheduler.model.workload import Phase

GPUS_EACH, RACK = 8, 20
TEAMS, GROUPS = 200, 20
WORKLOADS = 8000
HOURS = 6
NOW = START + HOURS * 3600.0
BATCH = 1000
WHY = (
    ("WaitingForCapacity", "It needs 8 A100; 2 are free."),
    ("WaitingForQuota", "team-7 holds all 44 GPUs of its quota."),
    ("Fragmented", "It needs 4 GPUs on one node; the best node has 3 free."),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large. running, waiting: of all workloads; the rest has ended. gpus: what they ask, by turns.

    is_packed: the turns are counted for each phase, so that what runs fills each node where they sum up to one; and
    only what waits has a past.
    """

    nodes: int = 1200
    running: float = 0.6
    waiting: float = 0.3
    gpus: Sequence[int] = (1, 1, 2, 1, 4, 1, 2, 8)
    is_packed: bool = False


def prepare(options: Mapping[str, Any], size: Size = Size()) -> dict[str, Any]:
    """Fill an empty, migrated database; tell what is in it. `options["count"]` workloads."""
    _preset(options["password"], size.nodes)
    teams = list(Team.objects.exclude(parent=None).order_by("pk"))
    pool = NodePool.objects.get()
    nodes = _nodes(pool, size.nodes)
    free = ((node, gpu) for node in nodes for gpu in range(GPUS_EACH))
    count = int(options["count"])
    rows = _workloads(teams, count, size)
    Workload.objects.bulk_create(rows, batch_size=BATCH)
    Placement.objects.bulk_create(_places(rows, free), batch_size=BATCH)
    told = [w for w in rows if w.phase == Phase.QUEUED] if size.is_packed else rows
    Event.objects.bulk_create(_events(told), batch_size=BATCH)
    if not size.is_packed:
        _history(teams, rows)
    return {
        "nodes": len(nodes), "teams": Team.objects.count(), "workloads": count,
        "waiting": sum(w.phase == Phase.QUEUED for w in rows), "events": Event.objects.count(),
    }  # fmt: skip


def _preset(password: str, nodes: int) -> None:
    groups = tuple(tenants.Team(f"group-{i}") for i in range(GROUPS))
    teams = tuple(tenants.Team(f"team-{i}", parent=f"group-{i % GROUPS}") for i in range(TEAMS - GROUPS))
    milli = nodes * GPUS_EACH * 1000 // len(teams)
    quotas = tuple(tenants.Quota(one.name, "a100", milli) for one in teams)
    preset = Preset("large", 1.0, 0, (), (Pool("a100", "A100"),), (*groups, *teams), quotas, ())
    presets.load(preset=preset, password=password, speed=1.0)
    presets.set_pace(paused=True)
    ClusterState.objects.update(now=NOW, observed_at=datetime.now(UTC))


def _nodes(pool: NodePool, count: int) -> list[Node]:
    nodes = [
        Node(
            name=f"node-{i:04}", pool=pool, gpu_model=pool.gpu_model, gpu_count=GPUS_EACH, gpu_memory=81_920,
            cpu_milli=128_000, memory=2**20, rack=f"rack-{i // RACK:02}", zone=f"zone-{i // RACK % 3}", ready=True,
            schedulable=True,
        )
        for i in range(count)
    ]  # fmt: skip
    Node.objects.bulk_create(nodes, batch_size=BATCH)
    gpus = [Gpu(node=node, index=i, duty=0.8, memory_used=60_000) for node in nodes for i in range(GPUS_EACH)]
    Gpu.objects.bulk_create(gpus, batch_size=BATCH)
    return nodes


def _workloads(teams: Sequence[Team], count: int, size: Size) -> list[Workload]:
    """Workloads by turns of all teams, of one to eight GPUs; each phase from oldest to newest."""
    classes = list(PriorityClass.objects.order_by("value"))
    specs = {gpus: parse(_job(gpus)).document() for gpus in (1, 2, 4, 8)}
    rows, seen = list[Workload](), Counter[Phase]()
    for i in range(count):
        place = (i * 7919) % count / count  # spreads the phases over the order of submission
        is_live = place < size.running + size.waiting
        phase = Phase.RUNNING if place < size.running else Phase.QUEUED if is_live else Phase.SUCCEEDED
        turn = seen[phase] if size.is_packed else i
        seen[phase] += 1
        gpus, at = size.gpus[turn % len(size.gpus)], START + i * HOURS * 3600.0 / count
        reason, message = WHY[i % 3] if phase is Phase.QUEUED else ("", "")
        priority = classes[i % len(classes)]
        has_run = phase is not Phase.QUEUED
        rows.append(
            Workload(
                uid=uuid.UUID(int=i + 1), seq=i + 1, team=teams[i % len(teams)], name=f"job-{i}", kind="training",
                priority_class=priority, priority=priority.value, spec={**specs[gpus], "name": f"job-{i}"}, gpus=gpus,
                cpu_milli=4000, memory=16_384, phase=phase.value, reason=reason, message=message,
                attempt=int(has_run), submitted_at=at, queued_at=at, started_at=at + 60 if has_run else None,
                first_started_at=at + 60 if has_run else None, progress=0.4 if has_run else None,
                ended_at=NOW - 30 if phase is Phase.SUCCEEDED else None,
                exit_code=0 if phase is Phase.SUCCEEDED else None,
            )
        )  # fmt: skip
    return rows


def _job(gpus: int) -> dict[str, Any]:
    resources = {"gpus": gpus, "cpu": 4, "memory": "16Gi"}
    return {"type": "training", "name": "job", "team": "team-0", "image": "example/train:1", "resources": resources}


def _places(rows: Sequence[Workload], free: Iterator[tuple[Node, int]]) -> Iterator[Placement]:
    for w in rows:
        if w.phase != Phase.RUNNING:
            continue
        mine = list(islice(free, w.gpus))
        while mine and mine[0][0] is not mine[-1][0]:  # all on one node: what is left on the last one stays free
            mine = [*(one for one in mine if one[0] is mine[-1][0]), *islice(free, 1)][-w.gpus :]
        if len(mine) == w.gpus:
            yield Placement(
                workload=w, attempt=1, rank=0, node=mine[0][0].name, pool="a100", gpus=[gpu for _, gpu in mine],
                milli=w.gpus * 1000, state=PlacementState.BOUND, pod_phase="Running", bound_at=w.started_at,
                accounted_to=NOW,
            )  # fmt: skip


def _events(rows: Sequence[Workload]) -> Iterator[Event]:
    at = datetime.now(UTC)
    for w in rows:
        kinds = (
            ["Submitted", "Waiting"] if w.phase == Phase.QUEUED else ["Submitted", "Admitted", "Starting", "Running"]
        )
        for step, kind in enumerate(kinds):
            yield Event(
                at=at, cluster_at=w.submitted_at + 20 * step, actor="loop:schedule" if step else "benchmark", kind=kind,
                phase="Queued" if kind in ("Submitted", "Waiting") else kind, team=w.team.name, workload=w.uid,
                name=w.name, reason=w.reason if kind == "Waiting" else "",
                message=w.message if kind == "Waiting" else "",
            )  # fmt: skip


def _history(teams: Sequence[Team], rows: Sequence[Workload]) -> None:
    """A sample a minute of each team, and the usage rows of what ran."""
    samples = (
        TeamSample(team=team, at=NOW - 60.0 * k, nominal=48_000, held=40_000, computing=30_000, waiting=12)
        for k in range(HOURS * 60)
        for team in teams
    )
    TeamSample.objects.bulk_create(samples, batch_size=BATCH)
    used = (
        Usage(
            team=w.team, workload=w.uid, name=w.name, pool="a100", hour=int(START), held=3_600_000, computed=2_900_000
        )
        for w in rows
        if w.attempt
    )
    Usage.objects.bulk_create(used, batch_size=BATCH)
