"""How often the expected start is right: the shared Philly file on 30 nodes of 8 GPUs, through the real core.

All jobs come at their own times, with what simulator/worlds/philly.py lets their users say about running times; one
team a virtual cluster, without quotas, one priority. The file asks for far more than 240 GPUs, so thousands wait for
days. Three things keep a replay within half an hour, and none of them touches what is counted:

- a round every quarter of an hour: times are rounded up to it, running times to the nearest, at least one;
- a round sees the first `DEPTH` of each team's line (Slurm: bf_max_job_user), hardly less than may start at once;
- expected starts are asked once in `ASKED_EVERY` of the cluster's time, for `ASKED` of the workloads queued since.

History learns from what has ended and from the predictions whose starts have been seen: at a prediction only what was
known by then. Counted are the predictions of the second half of the file; those of jobs that had not started when the
last job came still are, as the replay goes on until all have ended. An interval covers a start if the start is in it.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from controlplane.benchmarks.harness.figure import BenchmarkError, Progress
from controlplane.simulator.replay.queueing import Job, Queueing
from controlplane.simulator.worlds import philly, traces
from controlplane.simulator.worlds.presets import PresetError
from controlplane.simulator.worlds.traces import PhillyRow
from scheduler.model.history import NEWEST, Mistake
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Team
from scheduler.model.workload import Gang, Kind, Level, ResourceRequest, Topology, Workload
from scheduler.predict.expected_start import corrected, mistakes, predicted_waits
from scheduler.predict.run_times import Spread

TRACE = Path("training") / "philly" / "jobs_vc_a.csv.gz"
NODES, GPUS = 30, 8
ROUND = 900.0  # s
DEPTH = 150  # of each team
ASKED_EVERY = 24 * 3600.0  # s
ASKED = 40  # of those that came to wait since, spread evenly over them
START = 100_000.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the predictions of the second half were like."""

    asked: int
    covered_percent: float
    median_width_seconds: float  # of the intervals
    plain_width_seconds: float  # from the tenth to the nine tenths of the first half's waits
    unknown: int  # asked, without a prediction

    @property
    def note(self) -> str:
        """The figures as a sentence."""
        return (
            f"{self.asked} expected starts: {self.covered_percent:.1f} % within their interval, median width "
            f"{self.median_width_seconds:.0f} s; history's plain 10-90 % range {self.plain_width_seconds:.0f} s; "
            f"{self.unknown} unknown"
        )


def measure(data: Path, progress: Progress, most: int | None = None) -> Coverage:
    """Replay the file (or its first `most` jobs) and compare. Raises BenchmarkError if it is absent."""
    rows = sorted(trace(data), key=lambda row: (row.at, row.index))[:most]
    cluster = Queueing(START, _nodes(), [Team(name) for name in sorted({philly.team(row.vc) for row in rows})])
    jobs = [_job(row, number, rows[0].at) for number, row in enumerate(rows)]
    lines = _Lines(cluster, jobs)
    asker = _Asker(lines, jobs, progress)
    while lines.advance():
        asker.look()
    return asker.result()


def trace(data: Path) -> list[PhillyRow]:
    """The shared file. Raises BenchmarkError if it is absent."""
    try:
        return [row for row in traces.read_rows(data / TRACE) if isinstance(row, PhillyRow)]
    except PresetError as error:
        raise BenchmarkError(str(error)) from None


class _Lines:
    """The cluster behind one line a team: a job is the scheduler's to see once it is among the first of its line."""

    def __init__(self, cluster: Queueing, jobs: list[Job]) -> None:
        self.cluster = cluster
        self.came: dict[str, float] = {}
        self._coming = iter(jobs)
        self._next = next(self._coming, None)
        self._held: dict[str, deque[Job]] = {}
        self._seen: dict[str, set[str]] = {}  # by team: the workloads that wait in the cluster

    def advance(self) -> bool:
        """Go to the next moment; False at the end."""
        at = min(self.cluster.next_end, self._next.workload.queued_at if self._next else math.inf)
        if math.isinf(at):
            return False
        while self._next is not None and self._next.workload.queued_at <= at:
            self._held.setdefault(self._next.workload.team, deque()).append(self._next)
            self.came[self._next.workload.id] = at
            self._next = next(self._coming, None)
        self.cluster.advance(at, list(self._first()))
        for seen in self._seen.values():
            seen.difference_update([uid for uid in seen if uid in self.cluster.started])
        return True

    def snapshot(self) -> Snapshot:
        """The cluster and every workload that waits, seen by rounds or not."""
        return self.cluster.snapshot.replace(changed=[job.workload for held in self._held.values() for job in held])

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._held.values())) + sum(map(len, self._seen.values()))

    def _first(self) -> Iterator[Job]:
        for team, held in self._held.items():
            seen = self._seen.setdefault(team, set())
            while held and len(seen) < DEPTH:
                job = held.popleft()
                seen.add(job.workload.id)
                yield job


class _Asker:
    """Asks for expected starts from time to time, and compares when those asked have started."""

    def __init__(self, lines: _Lines, jobs: list[Job], progress: Progress) -> None:
        self._lines, self._cluster = lines, lines.cluster
        self._progress = progress
        self._jobs = [job.workload for job in jobs]
        self._half = self._jobs[len(jobs) // 2].queued_at
        self._next = START  # when to ask again
        self._asked = 0  # jobs that have come by the last asking
        self._open: dict[str, tuple[float, Spread, Spread]] = {}  # asked at, raw waits, what was told
        self._mistakes: list[Mistake] = []
        self._counted: list[tuple[bool, float]] = []  # covered, width
        self._unknown = 0

    def look(self) -> None:
        """After a round: what started; and is it time to ask."""
        started = self._cluster.started
        for uid in [uid for uid in self._open if uid in started]:
            self._compare(*self._open.pop(uid), started[uid])
        if self._cluster.snapshot.at < self._next or self._asked == len(self._jobs):
            return
        self._next = self._cluster.snapshot.at + ASKED_EVERY
        come = len(self._lines.came)
        new = [w.id for w in self._jobs[self._asked : come] if w.id not in started]
        self._asked = come
        if new:
            self._ask(new[:: -(-len(new) // ASKED)])
        days = (self._cluster.snapshot.at - START) / 86_400
        self._progress(come / len(self._jobs), f"day {days:.1f}, {self._lines.waiting} wait")

    def _ask(self, uids: list[str]) -> None:
        snapshot = self._lines.snapshot()
        at, raw = snapshot.at, replace(snapshot.history, mistakes=())
        known = replace(raw, mistakes=mistakes(self._mistakes[-NEWEST:]))
        found = predicted_waits(snapshot, self._cluster.settings, raw)
        for uid in uids:
            waits = found.get(uid)
            told = corrected(waits, at, known) if waits else None
            if waits is None or told is None:
                self._unknown += 1
            else:
                self._open[uid] = at, waits, told

    def _compare(self, at: float, waits: Spread, told: Spread, start: float) -> None:
        self._mistakes.append(Mistake(waits.low, waits.median, waits.high, start - at))
        if at >= self._half:
            self._counted.append((told.low - 1 <= start <= told.high + 1, told.high - told.low))

    def result(self) -> Coverage:
        """The figures. Raises BenchmarkError if no workload waited."""
        came, started = self._lines.came, self._cluster.started
        first = [w.id for w in self._jobs if w.queued_at < self._half]
        plain = [wait for uid in first if (wait := started[uid] - came[uid]) > 0]
        if not self._counted or not plain:
            raise BenchmarkError("No job of one half waited, so there is no expected start to compare. Take more jobs.")
        covered, widths = zip(*self._counted, strict=True)
        low, high = np.quantile(plain, [0.1, 0.9])
        return Coverage(
            len(covered), 100 * float(np.mean(covered)), float(np.median(widths)), float(high - low), self._unknown
        )


def _nodes() -> list[Node]:
    return [
        Node(f"n{i:02}", "v100", "V100", GPUS, 32_768, 64_000, 512 * 1024, rack=f"rack-{i // 6}", zone="z", nvlink=GPUS)
        for i in range(NODES)
    ]


def _job(row: PhillyRow, number: int, first: float) -> Job:
    at = START + math.ceil((row.at - first) / ROUND) * ROUND
    workers, gpus = philly.gang(max(1, row.gpus))
    name = f"j{number:05}"
    workload = Workload(
        name,
        name,
        philly.team(row.vc),
        Kind.TRAINING,
        ResourceRequest(gpus=gpus, cpu_milli=6000 * gpus, memory=48 * 1024 * gpus),
        Gang(workers, workers, workers),
        Topology(Level.NODE) if 1 < workers <= GPUS and gpus == 1 else Topology(),
        seq=number + 1,
        submitted_at=at,
        queued_at=at,
        expected_seconds=philly.expected_seconds(row.index, row.seconds),
    )
    return Job(workload, max(1, round(row.seconds / ROUND)) * ROUND)
