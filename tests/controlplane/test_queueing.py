"""The queue alone: jobs come, wait, run their time and end; and the figures that are measured on it."""

from pathlib import Path

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.scheduling import backfill, eta
from controlplane.simulator.replay.queueing import Job, Queueing, play
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Kind, ResourceRequest, Workload

NODE = Node("a", "pool", "gpu", 2, 80_000, 64_000, 100_000)


def job(name: str, seq: int, at: float, seconds: float, gpus: int = 1, priority: int = 0) -> Job:
    workload = Workload(
        name,
        name,
        "red",
        Kind.TRAINING,
        ResourceRequest(gpus=gpus),
        priority=priority,
        seq=seq,
        submitted_at=at,
        queued_at=at,
    )
    return Job(workload, seconds)


def test_each_job_starts_when_there_is_room_and_runs_its_time() -> None:
    cluster = Queueing(0.0, [NODE], [Team("red")])
    play(cluster, [job("x", 1, 10, 100, gpus=2), job("y", 2, 20, 50), job("z", 3, 30, 70)])
    assert cluster.started == {"x": 10, "y": 110, "z": 110}
    assert cluster.snapshot.at == 180
    assert cluster.busy_milli_seconds == 2000 * 100 + 1000 * 50 + 1000 * 70
    assert [run.seconds for run in cluster.runs] == [100, 50, 70]


def test_who_has_to_leave_comes_back_with_what_it_did() -> None:
    rules = Settings(min_runtime_seconds=0)
    cluster = Queueing(0.0, [NODE], [Team("red")], [Quota("red", "pool", 2000)], rules)
    play(cluster, [job("low", 1, 10, 100, gpus=2), job("high", 2, 40, 50, gpus=2, priority=10)])
    assert cluster.started == {"low": 10, "high": 40}
    assert cluster.snapshot.at == 160  # 30 s of 100 were done, 50 s for the other, 70 s to go
    assert [run.seconds for run in cluster.runs] == [50, 100]


def test_a_gang_starts_within_the_bound() -> None:
    size = backfill.Size(nodes=2, gpus=2, bounds=2)
    kept = backfill.replayed("exact", 0, Settings(), size=size)
    assert kept.waited is not None
    assert kept.waited <= 1.1 * kept.bound
    free = backfill.replayed("exact", 0, Settings(reservations_per_pool=0), kept.bound, size)
    assert free.utilisation >= kept.utilisation


def test_without_the_trace_the_benchmark_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="Set WEFT_DATA"):
        eta.measure(tmp_path, lambda part, text: None)
