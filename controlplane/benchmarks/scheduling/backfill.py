"""`backfill`: a gang of the whole cluster under an endless stream of single-GPU jobs, through the real core.

8 nodes of 8 GPUs are full of single-GPU jobs: when one ends, another comes. A gang of all 64 GPUs is submitted to the
same team, and from then on a tenth more jobs come than the cluster can do. The gang's wait is compared with the bound:
the longest job that runs when the reservation opens, and the time until it opens (its window). The utilisation over
ten times the bound is compared with the same stream without reservations, where the gang never starts.

Two streams have expected ends: users say the truth; users say between half and four times the truth and every tenth
nothing (the rule of simulator/worlds/philly.py). The worst of these and of all seeds counts. In a third, no user
states a running time and only history is known. It has figures of its own without goals: without expected ends a
scheduler can only drain.
"""

from dataclasses import dataclass

import numpy as np

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.simulator.replay.queueing import Job, Queueing
from controlplane.simulator.worlds.philly import expected_seconds
from scheduler.actions.backfill import waits, window
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Gang, Kind, ResourceRequest, Workload
from scheduler.state.plan import Plan

SHORTEST, LONGEST = 60.0, 3600.0  # s: of a lognormal distribution around 10 minutes
TYPICAL, SPREAD, MEAN_SECONDS = 600.0, 1.0, 908.0  # s, of the logarithm, s (after clipping)
LOAD = 1.1  # arriving GPU time over what the cluster has
WARM_SECONDS = 2 * LONGEST  # the stream is steady, and history knows something
GANG_SECONDS = 300.0
STREAMS = ("exact", "users", "silent")  # the last has no expected ends
RATIO, LOSS_POINTS = 1.1, 5.0


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run is: nodes, GPUs of each, and its length after the gang's submission, in bounds."""

    nodes: int = 8
    gpus: int = 8
    bounds: int = 10

    @property
    def all(self) -> int:
        """GPUs of the cluster."""
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: how long the gang waited (None: it never started), the bound, and the part of GPU time in use."""

    waited: float | None
    bound: float
    utilisation: float


STANDARD = Size()


def run(options: Options, progress: Progress) -> Result:
    """Run every stream with each seed, with reservations and without. Raises BenchmarkError if a gang never starts."""
    ratios: dict[str, float] = {}
    losses: dict[str, float] = {}
    notes = []
    runs = [(stream, seed) for stream in STREAMS for seed in options.seeds]
    for done, (stream, seed) in enumerate(runs):
        progress(done / len(runs), f"{stream} estimates, seed {seed}")
        kept = replayed(stream, seed, Settings())
        if kept.waited is None:
            raise BenchmarkError(f"With {stream} estimates and seed {seed} the gang never started.")
        free = replayed(stream, seed, Settings(reservations_per_pool=0), kept.bound)
        lost = 100 * (free.utilisation - kept.utilisation)
        group = "silent_" if stream == "silent" else ""
        ratios[group] = max(ratios.get(group, 0.0), kept.waited / kept.bound)
        losses[group] = max(losses.get(group, -100.0), lost)
        never = "never" if free.waited is None else f"after {free.waited:.0f} s"
        notes.append(
            f"{stream}, seed {seed}: started after {kept.waited:.0f} s, bound {kept.bound:.0f} s; {lost:.2f} "
            f"points lost of {100 * free.utilisation:.1f} %; without reservations it starts {never}"
        )
    figures = []
    for group in ratios:
        ratio, loss = (None, None) if group else (RATIO, LOSS_POINTS)
        figures.append(Figure(f"backfill.{group}gang_wait_ratio", round(ratios[group], 3), "", ratio))
        figures.append(Figure(f"backfill.{group}utilisation_loss_points", round(losses[group], 2), "points", loss))
    return Result(tuple(figures), tuple(notes))


def replayed(
    estimates: str, seed: int, settings: Settings, bound: float | None = None, size: Size = STANDARD
) -> Outcome:
    """One run over ten times the bound from the gang's submission; without `bound`, the run's own."""
    at = 100_000.0
    submitted = at + WARM_SECONDS
    cluster = Queueing(at, _nodes(size), (Team("red"),), (Quota("red", "pool", size.all * 1000),), settings)
    stream = _Stream(estimates, np.random.default_rng(seed), submitted, size)
    stream.fill(cluster)
    while cluster.next_end < submitted:
        stream.replace(cluster)
    gang = stream.gang(submitted)
    cluster.advance(submitted, [Job(gang, GANG_SECONDS)])
    busy = cluster.busy_milli_seconds
    end = None if bound is None else submitted + size.bounds * bound
    while end is None or stream.next_moment(cluster) < end:
        stream.step(cluster)
        opens = window(waits(Plan(cluster.snapshot)), gang, settings) if bound is None else 0.0
        if bound is None and cluster.snapshot.at - submitted > opens:
            running = (w for w in cluster.snapshot.workloads.values() if w.started_at is not None)
            bound = opens + max((cluster.seconds_of(w.id) for w in running), default=0.0)
            end = submitted + size.bounds * bound
    started = cluster.started.get("gang")
    span = cluster.snapshot.at - submitted
    utilisation = (cluster.busy_milli_seconds - busy) / (size.all * 1000 * span)
    return Outcome(None if started is None else started - submitted, bound or 0.0, utilisation)


class _Stream:
    """Single-GPU jobs without end: as many as fit at first, and more than that from a moment on."""

    def __init__(self, estimates: str, rng: np.random.Generator, crowded_from: float, size: Size) -> None:
        self._estimates = estimates
        self._rng = rng
        self._number = 0
        self._next = crowded_from
        self._size = size

    def fill(self, cluster: Queueing) -> None:
        """A job for each GPU."""
        at = cluster.snapshot.at
        cluster.advance(at, [self._job(at) for _ in range(self._size.all)])

    def replace(self, cluster: Queueing) -> None:
        """Go to the next end; another job comes in its place."""
        at = cluster.next_end
        cluster.advance(at, [self._job(at)])

    def next_moment(self, cluster: Queueing) -> float:
        """When the next job comes or ends."""
        return min(cluster.next_end, self._next)

    def step(self, cluster: Queueing) -> None:
        """Go to the next moment."""
        at = self.next_moment(cluster)
        jobs = []
        if at == self._next:
            jobs.append(self._job(at))
            self._next += float(self._rng.exponential(MEAN_SECONDS / (LOAD * self._size.all)))
        cluster.advance(at, jobs)

    def gang(self, at: float) -> Workload:
        """The gang of the whole cluster."""
        self._number += 1
        gang = Gang(self._size.nodes, self._size.nodes, self._size.nodes)
        return Workload(
            "gang", "gang", "red", Kind.TRAINING, ResourceRequest(gpus=self._size.gpus), gang, seq=self._number,
            submitted_at=at, queued_at=at, expected_seconds=GANG_SECONDS,
        )  # fmt: skip

    def _job(self, at: float) -> Job:
        self._number += 1
        seconds = float(np.clip(TYPICAL * self._rng.lognormal(0.0, SPREAD), SHORTEST, LONGEST))
        said = {"exact": seconds, "users": expected_seconds(self._number, seconds), "silent": None}[self._estimates]
        name = f"s{self._number:06}"
        workload = Workload(
            name, name, "red", Kind.TRAINING, ResourceRequest(gpus=1), seq=self._number, submitted_at=at, queued_at=at,
            expected_seconds=said,
        )  # fmt: skip
        return Job(workload, seconds)


def _nodes(size: Size) -> tuple[Node, ...]:
    return tuple(Node(f"n{i:02}", "pool", "gpu", size.gpus, 80_000, 128_000, 1_000_000) for i in range(size.nodes))
