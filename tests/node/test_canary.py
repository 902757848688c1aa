"""A service of real pods under real load through our activator, whose canary gets its part, fails, and is taken back.

Real are the pods and their HTTP server, the one that asks over several connections, the activator's program, and the
Prometheus that scrapes it. There is no kube-proxy on this node, so requests come to the activator's own address.
"""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.activator import switch
from controlplane.activator.kubernetes import KubernetesDirectory
from controlplane.activator.switch import Switch
from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.manifests.site import ACTIVATOR, ACTIVATOR_SWITCH, TeamSpace
from controlplane.models import Event, Revision, Workload
from controlplane.services.workloads import workloads
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.prometheus import prometheus, scrape
from controlplane.testbed.realnode import asking, serving
from controlplane.testbed.realnode.node import MODEL, RealNode
from controlplane.testbed.realnode.settings import NAME
from tests import servers
from tests.controlplane.kubernetes.fences import in_force
from tests.node.product import NAMESPACE, TEAM, Product

SITE = replace(rights.SITE, activator_image="registry.example/weft:1")
PYTHON = "registry.example/python:1"
GATEWAYS = "gateways"  # a namespace of no team
SCRAPE, WINDOW = 0.5, 4.0  # s
TAKES, CONNECTIONS = 40, 4  # ms that a request takes at the replica; how many are asked at once
WEIGHT, HEALTHY, COUNTED = 25, 200, 500  # percent; requests that the canary answers well; those that are counted
SIGMAS = 4.0  # once in 16,000 runs a fair coin is further off
SERVICE: dict[str, Any] = {
    "image": PYTHON,
    "command": ["python3", "-c"],
    "args": [Path(serving.__file__).read_text()],
    "resources": {"gpus": 1, "gpu_model": [MODEL], "cpu": "500m", "memory": "64Mi"},
    "objective": {"p95_latency": "5s", "availability": 99},
    "gateway": {"slots": 8},
    "replicas": {"min": 1, "max": 1},
}


class Answer(NamedTuple):
    """What one request came to. at: s; took: ms; status 0: nothing; said: the name of the pod that answered."""

    at: float
    took: float
    status: int
    said: str


@dataclass
class Served:
    """The product, an activator in front of its service, and what asks."""

    product: Product
    server: TestCluster
    switch: Switch
    host: str
    port: int

    def stand_before(self, chat: Workload) -> None:
        """Have the service's traffic go through the activator."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{chat.name}"

        def is_through() -> bool:
            self.switch.step()
            return "selector" not in self.server.request("GET", path)["spec"]

        self.product.until(is_through, "the service behind the activator")

    def begin(self) -> None:
        """Start what asks, in a pod of no team."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAYS}}
        self.server.apply([space])
        account = f"/api/v1/namespaces/{GATEWAYS}/serviceaccounts/default"
        self.server.wait_for(lambda: self.server.exists(account), "the namespace's account")
        program = ["python3", "-c", Path(asking.__file__).read_text()]
        args = [self.host, str(self.port), f"/{TAKES}/200", str(CONNECTIONS)]
        container = {"name": "main", "image": PYTHON, "command": program, "args": args}
        spec = {"nodeName": NAME, "restartPolicy": "Never", "containers": [container]}
        self.server.request("POST", f"/api/v1/namespaces/{GATEWAYS}/pods", {"metadata": {"name": "asks"}, "spec": spec})
        self.product.until(lambda: self._is_running(), "what asks")

    def answers(self) -> list[Answer]:
        """All that came until now, in the order in which they came."""
        text = self.server.text(f"/api/v1/namespaces/{GATEWAYS}/pods/asks/log")
        lines = (line.split(maxsplit=3) for line in text.splitlines())
        return [Answer(float(at), float(took), int(status), said) for at, took, status, said in lines]

    def until_more(self, count: int) -> Sequence[Answer]:
        """The next so many answers."""
        before = len(self.answers())
        self.product.until(lambda: len(self.answers()) >= before + count, f"{count} more answers")
        return self.answers()[before : before + count]

    def _is_running(self) -> bool:
        pod = self.server.request("GET", f"/api/v1/namespaces/{GATEWAYS}/pods/asks")
        return pod.get("status", {}).get("phase") == "Running"


@pytest.fixture
def served(
    node: RealNode, kubernetes: TestCluster, transactional_db: None, settings: Any, tmp_path: Path
) -> Iterator[Served]:
    port, admin, host = servers.free_port(), servers.free_port(), node.place.address
    settings.CLUSTER, settings.ACTIVATORS = "kubernetes", (f"{host}:{admin}",)
    with ExitStack() as stack:
        product = stack.enter_context(closing(Product(kubernetes, SITE)))
        in_force(kubernetes, TeamSpace(TEAM), SITE)
        url = stack.enter_context(prometheus(tmp_path, scrape({"activator": f"{host}:{admin}"}, SCRAPE)))
        product.measure(PrometheusMetrics(Settings(url, window_seconds=WINDOW)))
        access = {name: find(str(kubernetes.kubeconfig(f"weft/{name}"))) for name in (ACTIVATOR, ACTIVATOR_SWITCH)}
        directory = stack.enter_context(closing(KubernetesDirectory(access[ACTIVATOR])))
        api = stack.enter_context(closing(Api(access[ACTIVATOR_SWITCH])))
        stack.enter_context(activator(kubernetes, tmp_path, host, port, admin))

        async def there() -> list[str]:
            return [host]

        turned = Switch(
            api, directory, partial(switch.ask_all, port=admin), activators=there, ports=range(port, port + 1)
        )
        yield Served(product, kubernetes, turned, host, port)


@contextmanager
def activator(server: TestCluster, folder: Path, host: str, port: int, admin: int) -> Iterator[None]:
    """The program, as production runs it."""
    env = servers.environment(folder, KUBECONFIG=str(server.kubeconfig(f"weft/{ACTIVATOR}")))
    options = [f"--host={host}", f"--ports={port}", f"--admin-host={host}", f"--admin-port={admin}"]
    command = [sys.executable, "manage.py", "activator", "--cluster", *options]
    process = subprocess.Popen(command, cwd=servers.ROOT, env=env)
    try:
        servers.wait_until(lambda: servers.answers(f"http://{host}:{admin}/readyz"), "the activator", 60)
        yield
    finally:
        servers.end(process)


def revision_of(server: TestCluster) -> dict[str, int]:
    """The revisions of the service's pods, by their names."""
    pods = server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return {one["metadata"]["name"]: int(one["metadata"]["labels"][names.REVISION]) for one in pods}


def within_noise(count: int, of: int, part: float) -> bool:
    """Whether so many of so many are what a coin with this part gives."""
    return abs(count - of * part) <= SIGMAS * math.sqrt(of * part * (1.0 - part))


def test_a_canary_gets_its_part_of_real_load_and_is_taken_back_when_its_requests_fail(served: Served) -> None:
    product = served.product
    chat = product.submit("chat", "", kind="inference", **SERVICE)
    product.until_phase(chat, "Running")
    served.stand_before(chat)
    served.begin()
    alone = served.until_more(100)
    (first,) = revision_of(served.server)
    assert {(one.status, one.said) for one in alone} == {(200, first)}

    chat.refresh_from_db()
    changes = {"env": {"FAIL_AFTER": str(HEALTHY)}, "rollout": {"weight": WEIGHT}}
    workloads.patch(workload=chat, changes=changes, version=None, actor="alice")
    product.until(lambda: len({one.said for one in served.answers()}) == 2, "the canary's first answer")
    begins = next(number for number, one in enumerate(served.answers()) if one.said != first)
    (canary,) = {name for name, number in revision_of(served.server).items() if number == 2}
    product.until(lambda: len(served.answers()) >= begins + COUNTED, "enough answers")
    counted = served.answers()[begins : begins + COUNTED]
    shares = Counter(one.said for one in counted)
    assert within_noise(shares[canary], COUNTED, WEIGHT / 100), shares
    assert {one.status for one in counted} == {200}
    assert all(one.took >= TAKES for one in counted)
    # They were asked at once: what they took is several times the time that passed.
    assert sum(one.took for one in counted) / 1000 > 0.75 * CONNECTIONS * (counted[-1].at - counted[0].at)

    product.until_measured(lambda: Workload.objects.get(pk=chat.pk).revision == 1, "the revision before")
    back = Event.objects.get(workload=chat.pk, kind="RollingBack")
    assert back.reason == "ErrorBudgetBurns"
    assert (
        "requests that revision 2 answered were late or failed"
        in Revision.objects.get(workload=chat.pk, number=2).failed
    )
    product.until(lambda: canary not in revision_of(served.server), "the end of the canary")
    after = served.until_more(100)
    assert {(one.status, one.said) for one in after} == {(200, first)}
    failed = {(one.status, one.said) for one in served.answers() if one.status != 200}
    assert failed == {(500, canary)}, "no request failed but the canary's own"
