"""How Helios' demand of 8 teams (S-Lab, cluster Earth, May 2020) becomes jobs and a cluster. Each rule is ours.

The shared file gives, each 10 minutes and for each virtual cluster, running and pending GPUs and jobs; not the jobs.

- demand: running + pending GPUs, rounded, and as many jobs, each of the mean size. When a team's demand rises, jobs of
  that size arrive, at a time drawn within the 10 minutes; when it falls, the oldest open ones end. What a job has to
  compute is how long it was open, so a job that waits here ends later than it did there.
- what is open at the end of the month goes on; the first 10 minutes' demand arrives at once.
- job: a gang of workers of one GPU that may be anywhere, preemptible, all of one kind and priority: what is measured
  is how much each team gets, not how well it packs.
- cluster: 25 nodes of 8 GPUs in one pool. Nominal quotas: the virtual clusters' own (`total_gpus`, 376 in all) scaled
  to the 200 GPUs, by largest remainder. Every team may borrow without limit and lends all; equal weights. The demand is
  not scaled: it is 245 GPUs on average, so there is nearly always a team that wants more.
"""

import csv
import gzip
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controlplane.simulator.worlds.presets import PresetError, quotas_by_weight
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

FILE = Path("cluster") / "helios_earth_vc_usage_10min.csv.gz"
COLUMNS = ("vc", "time", "total_gpus", "running_gpus", "pending_gpus", "running_gpu_jobs", "pending_gpu_jobs")
STEP = 600.0  # s
NODES, GPUS = 25, 8
POOL = "v100"


@dataclass(frozen=True, slots=True)
class HeliosJob:
    """One job: when it is submitted, how many GPUs it takes, how long it computes on them (seconds)."""

    team: str
    at: float
    gpus: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Demand:
    """One virtual cluster: what it owns, and at each step the GPUs and jobs that run or wait."""

    owned: int
    gpus: Sequence[float]
    jobs: Sequence[float]


def read_demand(path: Path) -> dict[str, Demand]:
    """The demand of each virtual cluster, by name. Raises PresetError if the file is absent or is another."""
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = csv.DictReader(file)
            if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise PresetError(f"{path} has no column {missing[0]}. Its columns must be {', '.join(COLUMNS)}.")
            by_team: dict[str, list[tuple[int, float, float]]] = {}
            for row in rows:
                gpus = float(row["running_gpus"]) + float(row["pending_gpus"])
                jobs = float(row["running_gpu_jobs"]) + float(row["pending_gpu_jobs"])
                by_team.setdefault(row["vc"], []).append((int(row["total_gpus"]), gpus, jobs))
    except (OSError, ValueError) as error:
        raise PresetError(
            f"{path} cannot be read ({error}). Set WEFT_DATA to the folder with the shared data."
        ) from error
    return {
        team: Demand(rows_[0][0], [gpus for _, gpus, _ in rows_], [jobs for _, _, jobs in rows_])
        for team, rows_ in sorted(by_team.items())
    }


def jobs(demand: Mapping[str, Demand], seed: int) -> list[HeliosJob]:
    """The jobs of all teams, in order of submission."""
    rng = np.random.default_rng(seed)
    found = [job for team, one in demand.items() for job in _of_team(team, one, rng)]
    return sorted(found, key=lambda job: (job.at, job.team))


def _of_team(team: str, demand: Demand, rng: np.random.Generator) -> Iterator[HeliosJob]:
    open_jobs: deque[tuple[float, int]] = deque()  # submitted, GPUs
    held = 0
    for step, (gpus, count) in enumerate(zip(demand.gpus, demand.jobs, strict=True)):
        wanted, start = round(gpus), step * STEP
        size = max(1, round(gpus / count)) if count > 0 else 1
        while open_jobs and held - open_jobs[0][1] >= wanted:
            at, one = open_jobs.popleft()
            held -= one
            yield HeliosJob(team, at, one, start + rng.uniform(0, STEP) - at)
        while held < wanted:
            one = min(size, wanted - held)
            open_jobs.append((start + (rng.uniform(0, STEP) if step else 0.0), one))
            held += one
    end = len(demand.gpus) * STEP
    for at, one in open_jobs:
        yield HeliosJob(team, at, one, end - at + STEP)


def nodes() -> tuple[Node, ...]:
    """The cluster: 200 GPUs."""
    return tuple(
        Node(f"v100-{i:02}", POOL, "V100", GPUS, 32 * 1024, 64_000, 512 * 1024, f"rack-{i // 5}", "zone-0", GPUS)
        for i in range(NODES)
    )


def teams(demand: Mapping[str, Demand]) -> tuple[Team, ...]:
    """One team a virtual cluster, by name."""
    return tuple(Team(name) for name in demand)


def quotas(demand: Mapping[str, Demand]) -> tuple[Quota, ...]:
    """What each team owns of the 200 GPUs."""
    return quotas_by_weight(nodes(), {team: float(one.owned) for team, one in demand.items()})
