"""A real JupyterLab in a pod of a real node: a cell runs, it is parked, and opening it brings it back with its file."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.manifests.site import READER
from controlplane.models import Membership, Team, User, Workload
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus
from controlplane.testbed.realnode import jupyter
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import MODEL, RealNode
from tests.frontend.conftest import Visit, visit
from tests.node import lab, scraping
from tests.node.product import NAMESPACE, TEAM, Product
from tests.node.test_measured import hurry, phase

__all__ = ["visit"]
pytestmark = pytest.mark.timeout(600)
USER = "mel"
SCRAPE, WINDOW = 0.5, 2.0  # s
IDLE = 10.0  # s without use, then it is parked: the cluster's clock is noted every 5
SLEEPS = 30  # s: longer than an unused notebook stays
START = 15.0  # s from the opening of a parked one to its page, at most
WRITES = "open('notes.txt', 'w').write('kept'); print(6 * 7)"


@pytest.fixture
def measured(product: Product, node: RealNode, kubernetes: TestCluster, tmp_path: Path) -> Iterator[None]:
    """The product over a Prometheus that scrapes the node."""
    jobs = scraping.devices(node), scraping.cadvisor(node, kubernetes)
    with prometheus(tmp_path, scraping.every(SCRAPE, *jobs)) as url:
        product.measure(PrometheusMetrics(Settings(url, window_seconds=WINDOW)))
        yield


@pytest.fixture
def notebook(product: Product, node: RealNode, kubernetes: TestCluster, measured: None) -> Workload:
    """It serves in the folder of its volume, and is parked after 3 seconds without use."""
    registry = node.place.folder / "registry"
    if not (registry / "v2" / jupyter.IMAGE).exists():
        jupyter.write(registry)
    claim(kubernetes, node, NAMESPACE, "home").chmod(0o777)
    mel = User.objects.create(username=USER)
    Membership.objects.create(team=Team.objects.get(name=TEAM), user=mel)
    made = product.submit(
        "plots", "", kind="notebook", image=f"registry.example/{jupyter.IMAGE}:1", command=[], args=[],
        resources={"gpus": 1, "gpu_model": [MODEL], "cpu": "1", "memory": "1Gi"},
        volumes=[{"claim": "home", "path": jupyter.WORK}], idle={"park_after": "1m"},
    )  # fmt: skip
    hurry(made, IDLE)
    product.until_phase(made, "Running")
    return made


def test_a_cell_runs_it_is_parked_and_opening_it_brings_it_back_with_its_file(
    product: Product, notebook: Workload, kubernetes: TestCluster, visit: Visit, settings: Any
) -> None:
    reader = str(kubernetes.kubeconfig(f"{rights.SITE.namespace}/{READER}"))
    with lab.proxied(reader, settings, ask_seconds=0.5) as port:
        with lab.opened(visit, USER, notebook, port) as browser:
            kernel = browser.kernel()
            assert browser.run(kernel, WRITES) == "42\n"
            # A cell that needs no processor and no GPU is use too: its kernel is asked.
            with ThreadPoolExecutor(1) as pool:
                cell = pool.submit(browser.run, kernel, f"import time; time.sleep({SLEEPS}); print('slept')")
                product.until_measured(cell.done, "the end of the cell")
            assert (cell.result(), phase(notebook)) == ("slept\n", "Running")
        product.until_measured(lambda: phase(notebook) == "Suspended", "a parked notebook")
        assert Workload.objects.get(pk=notebook.pk).reason == "Culled"

        begun = time.monotonic()
        visit(USER).post(f"/notebooks/{TEAM}/{notebook.name}/")
        product.until_phase(notebook, "Running", attempt=2)
        with lab.opened(visit, USER, notebook, port) as browser:
            took = time.monotonic() - begun
            assert browser.ask("GET", "/api/contents/notes.txt")["content"] == "kept"
            assert browser.ask("GET", "/api/kernels") == []  # what it had in memory is gone
            assert browser.run(browser.kernel(), "print(open('notes.txt').read())") == "kept\n"
    assert took <= START
