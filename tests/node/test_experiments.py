"""A real training that waits for its input on a real node: it is diagnosed, given CPU in place, and measured again."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.cluster.kubernetes import names
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.models import Experiment, Team, TrainingDiagnosis, Workload
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import RealNode
from tests.node import scraping, waiting
from tests.node.product import TEAM, Product
from weft import reporter

pytestmark = pytest.mark.timeout(600)
SCRAPE, WINDOW = 0.25, 2.0  # s
PORT = 9464
SECONDS = 240.0  # of 12 windows before, and up to 40 after


@pytest.fixture
def targets(product: Product, node: RealNode, kubernetes: TestCluster, tmp_path: Path, settings: Any) -> Iterator[Path]:
    """Looks every 2 seconds, over a Prometheus that scrapes the node; where the pods' own targets are told to it."""
    settings.TRAINING_WINDOW_SECONDS = WINDOW
    Team.objects.filter(name=TEAM).update(reallocation="automatic")
    file = tmp_path / "pods.json"
    file.write_text("[]")
    pods = {"job_name": "pods", "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}]}
    with prometheus(tmp_path, scraping.every(SCRAPE, scraping.cadvisor(node, kubernetes), pods)) as url:
        product.measure(PrometheusMetrics(Settings(url, window_seconds=WINDOW)))
        yield file


def run(product: Product, node: RealNode, kubernetes: TestCluster, targets: Path, how: str) -> Workload:
    data = claim(kubernetes, node, names.namespace(TEAM), f"program-{how}")  # what an image would have
    (data / "weft").mkdir(exist_ok=True)
    shutil.copy(waiting.__file__, data / "waiting.py")
    shutil.copy(reporter.__file__, data / "weft/reporter.py")
    training = product.submit(
        "starved", "", image="registry.example/python:1", command=["python3"], args=["/data/waiting.py", how],
        volumes=[{"claim": f"program-{how}", "path": "/data"}],
        resources={"gpus": 1, "cpu": "200m", "memory": "64Mi"},
    )  # fmt: skip
    product.until_phase(training, "Running")
    namespace = names.namespace(TEAM)
    pod = kubernetes.request("GET", f"/api/v1/namespaces/{namespace}/pods/{training.pk}-1-0")
    labels = {"workload": str(training.pk), "attempt": "1", "rank": "0"}
    targets.write_text(json.dumps([{"targets": [f"{pod['status']['podIP']}:{PORT}"], "labels": labels}]))
    return training


def newest(training: Workload, *statuses: str) -> bool:
    return Experiment.objects.filter(workload=training, status__in=statuses).exists()


def test_a_starved_training_is_diagnosed_given_cpu_in_place_and_verified_to_be_faster(
    product: Product, node: RealNode, kubernetes: TestCluster, targets: Path
) -> None:
    training = run(product, node, kubernetes, targets, "cpu")
    for what in ("on_trial", "kept"):
        product.until_measured(lambda: newest(training, what), f"a change {what}", SECONDS)  # noqa: B023 - within the turn
    kept = Experiment.objects.filter(workload=training, status="kept").earliest("id")
    assert TrainingDiagnosis.objects.get(workload=training.pk).attempt == 1
    assert kept.before["cpu"] == 0.2
    assert kept.after["cpu"] > 0.2
    assert kept.gain is not None
    assert kept.gain > 0.5  # of its logarithm: 65 % faster at least
    product.until_phase(training, "Running")
    kinds = [kind for kind, _ in product.story(training)]
    assert kinds.index("ChangeTried") < kinds.index("Resized") < kinds.index("ChangeKept")


@pytest.mark.nightly  # it is judged over up to 40 windows
@pytest.mark.timeout(900)
def test_a_change_that_was_no_use_is_taken_back(
    product: Product, node: RealNode, kubernetes: TestCluster, targets: Path
) -> None:
    training = run(product, node, kubernetes, targets, "elsewhere")
    product.until_measured(lambda: newest(training, "on_trial"), "a change on trial", SECONDS)
    product.until_measured(lambda: newest(training, "rolled_back"), "a change that is taken back", 2 * SECONDS)
    taken_back = Experiment.objects.get(workload=training, status="rolled_back")
    assert taken_back.gain is not None
    assert abs(taken_back.gain) < 0.3
    training.refresh_from_db()
    assert training.spec["resources"]["cpu"] == "200m"
    product.until(lambda: Workload.objects.get(pk=training.pk).resize is None, "its CPU as it was")
    assert Workload.objects.get(pk=training.pk).cpu_milli == 200
