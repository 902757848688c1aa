"""Services of Weft's own that Kubernetes' autoscaler scales: Deployment and autoscaler made, followed, taken away.

The autoscaler is the real one of kube-controller-manager, and asks the real external metrics server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoscaler.observed import Scrape, counted
from controlplane.cluster.port import Metrics
from controlplane.jobspec.spec import parse
from controlplane.loops import scale
from controlplane.models import Event, ServiceScaler, User, Workload
from controlplane.services.errors import Refused
from controlplane.services.scheduling import revising
from controlplane.services.workloads import amending, submission, workloads
from controlplane.testbed.kubernetes import TestCluster
from tests.adopted.rig import NAMESPACE, TEAM, Rig, deployment, rig
from tests.adopted.test_native import SITE, replicas, scaler, serving
from tests.controlplane.state import NoMetrics

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]

FILE: dict[str, Any] = {
    "type": "inference",
    "name": "chat",
    "team": TEAM,
    "image": "registry.example/chat:1",
    "resources": {"gpus": 1},
    "replicas": {"min": 1, "max": 4},
    "objective": {"p95_latency": "1s"},
    "gateway": {"slots": 10},
    "scaling": "native",
}


class Load(NoMetrics):
    """So many requests are in flight at each service."""

    in_flight: int | None = None
    at = 0.0

    def scrapes(self, uids: Sequence[str]) -> dict[str, Scrape]:
        if self.in_flight is None:
            return {}
        counts = tuple(100.0 * n for n in counted(np.array([0.01])))
        return dict.fromkeys(
            uids, Scrape(self.at, 15.0, 100.0, 1.0, counts, 0, self.in_flight, min(10, self.in_flight))
        )


class Native:
    """The rig, with the scale loop turned beside the others."""

    def __init__(self, made: Rig, metrics: Metrics | None = None) -> None:
        self.rig, self.load = made, Load()
        self._wiring = replace(made.wiring, metrics=metrics or self.load, kept={})

    def submit(self, **changes: Any) -> str:
        document = {name: value for name, value in {**FILE, **changes}.items() if value is not None}
        user = User.objects.get(username="ada")
        return str(submission.submit(spec=parse(document), user=user).pk)

    def turn(self) -> None:
        self.load.at = self.rig.cluster.now()
        assert not scale.run_once(self._wiring).skipped

    def until(self, is_so: Any, what: str) -> None:
        def turned() -> bool:
            self.turn()
            return bool(is_so())

        self.rig.until(turned, what)

    def until_phase(self, uid: str, phase: str) -> None:
        try:
            self.until(lambda: self.rig.phase(uid) == phase, phase)
        except TimeoutError as error:
            rows = list(Workload.objects.filter(uid=uid).values("phase", "reason", "message", "workers"))
            told = list(ServiceScaler.objects.values())
            raise TimeoutError(f"{error}: {rows}, {told}, {self.rig.told('chat')}") from error

    def owner(self) -> dict[str, Any]:
        path = self.rig.path("deployments", "chat")
        return self.rig.server.request("GET", path) if self.rig.server.exists(path) else {}

    def settled(self, uid: str, count: int) -> bool:
        running = [p for p in self.rig.pods(uid) if p["status"]["phase"] == "Running"]
        return len(running) == len(self.rig.pods(uid)) == count == Workload.objects.get(uid=uid).workers


@pytest.fixture
def native(kubernetes: TestCluster, tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Native]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    settings.CLUSTER, settings.ADMISSION, settings.EXTERNAL_METRICS = "kubernetes", True, True
    with rig(kubernetes, tmp_path, SITE) as made, serving(kubernetes, tmp_path):
        yield Native(made)


def writers(owner: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who writes spec.replicas, by the managed fields."""
    return [
        (one["manager"], one.get("subresource", ""))
        for one in owner["metadata"]["managedFields"]
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    ]


def test_it_is_made_scaled_by_the_autoscaler_placed_by_weft_and_taken_away(native: Native) -> None:
    uid = native.submit()
    native.load.in_flight = 1
    native.until_phase(uid, "Running")
    owner, made = native.owner(), scaler(native.rig)
    assert {name for name, _ in writers(owner)} == {"weft-handover"}, "it holds the number as it was by default"
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 4)
    (metric,) = made["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == "weft-requests-in-flight"
    (pod,) = native.rig.pods(uid)
    assert pod["spec"]["schedulerName"] == "weft"
    native.load.in_flight = 25
    native.until(lambda: native.settled(uid, 3), "three replicas")
    assert replicas(native.rig) == 3
    assert writers(native.owner()) == [("kube-controller-manager", "scale")]
    native.until(lambda: ServiceScaler.objects.get(workload=uid).desired == 3, "its state")
    row = ServiceScaler.objects.get(workload=uid)
    assert (row.in_flight, row.target, row.other_owner) == (25_000, 9000, "")
    assert {name for name, *_ in row.conditions} >= {"AbleToScale", "ScalingActive", "ScalingLimited"}
    said = list(Event.objects.filter(kind="Scaled").order_by("id").values_list("message", flat=True))
    assert "Kubernetes' autoscaler: 1 to " in said[0], "in one step or in two: its second look may come in between"
    assert "to 3 replicas." in said[-1]
    service = native.rig.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/services/chat")
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    workloads.stop(workload=Workload.objects.get(uid=uid), actor="ada")
    native.until_phase(uid, "Stopped")
    native.until(lambda: not native.owner() and not scaler(native.rig) and not native.rig.pods(uid), "their end")


def test_it_begins_with_its_least_and_another_writer_of_its_replicas_is_named(native: Native) -> None:
    uid = native.submit(replicas={"min": 2, "max": 4})
    native.load.in_flight = 9
    native.until(lambda: native.settled(uid, 2), "two replicas")
    native.rig.kubectl(
        "PATCH", f"{native.rig.path('deployments', 'chat')}?fieldManager=helm", {"spec": {"replicas": 3}}
    )
    native.until(lambda: ServiceScaler.objects.get(workload=uid).other_owner == "helm", "the other writer")
    assert any("helm writes spec.replicas" in told for told in native.rig.told("chat"))
    native.until(lambda: "TwoOwnersOfReplicas" in native.rig.story(uid), "its history")
    assert native.rig.story(uid).count("TwoOwnersOfReplicas") == 1


def test_kubectl_scale_is_noted_too_though_nothing_but_the_default_was_written_before(native: Native) -> None:
    uid = native.submit()
    native.until_phase(uid, "Running")
    native.until(lambda: writers(native.owner()) != [], "the number's owner")
    path = f"{native.rig.path('deployments', 'chat')}/scale?fieldManager=kubectl"
    native.rig.kubectl("PATCH", path, {"spec": {"replicas": 2}})
    native.until(lambda: ServiceScaler.objects.get(workload=uid).other_owner == "kubectl", "the other writer")


def test_another_image_is_rolled_out_by_its_deployment_and_undone_again(native: Native) -> None:
    uid = native.submit()
    native.load.in_flight = 1
    native.until_phase(uid, "Running")

    def images() -> set[str]:
        return {pod["spec"]["containers"][0]["image"] for pod in native.rig.pods(uid)}

    service = Workload.objects.get(uid=uid)
    amending.patch(workload=service, changes={"image": "registry.example/chat:2"}, version=None, actor="ada")
    native.until(lambda: images() == {"registry.example/chat:2"} and native.settled(uid, 1), "the new image")
    native.until(lambda: "RolledOut" in native.rig.story(uid), "what its history says")
    service.refresh_from_db()
    assert (service.revision, service.rollout, service.surge) == (2, None, 0)
    assert (service.workers_min, service.workers_max) == (1, 4)
    assert revising.undo(workload=service, actor="ada") == 1
    native.until(lambda: images() == {"registry.example/chat:1"} and native.settled(uid, 1), "the one before")


def test_its_bounds_change_with_its_job_file_and_people_do_not_change_its_template(native: Native) -> None:
    uid = native.submit()
    native.until_phase(uid, "Running")
    service = Workload.objects.get(uid=uid)
    amending.patch(workload=service, changes={"replicas": {"max": 6}}, version=None, actor="ada")
    native.until(lambda: scaler(native.rig)["spec"]["maxReplicas"] == 6, "the bounds")
    container = {**native.owner()["spec"]["template"]["spec"]["containers"][0], "image": "registry.example/other:1"}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    refused = native.rig.refused("PATCH", native.rig.path("deployments", "chat"), change)
    assert "Weft made it for a service" in refused
    native.rig.kubectl("DELETE", native.rig.path("deployments", "chat"))
    before = native.owner().get("metadata", {}).get("uid")
    native.until(lambda: native.owner().get("metadata", {}).get("uid") not in (None, before), "another Deployment")
    native.until(lambda: native.settled(uid, 1), "its replica")


def test_suspended_it_has_neither_object_and_resumed_it_has_both(native: Native) -> None:
    uid = native.submit()
    native.until_phase(uid, "Running")
    workloads.suspend(workload=Workload.objects.get(uid=uid), actor="ada")
    native.until_phase(uid, "Suspended")
    native.until(lambda: not native.owner() and not scaler(native.rig), "their end")
    workloads.resume(workload=Workload.objects.get(uid=uid), actor="ada")
    native.until_phase(uid, "Running")
    assert scaler(native.rig)


def test_a_deployment_of_that_name_which_is_not_ours_is_left_alone_and_named(native: Native) -> None:
    with native.rig.before():
        made = native.rig.create("deployments", deployment("chat", labels={"app": "theirs"}))
    native.rig.turn()
    uid = native.submit()
    native.until(lambda: ServiceScaler.objects.filter(workload=uid).exists(), "the refusal")
    ((_, _, reason, message),) = ServiceScaler.objects.get(workload=uid).conditions
    assert (reason, native.owner()["metadata"]["uid"]) == ("NotMade", made)
    assert "exists and is not Weft's. Rename or delete it." in message


def test_where_nothing_would_gate_or_measure_it_it_is_refused_at_the_submission(native: Native, settings: Any) -> None:
    settings.EXTERNAL_METRICS = False
    with pytest.raises(Refused, match="WEFT_ADMISSION and WEFT_EXTERNAL_METRICS") as refused:
        native.submit()
    assert refused.value.field == "scaling"
