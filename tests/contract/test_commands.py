"""What the port `Cluster` promises of its other commands: cordon, resize, prepare, publish, logs."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from controlplane.cluster.port import DEFERRED, INFEASIBLE, Address, Note, PodPhase, PodSpec, Split
from scheduler.model.workload import Kind
from tests.contract.drive import TEAM, Drive, gang, phase, pod, run, seen


def test_a_cordoned_node_keeps_its_pods(drive: Drive) -> None:
    run(drive, [pod(drive)])
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.cordon("a", True)
    answer = drive.cluster.observe(cursor)
    assert [(n.name, n.schedulable, n.ready) for n in answer.nodes] == [("a", False, True)]
    drive.wait(60)
    assert phase(drive, "w-1-0") == PodPhase.RUNNING
    drive.cluster.cordon("a", True)  # again: nothing new
    assert drive.cluster.observe(answer.cursor).nodes == ()
    drive.cluster.cordon("a", False)
    assert [(n.name, n.schedulable) for n in drive.cluster.observe(answer.cursor).nodes] == [("a", True)]


def test_cordoning_a_node_that_is_not_there_does_nothing(drive: Drive) -> None:
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.cordon("nowhere", True)
    assert drive.cluster.observe(cursor).nodes == ()


def test_a_services_requests_are_split_as_was_said_last_and_then_no_longer(drive: Drive) -> None:
    file = drive.job_file(Kind.INFERENCE) | {"name": "work"}
    run(drive, [pod(drive, rank=rank, spec=file, revision=1 + rank) for rank in range(2)])
    assert drive.split("w", "work") is None
    for percent in (10, 40):
        wanted = Split("w", "work", TEAM, 2, 1, percent, has_queue=True)
        for _ in range(2):  # again: nothing new
            drive.cluster.split(wanted)
        assert drive.split("w", "work") == (2, percent)
    drive.cluster.split(replace(wanted, percent=None))
    assert drive.split("w", "work") is None
    drive.cluster.split(replace(wanted, workload="nobody", name="nobody", percent=None))


def test_a_replica_that_is_out_of_rotation_goes_on_and_may_be_told_twice(drive: Drive) -> None:
    served = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, rank=rank, spec=served) for rank in (0, 1)])
    cursor = drive.cluster.observe(None).cursor
    for on in (False, False, True):
        drive.cluster.rotate("w", 1, [1], on=on)
        drive.until(lambda on=on: drive.rotation("w") == ({0, 1} if on else {0}))
    drive.cluster.rotate("w", 1, [7], on=True)
    drive.cluster.rotate("stranger", 1, [0], on=False)
    assert [p.phase for p in drive.cluster.observe(cursor).pods if p.phase != PodPhase.RUNNING] == []


def test_a_share_may_be_told_again_and_again_what_it_may_use(drive: Drive) -> None:
    served = drive.job_file(Kind.INFERENCE)
    served["normalised"] = {**served.get("normalised", {}), "gpu_share": {"guarantee": 300, "limit": 300}}
    shares = {"milli": 300, "gpu_memory": 1024, "spec": served}
    run(drive, [pod(drive, rank=rank, gpus=(0,), limit=300 + 100 * rank, **shares) for rank in (0, 1)])
    assert [drive.limit("w", 1, rank) for rank in (0, 1)] == [300, 400]
    cursor = drive.cluster.observe(None).cursor
    for milli in (700, 700, 350):
        drive.cluster.limit("w", 1, [1], milli)
        drive.until(lambda milli=milli: [drive.limit("w", 1, rank) for rank in (0, 1)] == [300, milli])
    drive.cluster.limit("w", 1, [7], 500)
    drive.cluster.limit("stranger", 1, [0], 500)
    assert [p.phase for p in drive.cluster.observe(cursor).pods if p.phase != PodPhase.RUNNING] == []


def test_a_node_says_whether_it_holds_shares_to_their_limits(drive: Drive) -> None:
    for on in (False, True):
        cursor = drive.cluster.observe(None).cursor
        drive.enforce("b", on=on)
        drive.until(lambda cursor=cursor: bool(drive.cluster.observe(cursor).nodes))
        said = {node.name: node.enforces_limits for node in drive.cluster.observe(None).nodes}
        assert said == {"a": True, "b": on, "c": True}


def test_an_address_stays_without_a_replica_until_it_is_given_up(drive: Drive) -> None:
    served = drive.job_file(Kind.INFERENCE) | {"replicas": {"min": 0, "max": 1}, "gateway": {"slots": 1}}
    run(drive, [pod(drive, spec=served)])
    address = Address("w", "work", TEAM)
    for _ in range(2):  # again: nothing new
        drive.cluster.keep_address(address, on=True)
    drive.cluster.stop("w", 1, [0], 1.0)
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None))
    drive.wait(60)
    assert drive.has_address("w", "work")
    drive.cluster.keep_address(replace(address, workload="other"), on=False)  # the name is not its own
    drive.wait(60)
    assert drive.has_address("w", "work")
    for _ in range(2):
        drive.cluster.keep_address(address, on=False)
        drive.until(lambda: not drive.has_address("w", "work"))


def test_evictions_leave_all_of_the_least_replicas_but_one_as_it_was_told_last(drive: Drive) -> None:
    served = drive.job_file(Kind.INFERENCE)
    served["normalised"] = {**served.get("normalised", {}), "workers": {"min": 3}}
    run(drive, [pod(drive, rank=rank, spec=served) for rank in range(3)])
    cursor = drive.cluster.observe(None).cursor
    assert drive.guarded("w") in (2, None)
    for least, leave in ((1, 0), (1, 0), (4, 3)):
        drive.cluster.guard(Address("w", "work", TEAM), least)
        assert drive.guarded("w") in (leave, None)
    drive.cluster.guard(Address("stranger", "other", TEAM), 2)
    drive.wait(60)
    assert [p.name for p in drive.cluster.observe(cursor).pods if p.phase != PodPhase.RUNNING] == []


def test_a_replica_may_start_out_of_rotation(drive: Drive) -> None:
    served = drive.job_file(Kind.INFERENCE)
    run(drive, [pod(drive, spec=served), pod(drive, rank=1, spec=served, is_asleep=True)])
    assert drive.rotation("w") == {0}


def test_a_resized_worker_goes_on(drive: Drive) -> None:
    run(drive, [pod(drive)])
    before = seen(drive.cluster.observe(None))["w-1-0"]
    drive.cluster.resize("w", 1, 0, 8000, 32_768)
    drive.wait(30)
    after = seen(drive.cluster.observe(None))["w-1-0"]
    assert (after.phase, after.started_at) == (PodPhase.RUNNING, before.started_at)


def test_a_resized_worker_has_what_it_was_given(drive: Drive) -> None:
    run(drive, gang(drive, 2))
    drive.cluster.resize("w", 1, 0, 8000, 32_768)
    drive.until(lambda: drive.size("w", 1, 0) == (8000, 32_768))
    drive.cluster.resize("w", 1, 0, 8000, 32_768)  # again: nothing new
    drive.cluster.resize("w", 1, 1, 2000, 8192)
    drive.until(lambda: drive.size("w", 1, 1) == (2000, 8192))
    assert drive.size("w", 1, 0) == (8000, 32_768)


def test_what_a_worker_has_is_seen_once_its_node_has_changed_it(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.until(lambda: _seen(drive) == (4000, 16_384, ""))
    drive.cluster.resize("w", 1, 0, 8000, 8192)
    drive.until(lambda: _seen(drive) == (8000, 8192, ""))


@pytest.mark.parametrize("reason", [INFEASIBLE, DEFERRED])
def test_a_node_that_refuses_a_resize_says_so_until_it_is_taken_back(drive: Drive, reason: str) -> None:
    run(drive, [pod(drive)])
    drive.refuse_resizes("w", 1, 0, reason)
    drive.cluster.resize("w", 1, 0, 8000, 32_768)
    drive.until(lambda: _seen(drive) == (None, None, reason))
    assert seen(drive.cluster.observe(None))["w-1-0"].resize_message
    assert drive.size("w", 1, 0) == (4000, 16_384)
    drive.cluster.resize("w", 1, 0, 4000, 16_384)
    drive.until(lambda: _seen(drive) == (4000, 16_384, ""))


def test_a_resize_that_was_deferred_is_done_once_there_is_room(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.refuse_resizes("w", 1, 0, DEFERRED)
    drive.cluster.resize("w", 1, 0, 8000, 32_768)
    drive.until(lambda: _seen(drive) == (None, None, DEFERRED))
    drive.refuse_resizes("w", 1, 0, "")
    drive.until(lambda: _seen(drive) == (8000, 32_768, ""))


def _seen(drive: Drive) -> tuple[int | None, int | None, str]:
    found = seen(drive.cluster.observe(None))["w-1-0"]
    return found.cpu_milli, found.memory, found.resize


def test_resizing_what_is_not_there_or_has_ended_does_nothing(drive: Drive) -> None:
    drive.cluster.resize("nobody", 1, 0, 8000, 32_768)
    assert drive.cluster.observe(None).pods == ()
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.TRAINING, 20.0))])
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.SUCCEEDED)
    drive.cluster.resize("w", 1, 0, 8000, 32_768)
    assert phase(drive, "w-1-0") == PodPhase.SUCCEEDED


def test_a_prepared_pod_is_not_observed_and_starts_as_any_other(drive: Drive) -> None:
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.prepare(gang(drive, 2))
    drive.cluster.prepare(gang(drive, 2))
    assert drive.cluster.observe(None).pods == ()
    assert drive.cluster.observe(cursor).pods == ()
    run(drive, gang(drive, 2, node="b"))
    assert {p.name: (p.node, p.gpus) for p in drive.cluster.observe(None).pods} == {
        "w-1-0": ("b", (0,)),
        "w-1-1": ("b", (1,)),
    }


def test_a_prepared_pod_can_be_stopped_before_it_is_placed(drive: Drive) -> None:
    drive.cluster.prepare([pod(drive)])
    drive.cluster.stop("w", 1, [0], 30.0)
    drive.wait(60)
    assert phase(drive, "w-1-0") in (PodPhase.GONE, None)


def test_preparing_what_runs_or_nothing_changes_nothing(drive: Drive) -> None:
    run(drive, [pod(drive)])
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.prepare([pod(drive)])
    drive.cluster.prepare([])
    drive.cluster.start([])
    drive.wait(60)
    assert drive.cluster.observe(cursor).pods == ()
    assert phase(drive, "w-1-0") == PodPhase.RUNNING


WAITS = Note("w", TEAM, "Waiting", "Waits for 2 GPUs: 1 of 24 is free.", is_warning=False)
FAILED = Note("w", TEAM, "Failed", "Exit code 3.", is_warning=True)


def test_what_is_told_of_a_workload_is_shown_once_beside_its_first_pod(drive: Drive) -> None:
    run(drive, gang(drive, 2))
    cursor = drive.cluster.observe(None).cursor
    for notes in ([WAITS], [WAITS, FAILED], []):
        drive.cluster.publish(notes)
    assert drive.cluster.observe(cursor).pods == ()  # nothing was done to the pods
    shown = [(note.reason, note.message, note.is_warning) for note in (WAITS, FAILED)]
    found = drive.told("w", 1, 0)
    assert found is None or sorted(found) == sorted(shown)
    assert not drive.told("w", 1, 1)


def test_a_note_of_any_length_is_shown_as_far_as_it_goes(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.cluster.publish([replace(WAITS, message="Waits: " + "é" * 2000)])
    found = drive.told("w", 1, 0)
    assert found is None or [message[:100] for _, message, _ in found] == ["Waits: " + "é" * 93]


def test_a_note_of_what_is_not_there_is_let_go_and_the_others_are_shown(drive: Drive) -> None:
    drive.cluster.publish([WAITS])
    run(drive, [pod(drive)])
    drive.cluster.publish([replace(WAITS, workload="nobody"), FAILED])
    found = drive.told("w", 1, 0)
    assert found is None or found == [(FAILED.reason, FAILED.message, True)]


def test_as_many_commands_at_a_time_as_the_cluster_takes_are_all_done(drive: Drive) -> None:
    gangs = [[pod(drive, f"w{number}", gpus=(number,))] for number in range(8)]
    if drive.cluster.commands_at_once == 1:  # it belongs to this thread
        for pods in gangs:
            drive.cluster.start(pods)
    else:
        with ThreadPoolExecutor(drive.cluster.commands_at_once) as pool:
            list(pool.map(drive.cluster.start, gangs))
    drive.until(lambda: all(phase(drive, f"w{number}-1-0") == PodPhase.RUNNING for number in range(8)))


def test_logs_are_lines_in_the_order_of_time(drive: Drive) -> None:
    run(drive, gang(drive, 2))
    drive.wait(200)
    lines = drive.cluster.logs("w", 1, None, 100, None)
    assert {line.rank for line in lines} == {0, 1}
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert all(line.text and "\n" not in line.text for line in lines)
    assert all(line.at <= drive.cluster.now() for line in lines)
    assert {line.rank for line in drive.cluster.logs("w", 1, 1, 100, None)} == {1}


def test_logs_can_be_cut_to_the_last_lines_and_to_those_after_a_moment(drive: Drive) -> None:
    run(drive, [pod(drive)])
    drive.wait(300)
    lines = drive.cluster.logs("w", 1, 0, 100, None)
    assert len(lines) > 3
    assert drive.cluster.logs("w", 1, 0, 3, None) == lines[-3:]
    moment = lines[-3].at
    assert drive.cluster.logs("w", 1, 0, 100, moment) == tuple(line for line in lines if line.at > moment)
    assert drive.cluster.logs("w", 1, 0, 0, None) == ()


def test_logs_outlive_the_end_of_a_pod(drive: Drive) -> None:
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.TRAINING, 20.0))])
    drive.until(lambda: phase(drive, "w-1-0") == PodPhase.SUCCEEDED)
    assert drive.cluster.logs("w", 1, 0, 10, None)


def test_there_are_no_logs_of_what_is_not_there(drive: Drive) -> None:
    assert drive.cluster.logs("nobody", 1, None, 10, None) == ()
    drive.cluster.start([pod(drive, spec=drive.slow(drive.job_file(Kind.TRAINING, 600.0)))])
    assert drive.cluster.logs("w", 1, 0, 10, None) == ()  # its containers do not run yet
    assert drive.cluster.logs("w", 2, None, 10, None) == ()


def test_a_device_is_held_for_its_shares_until_the_last_one_is_gone(drive: Drive) -> None:
    shares = [_share(drive, f"w{number}", gpu) for number, gpu in enumerate((0, 0, 5))]
    for share in shares:
        run(drive, [share])
    drive.until(lambda: drive.cluster.held() == {("a", 0), ("a", 5)})
    for share, left in zip(shares, ({("a", 0), ("a", 5)}, {("a", 5)}, set()), strict=True):
        drive.cluster.stop(share.workload, 1, [0], 1.0)
        drive.until(lambda share=share: phase(drive, share.name) in (None, PodPhase.GONE))  # type: ignore[misc]
        drive.until(lambda left=left: _observed(drive) == left)  # type: ignore[misc]


def test_a_device_that_was_shared_may_be_taken_whole(drive: Drive) -> None:
    share = _share(drive, "w0", 0)
    run(drive, [share])
    drive.cluster.stop("w0", 1, [0], 1.0)
    drive.until(lambda: phase(drive, share.name) in (None, PodPhase.GONE))
    run(drive, [pod(drive, "w1")])
    drive.until(lambda: _observed(drive) == frozenset())


def _observed(drive: Drive) -> frozenset[tuple[str, int]]:
    drive.cluster.observe(None)
    return drive.cluster.held()


def _share(drive: Drive, uid: str, gpu: int) -> PodSpec:
    file = drive.job_file(Kind.NOTEBOOK)
    file["normalised"] = {"gpu_share": {"guarantee": 300, "limit": 500, "memory_mib": 4096}, "grace_seconds": 1}
    return pod(drive, uid, gpus=(gpu,), milli=300, gpu_memory=4096, spec=file)
