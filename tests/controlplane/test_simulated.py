"""The simulated cluster's own rules: time, gangs, checkpoints, failures, devices, forgetting."""

import numpy as np
import pytest

from controlplane.cluster import work
from controlplane.cluster.port import ClusterUnreachable, PodPhase
from controlplane.cluster.simulated import START
from tests.controlplane.simulation import (
    NODES,
    PROFILES,
    cluster,
    finish,
    gang,
    pod,
    running_seconds,
    seen,
    share,
    to_running,
    training,
)
from tests.faulty import Faults, FaultyCluster

NOTEBOOK = {"type": "notebook"}
SERVICE = {"type": "inference", "objective": {"p95_latency": "250ms"}}


def test_the_clock_starts_in_2026_and_keeps_whole_seconds() -> None:
    world = cluster()
    assert world.now() == START == 1_767_225_600.0
    world.advance(START + 10.7)
    assert world.now() == START + 10
    world.advance(START + 3)
    assert world.now() == START + 10


def test_nothing_ever_happens_at_the_moment_of_a_command() -> None:
    world = cluster()
    world.start([pod("w", training())])
    assert (world.next_event() or 0) > world.now()
    to_running(world, "w-1-0")
    world.stop("w", 1, [0], 0.0)
    assert world.next_event() == world.now() + 1


def test_a_job_runs_as_long_as_its_hidden_duration_says() -> None:
    world = cluster()
    world.start([pod("w", training(777.0) | {"expected_duration": "5m"})])
    assert running_seconds(finish(world, "w-1-0")) == 777


def test_without_a_hidden_duration_the_expected_one_holds() -> None:
    world = cluster()
    world.start([pod("w", {"type": "training", "expected_duration": "5m"})])
    assert running_seconds(finish(world, "w-1-0")) == 300


def test_start_delays_depend_on_the_pod_and_the_seed_only() -> None:
    def delays(seed: int, order: int) -> dict[str, float]:
        world = cluster(seed=seed)
        pods = [pod(f"w{i}", training(), f"a:{i}") for i in range(8)]
        for one in pods[::order]:
            world.start([one])
        to_running(world, *(p.name for p in pods))
        return {p.name: (seen(world, p.name).started_at or 0) - START for p in pods}

    first = delays(0, 1)
    assert first == delays(0, -1)
    assert first != delays(1, 1)
    assert len(set(first.values())) > 3
    assert all(5 <= delay <= 60 for delay in first.values())


def test_a_gang_makes_progress_only_while_all_its_workers_run() -> None:
    world = cluster()
    pods = gang("w", training(workers=2), "a:0", "a:1")
    world.start(pods[:1])
    world.advance(START + 3600)
    assert seen(world, "w-1-0").phase == PodPhase.RUNNING
    assert seen(world, "w-1-0").progress == 0
    world.start(pods)
    ended = finish(world, "w-1-1")
    assert ended.phase == PodPhase.SUCCEEDED
    assert running_seconds(ended) == 600


def test_when_one_worker_fails_its_peers_fail_too() -> None:
    world = cluster()
    world.start(gang("w", training(workers=3), "a:0", "b:0", "b:1"))
    to_running(world, "w-1-0", "w-1-1", "w-1-2")
    world.lose_gpu("b", 1)
    ends = [(seen(world, f"w-1-{rank}").phase, seen(world, f"w-1-{rank}").reason) for rank in range(3)]
    assert ends == [
        (PodPhase.FAILED, "PeerFailed"),
        (PodPhase.FAILED, "PeerFailed"),
        (PodPhase.FAILED, "GpuLost"),
    ]


def test_replicas_of_a_service_do_not_fail_with_each_other() -> None:
    world = cluster()
    world.start(gang("s", SERVICE, "a:0", "b:0"))
    to_running(world, "s-1-0", "s-1-1")
    world.lose_node("a")
    assert seen(world, "s-1-0").phase == PodPhase.GONE
    assert seen(world, "s-1-1").phase == PodPhase.RUNNING


def test_a_stopped_training_writes_a_checkpoint_and_goes_on_from_it() -> None:
    world = cluster()
    world.start([pod("w", training(1000.0))])
    to_running(world, "w-1-0")
    world.advance(world.now() + 330)
    world.stop("w", 1, [0], 30.0)
    gone = finish(world, "w-1-0")
    assert (gone.phase, gone.reason, gone.progress) == (PodPhase.GONE, "Stopped", 0.33)
    assert gone.checkpointed_at == gone.ended_at
    world.start([pod("w", training(1000.0), attempt=2)])
    assert running_seconds(finish(world, "w-2-0")) == 670


def test_a_training_whose_grace_is_too_short_falls_back_to_its_last_checkpoint() -> None:
    world = cluster()
    world.start([pod("w", training(1000.0))])
    to_running(world, "w-1-0")
    began = world.now()
    world.advance(began + 330)
    world.stop("w", 1, [0], 4.0)  # it would need five seconds
    gone = finish(world, "w-1-0")
    assert gone.ended_at == began + 334
    assert (gone.progress, gone.checkpointed_at) == (0.3, began + 300)


def test_a_shorter_grace_given_later_holds() -> None:
    world = cluster()
    world.start([pod("w", training(1000.0))])
    to_running(world, "w-1-0")
    world.stop("w", 1, [0], 60.0)
    world.stop("w", 1, [0], 1.0)
    world.stop("w", 1, [0], 60.0)
    assert finish(world, "w-1-0").ended_at == world.now()
    assert world.next_event() is None
    assert seen(world, "w-1-0").progress == 0


def test_a_killed_training_goes_on_from_its_last_regular_checkpoint() -> None:
    world = cluster()
    world.start(gang("w", training(1000.0, workers=2), "a:0", "a:1"))
    to_running(world, "w-1-0", "w-1-1")
    world.advance(world.now() + 330)
    world.lose_node("a")
    lost = seen(world, "w-1-0")
    assert (lost.phase, lost.reason, lost.progress) == (PodPhase.GONE, "NodeLost", 0.3)
    world.start(gang("w", training(1000.0, workers=2), "b:0", "b:1", attempt=2))
    to_running(world, "w-2-0", "w-2-1")
    began = world.now()
    assert finish(world, "w-2-0").ended_at == began + 700


def test_without_checkpoints_all_is_lost() -> None:
    world = cluster()
    file = training(1000.0)
    del file["checkpoint"]
    world.start([pod("w", file)])
    to_running(world, "w-1-0")
    world.advance(world.now() + 330)
    world.lose_node("a")
    assert (seen(world, "w-1-0").progress, seen(world, "w-1-0").checkpointed_at) == (0, None)


def test_a_job_with_a_fault_of_its_own_fails_where_it_is() -> None:
    world = cluster()
    file = training(1000.0, fail_at=0.4, fail_attempts=1, exit_code=42, reason="Error")
    world.start([pod("w", file)])
    failed = finish(world, "w-1-0")
    assert (failed.phase, failed.exit_code, failed.reason) == (PodPhase.FAILED, 42, "Error")
    assert running_seconds(failed) == 400
    world.start([pod("w", file, attempt=2)])
    again = finish(world, "w-2-0")
    assert (again.phase, running_seconds(again)) == (PodPhase.SUCCEEDED, 640)  # from the checkpoint at 36 %


def test_bad_luck_comes_as_often_as_the_profile_says_and_always_to_the_same() -> None:
    def failed(seed: int) -> set[str]:
        world = cluster(seed=seed)
        for i in range(100):
            world.start(gang(f"w{i}", training(100.0, workers=2, profile="unlucky"), "a:0", "a:1"))
            finish(world, f"w{i}-1-0")
        return {p.workload for p in world.observe(None).pods if p.phase == PodPhase.FAILED}

    first = failed(1)
    assert 15 <= len(first) <= 45  # about 0.3 of 100
    assert first == failed(1)
    assert first != failed(2)


def test_a_persons_own_job_does_not_end_by_bad_luck() -> None:
    world = cluster()
    for i in range(100):  # a third draws the profile of which 0.3 fail
        world.start([pod(f"w{i}", {"type": "training", "expected_duration": "100s"})])
        assert finish(world, f"w{i}-1-0").phase == PodPhase.SUCCEEDED


def test_a_job_that_does_not_say_how_long_it_takes_is_over_within_an_hour() -> None:
    drawn = [work.read_work(f"w{i}", {"type": "training"}, PROFILES, seed=0).seconds or 0.0 for i in range(2000)]
    assert 800 < sorted(drawn)[1000] < 1000
    assert 3599 < max(drawn) <= 3600


def test_a_notebook_runs_until_it_is_stopped_or_its_person_leaves() -> None:
    world = cluster()
    world.start([pod("n", NOTEBOOK), pod("m", NOTEBOOK | {"simulated": {"duration": 500}}, "a:1")])
    world.advance(START + 100_000)
    assert seen(world, "n-1-0").phase == PodPhase.RUNNING
    left = seen(world, "m-1-0")
    assert (left.phase, left.exit_code, running_seconds(left)) == (PodPhase.SUCCEEDED, 0, 500)


def test_a_device_given_twice_is_refused_and_counted() -> None:
    world = cluster()
    world.start([pod("w", training()), pod("v", training())])
    refused = seen(world, "v-1-0")
    assert (refused.phase, refused.reason) == (PodPhase.FAILED, "OutOfGpu")
    assert world.overcommits == 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"milli": 501}, "OutOfGpu"),
        ({"milli": 500, "gpu_memory": 50_000}, "OutOfGpuMemory"),
        ({"milli": 500, "cpu_milli": 93_000}, "OutOfCpu"),
        ({"milli": 500, "memory": 1_048_576}, "OutOfMemory"),
        ({"milli": 500, "gpu_memory": 31_920}, ""),
    ],
)
def test_a_share_must_fit_beside_the_others(values: dict[str, int], reason: str) -> None:
    world = cluster()
    file = share(1.0, **training())
    world.start([pod("w", file, milli=500, gpu_memory=50_000)])
    world.start([pod("v", file, **values)])
    assert seen(world, "v-1-0").reason == reason
    assert world.overcommits == bool(reason)


def test_a_device_of_a_pod_that_is_still_leaving_is_taken() -> None:
    world = cluster()
    world.start([pod("w", training())])
    to_running(world, "w-1-0")
    world.stop("w", 1, [0], 30.0)
    world.start([pod("v", training())])
    assert world.overcommits == 1


def test_a_pod_on_a_node_that_is_lost_is_gone_at_once_and_is_no_overcommit() -> None:
    world = cluster()
    world.lose_node("a")
    world.start([pod("w", training()), pod("v", training(), "nowhere:0")])
    assert {(p.phase, p.reason) for p in world.observe(None).pods} == {(PodPhase.GONE, "NodeLost")}
    assert world.overcommits == 0


def test_nodes_fail_and_come_back_by_themselves_the_same_way_each_time() -> None:
    def history(step: float) -> list[tuple[str, bool]]:
        world, out = cluster(node_mtbf_seconds=50_000.0, node_repair_seconds=600.0), []
        cursor = world.observe(None).cursor
        while world.now() < START + 200_000:
            world.advance(min(START + 200_000, max(world.next_event() or 0, world.now() + step)))
            answer = world.observe(cursor)
            cursor = answer.cursor
            out += [(n.name, n.ready) for n in answer.nodes]
        return out

    first = history(1.0)
    assert len(first) > 8
    assert {name for name, _ in first} <= {n.name for n in NODES}
    assert first == history(1.0)


def test_pods_that_ended_long_ago_are_forgotten_and_old_cursors_with_them() -> None:
    world = cluster(keep_seconds=1000.0, keep_ended=3)
    cursor = world.observe(None).cursor
    for i in range(6):
        world.start([pod(f"w{i}", training(100.0))])
        finish(world, f"w{i}-1-0")
    world.advance(world.now() + 2000)
    assert {p.workload for p in world.observe(None).pods} == {"w3", "w4", "w5"}
    assert world.observe(cursor).is_full
    assert world.logs("w0", 1, None, 10, None) == ()
    assert not world.observe(world.observe(None).cursor).is_full


def test_a_faulty_cluster_loses_repeats_and_delays_but_the_truth_comes_through() -> None:
    world = cluster()
    faults = Faults(0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2)
    faulty = FaultyCluster(world, np.random.default_rng(5), faults)
    cursor, known = None, {}
    for i in range(400):
        try:
            if i < 64:
                faulty.start([pod(f"w{i}", training(60.0), f"{'abcd'[i % 4]}:{i // 4 % 8}")])
            answer = faulty.observe(cursor)
        except ClusterUnreachable:
            continue
        finally:
            world.advance(world.now() + 2)
        cursor = answer.cursor
        known.update({p.name: p.phase for p in answer.pods})
    assert all(faulty.counts[fault] > 5 for fault in ("unreachable", "stale", "full", "repeated", "reordered"))
    assert faulty.counts["gap"] > 0
    assert known == {p.name: p.phase for p in world.observe(None).pods}
    assert len(known) >= 30


ELASTIC = training(600.0, workers=3) | {"workers": {"count": 3, "min": 1}}


def test_an_elastic_gang_goes_on_without_the_workers_that_are_told_to_leave() -> None:
    world = cluster()
    world.start(gang("w", ELASTIC, "a:0", "a:1", "a:2"))
    to_running(world, "w-1-0", "w-1-1", "w-1-2")
    world.advance(world.now() + 300)
    world.stop("w", 1, [1, 2], 30.0)
    assert finish(world, "w-1-2").phase == PodPhase.GONE
    assert seen(world, "w-1-0").phase == PodPhase.RUNNING
    saved = seen(world, "w-1-0").progress
    assert saved is not None
    assert saved > 0.3
    ended = finish(world, "w-1-0")
    assert ended.phase == PodPhase.SUCCEEDED
    assert 300 + 2 * 300 < running_seconds(ended) < 300 + 3 * 300 + 60  # one worker does what three would have done


def test_an_elastic_gang_works_faster_once_another_worker_runs() -> None:
    world = cluster()
    world.start(gang("w", ELASTIC, "a:0"))
    to_running(world, "w-1-0")
    world.start([pod("w", ELASTIC, "a:1", rank=1), pod("w", ELASTIC, "a:2", rank=2)])
    ended = finish(world, "w-1-0")
    assert ended.phase == PodPhase.SUCCEEDED
    assert 600 < running_seconds(ended) < 800
    assert seen(world, "w-1-2").phase == PodPhase.SUCCEEDED


def test_a_gang_that_is_not_elastic_fails_without_one_of_its_workers() -> None:
    world = cluster()
    world.start(gang("w", training(workers=2), "a:0", "a:1"))
    to_running(world, "w-1-0", "w-1-1")
    world.stop("w", 1, [1], 30.0)
    assert finish(world, "w-1-0").reason == "PeerFailed"
