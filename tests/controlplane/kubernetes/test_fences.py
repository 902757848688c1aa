"""The fences in a real API server: admission policy, PodSecurity, quota, and the rights of our accounts."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from controlplane.benchmarks.reliability import manifests as benchmark
from controlplane.cluster.kubernetes import pods as builder
from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import Site, TeamSpace
from controlplane.models import NodePool, PodSecurity, Quota, Team
from controlplane.services.tenancy import teams as team_service
from controlplane.testbed.kubernetes import TestCluster
from tests.audited import without_rights
from tests.controlplane.kubernetes.fences import DRY, PLURALS, in_force, out_of_force, refusal
from tests.controlplane.kubernetes.jobs import job, pod_of

SITE = Site()


@pytest.fixture(autouse=True)
def lifted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the cluster without policies: the API server goes by a deleted one for a moment longer."""
    cluster = request.getfixturevalue("kubernetes") if "kubernetes" in request.fixturenames else None
    yield
    if cluster is not None:
        out_of_force(cluster)


def fenced(cluster: TestCluster, *spaces: TeamSpace) -> None:
    """Put accounts, policies and namespaces into a cluster, and wait until the policies are in force."""
    made = [one for space in spaces for one in teams.team(SITE, space)]
    cluster.apply([*system.system(SITE), *policy.policies(SITE), *made])
    in_force(cluster, spaces[0], SITE)


def test_what_is_forbidden_is_refused_even_past_the_builder(kubernetes: TestCluster) -> None:
    done = benchmark.dry_run(kubernetes)
    assert [(a.attempt.name, a.refusal) for a in done.unfenced if a.refusal] == [], "unsound: refused without fences"
    assert [(a.attempt.name, a.refusal) for a in done.fenced if not a.fence] == [], "let in"
    assert [(a.attempt.name, a.refusal) for a in done.allowed if a.refusal] == [], "the builder's own, refused"
    assert done.rejected == len(done.fenced) >= 200
    assert {a.fence for a in done.fenced} == {"policy", "PodSecurity", "ResourceQuota"}


SCHEDULER, READER, PROVISIONER, WEB = (f"weft-{name}" for name in ("scheduler", "reader", "provisioner", "web"))
MAY = [
    (SCHEDULER, "watch", "nodes", "", ""),
    (SCHEDULER, "patch", "nodes", "", ""),
    (SCHEDULER, "list", "pods", "", ""),
    (SCHEDULER, "create", "pods", "", "weft-nlp"),
    (SCHEDULER, "create", "pods/binding", "", "weft-nlp"),
    (SCHEDULER, "patch", "pods/resize", "", "weft-nlp"),
    (SCHEDULER, "create", "events", "", "weft-nlp"),
    (READER, "get", "pods/log", "", "weft-nlp"),
    (PROVISIONER, "create", "namespaces", "", ""),
    (PROVISIONER, "patch", "rolebindings", "rbac.authorization.k8s.io", "weft-nlp"),
]
MAY_NOT = [
    *((account, "create", "pods", "", "kube-system") for account in (SCHEDULER, READER, PROVISIONER, WEB)),
    *((account, "get", "secrets", "", "weft-nlp") for account in (SCHEDULER, READER, PROVISIONER, WEB)),
    *((account, "list", "secrets", "", "") for account in (SCHEDULER, READER, PROVISIONER, WEB)),
    *((account, "create", "pods/exec", "", "weft-nlp") for account in (SCHEDULER, READER, PROVISIONER, WEB)),
    *((SCHEDULER, "create", f"pods/{part}", "", "weft-nlp") for part in ("attach", "portforward", "proxy")),
    *((SCHEDULER, "patch", part, "", "weft-nlp") for part in ("pods/ephemeralcontainers", "resourcequotas")),
    *((SCHEDULER, "patch", part, "", "") for part in ("namespaces", "nodes/status", "persistentvolumes")),
    (SCHEDULER, "get", "nodes/proxy", "", ""),
    (SCHEDULER, "create", "serviceaccounts/token", "", "weft-nlp"),
    (SCHEDULER, "impersonate", "users", "", ""),
    (SCHEDULER, "patch", "rolebindings", "rbac.authorization.k8s.io", "weft-nlp"),
    (SCHEDULER, "create", "validatingwebhookconfigurations", "admissionregistration.k8s.io", ""),
    (SCHEDULER, "patch", "validatingadmissionpolicies", "admissionregistration.k8s.io", ""),
    (PROVISIONER, "delete", "namespaces", "", ""),
    (PROVISIONER, "escalate", "clusterroles", "rbac.authorization.k8s.io", ""),
    (PROVISIONER, "bind", "clusterroles", "rbac.authorization.k8s.io", ""),
    (READER, "delete", "pods", "", "weft-nlp"),
    (WEB, "list", "pods", "", "weft-nlp"),
]


def may(cluster: TestCluster, account: str, verb: str, resource: str, group: str, namespace: str) -> bool:
    kind, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": kind, "subresource": part, "namespace": namespace}
    spec = {"user": f"system:serviceaccount:weft:{account}", "resourceAttributes": asked}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_each_account_may_do_its_duty_and_nothing_else(kubernetes: TestCluster) -> None:
    kubernetes.apply([*system.system(SITE), *teams.team(SITE, TeamSpace("nlp"))])
    kubernetes.wait_for(lambda: may(kubernetes, *MAY[-1]), "the rights")
    assert [one for one in MAY if not may(kubernetes, *one)] == []
    assert [one for one in MAY_NOT if may(kubernetes, *one)] == []


def test_a_scheduler_cordons_and_does_nothing_else_to_a_node(kubernetes: TestCluster) -> None:
    fenced(kubernetes, TeamSpace("nlp"))
    token = kubernetes.token("weft/weft-scheduler")
    merge = "application/merge-patch+json"

    def patch(change: dict[str, Any]) -> None:
        kubernetes.request("PATCH", f"/api/v1/nodes/a{DRY}", change, content_type=merge, token=token)

    patch({"spec": {"unschedulable": True}})
    said = "the scheduler may change a node's unschedulable only"
    for change in (
        {"metadata": {"labels": {"weft.dev/pool": "mine"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/never-leaves"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]}},
        {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
        {"spec": {"providerID": "mine://1", "unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    ):
        kubernetes.wait_for(lambda change=change: said in refusal(lambda: patch(change)), f"the refusal of {change}")
    patch({"spec": {"unschedulable": None}})


def test_no_field_of_a_node_is_left_out_of_what_a_scheduler_may_not_change(kubernetes: TestCluster) -> None:
    documents = kubernetes.request("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    spec = documents["io.k8s.api.core.v1.NodeSpec"]["properties"]
    metadata = documents["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    fenced_off = {f"spec.{name}" for name in spec} | {f"metadata.{name}" for name in metadata}
    of_the_server = {
        "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName", "generation",
        "managedFields", "name", "namespace", "resourceVersion", "selfLink", "uid",
    }  # fmt: skip
    assert fenced_off - {f"metadata.{name}" for name in of_the_server} == {*policy.NODE_FIELDS, "spec.unschedulable"}


def test_when_fences_are_lifted_all_are(kubernetes: TestCluster) -> None:
    fenced(kubernetes, TeamSpace("nlp"))
    kubernetes.delete(*(f"/apis/{policy.ADMISSION}/{kind}/weft-labels" for kind in PLURALS))
    forged = builder.build(pod_of(job()), namespace="default")
    pods = f"/api/v1/namespaces/default/pods{DRY}"
    kubernetes.wait_for(lambda: not refusal(lambda: kubernetes.request("POST", pods, forged)), "the end of one policy")
    services = f"/api/v1/namespaces/weft-nlp/services{DRY}"
    opens = {"metadata": {"name": "out"}, "spec": {"type": "ExternalName", "externalName": "a.test"}}
    assert "denied" in refusal(lambda: kubernetes.request("POST", services, opens))
    out_of_force(kubernetes)
    assert refusal(lambda: kubernetes.request("POST", services, opens)) == ""


def printed(*args: str) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_provisioner_brings_namespaces_to_what_the_teams_say(
    kubernetes: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team.objects.create(name="proteins")
    kubernetes.apply([*system.system(SITE), *policy.policies(SITE)])
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig("weft/weft-provisioner")))
    kubernetes.wait_for(lambda: may(kubernetes, *MAY[-2]), "the rights")
    before = printed("namespaces")
    assert before.splitlines()[0] == "created Namespace weft-proteins"
    assert before.endswith("Nothing is changed yet: add --apply.\n")
    assert not kubernetes.exists("/api/v1/namespaces/weft-proteins")

    assert "created Namespace weft-proteins" in printed("namespaces", "--apply")
    assert printed("namespaces").startswith("0 created, 0 changed,")
    team_service.set_pod_security(team=team, level=PodSecurity.BASELINE, actor="root")
    assert printed("namespaces").splitlines()[0] == "changed Namespace weft-proteins"
    printed("namespaces", "--apply")
    loosened = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}  # by hand: taken back
    by_hand = "/api/v1/namespaces/weft-proteins?fieldManager=kubectl-edit"
    kubernetes.request("PATCH", by_hand, loosened, content_type="application/merge-patch+json")
    assert printed("namespaces", "--apply").splitlines()[0] == "changed Namespace weft-proteins"
    labels = kubernetes.request("GET", "/api/v1/namespaces/weft-proteins")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["weft.dev/team"] == "proteins"


@pytest.mark.django_db
def test_an_account_without_the_right_is_told_so(kubernetes: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    Team.objects.create(name="nlp")
    kubernetes.apply(system.system(SITE))
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig("weft/weft-reader")))
    refused = pytest.raises(
        CommandError, match=r'The cluster refused Namespace weft-nlp: .*cannot get resource "namespaces"'
    )
    with without_rights(kubernetes), refused:
        printed("namespaces", "--apply")


def test_no_cluster_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(CommandError, match="There is no cluster to talk to: .* Set KUBECONFIG"):
        printed("namespaces", "--apply")


@pytest.mark.django_db
def test_the_printed_manifests_are_what_a_cluster_takes(kubernetes: TestCluster) -> None:
    Quota.objects.create(
        team=Team.objects.create(name="nlp"),
        pool=NodePool.objects.create(name="h100"),
        nominal=3000,
        borrowing_limit=2000,
    )
    objects = list(yaml.safe_load_all(printed("manifests", "--fence-gpus", "--egress", "10.1.0.0/16")))
    kubernetes.apply(objects)
    quota = kubernetes.request("GET", "/api/v1/namespaces/weft-nlp/resourcequotas/weft")["spec"]["hard"]
    assert (quota["requests.nvidia.com/gpu"], quota["services.nodeports"]) == ("5", "0")
    network = "/apis/networking.k8s.io/v1/namespaces/weft-nlp/networkpolicies"
    blocks = kubernetes.request("GET", f"{network}/weft-internet")["spec"]["egress"][0]["to"]
    assert "169.254.0.0/16" in blocks[0]["ipBlock"]["except"]
    assert blocks[-1] == {"ipBlock": {"cidr": "10.1.0.0/16"}}
    assert kubernetes.request("GET", f"{network}/weft-deny-all")["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_only_the_parts_asked_for_are_printed() -> None:
    kinds = {one["kind"] for one in yaml.safe_load_all(printed("manifests", "policy"))}
    assert kinds == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


@pytest.mark.django_db
def test_an_unknown_team_is_refused_with_those_there_are() -> None:
    Team.objects.create(name="nlp")
    with pytest.raises(CommandError, match=r"There is no team nlq. Teams here: nlp."):
        printed("manifests", "teams", "--team", "nlq")
