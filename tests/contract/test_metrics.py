"""What the port `Metrics` promises, whatever is behind it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.latency import FIRST_TOKEN, Within
from autoscaler.observed import Learned
from controlplane.cluster.port import PodPhase, Split
from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.worlds.profiles import PROFILES
from scheduler.model.workload import Kind
from tests.contract.drive import NODES, TEAM, gang, phase, pod, run
from tests.contract.measured import AtOnce, Measured, scraped


@pytest.fixture(params=["simulated", "simulated-in-a-file", "prometheus"])
def drive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Measured]:
    """One cluster of three nodes behind the two ports."""
    if request.param == "simulated":
        yield AtOnce(SimulatedCluster(NODES, profiles=PROFILES))
    elif request.param == "simulated-in-a-file":
        with closing(ClusterStore(tmp_path / "cluster.sqlite3")) as store:
            yield AtOnce(SimulatedCluster(NODES, profiles=PROFILES, store=store))
    else:
        with scraped(tmp_path, request.getfixturevalue("prometheus")) as one:
            yield one


def test_every_device_reports_and_idle_ones_report_nothing_used(drive: Measured) -> None:
    uses = drive.metrics.gpus()
    assert sorted((u.node, u.index) for u in uses) == [(n, i) for n in "abc" for i in range(8)]
    assert all(u.duty == 0 and u.memory == 0 for u in uses)


def test_devices_in_use_report_duty_and_memory(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    drive.wait(60)
    uses = {(u.node, u.index): u for u in drive.metrics.gpus()}
    for key, use in uses.items():
        is_used = key in (("a", 0), ("a", 1))
        assert (0 < use.duty <= 1) == is_used
        assert (0 < use.memory <= 81_920) == is_used


def test_devices_of_a_lost_node_do_not_report(drive: Measured) -> None:
    drive.lose_node("b")
    drive.scraped()
    assert {u.node for u in drive.metrics.gpus()} == {"a", "c"}


def test_a_training_reports_its_steps(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    drive.wait(60)
    (use,) = drive.metrics.training(["w"])
    drive.wait(60)
    (later,) = drive.metrics.training(["w"])
    assert (use.workload, use.attempt) == ("w", 1)
    assert use.step is not None
    assert later.step is not None
    assert later.step > use.step
    for value in (use.step_seconds, use.samples_per_second):
        assert value is not None
        assert value > 0
    for part in (use.data_wait_ratio, use.sync_ratio):
        assert part is not None
        assert 0 <= part < 1


def test_each_worker_reports_its_own_steps(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    drive.wait(60)
    first, second = drive.metrics.workers(["w", "nobody"])
    assert [(one.workload, one.attempt, one.rank) for one in (first, second)] == [("w", 1, 0), ("w", 1, 1)]
    for one in (first, second):
        assert one.step_seconds is not None
        assert one.step_seconds > 0
        assert one.data_wait_ratio is not None
        assert one.sync_ratio is not None
        assert 0 <= one.data_wait_ratio + one.sync_ratio < 1


def test_nodes_tell_of_their_disks_and_lines(drive: Measured) -> None:
    drive.lose_node("b")
    drive.wait(60)
    told = {one.node: one for one in drive.metrics.nodes()}
    assert {"a", "c"} <= told.keys()
    for name in ("a", "c"):
        assert (told[name].disk_ratio, told[name].line_ratio) == (0.0, 0.0)  # nothing runs there


def test_a_job_that_does_not_run_has_unknown_steps(drive: Measured) -> None:
    drive.cluster.start([pod(drive)])
    assert phase(drive, "w-1-0") == PodPhase.PENDING
    for use in drive.metrics.training(["w", "nobody"]):
        assert (use.step, use.step_seconds, use.samples_per_second) == (None, None, None)
        assert (use.data_wait_ratio, use.sync_ratio) == (None, None)


def test_checkpoints_are_told_as_the_pods_have_them_or_by_the_pods_alone(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    drive.wait(150)  # a checkpoint every minute
    pods = {p.name: p for p in drive.cluster.observe(None).pods}
    truth = pods["w-1-0"]
    assert truth.checkpointed_at is not None
    assert truth.checkpointed_at <= drive.cluster.now()
    told = drive.metrics.checkpoints(["w", "nobody"])
    if drive.metrics is drive.cluster:  # its observations say it
        assert told == ()
    else:
        (saved,) = told
        assert (saved.workload, saved.attempt, saved.at) == ("w", 1, truth.checkpointed_at)
        assert saved.progress == pytest.approx(truth.progress)


def test_a_service_reports_load_and_latency(drive: Measured) -> None:
    file = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, rank=rank, size=4, spec=file) for rank in range(4)])
    drive.wait(120)
    (use,) = drive.metrics.services({"w": Within(0.25)})
    assert use.workload == "w"
    assert use.at - use.window_seconds <= drive.cluster.now()
    assert use.requests_per_second is not None
    assert use.requests_per_second > 0
    assert use.p95_seconds is not None
    assert use.p95_seconds > 0
    assert use.requests is not None
    assert use.over_objective is not None
    assert 0 <= use.over_objective <= use.requests


def test_a_services_requests_are_told_to_the_autoscaler(drive: Measured) -> None:
    file = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, rank=rank, size=4, spec=file) for rank in range(4)])
    drive.wait(120)
    told = drive.metrics.scrapes(["w", "nobody"])
    assert list(told) == ["w"]
    scrape = told["w"]
    assert scrape.is_sound
    assert scrape.at <= drive.cluster.now() + 1.0
    assert scrape.arrived > 0
    assert scrape.answered > 0
    assert 0 < scrape.answered_seconds / scrape.answered < 10
    assert scrape.waiting is not None
    assert drive.metrics.scrapes([]) == {}


def test_a_service_that_promises_a_first_token_is_measured_by_it(drive: Measured) -> None:
    file = drive.job_file(Kind.INFERENCE) | {"objective": {"p95_first_token": "20ms"}}
    run(drive, [pod(drive, rank=rank, size=4, spec=file) for rank in range(4)])
    drive.wait(120)
    (use,) = drive.metrics.services({"w": Within(0.02, FIRST_TOKEN)})
    scrape = drive.metrics.scrapes(["w"])["w"]
    assert scrape.first is not None
    assert 0 < sum(scrape.first) == pytest.approx(scrape.answered, rel=0.2)
    first, whole = (Learned(counts, 1.0).quantile(0.5) for counts in (scrape.first, scrape.counts))
    assert first < 0.8 * whole
    assert use.requests is not None
    assert use.over_objective is not None
    assert use.p95_seconds is not None
    assert first <= use.p95_seconds < whole * 4
    assert 0 <= use.over_objective <= use.requests


def test_the_revisions_of_a_service_tell_what_they_answered_since_its_requests_are_split(drive: Measured) -> None:
    file = drive.job_file(Kind.INFERENCE)
    assert drive.metrics.revisions({"w": (drive.cluster.now(), Within(0.25))}) == ()
    run(drive, [pod(drive, rank=rank, size=4, spec=file, revision=1 + rank // 3) for rank in range(4)])
    drive.cluster.split(Split("w", "work", TEAM, 2, 1, 25))
    since = drive.cluster.now()
    drive.wait(120)
    promises = dict.fromkeys(("w", "nobody"), (since, Within(0.25)))
    told = {use.revision: use for use in drive.metrics.revisions(promises)}
    assert {use.workload for use in told.values()} == {"w"}
    assert told.keys() == {1, 2}
    part = told[2].requests / (told[1].requests + told[2].requests)
    assert 0.1 < part < 0.4
    assert all(0 <= use.over <= use.requests for use in told.values())


def test_a_service_that_never_answered_is_not_known_rather_than_0(drive: Measured) -> None:
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.INFERENCE))])
    for use in drive.metrics.services({"w": Within(0.25), "nobody": None}):
        assert (use.requests_per_second, use.p95_seconds, use.requests, use.queue) == (None, None, None, None)


def test_nothing_is_asked_nothing_is_answered(drive: Measured) -> None:
    run(drive, [pod(drive)])
    assert drive.metrics.training([]) == ()
    assert drive.metrics.checkpoints([]) == ()
    assert drive.metrics.services({}) == ()


def test_pods_report_cpu_and_memory_and_their_duty_where_a_device_is_theirs(drive: Measured) -> None:
    share = pod(drive, "share", node="b", milli=500, gpu_memory=8_192, spec=drive.job_file(Kind.NOTEBOOK))
    run(drive, [*gang(drive, 2, "whole"), share])
    drive.wait(60)
    uses = {(use.workload, use.rank): use for use in drive.metrics.pods(["whole", "share", "nobody"])}
    assert set(uses) == {("whole", 0), ("whole", 1), ("share", 0)}
    for use in uses.values():
        assert use.attempt == 1
        assert use.cpu_milli is not None
        assert use.cpu_milli > 0
        assert use.memory is not None
        assert 0 < use.memory <= 16_384
    duty = uses["whole", 0].duty
    assert duty is not None
    assert 0 < duty <= 1
    assert uses["share", 0].duty is None
    own = uses["share", 0].own_duty
    assert own is not None  # its node says that it holds shares to their parts
    assert 0 <= own <= 1
    assert uses["whole", 0].own_duty is None


def test_pods_that_do_not_run_are_not_known(drive: Measured) -> None:
    drive.cluster.start([pod(drive, "pending")])
    drive.scraped()
    assert drive.metrics.pods(["pending"]) == ()
    assert drive.metrics.pods([]) == ()


def test_what_has_ended_uses_nothing_and_is_not_known(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    drive.wait(60)
    drive.cluster.stop("w", 1, [0, 1], 30.0)
    drive.until(lambda: all(phase(drive, f"w-1-{rank}") in (PodPhase.GONE, None) for rank in range(2)))
    for _ in range(2):  # until CPU, whose rate is taken over the longest time, is forgotten as well
        drive.wait(60)
    assert all((use.duty, use.memory) == (0, 0) for use in drive.metrics.gpus())
    assert drive.metrics.pods(["w"]) == ()
    for use in drive.metrics.training(["w"]):
        assert (use.step_seconds, use.samples_per_second) == (None, None)


def test_what_ran_on_a_lost_node_is_not_known(drive: Measured) -> None:
    run(drive, gang(drive, 2))
    run(drive, [pod(drive, "chat", node="b", spec=drive.job_file(Kind.INFERENCE))])
    drive.wait(60)
    drive.lose_node("a")
    for _ in range(2):
        drive.wait(60)
    assert drive.metrics.pods(["w"]) == ()
    assert {use.node for use in drive.metrics.gpus()} == {"b", "c"}
    (use,) = drive.metrics.services({"chat": Within(0.25)})
    assert use.requests is not None
    assert [use.workload for use in drive.metrics.pods(["chat"])] == ["chat"]
