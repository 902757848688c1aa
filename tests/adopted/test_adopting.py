"""A namespace that was there before: adopted beside what runs in it, and left again. All else there is untouched."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.manifests.site import Site
from controlplane.models import Node, Team, Workload
from controlplane.services.workloads import submission
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from tests.adopted.rig import Rig, cron_job, deployment, job, rig, template
from tests.audited import noted, without_rights
from tests.controlplane.state import World
from tests.controlplane.state import job as own

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]

SITE = Site(prefix="", has_external_metrics=True)  # without a prefix a team is called as its namespace is
SPACE = "/api/v1/namespaces/nlp"
CRON_JOBS = "/apis/batch/v1/namespaces/nlp/cronjobs"
BEFORE = "/apis/apps/v1/namespaces/nlp/deployments"
SCALERS = "/apis/autoscaling/v2/namespaces/nlp/horizontalpodautoscalers"
NATIVE = {"weft.dev/scaling": "native", "weft.dev/max-replicas": "2", "weft.dev/requests-per-replica": "10"}


@pytest.fixture
def lived_in(tmp_path: Path) -> Iterator[TestCluster]:
    """A cluster that notes every request, with a namespace in which something runs on node a."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with test_cluster(folder, nodes=named("a", "b", "c"), audit=True) as cluster, noted(cluster, also=["nlp"]):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "nlp", "labels": {"cost": "42"}}})
        cluster.wait_for(lambda: cluster.exists(f"{SPACE}/serviceaccounts/default"), "the account")
        old = deployment("old", replicas=2, gpus=2)
        old["metadata"]["labels"] = {"app": "old"}
        old["spec"]["template"]["spec"]["nodeName"] = "a"
        cluster.request("POST", BEFORE, old)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "old"}
        own_scaler = {
            "metadata": {"name": "old"},
            "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2},
        }
        cluster.request("POST", SCALERS, own_scaler)
        cluster.wait_for(lambda: [p["status"]["phase"] for p in pods(cluster)] == ["Running"] * 2, "its pods")
        yield cluster


@pytest.fixture
def adopted(lived_in: TestCluster, tmp_path: Path, settings: Any) -> Iterator[Rig]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    settings.NAMESPACE_PREFIX = ""
    settings.ADMISSION = True
    with rig(lived_in, tmp_path, SITE) as made:
        yield made


def pods(cluster: TestCluster, selector: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request("GET", f"{SPACE}/pods?labelSelector={selector}")["items"]
    return found


def scalers(cluster: TestCluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.request("GET", SCALERS)["items"])


def identity(cluster: TestCluster, selector: str) -> set[tuple[str, str]]:
    return {(pod["metadata"]["uid"], pod["spec"]["nodeName"]) for pod in pods(cluster, selector)}


def leave(*options: str) -> str:
    out = io.StringIO()
    call_command("leave", "--team", "nlp", *options, stdout=out)
    return out.getvalue()


def test_a_namespace_is_adopted_beside_what_runs_there_and_left_again(
    adopted: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = adopted.server
    old = identity(cluster, "app=old")
    # Beside: what runs there is counted as used, and shown by team.
    native = deployment("chat", replicas=2, gpus=4)
    native["metadata"]["annotations"] = NATIVE
    chat = adopted.create("deployments", native)
    train = adopted.create("jobs", job("train", pods=2, gpus=2))
    adopted.until_phase(chat, "Running")
    adopted.until_phase(train, "Running")
    adopted.until(lambda: Team.objects.get(name="nlp").other_pods == 2, "the count of what else runs")
    assert Team.objects.get(name="nlp").other_gpus == 4
    assert len(Node.objects.get(name="a").lost_gpus) == 4
    full = adopted.create("jobs", job("full", pods=2, gpus=4))
    adopted.until_phase(full, "Running")
    waits = adopted.create("jobs", job("waits"))
    adopted.until_phase(waits, "Queued")
    adopted.create("cronjobs", cron_job("yearly", schedule="0 0 1 1 *"))
    high = adopted.create("jobs", job("urgent", pods=3, gpus=8, labels={"weft.dev/priority-class": "high"}))
    for _ in range(5):
        adopted.turn()
    assert adopted.phase(high) in ("", "Queued")  # 20 GPUs are not 24: nothing is taken from what is not ours
    assert identity(cluster, "app=old") == old
    assert denied(cluster) == []
    assert scalers(cluster) == ["chat", "old"]
    # Leaving: nothing that runs is ended; what waits is let go.
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    running = identity(cluster, "weft.dev/workload")
    assert len(running) == 6
    assert "Nothing is changed yet: add --apply." in leave()
    assert cluster.request("GET", SPACE)["metadata"]["labels"]["weft.dev/team"] == "nlp"
    assert scalers(cluster) == ["chat", "old"]
    with without_rights(cluster):
        it_is_left(adopted, running, old, waits)


def it_is_left(adopted: Rig, running: set[tuple[str, str]], old: set[tuple[str, str]], waits: str) -> None:
    """Its pods run on, what waits is let go, and nothing of Weft's is left there."""
    cluster = adopted.server
    told = leave("--apply")
    assert "changed Job nlp/waits" in told
    assert "changed Deployment nlp/chat" in told
    assert "changed CronJob nlp/yearly" in told
    assert "deleted HorizontalPodAutoscaler nlp/chat" in told
    assert scalers(cluster) == ["old"]
    assert "labels" not in cluster.request("GET", f"{CRON_JOBS}/yearly")["spec"]["jobTemplate"]["metadata"]
    assert {(p["metadata"]["uid"], p["spec"].get("nodeName")) for p in pods(cluster)} >= running | old
    assert cluster.request("GET", SPACE)["metadata"]["labels"] == {"cost": "42", "kubernetes.io/metadata.name": "nlp"}
    assert ours(cluster) == []
    cluster.wait_for(lambda: bool(pods(cluster, f"controller-uid={waits}")), "the pods of what waited")
    (free,) = pods(cluster, f"controller-uid={waits}")
    assert (free["spec"]["schedulerName"], free["spec"].get("schedulingGates")) == ("default-scheduler", None)
    adopted.until(lambda: not Workload.objects.exclude(phase="Stopped").exists(), "the end of its workloads here")
    assert identity(cluster, "app=old") == old
    assert {(p["metadata"]["uid"], p["spec"].get("nodeName")) for p in pods(cluster)} >= running
    plain = {**template(), "metadata": {"name": "plain"}, "apiVersion": "v1", "kind": "Pod"}
    adopted.kubectl("POST", f"{SPACE}/pods", plain)  # nothing of ours is asked any more
    assert [entry for entry in writes(cluster) if entry.startswith("deployments/old") or "pods/old-" in entry] == []


def ours(cluster: TestCluster) -> list[str]:
    """What of Weft is left in the namespace: its own objects, and labels and annotations on those of others."""
    own = [
        f"{path}/{item['metadata']['name']}"
        for path in (
            f"{SPACE}/resourcequotas",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/nlp/rolebindings",
            "/apis/networking.k8s.io/v1/namespaces/nlp/networkpolicies",
        )
        for item in cluster.request("GET", path)["items"]
    ]
    on_others = [
        f"{item['metadata']['name']} {key}"
        for path in (f"{SPACE}/pods", "/apis/batch/v1/namespaces/nlp/jobs", CRON_JOBS, BEFORE)
        for item in cluster.request("GET", path)["items"]
        for field in ("labels", "annotations")
        for key in item["metadata"].get(field) or {}
        if "weft.dev/" in key
    ]
    return own + on_others


def denied(cluster: TestCluster) -> list[str]:
    """What our accounts wanted and may not."""
    return [
        f"{entry['user']['username']} {entry['verb']} {entry['objectRef']['resource']}"
        for entry in cluster.audit()
        if entry["user"]["username"].startswith("system:serviceaccount:weft:")
        and entry.get("responseStatus", {}).get("code") == 403
        and "objectRef" in entry
    ]


def writes(cluster: TestCluster) -> list[str]:
    """What our accounts have written, by the API server's own log."""
    return [
        f"{about['resource']}/{about.get('name', '')}"
        for entry in cluster.audit()
        if entry["user"]["username"].startswith("system:serviceaccount:weft:") and "objectRef" in entry
        and entry["verb"] not in ("get", "list", "watch")
        for about in [entry["objectRef"]]
    ]  # fmt: skip


def test_a_namespace_with_workloads_of_weft_itself_is_not_left(settings: Any) -> None:
    settings.NAMESPACE_PREFIX = ""
    World()
    team = Team.objects.first()
    assert team is not None
    submission.submit(spec=own("mine", team.name), user=None, at=0.0)
    with pytest.raises(CommandError, match="submitted to Weft: mine. Their pods have no controller but Weft"):
        call_command("leave", "--team", team.name)
