"""Deployments scaled by Kubernetes' own autoscaler on what Weft measures, and nothing else writing their replicas."""

import asyncio
import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvicorn

from controlplane.adopted import native
from controlplane.adopted.native import METRICS_GROUP, REQUESTS
from controlplane.externalmetrics.__main__ import configuration
from controlplane.externalmetrics.server import GROUP_VERSION
from controlplane.manifests.externalmetrics import external_metrics
from controlplane.manifests.site import METRICS, Site
from controlplane.models import ServiceWindow, Workload
from controlplane.queries.scheduling.snapshot import observed_at
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import free_port, wait_until
from tests.adopted.rig import NAMESPACE, Rig, deployment, rig

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]

SITE = Site(has_external_metrics=True)
ASKED = {
    "weft.dev/scaling": "native",
    "weft.dev/min-replicas": "1",
    "weft.dev/max-replicas": "4",
    "weft.dev/requests-per-replica": "10",
}
SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{METRICS_GROUP}"


class MetricsServer:
    """The external metrics server as its command runs it, in a thread of this process."""

    def __init__(self, server: TestCluster, folder: Path) -> None:
        self.authority = trustme.CA()
        made = self.authority.issue_cert(f"{METRICS}.{SITE.namespace}.svc", "127.0.0.1")
        self.port = free_port()
        certificate, key = folder / "metrics.crt", folder / "metrics.key"
        certificate.write_bytes(made.cert_chain_pems[0].bytes())
        key.write_bytes(made.private_key_pem.bytes())
        options = {
            "host": "127.0.0.1", "port": self.port, "certificate": certificate, "key": key,
            "client_ca": server.layout.folder / "proxy-ca.crt",
        }  # fmt: skip
        self._server = uvicorn.Server(configuration(options))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()), daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the metrics server", 20.0)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20.0)


@contextmanager
def serving(server: TestCluster, folder: Path) -> Iterator[MetricsServer]:
    """The server behind its registration; on loopback the API server finds it by a name instead of a Service's pods."""
    made = MetricsServer(server, folder)
    site = replace(SITE, admission_ca=base64.b64encode(made.authority.cert_pem.bytes()).decode())
    service, registration = external_metrics(site)
    port = {"port": made.port, "protocol": "TCP"}
    service["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": [port]}
    registration["spec"]["service"]["port"] = made.port  # type: ignore[index]
    server.apply([service, registration])
    server.wait_for(lambda: _is_available(server), "the external metrics API")
    try:
        yield made
    finally:
        server.delete(SERVICE)
        made.close()


def _is_available(server: TestCluster) -> bool:
    conditions = server.request("GET", SERVICE).get("status", {}).get("conditions", ())
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


@pytest.fixture
def scaled(kubernetes: TestCluster, tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Rig]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}
    with rig(kubernetes, tmp_path, SITE) as made, serving(kubernetes, tmp_path):
        yield made


def scaler(rig_: Rig, name: str = "chat") -> dict[str, Any]:
    path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{name}"
    return rig_.server.request("GET", path) if rig_.server.exists(path) else {}


def create(rig_: Rig, annotations: dict[str, str], replicas: int = 1) -> str:
    body = deployment("chat", replicas=replicas)
    body["metadata"]["annotations"] = annotations
    return rig_.create("deployments", body)


def measured(uid: str, rate: float) -> None:
    start = observed_at() - 60.0
    ServiceWindow.objects.create(workload=uid, start=start, requests_per_second=rate, requests=round(60 * rate), over=0)


def replicas(rig_: Rig) -> int:
    return int(rig_.get("deployments", "chat")["spec"]["replicas"])


def test_load_has_kubernetes_scale_it_and_weft_place_it(scaled: Rig) -> None:
    uid = create(scaled, ASKED)
    scaled.until_phase(uid, "Running")
    made = scaler(scaled)
    assert made["metadata"]["ownerReferences"][0]["uid"] == uid
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 4)
    measured(uid, 25.0)
    scaled.until(lambda: Workload.objects.get(uid=uid).workers == 3, "3 replicas in its row")
    scaled.until_phase(uid, "Running")
    assert replicas(scaled) == 3
    assert {pod["spec"]["schedulerName"] for pod in scaled.pods(uid)} == {"weft"}
    events = scaled.story(uid)
    assert "Scaled" not in events, "Weft's own autoscaler keeps its hands off"
    owners = [
        (one["manager"], one.get("subresource"))
        for one in scaled.get("deployments", "chat")["metadata"]["managedFields"]
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    ]
    assert owners == [("kube-controller-manager", "scale")]


def test_what_is_not_known_scales_nothing(scaled: Rig) -> None:
    uid = create(scaled, ASKED, replicas=2)
    scaled.until_phase(uid, "Running")
    scaled.until(lambda: bool(native.trouble(scaler(scaled))[0]), "an autoscaler without a value")
    scaled.turn()
    assert replicas(scaled) == 2
    assert any("FailedGetExternalMetric" in told for told in scaled.told("chat"))


def test_annotations_change_it_and_take_it_away(scaled: Rig) -> None:
    uid = create(scaled, {**ASKED, "weft.dev/max-replicas": "many"})
    scaled.until(lambda: bool(scaled.told("chat")), "the refusal")
    assert scaler(scaled) == {}
    assert any("weft.dev/max-replicas is many. Write a whole number" in told for told in scaled.told("chat"))
    _annotate(scaled, {"weft.dev/max-replicas": "6"})
    scaled.until(lambda: scaler(scaled).get("spec", {}).get("maxReplicas") == 6, "its autoscaler")
    _annotate(scaled, {"weft.dev/max-replicas": "8"})
    scaled.until(lambda: scaler(scaled)["spec"]["maxReplicas"] == 8, "the change")
    _annotate(scaled, dict.fromkeys(ASKED))
    scaled.until(lambda: scaler(scaled) == {}, "its end")
    assert scaled.phase(uid) != "Stopped"


def test_another_writer_of_replicas_is_named(scaled: Rig) -> None:
    uid = create(scaled, ASKED)
    scaled.until_phase(uid, "Running")
    measured(uid, 25.0)
    scaled.until(lambda: replicas(scaled) == 3, "3 replicas")
    path = f"{scaled.path('deployments', 'chat')}?fieldManager=helm"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": {"replicas": 3}}
    scaled.server.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    scaled.until(lambda: any("helm writes spec.replicas" in told for told in scaled.told("chat")), "the other writer")


def test_only_the_api_server_may_ask(kubernetes: TestCluster, tmp_path: Path, transactional_db: None) -> None:
    server = MetricsServer(kubernetes, tmp_path)
    try:
        context = ssl.create_default_context()
        server.authority.configure_trust(context)
        url = f"https://127.0.0.1:{server.port}/apis/{GROUP_VERSION}"
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=context)
        folder = kubernetes.layout.folder
        context.load_cert_chain(folder / "proxy.crt", folder / "proxy.key")
        assert httpx.get(url, verify=context).json()["resources"][0]["name"] == REQUESTS
        bad = f"{url}/namespaces/{NAMESPACE}/{REQUESTS}"
        assert (
            httpx.get(bad, verify=context).json()["message"]
            == "Select one workload by its label: weft.dev/workload=UID."
        )
        nowhere = f"{bad}?labelSelector=weft.dev/workload%3D0a1b2c3d-0000-4000-8000-00000000000a"
        assert httpx.get(nowhere, verify=context).json()["items"] == []
        assert httpx.get(f"{url}/namespaces/{NAMESPACE}/other", verify=context).status_code == 404
        assert httpx.post(url, verify=context).status_code == 405
    finally:
        server.close()


def _annotate(rig_: Rig, annotations: dict[str, Any]) -> None:
    rig_.kubectl("PATCH", rig_.path("deployments", "chat"), {"metadata": {"annotations": annotations}})
