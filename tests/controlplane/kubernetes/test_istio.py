"""A canary of a service without a queue of ours, by the product on a real API server with Istio's own kinds.

Their schemas are Istio's as they are shipped; nothing of Istio itself runs, so that no request is split here.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import services
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import Split
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import actuate, observe, schedule
from controlplane.loops.wiring import Wiring
from controlplane.manifests.site import Site, TeamSpace
from controlplane.models import NodePool, PriorityClass, Quota, Team, Workload
from controlplane.services.workloads import submission, workloads
from controlplane.services.workloads.submission import Submission
from controlplane.testbed import istio
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from tests.audited import noted
from tests.controlplane.kubernetes.fences import in_force
from tests.controlplane.state import job, story

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]

TEAM, NAMESPACE, OLD, NEW = "nlp", "weft-nlp", "registry.example/app:1", "registry.example/app:2"
SITE = Site(has_istio=True)
ROUTES, RULES = (f"/apis/{services.ISTIO}/namespaces/{NAMESPACE}/{plural}" for plural in (istio.ROUTES, istio.RULES))


class Product:
    """The loops over a cluster with Istio's kinds, and a service of two replicas that runs there."""

    def __init__(self, server: TestCluster, cluster: KubernetesCluster) -> None:
        self.server = server
        self._wiring = Wiring(cluster, Unmeasured(), "test")
        team = Team.objects.create(name=TEAM)
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        self.turn()
        for pool in NodePool.objects.all():
            Quota.objects.create(team=team, pool=pool, nominal=16_000)
        file = job("chat", TEAM, kind="inference", image=OLD, replicas={"min": 2, "max": 2})
        (self.chat,) = submission.submit_all([Submission(file, actor="alice", at=cluster.now())])
        self.until(lambda: self.replicas(1) == 2, "two replicas")

    def turn(self) -> None:
        for loop in (observe, schedule, actuate):
            assert not loop.run_once(self._wiring).skipped

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        def turned() -> bool:
            self.turn()
            return is_so()

        self.server.wait_for(turned, what)

    def change(self, **changes: Any) -> None:
        self.chat.refresh_from_db()
        workloads.patch(workload=self.chat, changes=changes, version=None, actor="alice")

    @property
    def service(self) -> dict[str, Any]:
        return self.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/services/chat")

    def found(self, collection: str) -> dict[str, Any]:
        path = f"{collection}/w-{self.chat.pk}"
        return self.server.request("GET", path) if self.server.exists(path) else {}

    def weights(self) -> dict[str, int]:
        """What part of the requests the subsets get, in percent."""
        route = self.found(ROUTES)
        parts = route["spec"]["http"][0]["route"] if route else ()
        return {part["destination"]["subset"]: part["weight"] for part in parts}

    def replicas(self, revision: int) -> int:
        """Ready pods that the Service sends requests to and that a subset for this revision would name."""
        wanted = {**self.service["spec"]["selector"], "weft.dev/revision": revision} if self._is_there() else {}
        labels = quote(",".join(f"{name}={value}" for name, value in wanted.items()))
        pods = self.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={labels}")["items"]
        return sum(is_ready(pod) for pod in pods) if wanted else 0

    def _is_there(self) -> bool:
        return self.server.exists(f"/api/v1/namespaces/{NAMESPACE}/services/chat")


def is_ready(pod: dict[str, Any]) -> bool:
    found = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions", ())}
    return found.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TestCluster]:
    """An API server with Istio's kinds and our fences."""
    with test_cluster(tmp_path, nodes=named("a", "b"), audit=True) as cluster, noted(cluster):
        istio.install(cluster)
        yield cluster


@pytest.fixture
def product(server: TestCluster, transactional_db: None, settings: Any) -> Iterator[Product]:
    settings.CLUSTER, settings.ISTIO = "kubernetes", True
    account = rights.scheduler(server, [TEAM], site=SITE)
    in_force(server, TeamSpace(TEAM), SITE)
    with closing(KubernetesCluster(find(str(account)))) as cluster:
        yield Product(server, cluster)


def test_a_canary_is_told_to_istio_in_its_own_words_from_its_first_weight_to_its_end(product: Product) -> None:
    assert (product.found(ROUTES), product.found(RULES)) == ({}, {}), "nothing is split yet"
    product.change(image=NEW, rollout={"weight": 10})
    product.until(lambda: product.weights() == {"r1": 90, "r2": 10}, "the canary's part")
    assert product.replicas(1) + product.replicas(2) == 3
    assert product.replicas(2) == 1
    is_as_sent(product, 10)
    product.change(rollout={"weight": 40})
    product.until(lambda: product.weights() == {"r1": 60, "r2": 40}, "the larger part")
    is_as_sent(product, 40)
    product.change(rollout={"weight": 100})
    product.until(lambda: product.replicas(2) == 2 and product.replicas(1) == 0, "its promotion")
    product.until(lambda: "RolledOut" in story(product.chat), "its history")
    assert (product.found(ROUTES), product.found(RULES)) == ({}, {})


def test_one_that_is_taken_back_gets_no_request_and_leaves_nothing_of_istios(product: Product) -> None:
    product.change(image=NEW, rollout={"weight": 25})
    product.until(lambda: product.weights() == {"r1": 75, "r2": 25}, "the canary's part")
    product.chat.refresh_from_db()
    workloads.undo(workload=product.chat, actor="alice")
    seen = []

    def is_back() -> bool:
        seen.append(product.weights())
        return product.replicas(2) == 0 and not product.found(ROUTES) and not product.found(RULES)

    product.until(is_back, "the end of the canary")
    assert all(weights in ({"r1": 75, "r2": 25}, {"r1": 100, "r2": 0}, {}) for weights in seen), seen
    assert {"r1": 100, "r2": 0} in seen
    product.until(lambda: product.replicas(1) == 2, "the revision before")
    assert Workload.objects.get(pk=product.chat.pk).spec["image"] == OLD


def is_as_sent(product: Product, percent: int) -> None:
    """Istio's schema has taken every field: what is there is what our adapter makes, and nothing was dropped."""
    split = Split(str(product.chat.pk), "chat", TEAM, 2, 1, percent)
    for collection, made in ((RULES, services.split_rule), (ROUTES, services.split_route)):
        sent, there = made(split, product.service), product.found(collection)
        assert there["spec"] == sent["spec"]
        assert there["metadata"].items() >= sent["metadata"].items()
        sent["metadata"]["name"] = "again"
        product.server.request("POST", f"{collection}?fieldValidation=Strict&dryRun=All", sent)


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    (ROUTES, {"http": [{"route": [{"destination": {"host": "a"}, "weigth": 5}]}]}, 'unknown field "spec.http[0].'),
    (ROUTES, {"http": [{"route": [{"destination": {"subset": "r1"}, "weight": 5}]}]}, "host: Required value"),
    (ROUTES, {"http": [{"route": [{"destination": {"host": "a"}, "weight": "5"}]}]}, "must be of type integer"),
    (RULES, {"host": "a", "subsets": [{"labels": {"weft.dev/revision": "1"}}]}, "name: Required value"),
    (RULES, {"host": "a", "subsets": [{"name": "r1", "labels": {"weft.dev/revision": 1}}]}, "of type string"),
)


def test_istios_schemas_refuse_what_is_wrong(server: TestCluster) -> None:
    """What this file shows is worth no more than these schemas notice."""
    for collection, spec, refusal in WRONG:
        where = collection.replace(NAMESPACE, "default")
        kind = "VirtualService" if collection == ROUTES else "DestinationRule"
        body = {"apiVersion": services.ISTIO, "kind": kind, "metadata": {"name": "wrong"}, "spec": spec}
        with pytest.raises(ApiError) as refused:
            server.request("POST", f"{where}?fieldValidation=Strict", body)
        assert refusal in refused.value.message
