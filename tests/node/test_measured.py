"""Real pods, real cAdvisor, a real device plugin and a real Prometheus: what Weft concludes from what they measure.

The GPUs are pretended (controlplane/testbed/realnode/devices.py), and a program plays Istio's proxy; that Prometheus
finds the pods, which is its own part, is done by a file.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from autoscaler.latency import Within
from controlplane.cluster.kubernetes import names
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.models import Gpu, Placement, ServiceWindow, TeamSample, Usage, Workload
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus
from controlplane.testbed.realnode import serving
from controlplane.testbed.realnode.node import MODEL, RealNode
from controlplane.testbed.realnode.settings import NAME
from tests.node import scraping
from tests.node.product import OTHER_TEAM, TEAM, Product

SCRAPE, WINDOW = 0.5, 10.0  # s
# What a program has its device do; it must not end, as the kubelet would start it again.
USES = "for gpu in /run/gpus/*; do echo {} 4000 >$gpu/use; done; echo $NVIDIA_VISIBLE_DEVICES; exec sleep 600"
MODEL_SERVER: dict[str, Any] = {
    "image": "registry.example/python:1",
    "command": ["python3", "-c"],
    "args": [Path(serving.__file__).read_text()],
}
# Requests, a fifth of them over the objective at any moment: what a rate makes of the rest is Prometheus' guess.
QUICK, SLOW, FAILED = "1/200", "300/200", "1/500"
REQUESTS = 8 * [*4 * [QUICK], SLOW] + 2 * [*4 * [QUICK], FAILED]


@pytest.fixture
def targets(product: Product, node: RealNode, kubernetes: TestCluster, tmp_path: Path) -> Iterator[Path]:
    """The product over a Prometheus that scrapes the node; where the pods' own targets are told to it."""
    file = tmp_path / "pods.json"
    file.write_text("[]")
    istio = {
        "job_name": "istio", "metrics_path": "/stats/prometheus",
        "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}],
    }  # fmt: skip
    settings = scraping.every(SCRAPE, scraping.devices(node), scraping.cadvisor(node, kubernetes), istio)
    with prometheus(tmp_path, settings) as url:
        product.measure(PrometheusMetrics(Settings(url, window_seconds=WINDOW)))
        yield file


def test_utilisation_parking_and_objectives_work_from_what_is_measured(
    product: Product, node: RealNode, kubernetes: TestCluster, targets: Path
) -> None:
    busy = product.submit("busy", USES.format(90))
    product.until_phase(busy, "Running")  # before another may take the last device, which is not the first of our books
    left = product.submit("left", USES.format(0), team=OTHER_TEAM, kind="notebook", idle={"park_after": "1m"})
    hurry(left)
    product.until_phase(left, "Running")
    chat = product.submit("chat", "", team=OTHER_TEAM, kind="inference", **MODEL_SERVER)

    product.until_measured(lambda: computing() == {TEAM: 900, OTHER_TEAM: 0}, "the teams' utilisation")
    (index,) = Placement.objects.get(workload=busy.pk).gpus
    assert product.log(busy) != [f"GPU-{NAME}-{index}"]  # its device has another number than ours
    assert Gpu.objects.get(node__name=NAME, index=index).duty == 0.9
    product.until_measured(lambda: Usage.objects.get(workload=busy.pk).computed > 0, "usage")
    assert Usage.objects.get(workload=left.pk).computed == 0
    product.until_measured(lambda: cpu(product, busy) is not None, "cAdvisor")

    product.until_measured(lambda: phase(left) == "Suspended", "a parked notebook")
    assert Workload.objects.get(pk=left.pk).reason == "Culled"
    assert phase(busy) == "Running"

    product.until_phase(chat, "Running")  # on the GPU of the notebook
    address = pod_address(kubernetes, chat)
    labels = {"workload": str(chat.pk), "attempt": "1"}
    targets.write_text(json.dumps([{"targets": [f"{address}:{serving.PROXY_PORT}"], "labels": labels}]))
    product.until(lambda: product.metrics.services({str(chat.pk): Within(0.2)}) != (), "a first scrape")
    for path in REQUESTS:
        with contextlib.suppress(HTTPError), urlopen(f"http://{address}:{serving.PORT}/{path}", timeout=10) as answer:
            answer.read()
    product.until_measured(lambda: all_requests(chat) >= len(REQUESTS) - 5, "the requests")
    window = ServiceWindow.objects.filter(workload=chat.pk).latest("requests")
    assert window.over / window.requests == pytest.approx(0.2, abs=0.07)
    assert 0.25 <= window.p95_seconds <= 0.5  # of the buckets that the slow ones are in


def test_a_share_is_measured_on_the_device_that_its_placeholder_was_given(
    product: Product, node: RealNode, targets: Path
) -> None:
    share = {"guarantee": 0.5, "limit": 1.0, "memory": "4Gi"}
    resources = {"gpu_share": share, "gpu_model": [MODEL], "cpu": "50m", "memory": "32Mi"}
    work = product.submit("shared", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 600", resources=resources)
    product.until_phase(work, "Running")
    product.until(lambda: product.log(work) != [], "its device")
    given = int(product.log(work)[0].rpartition("-")[2])
    (index,) = Placement.objects.get(workload=work.pk).gpus
    assert index != given  # of our books, and of the device plugin's
    node.use(given, 70, 4000)
    product.until_measured(lambda: duty(index) == pytest.approx(0.7), "the share's device")
    assert duty(given) == 0.0  # that number is the idle device's
    # Half of the device is its own, of which it keeps 70 % busy.
    product.until_measured(lambda: computing() == {TEAM: 350, OTHER_TEAM: 0}, "its team's utilisation")
    product.until_measured(lambda: Usage.objects.get(workload=work.pk).computed > 0, "its usage")

    whole = product.submit("whole", USES.format(20), team=OTHER_TEAM)  # it gets the device with the share's number
    product.until_measured(lambda: computing() == {TEAM: 350, OTHER_TEAM: 200}, "what each keeps busy")
    product.until_phase(whole, "Running")
    product.until(lambda: product.log(whole) == [f"GPU-{NAME}-{index}"], "its device")


def duty(index: int) -> float | None:
    return Gpu.objects.filter(node__name=NAME, index=index).values_list("duty", flat=True).first()


def hurry(notebook: Workload, seconds: float = 3.0) -> None:
    """Have it parked after seconds: a job file asks for a minute at least."""
    notebook.spec["normalised"]["park_after_seconds"] = seconds
    Workload.objects.filter(pk=notebook.pk).update(spec=notebook.spec)


def computing() -> dict[str, int]:
    """What of their GPUs the teams keep busy, by their newest samples."""
    found = TeamSample.objects.order_by("at").values_list("team__name", "computing")
    return dict(found)


def cpu(product: Product, workload: Workload) -> int | None:
    uses = product.metrics.pods([str(workload.pk)])
    return uses[0].cpu_milli if uses else None


def phase(workload: Workload) -> str:
    return Workload.objects.get(pk=workload.pk).phase


def pod_address(server: TestCluster, workload: Workload) -> str:
    namespace = names.namespace(workload.team.name)
    found = server.request("GET", f"/api/v1/namespaces/{namespace}/pods/{workload.pk}-1-0")
    return str(found["status"]["podIP"])


def all_requests(service: Workload) -> int:
    """The most that a window has seen."""
    return max(ServiceWindow.objects.filter(workload=service.pk).values_list("requests", flat=True), default=0)
