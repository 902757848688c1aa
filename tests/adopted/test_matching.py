"""Which of the waiting pods of a queued object takes which place."""

from controlplane.cluster.kubernetes.podstatus import Candidate
from controlplane.cluster.kubernetes.queued import matched
from controlplane.cluster.port import PodSpec

UID = "0a1b2c3d-0000-4000-8000-00000000000a"


def wanted(rank: int, gpus: int = 1) -> PodSpec:
    spec: dict[str, object] = {
        "kubernetes": {"kind": "Job", "name": "train", "main": "worker"},
        "normalised": {"gpus": gpus},
    }
    return PodSpec(UID, 1, rank, 2, "a", (rank,), 1000, 0, 1000, 1024, "nlp", spec)


def waiting(name: str, index: int = 0, pod_set: str = "worker", gpus: int = 1) -> Candidate:
    ask = (gpus, 1000, 1024)
    return Candidate("weft-nlp", name, 1, name, UID, "Job/train", pod_set, (index, name), ask, is_leaving=False)


def test_ranks_go_to_pods_in_the_order_of_their_numbers() -> None:
    pairs = matched([wanted(1), wanted(0)], [waiting("x", 0), waiting("y", 1)])
    assert [(pod.rank, candidate.called) for pod, candidate in pairs] == [(0, "x"), (1, "y")]


def test_a_pod_of_another_size_or_pod_set_takes_no_place() -> None:
    found = [waiting("larger", gpus=8), waiting("other", pod_set="driver"), waiting("fits")]
    assert [candidate.called for _, candidate in matched([wanted(0), wanted(1)], found)] == ["fits"]
