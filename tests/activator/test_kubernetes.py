"""On a real API server: which services the activator knows, and how traffic is sent through it, or direct."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.lanes import Bounds
from controlplane.activator.directory import DirectoryError, Service
from controlplane.activator.kubernetes import KubernetesDirectory
from controlplane.activator.routing import FULL, Said
from controlplane.activator.switch import KUBERNETES, MANAGED_BY, MANAGER, Switch
from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import MERGE, Api, RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.manifests.site import ACTIVATOR, ACTIVATOR_SWITCH, Site, TeamSpace
from controlplane.testbed.kubernetes import TestCluster
from tests import servers
from tests.audited import without_rights
from tests.controlplane.kubernetes.auditing import denied, used
from tests.controlplane.kubernetes.fences import in_force
from tests.controlplane.kubernetes.jobs import UID, job, pod_of

SERVICE = "/api/v1/namespaces/weft-nlp/services/chat"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/weft-nlp/endpointslices?labelSelector=kubernetes.io/service-name=chat"
CHAT = {"type": "inference", "name": "chat", "port": 8000, "gateway": {"slots": 4, "late_after": "2s", "waiting": 7}}
BOUNDS = Bounds(4, 2.0, 7, 60.0)
FIRST = 20_000
SITE = Site(activator_image="registry.example/weft:1")


@dataclass
class World:
    """A service on a real API server, and activators that say what a test has them say."""

    server: TestCluster
    cluster: KubernetesCluster
    directory: KubernetesDirectory
    api: Api
    said: dict[str, Said | None] = field(default_factory=dict)
    now: float = 0.0

    def switch(self) -> Switch:
        async def ask(addresses: Iterable[str]) -> list[Said]:
            return [one for address in addresses if (one := self.said.get(address)) is not None]

        async def activators() -> list[str]:
            return sorted(self.said)

        return Switch(
            self.api, self.directory, ask, activators=activators, ports=range(FIRST, FIRST + 4), clock=lambda: self.now
        )

    def start(self, *ranks: int, **file: Any) -> None:
        said = {name: value for name, value in {**CHAT, **file}.items() if value is not None}
        pods = [pod_of(job(**said), rank=rank) for rank in ranks]
        self.cluster.start([replace(pod, node="a", gpus=(rank,)) for pod, rank in zip(pods, ranks, strict=True)])

    def addresses(self) -> dict[str, set[str]]:
        """Who manages the slices of the service, and what they list as ready."""
        found: dict[str, set[str]] = {}
        for one in self.server.request("GET", SLICES)["items"]:
            ends = [end for end in one["endpoints"] or () if end["conditions"].get("ready")]
            if ends:
                listed = found.setdefault(one["metadata"]["labels"][MANAGED_BY], set())
                listed.update(end["addresses"][0] for end in ends)
        return found

    def pods(self) -> set[str]:
        every = self.server.request("GET", "/api/v1/namespaces/weft-nlp/pods")["items"]
        return {one["status"]["podIP"] for one in every if one["status"].get("podIP")}

    def known(self) -> Service | None:
        try:
            return next(iter(self.directory.services()), None)
        except DirectoryError:
            return None

    def wait(self, holds: Callable[[], object], what: str) -> None:
        self.server.wait_for(lambda: bool(holds()), what)


@pytest.fixture
def world(kubernetes: TestCluster) -> Iterator[World]:
    kubeconfig = rights.scheduler(kubernetes, ["nlp"], site=SITE)
    in_force(kubernetes, TeamSpace("nlp"), SITE)
    of = {name: find(str(kubernetes.kubeconfig(f"weft/{name}"))) for name in (ACTIVATOR, ACTIVATOR_SWITCH)}
    with (
        closing(KubernetesCluster(find(str(kubeconfig)))) as cluster,
        closing(KubernetesDirectory(of[ACTIVATOR])) as directory,
        closing(Api(of[ACTIVATOR_SWITCH])) as api,
    ):
        yield World(kubernetes, cluster, directory, api)


# Kubernetes' controller lists pods once more if it has not heard yet that a Service has lost its selector, and lists
# them late when the machine is busy. So what the switch itself writes is looked at after one step, the rest awaited.
def through(world: World, switch: Switch, address: str) -> bool:
    switch.step()
    return world.addresses() == {MANAGER: {address}}


def direct(world: World, switch: Switch) -> bool:
    switch.step()
    return world.addresses() == {KUBERNETES: world.pods()}


def test_a_service_goes_through_one_activator_then_another_and_direct_when_none_answers(world: World) -> None:
    world.start(0, 1)
    world.wait(lambda: len(world.addresses().get(KUBERNETES, ())) == 2, "the pods are listed")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1), "10.9.0.2": Said("10.9.0.2", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "an activator is listed alone")
    slices = world.server.request("GET", SLICES)["items"]
    (ports,) = [one["ports"] for one in slices if one["metadata"]["labels"][MANAGED_BY] == MANAGER]
    assert ports == [{"name": "p8000", "port": FIRST, "protocol": "TCP"}]
    world.wait(lambda: (known := world.known()) is not None and not known.is_direct, "the directory's news")
    service = world.known()
    assert service is not None and set(service.replicas) == {f"{ip}:8000" for ip in world.pods()}
    assert replace(service, replicas=()) == Service(UID, FIRST, BOUNDS, namespace="weft-nlp")

    world.said["10.9.0.1"] = None
    switch = world.switch()  # another one goes on from what the cluster says
    switch.step()
    assert world.addresses()[MANAGER] == {"10.9.0.2"}
    world.wait(lambda: through(world, switch, "10.9.0.2"), "the other activator is listed alone")
    world.said["10.9.0.2"] = None
    world.wait(lambda: direct(world, switch), "the pods are listed alone")
    world.wait(lambda: (known := world.known()) is not None and known.is_direct, "the directory's news")


def test_an_activator_stays_listed_until_kubernetes_lists_the_pods_however_late(world: World) -> None:
    world.start(0)
    world.wait(lambda: world.addresses().get(KUBERNETES), "the pod is listed")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.server.pause("kcm")
    world.said = {}
    for _ in range(2):  # the one that turns it waits, the next one looks again
        switch.step()
        assert world.server.request("GET", SERVICE)["spec"]["selector"] and MANAGER in world.addresses()
    world.server.resume("kcm")
    world.wait(lambda: direct(world, switch), "direct")


def test_pods_that_kubernetes_lists_once_more_go_with_the_next_step(world: World) -> None:
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: world.pods() and through(world, switch, "10.9.0.1"), "through")
    world.server.pause("kcm")
    slice_ = {
        "metadata": {"name": "chat-late", "labels": {"kubernetes.io/service-name": "chat", MANAGED_BY: KUBERNETES}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": sorted(world.pods()), "conditions": {"ready": True}}],
    }
    world.server.request("POST", SLICES.partition("?")[0], slice_)
    assert world.addresses().keys() == {MANAGER, KUBERNETES}
    switch.step()
    assert world.addresses() == {MANAGER: {"10.9.0.1"}}
    world.server.resume("kcm")


def test_there_is_an_address_at_every_moment_of_a_switch(world: World) -> None:
    world.start(0)
    world.wait(lambda: world.addresses().get(KUBERNETES), "the pod is listed")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    first = world.server.request("GET", SLICES)
    listed = {one["metadata"]["name"]: bool(one["endpoints"]) for one in first["items"]}
    since = first["metadata"]["resourceVersion"]
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.said = {}
    world.wait(lambda: direct(world, switch), "direct")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through again")
    end = {"metadata": {"name": "end", "labels": {"kubernetes.io/service-name": "chat"}}, "addressType": "IPv4"}
    world.server.request("POST", SLICES.partition("?")[0], {**end, "endpoints": []})
    seen = 0
    for event in world.server.watch(f"{SLICES}&watch=1&resourceVersion={since}&timeoutSeconds=60"):
        one, seen = event["object"], seen + 1
        if one["metadata"]["name"] == "end":
            break
        # Its own slices Kubernetes wants to delete itself (switch.py).
        assert event["type"] != "DELETED" or one["metadata"]["labels"][MANAGED_BY] == MANAGER
        ready = any(end["conditions"].get("ready") for end in one["endpoints"] or ())
        listed[one["metadata"]["name"]] = ready and event["type"] != "DELETED"
        assert any(listed.values()), f"after {seen} events nothing is listed"
    assert seen > 5


def test_a_full_activator_is_relieved_of_its_busiest_service(world: World) -> None:
    world.start(0)
    world.wait(lambda: world.addresses().get(KUBERNETES), "the pod is listed")
    world.wait(lambda: world.known() is None, "no port yet")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1, {UID: 10.0})}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.wait(lambda: (known := world.known()) is not None and known.replicas, "the replica is known")
    world.said = {"10.9.0.1": Said("10.9.0.1", FULL + 0.05, {UID: 10.0})}
    world.wait(lambda: direct(world, switch), "direct")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.0)}
    switch.step()
    assert world.addresses().keys() == {KUBERNETES}  # it was too much a moment ago


def test_while_a_service_sleeps_its_requests_go_to_an_activator(world: World) -> None:
    world.start(0)
    world.wait(lambda: world.addresses().get(KUBERNETES), "the pod is listed")
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    pod = world.server.request("GET", "/api/v1/namespaces/weft-nlp/pods")["items"][0]["metadata"]["name"]
    path = f"/api/v1/namespaces/weft-nlp/pods/{pod}"
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    world.server.patch(f"{path}/status", conditions)
    world.wait(lambda: (known := world.known()) is not None and not known.replicas, "no replica is ready")
    for _ in range(3):
        switch.step()
        assert world.addresses()[MANAGER] == {"10.9.0.1"}
    world.wait(lambda: through(world, switch, "10.9.0.1"), "still through")


def test_two_services_get_two_ports_and_what_has_no_queue_is_left_alone(world: World) -> None:
    world.start(0)
    world.cluster.start([replace(pod_of(job(**{**CHAT, "name": "other"}), uid=UID[:-1] + "b"), node="a", gpus=(1,))])
    plain = pod_of(job(type="inference", name="plain"), uid=UID[:-1] + "c")
    world.cluster.start([replace(plain, node="a", gpus=(2,))])
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.wait(lambda: world.known() is not None and len(world.directory.services()) == 2, "both are known")
    assert {one.port for one in world.directory.services()} == {FIRST, FIRST + 1}
    untouched = world.server.request("GET", "/api/v1/namespaces/weft-nlp/services/plain")
    assert untouched["spec"]["selector"] == {"weft.dev/workload": UID[:-1] + "c", "weft.dev/serving": "true"}
    assert "annotations" not in untouched["metadata"]


def test_only_pods_of_its_team_and_of_no_team_may_ask_a_service(world: World) -> None:
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.wait(world.pods, "the pod has an address")
    (own,) = world.pods()
    address = {}
    for namespace in ("weft-ops", "gateways"):  # one after the other: who knows the second knows the first
        world.server.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        container = {"name": "main", "image": "example/gateway:1"}
        pod = {"metadata": {"name": "one"}, "spec": {"nodeName": "b", "containers": [container]}}
        pods = f"/api/v1/namespaces/{namespace}/pods"
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        world.wait(lambda path=account: world.server.exists(path), "the namespace's account")
        world.server.request("POST", pods, pod)
        path = f"{pods}/one"
        world.wait(lambda path=path: world.server.request("GET", path)["status"].get("podIP"), "an address")
        address[namespace] = world.server.request("GET", path)["status"]["podIP"]
    world.wait(lambda: world.known() is not None, "the service")
    service = world.known()
    assert service is not None
    world.wait(lambda: world.directory.may_ask(service, address["gateways"]), "the gateway is known")
    world.wait(lambda: world.directory.may_ask(service, own), "the team's own pod is known")
    assert not world.directory.may_ask(service, address["weft-ops"])
    assert not world.directory.may_ask(service, "10.200.0.1")  # not known


def test_the_switch_may_turn_a_service_and_nothing_else(world: World) -> None:
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    refused: dict[str, dict[str, Any]] = {
        "pods of its own workload": {"spec": {"selector": {"weft.dev/workload": UID[:-1] + "b"}}},
        "its type is ClusterIP": {"spec": {"type": "NodePort"}},
        "only Weft's scheduler": {"metadata": {"labels": {"weft.dev/workload": UID[:-1] + "b"}}},
    }
    for why, change in refused.items():
        with pytest.raises(RefusedError, match=why):
            world.api.call(world.api.request("PATCH", SERVICE, change, kind=MERGE))
    with without_rights(world.server):
        for method, path in (("DELETE", SERVICE), ("GET", "/api/v1/namespaces/weft-nlp/secrets"), ("GET", SERVICE)):
            with pytest.raises(RefusedError, match="cannot"):
                world.api.call(world.api.request(method, path))


def test_both_accounts_use_all_their_rights_and_need_no_others(world: World) -> None:
    before = len(world.server.audit())
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    world.said = {}
    world.wait(lambda: direct(world, switch), "direct")
    reads = {(verb, kind) for verb in ("list", "watch") for kind in ("pods", "services")}
    slices = {(verb, "endpointslices") for verb in ("list", "create", "patch", "delete")}
    with closing(KubernetesDirectory(find(str(world.server.kubeconfig(f"weft/{ACTIVATOR_SWITCH}"))))):
        for account in (ACTIVATOR, ACTIVATOR_SWITCH):  # a watch is asked for after its list
            world.wait(
                lambda name=account: reads <= used(world.server.audit()[before:], name), f"{account}'s directory"
            )
    entries = world.server.audit()[before:]
    assert denied(entries, (ACTIVATOR, ACTIVATOR_SWITCH)) == []
    assert used(entries, ACTIVATOR_SWITCH) == reads | slices | {("patch", "services")}
    assert used(entries, ACTIVATOR) == reads


def test_a_service_that_loses_its_queue_loses_our_slice(world: World) -> None:
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    later = replace(pod_of(job(type="inference", name="chat"), uid=UID[:-1] + "d"), node="a", gpus=(1,))
    world.cluster.start([later])  # takes the name over
    service = world.server.request("GET", SERVICE)
    assert service["spec"]["selector"] == {"weft.dev/workload": later.workload, "weft.dev/serving": "true"}
    assert "weft.dev/gateway" not in service["metadata"]["labels"]
    switch.step()
    assert MANAGER not in world.addresses()


def test_a_queue_that_was_changed_counts_from_the_next_replica_on(world: World) -> None:
    world.start(0)
    world.said = {"10.9.0.1": Said("10.9.0.1", 0.1)}
    switch = world.switch()
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through")
    owners = world.server.request("GET", SERVICE)["metadata"]["ownerReferences"]
    world.start(1, gateway={"slots": 9, "late_after": "1s", "waiting": 70})
    wider = Bounds(9, 1.0, 70, 60.0)
    world.wait(lambda: (known := world.known()) is not None and known.bounds == wider, "the directory's news")
    switch.step()
    assert world.addresses() == {MANAGER: {"10.9.0.1"}}, "requests go on through the queue"
    service = world.server.request("GET", SERVICE)
    assert all(owner in service["metadata"]["ownerReferences"] for owner in owners)

    world.start(2, gateway=None)  # taken away
    service = world.server.request("GET", SERVICE)
    assert service["spec"]["selector"] == {"weft.dev/workload": UID, "weft.dev/serving": "true"}
    assert "weft.dev/gateway" not in service["metadata"]["labels"]
    switch.step()
    assert MANAGER not in world.addresses()
    world.wait(lambda: len(world.addresses().get(KUBERNETES, ())) == 3, "the pods are listed")

    world.start(3)  # and given again
    world.wait(lambda: through(world, switch, "10.9.0.1"), "through again")


def test_both_programs_run_as_documented(world: World, tmp_path: Path) -> None:
    world.start(0)
    admin, port = servers.free_port(), servers.free_port()
    env = servers.environment(tmp_path, KUBECONFIG=str(world.server.kubeconfig(f"weft/{ACTIVATOR}")))
    command = ["activator", "--cluster", f"--ports={port}", f"--admin-port={admin}"]
    switched = {**env, "KUBECONFIG": str(world.server.kubeconfig(f"weft/{ACTIVATOR_SWITCH}"))}
    with program(command, env), program(["activator", "--switch", f"--ports={port}"], switched) as process:
        servers.wait_until(lambda: servers.answers(f"http://127.0.0.1:{admin}/readyz"), "the activator", 60)
        signal = f"http://127.0.0.1:{admin}/signal"
        servers.wait_until(lambda: told(signal)["leaving"] == {UID: 0.0}, "the service, with a port by the switch", 30)
        # no activator that it knows answers it
        world.wait(lambda: world.pods() and world.addresses() == {KUBERNETES: world.pods()}, "the pods are listed")
        assert process.poll() is None
        process.terminate()
        assert process.wait(20) == 0


def told(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address, timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def program(arguments: list[str], env: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([sys.executable, "manage.py", *arguments], cwd=servers.ROOT, env=env)
    try:
        yield process
    finally:
        servers.end(process)
