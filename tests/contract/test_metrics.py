"""What the port `Metrics` promises, whatever is behind it."""

from controlplane.cluster.port import PodPhase
from scheduler.workload import Kind
from tests.contract.drive import Drive, gang, phase, pod, run


def test_every_device_reports_and_idle_ones_report_nothing_used(drive: Drive) -> None:
    uses = drive.metrics.gpus()
    assert sorted((u.node, u.index) for u in uses) == [(n, i) for n in "abc" for i in range(8)]
    assert all(u.duty == 0 and u.memory == 0 for u in uses)


def test_devices_in_use_report_duty_and_memory(drive: Drive) -> None:
    run(drive, gang(drive, 2))
    drive.wait(60)
    uses = {(u.node, u.index): u for u in drive.metrics.gpus()}
    for key, use in uses.items():
        is_used = key in (("a", 0), ("a", 1))
        assert (0 < use.duty <= 1) == is_used
        assert (0 < use.memory <= 81_920) == is_used


def test_devices_of_a_lost_node_do_not_report(drive: Drive) -> None:
    drive.lose_node("b")
    assert {u.node for u in drive.metrics.gpus()} == {"a", "c"}


def test_a_training_reports_its_steps(drive: Drive) -> None:
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
    for part in (use.data_wait_part, use.sync_part):
        assert part is not None
        assert 0 <= part < 1


def test_a_job_that_does_not_run_has_unknown_steps(drive: Drive) -> None:
    drive.cluster.start([pod(drive)])
    assert phase(drive, "w-1-0") == PodPhase.PENDING
    for use in drive.metrics.training(["w", "nobody"]):
        assert (use.step, use.step_seconds, use.samples_per_second) == (None, None, None)
        assert (use.data_wait_part, use.sync_part) == (None, None)


def test_a_service_reports_load_and_latency(drive: Drive) -> None:
    file = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, rank=rank, size=4, spec=file) for rank in range(4)])
    drive.wait(120)
    (use,) = drive.metrics.services(["w"])
    assert use.workload == "w"
    assert use.at - use.window_seconds <= drive.cluster.now()
    assert use.requests_per_second is not None
    assert use.requests_per_second > 0
    assert use.p95_seconds is not None
    assert use.p95_seconds > 0
    assert use.requests is not None
    assert use.over_objective is not None
    assert 0 <= use.over_objective <= use.requests


def test_a_service_that_never_answered_is_not_known_rather_than_0(drive: Drive) -> None:
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.INFERENCE))])
    for use in drive.metrics.services(["w", "nobody"]):
        assert (use.requests_per_second, use.p95_seconds, use.requests, use.queue) == (None, None, None, None)


def test_nothing_is_asked_nothing_is_answered(drive: Drive) -> None:
    run(drive, [pod(drive)])
    assert drive.metrics.training([]) == ()
    assert drive.metrics.services([]) == ()
