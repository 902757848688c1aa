"""JobSets with the label, under JobSet's own controller: one gang of all their Jobs' pods."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.models import Workload
from controlplane.testbed import controllers
from controlplane.testbed.kubernetes import TestCluster
from tests.adopted.rig import Rig, job, job_set, rig

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]
SETS = {"driver": (1, 1, 0), "workers": (2, 2, 4)}  # 1 pod without GPU, 2 Jobs of 2 pods with 4 GPUs each


@pytest.fixture
def adopted(kubernetes: TestCluster, tmp_path: Path, settings: Any) -> Iterator[Rig]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    with controllers.job_set(kubernetes):
        try:
            with rig(kubernetes, tmp_path) as made:
                yield made
        finally:
            path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/weft-nlp/jobsets"
            found = kubernetes.request("GET", path)["items"]
            kubernetes.delete(*(f"{path}/{one['metadata']['name']}" for one in found))
            kubernetes.wait_for(lambda: not kubernetes.request("GET", path)["items"], "the end of the JobSets")


def end_all(adopted: Rig, uid: str) -> None:
    for pod in adopted.pods(uid):
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")


def running(adopted: Rig, uid: str) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in adopted.pods(uid))


def test_a_job_set_is_one_gang_with_roles(adopted: Rig) -> None:
    uid = adopted.create("jobsets", job_set("pretrain", SETS))
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.workers, [(name, count) for name, count, _ in row.roles]) == (4, [("driver", 1)])
    assert row.managed_by == "jobsets.jobset.x-k8s.io"
    ranks = {pod["metadata"]["labels"]["internal.weft.dev/rank"]: pod for pod in adopted.pods(uid)}
    assert sorted(ranks) == ["0", "1", "2", "3", "4"]
    assert ranks["0"]["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "driver"
    order = [ranks[str(rank)]["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"] for rank in range(1, 5)]
    assert order == ["0", "0", "1", "1"]
    end_all(adopted, uid)
    adopted.until_phase(uid, "Succeeded")

    def is_complete() -> bool:
        conditions = adopted.get("jobsets", "pretrain")["status"].get("conditions", ())
        return any(c["type"] == "Completed" and c["status"] == "True" for c in conditions)

    adopted.server.wait_for(is_complete, "the JobSet's end")


def test_a_job_set_gives_way_whole_and_comes_back(adopted: Rig) -> None:
    uid = adopted.create("jobsets", job_set("pretrain", {"workers": (3, 2, 4)}))
    adopted.until_phase(uid, "Running")
    high = adopted.create("jobs", job("high", gpus=8, labels={"weft.dev/priority-class": "high"}))
    adopted.until_phase(high, "Running")
    adopted.until_phase(uid, "Queued")
    assert adopted.get("jobsets", "pretrain")["spec"]["suspend"] is True
    assert adopted.get("jobsets", "pretrain")["status"].get("restarts", 0) == 0
    assert running(adopted, uid) == 0
    end_all(adopted, high)
    adopted.until_phase(uid, "Running")
    assert running(adopted, uid) == 6


def test_a_job_set_that_fails_or_is_deleted_ends(adopted: Rig) -> None:
    uid = adopted.create("jobsets", job_set("broken", SETS))
    adopted.until_phase(uid, "Running")
    pod = next(p for p in adopted.pods(uid) if p["metadata"]["labels"]["internal.weft.dev/rank"] == "2")
    adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), fail_after="0", exit_code="3")
    adopted.until_phase(uid, "Failed")
    assert Workload.objects.get(uid=uid).exit_code == 3
    gone = adopted.create("jobsets", job_set("gone", SETS))
    adopted.until_phase(gone, "Running")
    adopted.kubectl("DELETE", adopted.path("jobsets", "gone") + "?propagationPolicy=Background")
    adopted.until_phase(gone, "Stopped")


def test_the_exit_code_is_the_pods_also_where_the_job_set_is_seen_to_have_failed_first(adopted: Rig) -> None:
    uid = adopted.create("jobsets", job_set("broken", SETS))
    adopted.until_phase(uid, "Running")
    pod = next(p for p in adopted.pods(uid) if p["metadata"]["labels"]["internal.weft.dev/rank"] == "2")
    adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), fail_after="0", exit_code="3")
    adopted.server.wait_for(lambda: has_failed(adopted, "broken"), "the JobSet's own end")
    adopted.until_phase(uid, "Failed")
    assert Workload.objects.get(uid=uid).exit_code == 3


def has_failed(adopted: Rig, name: str) -> bool:
    conditions = adopted.get("jobsets", name)["status"].get("conditions", ())
    return any(c["type"] == "Failed" and c["status"] == "True" for c in conditions)


def test_one_that_starts_in_order_is_refused_with_the_fix(adopted: Rig) -> None:
    body = job_set("ordered", SETS)
    body["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    assert "Set AnyOrder" in adopted.refused("POST", adopted.path("jobsets"), body)
