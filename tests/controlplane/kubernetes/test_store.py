"""What the informer makes of pods and nodes, without a server."""

from decimal import Decimal
from typing import Any

import pytest

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.podstatus import Foreign, Worker, pod_of
from controlplane.cluster.kubernetes.quantities import quantity
from controlplane.cluster.kubernetes.store import KEEP_SECONDS, Store
from controlplane.cluster.port import PodPhase

T = "2026-01-01T00:00:{:02}Z"
AT = 1_767_225_600.0  # 2026-01-01


def pod(name: str = "w-1-0", *, version: int = 1, uid: str = "u", node: str = "a", **status: Any) -> dict[str, Any]:
    workload, attempt, rank = name.rsplit("-", 2)
    labels = {names.WORKLOAD: workload, names.ATTEMPT: attempt, names.RANK: rank}
    meta = {"namespace": "weft-nlp", "name": name, "uid": uid, "resourceVersion": str(version), "labels": labels}
    meta |= status.pop("meta", {})
    return {
        "metadata": meta | {"annotations": {names.GPUS: "0,1"} if node else {}},
        "spec": {"nodeName": node, "containers": [{}]},
        "status": {"phase": "Pending"} | status,
    }


def running(**changes: Any) -> dict[str, Any]:
    return pod(phase="Running", containerStatuses=[{"state": {"running": {"startedAt": T.format(1)}}}], **changes)


def ended(phase: str, code: int, second: int = 5, reason: str = "", **changes: Any) -> dict[str, Any]:
    end = {"startedAt": T.format(1), "finishedAt": T.format(second), "exitCode": code, "reason": reason}
    return pod(phase=phase, containerStatuses=[{"state": {"terminated": end}}], **changes)


def node(name: str = "a", *, ready: str = "True", version: int = 1, healthy: int = 8, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": str(version), "labels": {"nvidia.com/gpu.product": "A100"}},
        "spec": spec,
        "status": {
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": str(healthy), "cpu": "96", "memory": "1Ti"},
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": T.format(0)}],
        },
    }


def stored(*pods: dict[str, Any], lost_after: float = 60.0) -> Store:
    made = Store(lost_after)
    made.list_nodes([node()], AT)
    made.list_pods(pods, AT)
    return made


def test_a_pod_without_a_node_is_not_observed() -> None:
    made = stored(pod(node=""))
    assert made.since(None).pods == ()
    assert [w.name for w in made.unplaced()] == ["w-1-0"]


def test_what_an_ended_container_says() -> None:
    (found,) = stored(ended("Failed", 137, reason="OOMKilled")).since(None).pods
    assert (found.phase, found.exit_code, found.reason) == (PodPhase.FAILED, 137, "OOMKilled")
    assert (found.started_at, found.ended_at) == (AT + 1, AT + 5)


NO_DEVICES = "Allocate failed due to requested number of devices unavailable for {}. Requested: 1, Available: 0"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"reason": "OutOfnvidia.com/gpu"}, "OutOfGpu"),
        ({"reason": "OutOfpods"}, "OutOfPods"),
        ({"reason": "UnexpectedAdmissionError", "message": NO_DEVICES.format("nvidia.com/gpu")}, "OutOfGpu"),
        ({"reason": "UnexpectedAdmissionError", "message": NO_DEVICES.format("x.y/z")}, "UnexpectedAdmissionError"),
        ({"reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
    ],
)
def test_the_kubelets_refusals_have_the_ports_words(status: dict[str, str], reason: str) -> None:
    (found,) = stored(pod(phase="Failed", **status)).since(None).pods
    assert (found.phase, found.exit_code, found.reason) == (PodPhase.FAILED, None, reason)


def test_a_worker_that_ends_well_because_it_was_stopped_has_not_succeeded() -> None:
    leaving = {"deletionTimestamp": T.format(34), "deletionGracePeriodSeconds": 30}
    last = ended("Succeeded", 0, second=5, version=2, meta=leaving)
    made = stored(running())
    made.put_pod(last, AT)
    assert made.since(None).pods[0].phase == PodPhase.RUNNING
    made.drop_pod(last, AT)
    assert made.since(None).pods[0].phase == PodPhase.GONE


def test_a_worker_that_succeeded_before_it_was_stopped_has_succeeded() -> None:
    leaving = {"deletionTimestamp": T.format(40), "deletionGracePeriodSeconds": 30}
    made = stored(ended("Succeeded", 0, second=5))
    made.drop_pod(ended("Succeeded", 0, second=5, version=2, meta=leaving), AT)
    assert made.since(None).pods[0].phase == PodPhase.SUCCEEDED


@pytest.mark.parametrize(("second", "code", "told"), [(4, 3, 3), (5, 3, None), (4, 143, None), (4, 0, None)])
def test_of_one_that_ended_in_the_second_of_its_stop_a_code_of_its_own_is_known(
    second: int, code: int, told: int | None
) -> None:
    leaving = {"deletionTimestamp": T.format(34), "deletionGracePeriodSeconds": 30}
    last = ended("Failed", code, second=second, version=2, meta=leaving)
    made = stored(running())
    made.put_pod(last, AT)
    made.drop_pod(last, AT)
    (found,) = made.since(None).pods
    assert (found.phase, found.exit_code) == (PodPhase.GONE, told)


def test_an_older_version_changes_nothing() -> None:
    made = stored(running(version=5))
    number = made.since(None).number
    made.put_pod(pod(version=4), AT)
    assert made.since(number).pods == ()


def test_a_pod_that_a_new_list_lacks_is_gone_once() -> None:
    made = stored(running())
    number = made.since(None).number
    made.list_pods([], AT)
    made.list_pods([], AT)
    page = made.since(number)
    assert [p.phase for p in page.pods] == [PodPhase.GONE]
    assert made.since(page.number).pods == ()


def test_a_pod_made_again_under_its_name_is_another() -> None:
    made = stored(running(uid="one"))
    made.list_pods([pod(uid="two", version=9)], AT)
    made.drop_pod(running(uid="one", version=8), AT)  # late
    assert made.since(None).pods[0].phase == PodPhase.PENDING


def test_a_cursor_older_than_what_was_forgotten_gets_everything() -> None:
    made = stored(running())
    number = made.since(None).number
    made.list_pods([], AT)
    assert not made.since(number).is_full
    made.tick(AT + KEEP_SECONDS)
    assert made.since(number).is_full
    assert made.since(None).pods == ()


def test_a_silent_node_takes_no_work_at_once_and_its_workers_are_given_up_later() -> None:
    made = stored(running())
    made.put_node(node(ready="Unknown", version=2), AT)
    assert not made.since(None).nodes[0].is_usable
    made.tick(AT + 59.0)
    assert made.since(None).pods[0].phase == PodPhase.RUNNING
    made.tick(AT + 60.0)
    (found,) = made.since(None).pods
    assert (found.phase, found.reason) == (PodPhase.GONE, "NodeLost")


def test_a_node_that_is_back_is_ready_only_without_the_workers_that_were_given_up() -> None:
    made = stored(running())
    made.put_node(node(ready="Unknown", version=2), AT)
    made.tick(AT + 60.0)
    made.put_node(node(version=3), AT + 61.0)
    made.put_pod(running(version=2), AT + 61.0)
    assert not made.since(None).nodes[0].is_usable
    assert made.since(None).pods[0].phase == PodPhase.GONE
    assert [w.name for w in made.ghosts()] == ["w-1-0"]
    made.drop_pod(running(version=3), AT + 62.0)
    assert made.since(None).nodes[0].is_usable
    assert made.since(None).pods[0].reason == "NodeLost"


def test_broken_devices_are_first_looked_for_among_those_that_nobody_has() -> None:
    made = stored(running())
    made.put_node(node(healthy=6, version=2), AT)
    assert made.since(None).nodes[0].lost == (6, 7)
    made.put_node(node(healthy=1, version=3), AT)
    assert made.since(None).nodes[0].lost == (1, 2, 3, 4, 5, 6, 7)


def broken(device: str) -> dict[str, Any]:
    found = node(version=2, healthy=7)
    found["metadata"]["annotations"] = {"weft.dev/lost-gpus": device}
    return found


@pytest.mark.parametrize("is_node_first", [True, False])
def test_a_worker_that_failed_on_a_device_that_its_node_calls_lost_failed_because_of_that(is_node_first: bool) -> None:
    made = stored(running())
    failed = ended("Failed", 1, reason="Error", version=2)
    news = [lambda: made.put_node(broken("1"), AT), lambda: made.put_pod(failed, AT)]
    for tell in news if is_node_first else reversed(news):
        tell()
    assert made.since(None).pods[0].reason == "GpuLost"
    made.drop_pod({**failed, "metadata": {**failed["metadata"], "resourceVersion": "3"}}, AT)
    assert made.since(None).pods[0].reason == "GpuLost"


@pytest.mark.parametrize(("device", "reason"), [("2", "Error"), ("1", "OOMKilled")])
def test_another_device_or_a_known_reason_is_not_the_machines_fault(device: str, reason: str) -> None:
    made = stored(ended("Failed", 1, reason=reason))
    made.put_node(broken(device), AT)
    assert made.since(None).pods[0].reason == reason


def test_a_cordon_and_a_foreign_taint_keep_new_work_away_and_the_gpu_taint_does_not() -> None:
    def is_usable(**spec: Any) -> bool:
        made = Store(60.0)
        made.list_nodes([node(**spec)], AT)
        return made.since(None).nodes[0].is_usable

    assert not is_usable(unschedulable=True)
    assert not is_usable(taints=[{"key": "theirs", "effect": "NoSchedule"}])
    assert is_usable(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])


def worker(pod: dict[str, Any]) -> Worker:
    made = pod_of(pod)
    assert isinstance(made, Worker)
    return made


def end(second: int, code: int, reason: str = "") -> dict[str, Any]:
    return {"state": {"terminated": {"finishedAt": T.format(second), "exitCode": code, "reason": reason}}}


@pytest.mark.parametrize(
    ("kind", "status", "why"),
    [("DisruptionTarget", "True", "NodeLost"), ("DisruptionTarget", "False", "Error"), ("Ready", "True", "Error")],
)
def test_who_took_a_pod_away_is_said_by_the_one_condition_that_is_true(kind: str, status: str, why: str) -> None:
    condition = {"type": kind, "status": status, "reason": "DeletionByTaintManager"}
    assert worker(pod(phase="Failed", conditions=[condition])).seen.reason == why


def test_the_reason_of_a_failure_is_that_of_the_container_which_failed() -> None:
    found = worker(pod(phase="Failed", containerStatuses=[end(5, 0, "Completed"), end(7, 3), end(6, 137, "OOMKilled")]))
    assert (found.seen.exit_code, found.seen.reason, found.seen.ended_at) == (3, "OOMKilled", AT + 7)


def test_an_end_without_containers_is_dated_by_the_pods_start() -> None:
    found = worker(pod(phase="Succeeded", startTime=T.format(3)))
    assert (found.seen.phase, found.seen.ended_at, found.seen.exit_code) == (PodPhase.SUCCEEDED, AT + 3, 0)
    assert (found.is_over, found.is_leaving, found.created_at) == (True, False, 0.0)


@pytest.mark.parametrize(
    ("meta", "ends", "phase"),
    [
        ({"deletionGracePeriodSeconds": 30}, [end(9, 0)], PodPhase.SUCCEEDED),
        ({"deletionGracePeriodSeconds": 30}, [end(10, 0)], PodPhase.RUNNING),
        ({"deletionGracePeriodSeconds": 30}, [], PodPhase.RUNNING),
        ({}, [end(39, 0)], PodPhase.SUCCEEDED),  # without a grace period it was told at its deadline
        ({}, [end(40, 0)], PodPhase.RUNNING),
    ],
)
def test_an_end_counts_as_ours_from_the_moment_a_pod_was_told_to_leave(
    meta: dict[str, Any], ends: list[Any], phase: PodPhase
) -> None:
    leaving = {"deletionTimestamp": T.format(40), "creationTimestamp": T.format(2), **meta}
    found = worker(pod(phase="Succeeded", containerStatuses=ends, meta=leaving))
    assert (found.seen.phase, found.is_leaving, found.created_at) == (phase, True, AT + 2)
    assert found.is_over is (phase == PodPhase.SUCCEEDED)
    assert (found.seen.ended_at is not None) is found.is_over


def test_a_worker_that_saved_and_left_well_is_gone_and_has_not_succeeded() -> None:
    """As a kubelet does it: it deletes a pod whose containers have ended again, without grace and from now on."""
    told = {"deletionTimestamp": T.format(40), "deletionGracePeriodSeconds": 30}
    again = {"deletionTimestamp": T.format(13), "deletionGracePeriodSeconds": 0}
    made = stored(running())
    made.put_pod(running(version=2, meta=told), AT)
    made.put_pod(ended("Succeeded", 0, 12, version=3, meta=told), AT)
    made.put_pod(ended("Succeeded", 0, 12, version=4, meta=again), AT)
    made.drop_pod(ended("Succeeded", 0, 12, version=5, meta=again), AT)
    (found,) = made.since(None).pods
    assert (found.phase, found.exit_code) == (PodPhase.GONE, None)


def test_a_worker_that_had_succeeded_before_it_was_told_to_leave_has_succeeded() -> None:
    told = {"deletionTimestamp": T.format(43), "deletionGracePeriodSeconds": 30}
    again = {"deletionTimestamp": T.format(13), "deletionGracePeriodSeconds": 0}
    made = stored(running())
    made.put_pod(running(version=2, meta=told), AT)
    made.put_pod(ended("Succeeded", 0, 12, version=3, meta=told), AT)
    made.drop_pod(ended("Succeeded", 0, 12, version=4, meta=again), AT)
    (found,) = made.since(None).pods
    assert (found.phase, found.exit_code) == (PodPhase.SUCCEEDED, 0)


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ([], PodPhase.PENDING),
        ([{}], PodPhase.PENDING),
        ([{"state": {"waiting": {"reason": "ContainerCreating"}}}], PodPhase.PENDING),
        ([{}, {"state": {"running": {"startedAt": T.format(1)}}}], PodPhase.RUNNING),
        ([end(5, 0)], PodPhase.RUNNING),
    ],
)
def test_a_worker_runs_once_one_of_its_containers_does(states: list[Any], phase: PodPhase) -> None:
    found = worker(pod(phase="Running", containerStatuses=states))
    assert (found.seen.phase, found.is_over) == (phase, False)


def foreign(phase: str | None = "Running", **spec: Any) -> dict[str, Any]:
    asked = {"nvidia.com/gpu": "2", "cpu": "1500m", "memory": "1025Ki"}
    made = {
        "metadata": {"namespace": "other", "name": "x", "uid": "x"},
        "spec": {"nodeName": "a", "containers": [{"resources": {"requests": asked}}], **spec},
    }
    return made | ({"status": {"phase": phase}} if phase else {})


def test_a_foreign_pod_takes_its_room_from_its_node_until_it_ends() -> None:
    assert pod_of(foreign()) == pod_of(foreign(None)) == Foreign("a", 2, 1500, 2)  # memory is rounded up
    assert [pod_of(one) for one in (foreign("Succeeded"), foreign("Failed"), foreign(nodeName=""))] == [None] * 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("263866068Ki", 263_866_068 * 2**10), ("1Ki", 2**10), ("2Mi", 2**21), ("3Gi", 3 * 2**30), ("1.5Ti", 3 * 2**39),
        ("1Pi", 2**50), ("1Ei", 2**60), ("1k", 1000), ("2M", 2_000_000), ("1G", 10**9), ("1T", 10**12), ("1P", 10**15),
        ("1E", 10**18), ("1e3", 1000), ("1E3", 1000), ("7", 7), ("0.5", Decimal("0.5")), ("250m", Decimal("0.25")),
        ("5u", Decimal("0.000005")), ("5n", Decimal("0.000000005")), ("", 0), ("Ki", 0), ("1Q", 0), ("lots", 0),
    ],
)  # fmt: skip
def test_a_quantity_of_every_suffix_of_kubernetes_is_read(text: str, number: Decimal | int) -> None:
    assert quantity(text) == number


def test_a_machine_has_the_memory_that_its_kubelet_says_in_ki() -> None:
    machine = node()
    machine["status"]["allocatable"]["memory"] = "263866068Ki"
    made = Store(60.0)
    made.list_nodes([machine], AT)
    (found,) = made.since(None).nodes
    assert found.memory == 263_866_068 // 1024


# --- resizes ----------------------------------------------------------------------------------


def sized(cpu: str, memory: str, asked: str = "4", generation: int = 2, **condition: Any) -> dict[str, Any]:
    """A running pod that was asked to have so much CPU and 1Gi, and has this much."""

    def container(cpu: str, memory: str) -> dict[str, Any]:
        return {"name": names.CONTAINER, "resources": {"requests": {"cpu": cpu, "memory": memory}}}

    status = container(cpu, memory) | {"state": {"running": {"startedAt": T.format(1)}}}
    told = [{"status": "True", "message": "Full", **condition}] if condition else []
    made = pod(phase="Running", containerStatuses=[status], conditions=told, meta={"generation": generation})
    made["spec"]["containers"] = [container(asked, "1Gi")]
    return made


DONE, CHANGING = (4000, 1024, "", ""), (None, None, "", "")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (sized("4", "1Gi"), DONE),
        (sized("4000m", "1024Mi"), DONE),
        (sized("2", "1Gi"), CHANGING),  # its node has not looked at it yet
        (sized("4", "1Gi", type="PodResizeInProgress"), CHANGING),
        (sized("2", "1Gi", type="PodResizePending", reason="Deferred"), (None, None, "Deferred", "Full")),
        (sized("2", "1Gi", type="PodResizePending", reason="Infeasible", observedGeneration=1), CHANGING),
        (sized("4", "1Gi", type="PodResizePending", status="False"), DONE),
        (running(), CHANGING),  # an old server does not tell
    ],
)
def test_a_pod_says_what_it_has_once_its_node_has_changed_it(found: dict[str, Any], expected: object) -> None:
    worker = pod_of(found)
    assert isinstance(worker, Worker)
    assert (worker.seen.cpu_milli, worker.seen.memory, worker.seen.resize, worker.seen.resize_message) == expected
