"""A real API server with our definitions, people of it, and the loop that follows their objects."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import yaml

from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.objects import KubernetesObjects
from controlplane.kubeobjects.names import API_VERSION, AUTHOR
from controlplane.loops import intake
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import Site, TeamSpace, obj
from controlplane.models import Membership, Role, Team, User
from controlplane.testbed import binaries
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.state import World

SITE = Site()
ANA, BEN, ROOT, STRANGER = "oidc:ana", "oidc:ben", "oidc:root", "oidc:stranger"
RBAC = "rbac.authorization.k8s.io"
WORKLOADS = f"/apis/{API_VERSION}/namespaces/weft-red/workloads"
TEAMS = f"/apis/{API_VERSION}/teams"
Json = dict[str, Any]


@pytest.fixture(scope="session")
def definitions(kubernetes_server: TestCluster) -> TestCluster:
    """The API server with definitions, rights, and the namespaces of two teams."""
    kubernetes_server.apply([*system.system(SITE), *_people()])
    for team in ("red", "blue"):
        kubernetes_server.apply(teams.team(SITE, TeamSpace(team)))
    every = f"/apis/{API_VERSION}/workloads"
    kubernetes_server.wait_for(lambda: _is_served(kubernetes_server, every, TEAMS), "the definitions")
    return kubernetes_server


def _people() -> list[Json]:
    """Everybody may write workloads everywhere, and root teams: that is Kubernetes' own matter."""
    users = [{"kind": "User", "apiGroup": RBAC, "name": name} for name in (ANA, BEN, ROOT, STRANGER)]
    edit = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "weft-workloads-edit"}
    every = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        obj(f"{RBAC}/v1", "ClusterRoleBinding", "people", subjects=users, roleRef=edit),
        obj(f"{RBAC}/v1", "ClusterRoleBinding", "root", subjects=users[2:3], roleRef=every),
    ]


def _is_served(cluster: TestCluster, *paths: str) -> bool:
    try:
        return all(cluster.exists(path) for path in paths)
    except ApiError:  # "storage is (re)initializing"
        return False


@dataclass
class Kube:
    """What people do in the cluster, and the loop of one process."""

    cluster: TestCluster
    objects: KubernetesObjects
    world: World
    wiring: Wiring = field(init=False)

    def __post_init__(self) -> None:
        self.wiring = replace(self.world.wiring, objects=self.objects)

    def round(self) -> Report:
        """One round of the loop, on all that is there."""
        self.objects.check()
        report = intake.run_once(self.wiring)
        assert not report.skipped, report
        return report

    def settle(self) -> None:
        """Rounds until one does nothing."""
        for _ in range(5):
            if not self.round().did:
                return
        raise AssertionError("the loop does not come to rest")

    def restart(self) -> None:
        """The process is killed and begins again."""
        self.wiring = Wiring(self.world.cluster, self.world.metrics, "test", objects=self.objects)

    def apply(self, thing: Json, user: str = ANA, *, is_stamped: bool = True) -> Json:
        """Make or change an object as this user, as the admission server would have it."""
        meta = thing["metadata"]
        annotations = {**meta.get("annotations", {}), **({AUTHOR: user} if is_stamped else {})}
        given = {**thing, "metadata": {**meta, "annotations": annotations}}
        collection = WORKLOADS.replace("weft-red", meta["namespace"]) if "namespace" in meta else TEAMS
        query = "fieldManager=people&fieldValidation=Strict&force=true"
        path = f"{collection}/{meta['name']}?{query}"
        return self.cluster.request("PATCH", path, given, content_type="application/apply-patch+yaml", user=user)

    def refusal(self, thing: Json, user: str = ANA) -> str:
        """What the API server says against an object; empty if it takes it."""
        try:
            self.apply(thing, user)
        except ApiError as error:
            return error.message
        return ""

    def get(self, name: str, collection: str = WORKLOADS) -> Json:
        """An object as it is."""
        return self.cluster.request("GET", f"{collection}/{name}")

    def condition(self, name: str, kind: str = "Accepted", collection: str = WORKLOADS) -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        conditions = self.get(name, collection).get("status", {}).get("conditions", ())
        found = {one["type"]: one for one in conditions}
        return (found[kind]["status"], found[kind]["reason"], found[kind]["message"]) if kind in found else ("", "", "")

    def delete(self, name: str, collection: str = WORKLOADS) -> None:
        """Delete an object."""
        self.cluster.delete(f"{collection}/{name}")

    def kubectl(self, *arguments: str, user: str = ANA, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Run kubectl as this user."""
        cache = self.cluster.layout.folder / "kubectl"
        line = [str(binaries.find()["kubectl"]), f"--kubeconfig={self.cluster.kubeconfig()}", f"--cache-dir={cache}"]
        line.append(f"--as={user}")
        return subprocess.run([*line, *arguments], input=given, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def kube(definitions: TestCluster, kubernetes: TestCluster, db: None, settings: Any) -> Iterator[Kube]:
    """The loop by the scheduler's account; ana is a member of team red, ben of blue, root a platform admin."""
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    with kube_of(kubernetes) as found:
        yield found


@contextmanager
def kube_of(cluster: TestCluster) -> Iterator[Kube]:
    """The same, on the database there is."""
    world = World()
    for name, team in (("ana", "red"), ("ben", "blue")):
        user = User.objects.create(username=name)
        Membership.objects.create(user=user, team=Team.objects.get(name=team), role=Role.MEMBER)
    User.objects.create(username="root", is_superuser=True)
    vouch(cluster)
    with closing(KubernetesObjects(find(str(cluster.kubeconfig("weft/weft-scheduler"))))) as objects:
        yield Kube(cluster, objects, world)


def vouch(cluster: TestCluster) -> None:
    """Put the policy about authors into force."""
    cluster.apply([one for one in policy.policies(SITE) if one["metadata"]["name"] == "weft-objects"])  # type: ignore[index]
    forged = workload("forged")
    forged["metadata"]["annotations"] = {AUTHOR: "somebody else"}
    cluster.wait_for(lambda: _is_refused(cluster, forged), "the policy about authors")


def _is_refused(cluster: TestCluster, thing: Json) -> bool:
    try:
        cluster.request("POST", f"{WORKLOADS}?dryRun=All", thing)
    except ApiError as error:
        return "names the user that sends the spec" in error.message
    return False


def workload(name: str = "hello", team: str = "red", **spec: Any) -> Json:
    """A small Workload object; None leaves a field out."""
    small = {"type": "training", "image": "registry.example/app:1", "resources": {"gpus": 1}}
    fields = {key: value for key, value in {**small, **spec}.items() if value is not None}
    meta = {"name": name, "namespace": f"weft-{team}"}
    return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": meta, "spec": fields}


def team(name: str, **spec: Any) -> Json:
    """A Team object."""
    return {"apiVersion": API_VERSION, "kind": "Team", "metadata": {"name": name}, "spec": spec}


def text(*things: Json) -> str:
    """Objects as a file."""
    return yaml.safe_dump_all(things)


def loaded(done: "subprocess.CompletedProcess[str]") -> Any:
    """The JSON that a command printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
