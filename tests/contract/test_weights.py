"""What the port `Cluster` promises of weights that move to host memory and back."""

from controlplane.cluster.port import ON_DEVICE, ON_HOST, REFUSED, PodPhase, PodSeen
from scheduler.model.workload import Kind
from tests.contract.drive import Drive, pod, run
from tests.contract.real import KubernetesDrive

PORT = 18_471
MEMORY, WEIGHTS = 4096, 40_960  # MiB


def replicas(drive: Drive, **more: object) -> None:
    """Two of one service, on whole GPUs as shares."""
    file = drive.job_file(Kind.INFERENCE) | {"standby_memory": "host", "port": PORT} | more
    file["normalised"] = {**file.get("normalised", {}), "gpu_share": {"guarantee": 1000, "limit": 1000}}
    asked = {"milli": 1000, "gpu_memory": WEIGHTS, "memory": MEMORY, "spec": file, "is_asleep": True}
    run(drive, [pod(drive, rank=rank, **asked) for rank in (0, 1)])


def weights(drive: Drive) -> dict[int, PodSeen]:
    """What is seen of them, by rank."""
    return {one.rank: one for one in drive.cluster.observe(None).pods}


def told(drive: Drive, *ranks: int, on: bool) -> None:
    drive.cluster.offload("w", 1, ranks, MEMORY, WEIGHTS, on=on)


def test_weights_go_to_host_memory_and_come_back_and_may_be_told_twice(drive: Drive) -> None:
    replicas(drive)
    before = drive.cluster.now()
    assert weights(drive)[1].weights == ""
    for on, where in ((True, ON_HOST), (False, ON_DEVICE), (True, ON_HOST)):
        told(drive, 1, on=on)
        told(drive, 1, on=on)
        drive.until(lambda where=where: weights(drive)[1].weights == where)
        drive.until(lambda: weights(drive)[1].memory == MEMORY)  # as the job file has it, in any case
        at = weights(drive)[1].weights_at
        assert at is not None
        assert at >= before
        before = at
        told(drive, 1, on=on)  # they are there
    assert (weights(drive)[0].weights, weights(drive)[1].phase) == ("", PodPhase.RUNNING)
    told(drive, 7, on=True)
    drive.cluster.offload("stranger", 1, [0], MEMORY, WEIGHTS, on=True)


def test_the_pod_has_the_memory_for_its_weights_while_they_are_there(drive: Drive) -> None:
    if not isinstance(drive, KubernetesDrive):
        return  # the simulated cluster counts them apart from the container
    replicas(drive)
    told(drive, 1, on=True)
    drive.until(lambda: weights(drive)[1].weights == ON_HOST)
    assert drive.size("w", 1, 1)[1] == MEMORY + WEIGHTS
    assert drive.adapter.sleepers["w-1-1"].is_sleeping
    drive.cluster.resize("w", 1, 1, 2000, 2 * MEMORY)
    drive.until(lambda: drive.size("w", 1, 1) == (2000, 2 * MEMORY + WEIGHTS))
    told(drive, 1, on=False)
    drive.until(lambda: weights(drive)[1].weights == ON_DEVICE)
    drive.until(lambda: drive.size("w", 1, 1)[1] == MEMORY)
    assert drive.adapter.sleepers["w-1-1"].asked == ["/sleep?level=1", "/wake_up"]


def test_where_the_node_has_no_memory_or_the_server_no_sleep_mode_they_stay(drive: Drive) -> None:
    if not isinstance(drive, KubernetesDrive):
        return  # its servers always can
    replicas(drive, knows_no_sleep=True)
    told(drive, 0, on=True)
    drive.until(lambda: weights(drive)[0].weights == REFUSED)
    assert "404" in weights(drive)[0].weights_message
    drive.until(lambda: drive.size("w", 1, 0)[1] == MEMORY)
    drive.refuse_resizes("w", 1, 1, "Infeasible")
    told(drive, 1, on=True)
    drive.until(lambda: weights(drive)[1].weights == REFUSED)
    assert weights(drive)[1].weights_message != ""
    assert drive.adapter.sleepers["w-1-1"].asked == []
