"""What the manifests say, without an API server: `test_fences.py` asks a real one what they do."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes import pods as builder
from controlplane.cluster.kubernetes.distributed import MAX_HOSTS
from controlplane.manifests import forbidden, policy, system, teams
from controlplane.manifests.forbidden_shares import placeholder
from controlplane.manifests.site import BASELINE, Site, TeamSpace
from tests.controlplane.kubernetes.allowed import violations
from tests.controlplane.kubernetes.jobs import pod_of

Pod = dict[str, Any]
SITE = Site(registries=("registry.example/",), fence_gpus=True)
SERVERS = {"name": "param-ps", "count": 2, "resources": {"cpu": 1}}
ROLES = {"framework": "tensorflow", "roles": [SERVERS, {"name": "evaluator", "resources": {"gpus": 1}}]}
GANG = {**ROLES, "workers": {"count": 2}}
SOUND: tuple[dict[str, Any], ...] = (
    {"volumes": [{"scratch": "1Gi", "path": "/s"}], "env": {"A": "1"}},
    {"resources": {"cpu": 1}},
    {"resources": {"gpus": 8}},
    {"resources": {"gpu_share": {"guarantee": 0.3, "memory": "1Gi"}}},
    {},
    GANG,
    {"team": "ops"},
    {"type": "notebook"},
)


def sound(*, rank: int = 0, size: int = 1, **changes: Any) -> Pod:
    """A pod of a small job file, as the builder makes it."""
    small = {"type": "training", "name": "hello", "team": "nlp", "image": "registry.example/app:1"}
    file = {key: value for key, value in {**small, "resources": {"gpus": 1}, **changes}.items() if value is not None}
    return builder.build(pod_of(file, rank=rank, size=size), namespace=f"weft-{file['team']}")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value); what has a name lies under its name, so that the order of variables does not count."""
    if isinstance(value, list):
        names = [one.get("name", at) if isinstance(one, dict) else at for at, one in enumerate(value)]
        parts = [(name if names.count(name) == 1 else f"{name}#{at}", value[at]) for at, name in enumerate(names)]
    else:
        parts = list(value.items()) if isinstance(value, dict) else []
    if not parts:
        yield path, value
    for key, inner in parts:
        yield from leaves(inner, f"{path}>{key}")


def differences(one: Pod, other: Pod) -> set[str]:
    """The paths that only one of them has, or that have another value in it."""
    mine, others = dict(leaves(one)), dict(leaves(other))
    return {path for path in mine.keys() | others if mine.get(path, ...) != others.get(path, ...)}


def pods_of(attempts: list[forbidden.Attempt]) -> list[tuple[str, Pod]]:
    """What the scheduler's own account posts."""
    mine = [a for a in attempts if a.account == forbidden.SCHEDULER and a.path.endswith("/pods") and a.method == "POST"]
    made = [a for a in mine if names.PLACEHOLDER_NAMESPACE not in a.path]
    assert [a.path for a in made] == [f"/api/v1/namespaces/{a.body['metadata']['namespace']}/pods" for a in made]  # type: ignore[index]
    return [(a.name, a.body) for a in made]


def test_the_pods_that_must_be_let_in_are_the_builders_own() -> None:
    made = pods_of(forbidden.allowed(SITE))
    jobs = [(ast.literal_eval(name.removeprefix("allowed ")), pod) for name, pod in made if "allowed" in name]
    assert [pod for _, pod in jobs] == [sound(size=job.get("workers", {}).get("count", 1), **job) for job, _ in jobs]
    *members, last = [pod for name, pod in made if name.startswith("member")]
    assert members == [sound(rank=rank, size=5, **GANG) for rank in range(5)]
    assert last == sound(rank=MAX_HOSTS - 1, size=MAX_HOSTS, **{**ROLES, "workers": {"count": MAX_HOSTS - 3}})
    for _, pod in made:
        namespace = pod["metadata"]["namespace"]
        assert violations(pod, team=namespace.removeprefix("weft-"), namespace=namespace) == []
    users = [pod["spec"]["securityContext"].get("runAsUser") for _, pod in jobs]
    assert {0, 1000} <= set(users)
    assert any("sysctls" in pod["spec"]["securityContext"] for _, pod in jobs)


def test_each_pod_that_must_be_refused_is_sound_but_for_the_one_thing_it_is_named_after() -> None:
    bases = [sound(**changes, size=5 if changes is GANG else 1) for changes in SOUND]
    attempts = dict(pods_of(forbidden.attempts(SITE)))
    assert differences(attempts.pop("more GPUs than the quota"), bases[2]) == set()
    wrong: list[tuple[str, set[str]]] = []
    for name, pod in attempts.items():
        changed = [differences(pod, base) for base in bases]
        if not any(all(path.startswith(place(name)) for path in paths) for paths in changed if paths):
            wrong.append((name, min(changed, key=len)))
    assert wrong == []
    assert len(attempts) > 200


def test_each_placeholder_that_must_be_refused_is_sound_but_for_one_thing() -> None:
    made = [a for a in forbidden.attempts(SITE) if a.name.startswith("a placeholder with ")]
    for attempt in made:
        path = ">" + attempt.name.removeprefix("a placeholder with ").partition("=")[0].replace(".", ">")
        path = path.replace("initContainers>0", "initContainers>device").replace("containers>0", "containers>hold")
        changed = differences(attempt.body, placeholder("a", 0, SITE.placeholder_image))  # type: ignore[arg-type]
        assert changed, attempt.name
        assert all(one.startswith(path) for one in changed), attempt.name
    assert len(made) > 20


def place(name: str) -> tuple[str, ...]:
    """Where the wrong thing lies that an attempt is named after, as the start of paths."""
    main = ">spec>containers>main"
    if name == "a notebook with a role":
        return (">metadata>labels>weft.dev/role",)
    if name.startswith("in a gang: labels "):
        return tuple(f">metadata>labels>{key}" for key in ast.literal_eval(name.removeprefix("in a gang: labels ")))
    what = name.partition("=")[0]
    if key := re.fullmatch("a share: annotations (.*)", what):
        return (f">metadata>annotations>{key[1]}",)
    if variable := re.fullmatch("(in a gang|without roles|a share): (.*)", what):
        return (f"{main}>env>{variable[2]}",)
    if field := re.fullmatch("at baseline: (.*)", what):
        return (f"{main}>securityContext>{field[1]}",)
    if mark := re.fullmatch("(labels|annotations) (.*)", what):
        return (f">metadata>{mark[1]}>{mark[2]}", f">metadata>{mark[1]}")
    named = (
        what.removesuffix(".+")
        .replace("containers.0", "containers>main")
        .replace("volumeMounts.0", "volumeMounts>scratch-0")
    )
    return (">" + named.replace(".", ">"),)


def of_kind(objects: list[Any], kind: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def test_a_teams_namespace_has_one_network_policy_for_each_way_in_and_out() -> None:
    made = teams.team(SITE, TeamSpace("nlp", BASELINE, 8))
    assert [one["kind"] for one in made if "namespace" not in one["metadata"]] == ["Namespace"]  # type: ignore[operator]
    assert of_kind(made, "ServiceAccount")["default"]["automountServiceAccountToken"] is False
    networks = of_kind(made, "NetworkPolicy")
    assert {name: one["spec"]["policyTypes"] for name, one in networks.items()} == {
        "weft-deny-all": ["Ingress", "Egress"],
        "weft-team": ["Ingress", "Egress"],
        "weft-gateways": ["Ingress"],
        "weft-dns": ["Egress"],
        "weft-internet": ["Egress"],
    }
    assert set(of_kind(made, "RoleBinding")) == {"weft-scheduler", "weft-reader"}


@pytest.mark.parametrize(
    ("is_asked", "gpus", "line"), [(True, 8, "8"), (True, 0, "0"), (True, None, None), (False, 8, None)]
)
def test_a_quota_of_gpus_is_there_only_where_it_is_asked_for_and_known(
    is_asked: bool, gpus: int | None, line: str | None
) -> None:
    made = teams.team(Site(fence_gpus=is_asked), TeamSpace("nlp", gpus=gpus))
    hard = of_kind(made, "ResourceQuota")["weft"]["spec"]["hard"]
    assert hard.get("requests.nvidia.com/gpu") == line
    assert (hard["services.nodeports"], hard["services.loadbalancers"]) == ("0", "0")


def test_the_system_has_four_accounts_and_the_one_of_pages_gets_no_token() -> None:
    made = system.system(SITE)
    tokens = {name: one.get("automountServiceAccountToken") for name, one in of_kind(made, "ServiceAccount").items()}
    accounts = {"weft-web": False, "weft-scheduler": None, "weft-reader": None, "weft-provisioner": None}
    assert tokens == accounts | {"default": False}  # of the placeholders' namespace
    bound = {one["roleRef"]["name"] for one in of_kind(made, "ClusterRoleBinding").values()}
    handed_out = {"weft-scheduler-team", "weft-reader-team"}  # bound in each team's namespace
    of_people = {"weft-workloads-view", "weft-workloads-edit"}  # parts of Kubernetes' own view, edit and admin
    assert set(of_kind(made, "ClusterRole")) == bound | handed_out | of_people | {"weft-scheduler-shares"}
    (shares,) = (one for one in made if one["kind"] == "RoleBinding")
    assert (shares["metadata"]["namespace"], shares["roleRef"]["name"]) == (  # type: ignore[index]
        names.PLACEHOLDER_NAMESPACE,
        "weft-scheduler-shares",
    )
    assert bound == {"weft-scheduler-cluster", "weft-reader-cluster", "weft-provisioner"}


def test_each_policy_says_where_it_holds_and_for_which_account() -> None:
    made = policy.policies(SITE)
    specs = {name: one["spec"] for name, one in of_kind(made, "ValidatingAdmissionPolicy").items()}
    assert {name for name, spec in specs.items() if "variables" in spec} == {"weft-pods"}
    only = {name: spec["matchConditions"][0]["expression"] for name, spec in specs.items() if "matchConditions" in spec}
    account = 'request.userInfo.username == "system:serviceaccount:weft:weft-{}"'
    assert only == {"weft-cordon": account.format("scheduler"), "weft-provisioner": account.format("provisioner")}
    where = {
        name: spec["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["operator"]
        for name, spec in specs.items()
        if "namespaceSelector" in spec["matchConstraints"]
    }
    in_teams = dict.fromkeys(("weft-pods", "weft-binding", "weft-services"), "Exists")
    of_placeholders = dict.fromkeys(("weft-placeholders", "weft-placeholder-parts"), "Exists")
    assert where == in_teams | of_placeholders | {"weft-labels": "DoesNotExist", "weft-queue-labels": "DoesNotExist"}
    elsewhere = specs["weft-labels"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert elsewhere == [{"key": k, "operator": "DoesNotExist"} for k in (names.TEAM, names.PLACEHOLDER)]
    bindings = of_kind(made, "ValidatingAdmissionPolicyBinding")
    assert {name: one["spec"]["policyName"] for name, one in bindings.items()} == {name: name for name in specs}
    assert [one["metadata"] for one in made if "namespace" in one["metadata"]] == []  # type: ignore[operator]


def test_images_are_bound_to_registries_only_where_some_are_named() -> None:
    def checks(*registries: str) -> list[str]:
        spec = of_kind(policy.policies(Site(registries=registries)), "ValidatingAdmissionPolicy")["weft-pods"]["spec"]
        return [one["expression"] for one in spec["validations"] if "image.startsWith" in one["expression"]]

    assert checks() == []
    assert checks("a.test/", "b.test/") == [
        'variables.main.image.startsWith("a.test/") || variables.main.image.startsWith("b.test/")'
    ]
