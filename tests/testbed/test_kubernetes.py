import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from controlplane.testbed.stages import RUN_FOR_LABEL
from tests.servers import ROOT, wait_until
from tests.testbed.pods import PODS, pod


def phase(cluster: TestCluster, name: str) -> str:
    return str(cluster.request("GET", f"{PODS}/{name}")["status"]["phase"])


def wait_for_phase(cluster: TestCluster, name: str, wanted: str) -> dict[str, Any]:
    cluster.wait_for(lambda: phase(cluster, name) == wanted, f"{name} {wanted}", 60)
    status: dict[str, Any] = cluster.request("GET", f"{PODS}/{name}")["status"]
    return status


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def ready(cluster: TestCluster, node: str) -> str:
    conditions = cluster.request("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
    return str(next(condition["status"] for condition in conditions if condition["type"] == "Ready"))


def test_nodes_have_gpus_labels_and_no_taints(kubernetes: TestCluster) -> None:
    nodes = kubernetes.request("GET", "/api/v1/nodes")["items"]

    assert [node["metadata"]["name"] for node in nodes] == ["a", "b", "c"]
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["metadata"]["labels"]["nvidia.com/gpu.memory"] == "81920"
        assert "taints" not in node["spec"]


def test_a_bound_pod_runs_until_it_is_deleted(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("x"))

    status = wait_for_phase(kubernetes, "x", "Running")
    kubernetes.request("DELETE", f"{PODS}/x")

    assert status["containerStatuses"][0]["state"]["running"]["startedAt"] == status["startTime"]
    assert status["podIP"]
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{PODS}/x"), "the end of x", 10)


def test_a_pod_nobody_bound_stays_pending(kubernetes: TestCluster) -> None:
    waiting = pod("x")
    del waiting["spec"]["nodeName"]
    kubernetes.request("POST", PODS, waiting)
    kubernetes.request("POST", PODS, pod("y"))

    wait_for_phase(kubernetes, "y", "Running")

    assert phase(kubernetes, "x") == "Pending"


def test_a_pod_succeeds_after_its_run_time(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("x", run_for="2"))

    status = wait_for_phase(kubernetes, "x", "Succeeded")

    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert seconds(ended["finishedAt"]) - seconds(ended["startedAt"]) == pytest.approx(2, abs=1)


def test_a_label_says_the_run_time_of_what_comes_through_weft_and_the_annotation_wins(kubernetes: TestCluster) -> None:
    for name, annotations in (("short", {}), ("long", {"run_for": "600"})):
        labelled = pod(name, **annotations)
        labelled["metadata"]["labels"] = {RUN_FOR_LABEL: "1"}
        kubernetes.request("POST", PODS, labelled)

    wait_for_phase(kubernetes, "short", "Succeeded")

    assert phase(kubernetes, "long") == "Running"


def test_a_running_pod_ends_when_it_is_told_to(kubernetes: TestCluster) -> None:
    for name in ("x", "y"):
        kubernetes.request("POST", PODS, pod(name))
        wait_for_phase(kubernetes, name, "Running")

    kubernetes.annotate(f"{PODS}/x", run_for="0")
    kubernetes.annotate(f"{PODS}/y", fail_after="0", exit_code="137", reason="OOMKilled")

    wait_for_phase(kubernetes, "x", "Succeeded")
    ended = wait_for_phase(kubernetes, "y", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_pod_starts_after_its_delay_and_a_change_in_between_does_not_begin_it_anew(kubernetes: TestCluster) -> None:
    began = time.monotonic()
    kubernetes.request("POST", PODS, pod("x", start_after="3"))

    # Changes go on for as long as the pod waits, so a delay that began again with each would never be over.
    def runs() -> bool:
        kubernetes.annotate(f"{PODS}/x", note=str(time.monotonic()))
        return phase(kubernetes, "x") == "Running"

    kubernetes.wait_for(runs, "x", 15)
    assert time.monotonic() - began > 1.9  # times in a status have no fractions


def test_a_deleted_pod_may_take_its_time_but_no_more_than_its_grace(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("slow", stop_after="60"))
    kubernetes.request("POST", PODS, pod("quick"))
    for name in ("slow", "quick"):
        wait_for_phase(kubernetes, name, "Running")
    began = time.monotonic()

    for name in ("slow", "quick"):
        kubernetes.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 3})

    kubernetes.wait_for(lambda: not kubernetes.exists(f"{PODS}/quick"), "the end of quick", 10)
    assert kubernetes.exists(f"{PODS}/slow")
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{PODS}/slow"), "the end of slow", 20)
    assert 1.9 < time.monotonic() - began < 15


def test_a_resize_reaches_the_running_container(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("x", run_for="60"))
    wait_for_phase(kubernetes, "x", "Running")
    size = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}

    change = {"spec": {"containers": [{"name": "main", "resources": size}]}}
    strategic = "application/strategic-merge-patch+json"
    kubernetes.request("PATCH", f"{PODS}/x/resize", change, content_type=strategic)

    def actual() -> object:
        return kubernetes.request("GET", f"{PODS}/x")["status"]["containerStatuses"][0]["resources"]

    kubernetes.wait_for(lambda: actual() == size, "the new size", 10)
    assert phase(kubernetes, "x") == "Running"


def test_logs_come_from_the_node(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("x"))
    wait_for_phase(kubernetes, "x", "Running")

    assert kubernetes.text(f"{PODS}/x/log?tailLines=2").splitlines() == ["step 58 of 60", "step 59 of 60"]
    assert kubernetes.text(f"{PODS}/x/log?tailLines=1&timestamps=true").startswith("2026-01-01T00:00:59")


def test_a_node_goes_down_and_comes_back(kubernetes: TestCluster) -> None:
    for word, status in (("true", "False"), ("unknown", "Unknown")):
        kubernetes.annotate("/api/v1/nodes/b", not_ready=word)
        kubernetes.wait_for(lambda status=status: ready(kubernetes, "b") == status, f"b {status}", 10)
        assert ready(kubernetes, "a") == "True"
        kubernetes.annotate("/api/v1/nodes/b", not_ready=None)
        kubernetes.wait_for(lambda: ready(kubernetes, "b") == "True", "b ready", 10)


def test_empty_takes_away_what_a_test_made_and_mends_the_nodes(kubernetes: TestCluster) -> None:
    kubernetes.request("POST", PODS, pod("x", stop_after="60"))
    service = {"metadata": {"name": "x"}, "spec": {"clusterIP": "None"}}
    kubernetes.request("POST", "/api/v1/namespaces/default/services", service)
    kubernetes.patch("/api/v1/nodes/a", {"spec": {"unschedulable": True}})
    kubernetes.patch("/api/v1/nodes/b/status", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    kubernetes.delete("/api/v1/nodes/c")
    kubernetes.add_nodes(named("d"))

    kubernetes.empty()

    assert not kubernetes.request("GET", "/api/v1/pods")["items"]
    services = kubernetes.request("GET", "/api/v1/services")["items"]
    assert [item["metadata"]["name"] for item in services] == ["kubernetes"]
    nodes = kubernetes.request("GET", "/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["a", "b", "c"]
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}
    assert not any(node["spec"].get("unschedulable") or node["spec"].get("taints") for node in nodes)


def test_a_service_account_may_what_its_role_says(kubernetes: TestCluster) -> None:
    meta = {"name": "reader", "namespace": "default"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    roles = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    kubernetes.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {"apiVersion": f"{roles}/v1", "kind": "Role", "metadata": meta, "rules": rules},
            {
                "apiVersion": f"{roles}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": roles, "kind": "Role", "name": "reader"},
                "subjects": [subject],
            },
        ]
    )
    config = json.loads(kubernetes.kubeconfig("default/reader").read_text())
    token = config["users"][0]["user"]["token"]

    assert kubernetes.request("GET", PODS, token=token)["items"] == []
    with pytest.raises(ApiError, match="403 Forbidden") as refused:
        kubernetes.request("POST", PODS, pod("x"), token=token)
    assert refused.value.status == 403


# Parts that end and come back. These have a cluster of their own, so that no other test meets a wounded one.


@pytest.fixture(scope="module")
def wounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    folder = tmp_path_factory.mktemp("wounded")
    with test_cluster(folder, nodes=named("a"), audit=True) as cluster:
        yield cluster


@pytest.mark.kubernetes
@pytest.mark.parametrize("part", ["etcd", "apiserver", "kcm", "kwok"])
def test_a_part_that_was_killed_comes_back_with_its_data(wounded: TestCluster, part: str) -> None:
    before = wounded.pid(part)
    wounded.request("POST", PODS, pod(f"before-{part}"))
    wait_for_phase(wounded, f"before-{part}", "Running")

    wounded.kill(part)
    wounded.start(part)

    assert wounded.pid(part) != before
    assert phase(wounded, f"before-{part}") == "Running"
    wounded.request("POST", PODS, pod(f"after-{part}"))
    wait_for_phase(wounded, f"after-{part}", "Running")


@pytest.mark.kubernetes
def test_a_paused_api_server_answers_nothing_until_it_goes_on(wounded: TestCluster) -> None:
    wounded.pause("apiserver")
    try:
        with pytest.raises(httpx.ReadTimeout):
            wounded.request("GET", PODS, seconds=0.5)
    finally:
        wounded.resume("apiserver")

    assert wounded.request("GET", "/api/v1/nodes")["items"]


@pytest.mark.kubernetes
def test_the_audit_log_tells_who_did_what(wounded: TestCluster) -> None:
    wounded.request("GET", "/api/v1/namespaces/default/configmaps")

    def listed() -> bool:
        return any(
            (event["user"]["username"], event["verb"], event["objectRef"]["resource"])
            == ("admin", "list", "configmaps")
            for event in wounded.audit()
            if "objectRef" in event
        )

    wounded.wait_for(listed, "the audit log", 5)


@pytest.mark.kubernetes
def test_a_part_that_ends_by_itself_is_an_error_with_its_log(tmp_path: Path) -> None:
    (stages := tmp_path / "stages.yaml").write_text("pod-start: {resourceRef: {apiGroup: v1, kind: Pod}, next: 3}")
    (folder := tmp_path / "cluster").mkdir()

    with pytest.raises(RuntimeError, match="kwok ended with 1"), test_cluster(folder, stages=stages):
        pytest.fail("it started")


@pytest.mark.kubernetes
def test_emptying_a_cluster_starts_what_was_killed_and_resumes_what_was_paused(wounded: TestCluster) -> None:
    wounded.pause("kwok")
    wounded.kill("apiserver")

    wounded.empty()

    wounded.request("POST", PODS, pod("x"))
    wait_for_phase(wounded, "x", "Running")


@pytest.mark.kubernetes
@pytest.mark.usefixtures("wounded")  # which skips where the programs are missing
def test_nothing_is_left_when_who_started_a_cluster_is_killed(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from controlplane.testbed.kubernetes import test_cluster
with test_cluster(Path({str(tmp_path)!r}), tier="api") as cluster:
    print(*(cluster.pid(part) for part in cluster.parts), flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = process.stdout.readline().split()
        assert len(pids) == 2
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        process.kill()

    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of all parts", 10)


def is_alive(pid: str) -> bool:
    """An orphan that has ended may wait for init to take note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.kubernetes
def test_nothing_is_left_of_a_cluster(tmp_path: Path) -> None:
    with test_cluster(tmp_path, tier="api", nodes=2) as cluster:
        pids = [cluster.pid(part) for part in cluster.parts]
        port = cluster.layout.api
        assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 2

    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not (tmp_path / "etcd").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.kubernetes
def test_a_controller_manager_that_gave_up_is_started_again(wounded: TestCluster) -> None:
    gave_up = wounded.pid("kcm")
    os.kill(gave_up, signal.SIGTERM)

    wounded.wait_for(lambda: wounded.pid("kcm") != gave_up, "another controller manager", 20)

    # It works: a new namespace gets its account.
    wounded.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "after"}}])
    wounded.wait_for(lambda: wounded.exists("/api/v1/namespaces/after/serviceaccounts/default"), "the account", 30)
