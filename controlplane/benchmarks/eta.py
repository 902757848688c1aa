"""How often the expected start is right: the shared Philly file on 30 nodes of 8 GPUs, through the real core.

All jobs come at their own times, with what simulator/philly.py lets their users say about running times; one team a
virtual cluster, without quotas, one priority. Every job that does not start in the round of its arrival waits; each
`EVERY`-th of these is asked for its expected start when it comes. History learns from what has ended and from the
predictions whose starts have been seen: at a prediction only what was known by then. Counted are the predictions of
the second half of the file. An interval covers a start if the start is in it, to the second.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from controlplane.benchmarks.figure import BenchmarkError, Progress
from controlplane.simulator import philly, traces
from controlplane.simulator.presets import PresetError
from controlplane.simulator.queueing import Job, Queueing, play
from controlplane.simulator.traces import PhillyRow
from scheduler.decision import Decision
from scheduler.expected_start import corrected, expected_start, mistakes
from scheduler.forecast import Spread
from scheduler.history import Mistake
from scheduler.snapshot import Node
from scheduler.team import Team
from scheduler.workload import Ask, Gang, Kind, Level, Topology, Workload

TRACE = Path("training") / "philly" / "jobs_vc_a.csv.gz"
NODES, GPUS = 30, 8
EVERY = 20  # asked: one in so many of those that wait
NEWEST = 200  # mistakes that history keeps
START = 100_000.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the predictions of the second half were like."""

    asked: int
    covered_percent: float
    median_width_seconds: float  # of the intervals
    plain_width_seconds: float  # from the tenth to the nine tenths of the first half's waits
    unknown: int  # asked, and nobody could say

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
    try:
        rows = [row for row in traces.read(data / TRACE) if isinstance(row, PhillyRow)]
    except PresetError as error:
        raise BenchmarkError(str(error)) from None
    rows = sorted(rows, key=lambda row: (row.at, row.index))[:most]
    cluster = Queueing(START, _nodes(), [Team(name) for name in sorted({philly.team(row.vc) for row in rows})])
    asker = _Asker(cluster, rows, progress)
    play(cluster, (_job(row, number, rows[0].at) for number, row in enumerate(rows)), asker.look)
    return asker.result()


class _Asker:
    """Asks for expected starts as jobs come to wait, and compares when they start."""

    def __init__(self, cluster: Queueing, rows: list[PhillyRow], progress: Progress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._jobs = len(rows)
        self._half = START + rows[len(rows) // 2].at - rows[0].at
        self._seen = 0  # jobs that have come
        self._waited: list[str] = []
        self._open: dict[str, tuple[Spread, Spread]] = {}  # raw and corrected
        self._mistakes: list[Mistake] = []
        self._counted: list[tuple[bool, float]] = []  # covered, width
        self._unknown = 0

    def look(self, _: tuple[Decision, ...]) -> None:
        """After a round: who started, who came and waits."""
        cluster = self._cluster
        for uid in [uid for uid in self._open if uid in cluster.started]:
            self._compare(uid, *self._open.pop(uid))
        at = cluster.snapshot.at
        for uid in cluster.arrived:
            self._seen += 1
            if uid not in cluster.started:
                self._waited.append(uid)
                if len(self._waited) % EVERY == 0:
                    self._ask(uid)
        if self._seen % 500 == 0 and cluster.arrived:
            waiting = sum(1 for _ in cluster.waiting)
            self._progress(self._seen / self._jobs, f"day {(at - START) / 86_400:.0f}, {waiting} wait")

    def _ask(self, uid: str) -> None:
        cluster = self._cluster
        history = replace(cluster.snapshot.history, mistakes=())
        raw = expected_start(cluster.snapshot, uid, cluster.settings, history)
        if raw is None:
            self._unknown += 1
            return
        at = cluster.snapshot.at
        waits = Spread(raw.low - at, raw.median - at, raw.high - at)
        known = replace(history, mistakes=mistakes(self._mistakes[-NEWEST:]))
        self._open[uid] = raw, corrected(waits, at, known) or raw

    def _compare(self, uid: str, raw: Spread, told: Spread) -> None:
        asked_at = self._cluster.queued[uid]
        start = self._cluster.started[uid]
        self._mistakes.append(Mistake(raw.low - asked_at, raw.median - asked_at, raw.high - asked_at, start - asked_at))
        if asked_at >= self._half:
            self._counted.append((told.low - 1 <= start <= told.high + 1, told.high - told.low))

    def result(self) -> Coverage:
        """The figures. Raises BenchmarkError if nobody waited."""
        queued, started = self._cluster.queued, self._cluster.started
        plain = [started[uid] - queued[uid] for uid in self._waited if uid in started and started[uid] < self._half]
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
    at = START + round(row.at - first)
    workers, gpus = philly.gang(max(1, row.gpus))
    name = f"j{number:05}"
    workload = Workload(
        name,
        name,
        philly.team(row.vc),
        Kind.TRAINING,
        Ask(gpus=gpus, cpu_milli=6000 * gpus, memory=48 * 1024 * gpus),
        Gang(workers, workers, workers),
        Topology(Level.NODE) if 1 < workers <= GPUS and gpus == 1 else Topology(),
        seq=number + 1,
        submitted_at=at,
        queued_at=at,
        expected_seconds=philly.expected_seconds(row.index, row.seconds),
    )
    return Job(workload, row.seconds)
