"""A real gang that waits for its input on a real node: it is diagnosed, given CPU in place, and measured again.

Two workers in pods of their own exchange gradients in each step (tests/node/waiting.py).
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from controlplane.cluster.kubernetes import names
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.models import Experiment, Team, TrainingDiagnosis, Workload
from controlplane.services.scheduling import policy
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus
from controlplane.testbed.realnode import elastic
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import RealNode
from tests.node import scraping, waiting
from tests.node.product import TEAM, Product
from tests.node.test_elastic import HASTE, UNTIL_TOLD, steps, stop
from weft import reporter

pytestmark = pytest.mark.timeout(600)
SCRAPE, WINDOW = 0.25, 2.0  # s
PORT = 9464
WORKERS = 2
SECONDS = 240.0  # of 12 windows before, and up to 40 after


@pytest.fixture
def targets(product: Product, node: RealNode, kubernetes: TestCluster, tmp_path: Path, settings: Any) -> Iterator[Path]:
    """Looks every 2 seconds, over a Prometheus that scrapes the node; where the pods' own targets are told to it."""
    settings.TRAINING_WINDOW_SECONDS = WINDOW
    policy.change(changes={"scheduling": HASTE}, author="root")
    Team.objects.filter(name=TEAM).update(reallocation="automatic")
    file = tmp_path / "pods.json"
    file.write_text("[]")
    pods = {"job_name": "pods", "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}]}
    with prometheus(tmp_path, scraping.every(SCRAPE, scraping.cadvisor(node, kubernetes), pods)) as url:
        product.measure(PrometheusMetrics(Settings(url, window_seconds=WINDOW)))
        yield file


def run(product: Product, node: RealNode, kubernetes: TestCluster, targets: Path, how: str) -> tuple[Workload, Path]:
    """Two workers that exchange gradients, and the folder of their claim."""
    data = claim(kubernetes, node, names.namespace(TEAM), f"program-{how}")  # what an image would have
    for module in (weft, reporter, elastic):
        file = data / Path(*module.__name__.split(".")).with_suffix(".py")
        file = data / "weft/__init__.py" if module is weft else file
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(module.__file__), file)
    shutil.copy(waiting.__file__, data / "waiting.py")
    gang = product.submit(
        "starved", "", image="registry.example/python:1", command=["python3"], args=["/data/waiting.py", how, "/data"],
        volumes=[{"claim": f"program-{how}", "path": "/data"}], workers={"count": 1, "max": WORKERS},
        resources={"gpus": 1, "cpu": f"{waiting.CPU[how]}m", "memory": "64Mi"}, checkpoint={"grace": "30s"},
    )  # fmt: skip
    product.until_phase(gang, "Running")
    product.until(lambda: len(ranks(data)) == WORKERS, "workers that train together")
    found = []
    for rank in range(WORKERS):
        labels = {"workload": str(gang.pk), "attempt": "1", "rank": str(rank)}
        status = pod(kubernetes, gang, rank)["status"]
        found.append({"targets": [f"{status['podIP']}:{PORT}"], "labels": labels})
    targets.write_text(json.dumps(found))
    return gang, data


def pod(kubernetes: TestCluster, gang: Workload, rank: int) -> Any:
    return kubernetes.request("GET", f"/api/v1/namespaces/{names.namespace(TEAM)}/pods/{gang.pk}-1-{rank}")


def ranks(data: Path) -> list[int]:
    """Which workers took part in the newest step; one that comes back has a new rank."""
    done = steps(data)
    return done[-1][2] if done else []


def newest(training: Workload, *statuses: str) -> bool:
    return Experiment.objects.filter(workload=training, status__in=statuses).exists()


def test_a_starved_gang_is_diagnosed_given_cpu_in_place_verified_to_be_faster_and_learns_on_as_workers_come_and_go(
    product: Product, node: RealNode, kubernetes: TestCluster, targets: Path
) -> None:
    gang, data = run(product, node, kubernetes, targets, "cpu")
    product.until_measured(lambda: newest(gang, "on_trial"), "a change on trial", SECONDS)
    processes = [one for one, command in node.commands.items() if "waiting.py" in command]
    slow = len(steps(data))
    product.until_measured(lambda: newest(gang, "kept"), "a change kept", SECONDS)
    kept = Experiment.objects.filter(workload=gang, status="kept").earliest("id")
    assert TrainingDiagnosis.objects.get(workload=gang.pk).attempt == 1
    assert kept.before["cpu"] == waiting.CPU["cpu"] / 1000
    assert kept.after["cpu"] > waiting.CPU["cpu"] / 1000
    assert kept.gain is not None
    assert kept.gain > 0.5  # of its logarithm: 65 % faster at least
    kinds = [kind for kind, _ in product.story(gang)]
    assert kinds.index("ChangeTried") < kinds.index("Resized") < kinds.index("ChangeKept")
    assert len(processes) == WORKERS and set(processes) <= set(node.commands), "nothing was started again"

    fast = len(steps(data))
    other = product.submit("other", UNTIL_TOLD, priority_class="high")
    product.until(lambda: ranks(data) == [0], "a worker that left for what waited")
    product.until_phase(other, "Running")
    alone = len(steps(data))
    stop(product, other)
    product.until(lambda: len(ranks(data)) == WORKERS, "a worker that came back")
    now = Workload.objects.get(pk=gang.pk).cpu_milli
    assert now > waiting.CPU["cpu"]
    for rank in ranks(data):
        (container,) = pod(kubernetes, gang, rank)["spec"]["containers"]
        assert milli(container["resources"]["limits"]["cpu"]) == now
    (data / "enough").touch()
    product.until_phase(gang, "Succeeded")
    assert gang.failures == 0

    done = steps(data)
    assert [one[1] for one in done] == list(range(1, len(done) + 1)), "each step was done once, in its order"
    losses = [one[5] for one in done]
    marks = [losses[0], losses[slow], losses[fast], losses[alone], losses[-1]]
    assert marks == sorted(set(marks), reverse=True), "it learns in each part"
    assert all(after < before for before, after in zip(losses, losses[1:], strict=False)), "and in each step"


def milli(cpu: str) -> int:
    """1/1000 cores of what Kubernetes writes."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


@pytest.mark.nightly  # it is judged over up to 40 windows
@pytest.mark.timeout(900)
def test_a_change_that_was_no_use_is_taken_back(
    product: Product, node: RealNode, kubernetes: TestCluster, targets: Path
) -> None:
    gang, _ = run(product, node, kubernetes, targets, "elsewhere")
    product.until_measured(lambda: newest(gang, "on_trial"), "a change on trial", SECONDS)
    product.until_measured(lambda: newest(gang, "rolled_back"), "a change that is taken back", 2 * SECONDS)
    taken_back = Experiment.objects.get(workload=gang, status="rolled_back")
    assert taken_back.gain is not None
    assert abs(taken_back.gain) < 0.3
    gang.refresh_from_db()
    assert gang.spec["resources"]["cpu"] == f"{waiting.CPU['elsewhere']}m"
    product.until(lambda: Workload.objects.get(pk=gang.pk).resize is None, "its CPU as it was")
    assert Workload.objects.get(pk=gang.pk).cpu_milli == waiting.CPU["elsewhere"]
