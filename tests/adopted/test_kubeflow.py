"""PyTorchJobs and TFJobs with the label, under Kubeflow's own training operator: gangs with roles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.models import Workload
from controlplane.testbed import controllers
from controlplane.testbed.kubernetes import TestCluster
from tests.adopted.rig import Rig, job, kubeflow, rig

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]
PLURALS = {"PyTorchJob": "pytorchjobs", "TFJob": "tfjobs"}
# Of each kind: its replica types, the roles that the workload has beside its workers, and which pods end.
KINDS: list[Any] = [
    ("PyTorchJob", {"Master": (1, 1), "Worker": (3, 2)}, ["master"], ("master", "worker")),
    ("TFJob", {"Chief": (1, 1), "PS": (2, 0), "Worker": (2, 4)}, ["chief", "ps"], ("chief", "worker")),
]


@pytest.fixture
def adopted(kubernetes: TestCluster, tmp_path: Path, settings: Any) -> Iterator[Rig]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    with controllers.training_operator(kubernetes):
        try:
            with rig(kubernetes, tmp_path) as made:
                yield made
        finally:
            paths = [f"/apis/kubeflow.org/v1/namespaces/weft-nlp/{plural}" for plural in PLURALS.values()]
            for path in paths:
                found = kubernetes.request("GET", path)["items"]
                kubernetes.delete(*(f"{path}/{one['metadata']['name']}" for one in found))


def role(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["training.kubeflow.org/replica-type"])


def end(adopted: Rig, uid: str, roles: tuple[str, ...]) -> None:
    for pod in adopted.pods(uid):
        if role(pod) in roles:
            adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")


def running(adopted: Rig, uid: str) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in adopted.pods(uid))


@pytest.mark.parametrize(("kind", "replicas", "roles", "ending"), KINDS)
def test_it_is_one_gang_with_roles_and_ends_as_its_operator_says(
    adopted: Rig, kind: str, replicas: dict[str, tuple[int, int]], roles: list[str], ending: tuple[str, ...]
) -> None:
    uid = adopted.create(PLURALS[kind], kubeflow(kind, "train", replicas))
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.workers, [name for name, *_ in row.roles]) == (replicas["Worker"][0], roles)
    assert len(adopted.pods(uid)) == sum(count for count, _ in replicas.values())
    end(adopted, uid, ending)
    adopted.until_phase(uid, "Succeeded")

    def has_succeeded() -> bool:
        conditions = adopted.get(PLURALS[kind], "train")["status"].get("conditions", ())
        return any(c["type"] == "Succeeded" and c["status"] == "True" for c in conditions)

    adopted.server.wait_for(has_succeeded, "its own end")


@pytest.mark.parametrize(("kind", "replicas", "roles", "ending"), KINDS)
def test_it_gives_way_whole_comes_back_and_ends_when_it_is_deleted(
    adopted: Rig, kind: str, replicas: dict[str, tuple[int, int]], roles: list[str], ending: tuple[str, ...]
) -> None:
    uid = adopted.create(PLURALS[kind], kubeflow(kind, "train", replicas))
    adopted.until_phase(uid, "Running")
    high = adopted.create("jobs", job("high", pods=3, gpus=8, labels={"weft.dev/priority-class": "high"}))
    adopted.until_phase(high, "Running")
    adopted.until_phase(uid, "Queued")
    assert adopted.get(PLURALS[kind], "train")["spec"]["runPolicy"]["suspend"] is True
    assert running(adopted, uid) == 0
    for pod in adopted.pods(high):
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until_phase(uid, "Running")
    assert running(adopted, uid) == sum(count for count, _ in replicas.values())
    adopted.kubectl("DELETE", adopted.path(PLURALS[kind], "train") + "?propagationPolicy=Background")
    adopted.until_phase(uid, "Stopped")


@pytest.mark.parametrize("is_first", [False, True])
def test_one_whose_worker_fails_has_failed_with_its_exit_code(adopted: Rig, is_first: bool) -> None:
    uid = adopted.create("pytorchjobs", kubeflow("PyTorchJob", "broken", {"Master": (1, 1), "Worker": (1, 1)}))
    adopted.until_phase(uid, "Running")
    pod = next(pod for pod in adopted.pods(uid) if role(pod) == "worker")
    adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), fail_after="0", exit_code="3")
    if is_first:  # else either may be seen first
        adopted.server.wait_for(lambda: has_failed(adopted, "broken"), "its own end")
    adopted.until_phase(uid, "Failed")
    assert Workload.objects.get(uid=uid).exit_code == 3


def has_failed(adopted: Rig, name: str) -> bool:
    conditions = adopted.get("pytorchjobs", name)["status"].get("conditions", ())
    return any(c["type"] == "Failed" and c["status"] == "True" for c in conditions)


def test_one_of_several_sizes_is_refused_with_the_fix(adopted: Rig) -> None:
    body = kubeflow("PyTorchJob", "elastic", {"Worker": (3, 1)})
    body["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 6}
    said = adopted.refused("POST", adopted.path("pytorchjobs"), body)
    assert "spec.elasticPolicy.minReplicas is 1, and Worker.replicas is 3" in said
    assert "apply a Workload of Weft's own with workers.min and workers.max" in said
    body["spec"]["elasticPolicy"] = {"minReplicas": 3, "maxReplicas": 3, "rdzvBackend": "c10d"}
    uid = adopted.create("pytorchjobs", body)
    adopted.until_phase(uid, "Running")
    assert running(adopted, uid) == 3


def test_a_master_that_is_not_done_yet_runs_on_when_its_workers_are(adopted: Rig) -> None:
    uid = adopted.create("pytorchjobs", kubeflow("PyTorchJob", "slow", {"Master": (1, 1), "Worker": (2, 1)}))
    adopted.until_phase(uid, "Running")
    end(adopted, uid, ("worker",))
    adopted.until(lambda: running(adopted, uid) == 1, "the end of the workers")
    for _ in range(3):
        adopted.turn()
    assert not adopted.get("pytorchjobs", "slow")["spec"]["runPolicy"]["suspend"]
    assert running(adopted, uid) == 1
    end(adopted, uid, ("master",))
    adopted.until_phase(uid, "Succeeded")
