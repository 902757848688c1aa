"""What the port `Cluster` promises of pods and nodes, whatever is behind it; its other commands: test_commands.py."""

from controlplane.cluster.port import ALIVE, PodPhase
from scheduler.model.workload import Kind
from tests.contract.drive import Drive, gang, phase, pod, run, seen


def test_everything_is_listed_without_a_cursor(drive: Drive) -> None:
    before = drive.cluster.now()
    first = drive.cluster.observe(None)
    assert first.is_full
    assert before <= first.at <= drive.cluster.now()
    assert [(n.name, n.gpus, n.model, n.is_usable) for n in sorted(first.nodes, key=lambda n: n.name)] == [
        (name, 8, "A100", True) for name in "abc"
    ]
    assert first.pods == ()


def test_a_cursor_that_nobody_knows_lists_everything(drive: Drive) -> None:
    run(drive, [pod(drive)])
    for cursor in ("", "no such cursor", "999999999999"):
        answer = drive.cluster.observe(cursor)
        assert answer.is_full
        assert len(answer.nodes) == 3
        assert set(seen(answer)) == {"w-1-0"}


def test_the_clock_never_goes_back(drive: Drive) -> None:
    before = drive.cluster.now()
    passed = drive.wait(10)
    assert drive.cluster.now() >= before + passed
    assert drive.cluster.observe(None).at >= before + passed


def test_a_pod_is_pending_then_runs_where_it_was_put(drive: Drive) -> None:
    slow = drive.slow(drive.job_file(Kind.TRAINING, 600.0))
    drive.cluster.start([pod(drive, node="b", gpus=(3, 5), spec=slow)])
    assert phase(drive, "w-1-0") == PodPhase.PENDING
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.RUNNING)
    found = seen(drive.cluster.observe(None))["w-1-0"]
    assert (found.workload, found.attempt, found.rank, found.node, found.gpus) == ("w", 1, 0, "b", (3, 5))
    assert found.started_at is not None
    assert found.started_at <= drive.cluster.now()
    assert (found.ended_at, found.exit_code) == (None, None)


def test_starting_twice_starts_once(drive: Drive) -> None:
    run(drive, [pod(drive)])
    before = drive.cluster.observe(None)
    drive.cluster.start([pod(drive), pod(drive)])
    after = drive.cluster.observe(before.cursor)
    assert after.pods == ()
    assert set(seen(drive.cluster.observe(None))) == {"w-1-0"}


def test_starting_what_has_ended_does_not_run_it_again(drive: Drive) -> None:
    short = pod(drive, spec=drive.job_file(Kind.TRAINING, 20.0))
    drive.cluster.start([short])
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.SUCCEEDED)
    drive.cluster.start([short])
    drive.wait(90)
    assert phase(drive, "w-1-0") == PodPhase.SUCCEEDED


def test_another_attempt_is_another_pod(drive: Drive) -> None:
    run(drive, [pod(drive)])
    run(drive, [pod(drive, attempt=2, gpus=(1,))])
    assert set(seen(drive.cluster.observe(None))) == {"w-1-0", "w-2-0"}


def test_a_gang_succeeds_together_with_exit_code_0(drive: Drive) -> None:
    file = drive.job_file(Kind.TRAINING, 60.0) | {"workers": {"count": 3}}
    run(drive, gang(drive, 3, spec=file))
    drive.until(lambda: all(p.phase == PodPhase.SUCCEEDED for p in drive.cluster.observe(None).pods))
    for found in drive.cluster.observe(None).pods:
        assert (found.phase, found.exit_code) == (PodPhase.SUCCEEDED, 0)
        assert found.started_at is not None
        assert found.ended_at is not None
        assert found.started_at < found.ended_at <= drive.cluster.now()


def test_a_gang_with_roles_runs_and_its_role_members_can_be_stopped_by_themselves(drive: Drive) -> None:
    roles = [{"name": "ps", "count": 2, "resources": {"cpu": 2, "memory": "1Gi"}}]
    file = drive.job_file(Kind.TRAINING, 600.0) | {"workers": {"count": 1}, "roles": roles}
    numbers = {"gpus": 1, "gpu_share": None, "cpu_milli": 4000, "grace_seconds": 30}
    file["normalised"] = {**numbers, "roles": [{"gpus": 0, "gpu_share": None, "cpu_milli": 2000}]}
    asked = {"gpus": (), "cpu_milli": 2000, "memory": 1024, "node": "b"}
    servers = [pod(drive, rank=rank, size=3, spec=file, **asked) for rank in range(2)]
    run(drive, [*servers, pod(drive, rank=2, size=3, spec=file)])
    where = {name: (found.node, found.gpus) for name, found in seen(drive.cluster.observe(None)).items()}
    assert where == {"w-1-0": ("b", ()), "w-1-1": ("b", ()), "w-1-2": ("a", (2,))}
    assert [drive.size("w", 1, rank) for rank in range(3)] == [(2000, 1024), (2000, 1024), (4000, 16_384)]
    drive.cluster.stop("w", 1, [0, 1], 30.0)
    drive.until(lambda: not {"w-1-0", "w-1-1"} & alive(drive))


def alive(drive: Drive) -> set[str]:
    return {p.name for p in drive.cluster.observe(None).pods if p.phase in ALIVE}


def test_a_failure_has_its_exit_code(drive: Drive) -> None:
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.TRAINING, 40.0, exit_code=3))])
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.FAILED)
    found = seen(drive.cluster.observe(None))["w-1-0"]
    assert found.exit_code == 3
    assert found.reason


def test_a_cursor_gives_what_changed_since_then_and_nothing_else(drive: Drive) -> None:
    run(drive, [pod(drive, "old")])
    cursor = drive.cluster.observe(None).cursor
    assert drive.cluster.observe(cursor).pods == ()
    drive.cluster.start([pod(drive, "new", node="b", spec=drive.slow(drive.job_file(Kind.TRAINING, 600.0)))])
    answer = drive.cluster.observe(cursor)
    assert not answer.is_full
    assert set(seen(answer)) == {"new-1-0"}
    assert answer.nodes == ()
    assert set(seen(drive.cluster.observe(cursor))) == {"new-1-0"}  # the same question again, the same answer
    assert drive.cluster.observe(answer.cursor).pods == ()


def test_a_stopped_pod_is_reported_gone_once(drive: Drive) -> None:
    run(drive, [pod(drive)])
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.stop("w", 1, [0], 30.0)
    gone = []

    def is_gone() -> bool:
        nonlocal cursor
        answer = drive.cluster.observe(cursor)
        cursor = answer.cursor
        gone.extend(p for p in answer.pods if p.phase == PodPhase.GONE)
        return bool(gone)

    drive.until(is_gone, 40.0)
    drive.wait(120)
    is_gone()
    assert [p.name for p in gone] == ["w-1-0"]
    assert phase(drive, "w-1-0") in (PodPhase.GONE, None)


def test_a_pod_that_does_not_run_yet_can_be_stopped(drive: Drive) -> None:
    drive.cluster.start([pod(drive, spec=drive.slow(drive.job_file(Kind.TRAINING, 600.0)))])
    drive.cluster.stop("w", 1, [0], 30.0)
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 40.0)
    drive.wait(120)
    assert phase(drive, "w-1-0") in (PodPhase.GONE, None)


def test_stopping_what_is_not_there_is_done_already(drive: Drive) -> None:
    drive.cluster.stop("nobody", 1, [0, 1], 30.0)
    run(drive, [pod(drive)])
    drive.cluster.stop("w", 2, [0], 30.0)
    drive.cluster.stop("w", 1, [7], 30.0)
    drive.cluster.stop("w", 1, [], 30.0)
    drive.wait(60)
    assert phase(drive, "w-1-0") == PodPhase.RUNNING


def test_stopping_twice_stops_once(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.cluster.stop("w", 1, [0], 30.0)
    drive.cluster.stop("w", 1, [0], 30.0)
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 40.0)
    drive.cluster.stop("w", 1, [0], 30.0)
    assert phase(drive, "w-1-0") in (PodPhase.GONE, None)


def test_only_the_ranks_named_are_stopped(drive: Drive) -> None:
    file = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, rank=rank, size=3, spec=file) for rank in range(3)])
    drive.cluster.stop("w", 1, [1], 10.0)
    drive.until(lambda: phase(drive, "w-1-1") in (PodPhase.GONE, None), 20.0)
    assert phase(drive, "w-1-0") == phase(drive, "w-1-2") == PodPhase.RUNNING


def test_stopping_what_has_succeeded_does_not_make_it_fail(drive: Drive) -> None:
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.TRAINING, 20.0))])
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.SUCCEEDED)
    drive.cluster.stop("w", 1, [0], 10.0)
    drive.wait(30)
    assert phase(drive, "w-1-0") in (PodPhase.SUCCEEDED, PodPhase.GONE, None)


def test_the_devices_of_a_pod_that_is_gone_can_be_given_again(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.cluster.stop("w", 1, [0], 30.0)
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 40.0)
    run(drive, [pod(drive, "next")])


def test_pods_of_a_lost_node_are_gone(drive: Drive) -> None:
    run(drive, [pod(drive), pod(drive, "elsewhere", node="b")])
    cursor = drive.cluster.observe(None).cursor
    drive.lose_node("a")
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 60.0)
    answer = drive.cluster.observe(cursor)
    assert [(n.name, n.ready) for n in answer.nodes] == [("a", False)]
    assert [(p.name, p.phase, p.reason) for p in answer.pods] == [("w-1-0", PodPhase.GONE, "NodeLost")]
    assert phase(drive, "elsewhere-1-0") == PodPhase.RUNNING


def test_a_node_that_is_back_takes_pods_again(drive: Drive) -> None:
    drive.lose_node("a")
    drive.restore_node("a")
    node = next(n for n in drive.cluster.observe(None).nodes if n.name == "a")
    assert node.is_usable
    run(drive, [pod(drive)])


def test_a_node_that_was_taken_away_is_no_longer_listed(drive: Drive) -> None:
    cursor = drive.cluster.observe(None).cursor
    drive.remove_node("c")
    answer = drive.cluster.observe(cursor)
    assert answer.gone_nodes == ("c",)
    assert {n.name for n in drive.cluster.observe(None).nodes} == {"a", "b"}


def test_pods_of_a_node_that_was_taken_away_are_gone(drive: Drive) -> None:
    run(drive, [pod(drive), pod(drive, "elsewhere", node="b")])
    cursor = drive.cluster.observe(None).cursor
    drive.remove_node("a")
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 60.0)
    answer = drive.cluster.observe(cursor)
    assert answer.gone_nodes == ("a",)
    assert [(p.name, p.phase, p.reason) for p in answer.pods] == [("w-1-0", PodPhase.GONE, "NodeLost")]
    assert phase(drive, "elsewhere-1-0") == PodPhase.RUNNING


def test_a_pod_that_is_started_on_a_lost_node_is_gone(drive: Drive) -> None:
    drive.lose_node("a")
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.start([pod(drive)])
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 60.0)
    last = seen(drive.cluster.observe(cursor))["w-1-0"]
    assert (last.phase, last.reason) == (PodPhase.GONE, "NodeLost")
