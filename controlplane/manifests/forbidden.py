"""What must never get into a team's namespace, as manifests: the corpus that the fences are tried with.

Each attempt is sound but for the one thing that is forbidden, and most are sent by our own scheduler's account, so that
it is the fences inside the API server that refuse it, not a missing right or a mistake (docs/kubernetes.md#fences).
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.cluster.kubernetes import names, pods
from controlplane.cluster.kubernetes.distributed import BATCH, MAX_HOSTS
from controlplane.cluster.port import PodSpec
from controlplane.jobspec.spec import parse
from controlplane.kubeobjects.names import AUTHOR
from controlplane.manifests.forbidden_pods import (
    BATCHES_WRONG,
    CHANGES,
    LABELS_WRONG,
    NO_GPU_CHANGES,
    ROLE_LABELS_WRONG,
    role_variables_wrong,
)
from controlplane.manifests.forbidden_shares import (
    PLACEHOLDER_WRONG,
    SHARE_ANNOTATIONS_MISSING,
    SHARE_VARIABLES_MISSING,
    SHARE_VARIABLES_WRONG,
    placeholder,
)
from controlplane.manifests.site import Json, Site, obj
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind

TEAM, ROOMY = "nlp", "ops"  # a team at level restricted; one at baseline
NODE = "a"
PLAIN = "plain"  # a namespace of no team
UID, EXISTING = "0a1b2c3d-0000-4000-8000-00000000000a", "0a1b2c3d-0000-4000-8000-00000000000b"
REGISTRY = "registry.example/"
SCHEDULER, PROVISIONER, ADMIN, OWNER = "scheduler", "provisioner", "admin", "owner"
MERGE, JSON = "application/merge-patch+json", "application/json"
HELD_GPU = 7  # of the placeholder that is there
FENCED_GPUS = 8  # of the team by ResourceQuota
_SERVERS = {"name": "param-ps", "count": 2, "resources": {"cpu": 1}}
_WITH_ROLES: dict[str, Any] = {
    "framework": "tensorflow",
    "workers": {"count": 2},
    "roles": [_SERVERS, {"name": "evaluator", "resources": {"gpus": 1}}],
}
_MEMBERS = 5  # of that gang: its role members, then its workers


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that must be refused. account: one of ours, the cluster's admin, or an owner of all namespaces."""

    name: str
    account: str
    method: str
    path: str
    body: Json
    content_type: str = JSON


def attempts(site: Site) -> list[Attempt]:
    """All of them."""
    return [
        *_pods(site),
        *_shares(site),
        *_placeholders(site),
        *_of_others(site),
        *_parts(site),
        *_elsewhere(site),
        *_objects(site),
        *_accounts(site),
    ]


def allowed(site: Site) -> list[Attempt]:
    """Pods as the builder makes them, of every kind: the fences must let these through."""
    members = [_pod(site, rank=rank, **_WITH_ROLES) for rank in range(_MEMBERS)]
    members.append(_pod(site, rank=MAX_HOSTS - 1, **{**_WITH_ROLES, "workers": {"count": MAX_HOSTS - 3}}))
    jobs: list[dict[str, Any]] = [
        {},
        {"resources": {"gpu_share": {"guarantee": 0.3, "memory": "1Gi"}, "shared_memory": "64Mi"}},
        {"resources": {"cpu": 2}, "run_as_user": 1000, "ports": [80]},
        {"workers": {"count": 4, "min": 2, "max": 8}, "resources": {"gpus": 2, "extra": {"rdma/hca": 1}}},
        {"framework": "tensorflow", "workers": {"count": 2}, "labels": {"project": "demo"}},
        {"volumes": [{"claim": "data", "path": "/data"}, {"scratch": "1Gi", "path": "/scratch"}]},
        {"secrets": [{"name": "tracker", "key": "token", "env": "TOKEN"}], "pull_secrets": ["registry"]},
        {"batch": {"size": 256, "max": 2048}},
        {"type": "notebook"},
        {"type": "inference", "port": 80, "checkpoint": None},
        {"team": ROOMY, "run_as_user": 0},
    ]
    return [
        *(Attempt(f"allowed {job}", SCHEDULER, "POST", *_post(site, _pod(site, **job))) for job in jobs),
        Attempt(
            "a placeholder",
            SCHEDULER,
            "POST",
            f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods",
            placeholder(NODE, 0, site.placeholder_image),
        ),
        *(Attempt(f"member {n} of a gang", SCHEDULER, "POST", *_post(site, pod)) for n, pod in enumerate(members)),
    ]


def prerequisites(site: Site) -> list[Json]:
    """What the attempts refer to, so that nothing but the fences is in their way."""
    team = names.namespace(TEAM, site.prefix)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    owner = [{"kind": "ServiceAccount", "name": OWNER, "namespace": PLAIN}]
    return [
        obj("v1", "Namespace", PLAIN),
        obj("v1", "ServiceAccount", OWNER, PLAIN),
        obj("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", OWNER, subjects=owner, roleRef=role),
        *(obj("v1", "ServiceAccount", "builder", where) for where in (team, names.PLACEHOLDER_NAMESPACE)),
        obj("scheduling.k8s.io/v1", "PriorityClass", "high", value=1000),
        obj("node.k8s.io/v1", "RuntimeClass", "nvidia", handler="nvidia"),
    ]


def existing(site: Site) -> list[Attempt]:
    """Pods that attempts change: one of the team's, made by the scheduler, a placeholder, and one of no team's."""
    bystander = _pod(site)
    bystander["metadata"] = {"name": "bystander", "namespace": PLAIN}
    held = placeholder(NODE, HELD_GPU, site.placeholder_image)
    return [
        Attempt("existing", SCHEDULER, "POST", *_post(site, _pod(site, uid=EXISTING))),
        Attempt("held", SCHEDULER, "POST", f"/api/v1/namespaces/{held['metadata']['namespace']}/pods", held),
        Attempt("bystander", ADMIN, "POST", f"/api/v1/namespaces/{PLAIN}/pods", bystander),
    ]


def _pod(site: Site, *, uid: str = UID, rank: int = 0, **changes: Any) -> dict[str, Any]:
    """A pod of the builder's from a small job file."""
    small = {"type": "training", "name": "hello", "team": TEAM, "image": f"{REGISTRY}app:1", "resources": {"gpus": 1}}
    spec = parse({key: value for key, value in {**small, **changes}.items() if value is not None})
    role_members = [role.ask for role in spec.roles for _ in range(role.count)]
    ask = role_members[rank] if rank < len(role_members) else spec.resources
    milli, memory = (ask.share.guarantee, ask.share.memory) if ask.share else (WHOLE, 0)
    size = spec.workers.count + len(role_members)
    worker = PodSpec(
        uid, 1, rank, size, "", (), milli, memory, ask.cpu_milli, ask.memory, spec.team, spec.document(),
        1 if spec.type is Kind.INFERENCE else 0, batch=spec.batch.size if spec.batch else 0,
    )  # fmt: skip
    return pods.build(worker, namespace=names.namespace(spec.team, site.prefix))


def _post(site: Site, pod: dict[str, Any]) -> tuple[str, Json]:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod


def _changed(pod: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The pod with one field set; None takes the field away. The parts of a path are field names and indices."""
    changed = copy.deepcopy(pod)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = changed
    for parent in parents:
        place = place[parent] if isinstance(parent, int) else place.setdefault(parent, {})
    if value is None:
        place.pop(last, None)
    elif last == "+":
        place.append(value)
    else:
        place[last] = value
    return changed


def _pods(site: Site) -> Iterator[Attempt]:
    """Pods with one thing wrong, by the account that may create pods."""
    for pod, changes in (
        (_pod(site, volumes=[{"scratch": "1Gi", "path": "/s"}], env={"A": "1"}), CHANGES),
        (_pod(site, resources={"cpu": 1}), NO_GPU_CHANGES),
    ):
        for path, value in changes:
            yield Attempt(f"{path}={value}", SCHEDULER, "POST", *_post(site, _changed(pod, path, value)))
    for field, key, text in LABELS_WRONG:
        pod = _pod(site)
        pod["metadata"][field] = {k: v for k, v in {**pod["metadata"][field], key: text}.items() if v is not None}
        yield Attempt(f"{field} {key}={text}", SCHEDULER, "POST", *_post(site, pod))
    for name, pod in _of_gangs(site):
        yield Attempt(name, SCHEDULER, "POST", *_post(site, pod))
    greedy = _pod(site, resources={"gpus": FENCED_GPUS})
    yield Attempt("more GPUs than the quota", SCHEDULER, "POST", *_post(site, greedy))
    # Root, at the level that allows it, still gains nothing.
    for path, value in (("allowPrivilegeEscalation", True), ("capabilities", {"drop": ["ALL"], "add": ["SETUID"]})):
        pod = _changed(_pod(site, team=ROOMY), f"spec.containers.0.securityContext.{path}", value)
        yield Attempt(f"at baseline: {path}={value}", SCHEDULER, "POST", *_post(site, pod))


def _shares(site: Site) -> Iterator[Attempt]:
    """What a share may use is what its annotations say, and it is told."""
    asked = {"gpu_share": {"guarantee": 0.3, "memory": "1Gi"}}

    def attempt(name: str, pod: dict[str, Any]) -> Attempt:
        return Attempt(f"a share: {name}", SCHEDULER, "POST", *_post(site, pod))

    for name, value in SHARE_VARIABLES_WRONG:
        pod = _pod(site, resources=asked)
        env = [one for one in pod["spec"]["containers"][0]["env"] if one["name"] != name]
        pod["spec"]["containers"][0]["env"] = [*env, {"name": name, **value}]
        yield attempt(f"{name}={value}", pod)
    for name in SHARE_VARIABLES_MISSING:
        pod = _pod(site, resources=asked)
        env = pod["spec"]["containers"][0]["env"]
        pod["spec"]["containers"][0]["env"] = [one for one in env if one["name"] != name]
        yield attempt(f"{name}=", pod)
    for key in SHARE_ANNOTATIONS_MISSING:
        pod = _pod(site, resources=asked)
        del pod["metadata"]["annotations"][key]
        yield attempt(f"annotations {key}", pod)


def _placeholders(site: Site) -> Iterator[Attempt]:
    """In the namespace of placeholders there are placeholders only, and only the scheduler's."""
    where, image = f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods", site.placeholder_image
    for path, value in PLACEHOLDER_WRONG:
        pod = _changed(placeholder(NODE, 0, image), path, value)
        yield Attempt(f"a placeholder with {path}={value}", SCHEDULER, "POST", where, pod)
    held = f"{where}/{names.placeholder(NODE, HELD_GPU)}"
    claim: Json = {"metadata": {"annotations": {names.CLAIMANTS: ""}}}
    image_later: Json = {"spec": {"containers": [{"name": "hold", "image": "registry.example/evil:1"}]}}
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}  # so that PodSecurity allows it
    debug = {"name": "debug", "image": f"{REGISTRY}sh:1", "securityContext": confined}
    debugger: Json = {"spec": {"ephemeralContainers": [debug]}}
    strategic = "application/strategic-merge-patch+json"
    for account in (ADMIN, OWNER):
        yield Attempt(f"a placeholder by the {account}", account, "POST", where, placeholder(NODE, 0, image))
        yield Attempt(f"a claim by the {account}", account, "PATCH", held, claim, MERGE)
        yield Attempt(f"a placeholder's image by the {account}", account, "PATCH", held, image_later, strategic)
        yield Attempt(
            f"a placeholder's debugger by the {account}", account, "PATCH", f"{held}/ephemeralcontainers", debugger,
            strategic,
        )  # fmt: skip
    forged: Json = {"metadata": {"labels": {names.PLACEHOLDER: "true"}}}
    yield Attempt("a namespace for placeholders", ADMIN, "PATCH", f"/api/v1/namespaces/{PLAIN}", forged, MERGE)


def _of_gangs(site: Site) -> Iterator[tuple[str, dict[str, Any]]]:
    """What says which role a member has, and where the others are, is bound to the pod and its gang."""
    for labels in ROLE_LABELS_WRONG:
        pod = _pod(site, **_WITH_ROLES)
        given = {**pod["metadata"]["labels"], **labels}
        pod["metadata"]["labels"] = {key: text for key, text in given.items() if text is not None}
        yield f"in a gang: labels {labels}", pod
    own, other = f"{UID}-1-0.w-{UID}", f"{EXISTING}-1-0.w-{EXISTING}"
    for name, value in role_variables_wrong(own, other):
        pod = _pod(site, **_WITH_ROLES)
        env = [one for one in pod["spec"]["containers"][0]["env"] if one["name"] != name]
        pod["spec"]["containers"][0]["env"] = [*env, {"name": name, **value}]
        yield f"in a gang: {name}={value}", pod
    for name, text in (("WEFT_ROLE", "worker"), ("WEFT_ROLE_INDEX", "0"), ("WEFT_HOSTS_WORKER", own)):
        pod = _changed(_pod(site), "spec.containers.0.env.+", {"name": name, "value": text})
        yield f"without roles: {name}={text}", pod
    for value in BATCHES_WRONG:
        pod = _changed(_pod(site), "spec.containers.0.env.+", {"name": BATCH, **value})
        yield f"without roles: {BATCH}={value}", pod
    notebook = _pod(site, type="notebook")
    notebook["spec"]["containers"][0]["env"] = [{"name": BATCH, "value": "8"}]
    yield f"without roles: {BATCH}=8 of a notebook", notebook
    notebook = _pod(site, type="notebook")
    notebook["metadata"]["labels"] |= {names.ROLE: "worker", names.ROLE_INDEX: "0"}
    yield "a notebook with a role", notebook


def _of_others(site: Site) -> Iterator[Attempt]:
    """The team's pods made or changed by an account other than the scheduler's, with every right there is."""
    where = f"/api/v1/namespaces/{names.namespace(TEAM, site.prefix)}/pods"
    pod = f"{where}/{EXISTING}-1-0"
    changes: tuple[tuple[str, Json], ...] = (
        ("another rank", {"metadata": {"labels": {names.RANK: "7"}}}),
        ("another workload", {"metadata": {"labels": {names.WORKLOAD: UID}}}),
        ("no attempt", {"metadata": {"labels": {names.ATTEMPT: None}}}),
        ("GPUs by hand", {"metadata": {"annotations": {names.GPUS: "0,1,2,3,4,5,6,7"}}}),
        ("less of a GPU by hand", {"metadata": {"annotations": {names.MILLI: "1"}}}),
        ("a deadline", {"spec": {"activeDeadlineSeconds": 1}}),
    )
    for account in (ADMIN, OWNER):
        yield Attempt(f"a pod by the {account}", account, "POST", where, _pod(site))
        for name, change in changes:
            yield Attempt(f"{name} by the {account}", account, "PATCH", pod, change, MERGE)
    finalizer: Json = {"metadata": {"finalizers": ["example.com/stay"]}}
    yield Attempt("a finalizer later", OWNER, "PATCH", pod, finalizer, MERGE)
    yield Attempt("a foreign label later", OWNER, "PATCH", pod, {"metadata": {"labels": {"x.io/a": "1"}}}, MERGE)


def _parts(site: Site) -> Iterator[Attempt]:
    """What decides where a pod runs and what runs in it, beside the pod itself."""
    pod = f"/api/v1/namespaces/{names.namespace(TEAM, site.prefix)}/pods/{EXISTING}-1-0"

    def binding(**meta: Any) -> Json:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        meta = {"name": f"{EXISTING}-1-0", **meta}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}

    debugger: Json = {"spec": {"ephemeralContainers": [{"name": "debug", "image": f"{REGISTRY}sh:1"}]}}
    larger: Json = {
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]}
    }
    strategic = "application/strategic-merge-patch+json"
    for account in (ADMIN, OWNER):
        yield Attempt(f"a binding by the {account}", account, "POST", f"{pod}/binding", binding())
        yield Attempt(
            f"a debugger by the {account}", account, "PATCH", f"{pod}/ephemeralcontainers", debugger, strategic
        )
        yield Attempt(f"a resize by the {account}", account, "PATCH", f"{pod}/resize", larger, strategic)
    for field in ("labels", "annotations"):
        for key in (names.WORKLOAD, "example.com/x"):
            body = binding(**{field: {key: "1"}})
            yield Attempt(f"a binding with {field} {key}", SCHEDULER, "POST", f"{pod}/binding", body)


def _elsewhere(site: Site) -> Iterator[Attempt]:
    """Pods of others that pass for ours, and a Job that brings its author along into a namespace not adopted yet."""
    plain: Json = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/app:1"}]}
    job = obj("batch/v1", "Job", "forged", PLAIN, spec={"suspend": True, "template": {"spec": plain}})
    job["metadata"] = {"name": "forged", "namespace": PLAIN, "annotations": {AUTHOR: "ada"}}
    yield Attempt("an author elsewhere", ADMIN, "POST", f"/apis/batch/v1/namespaces/{PLAIN}/jobs", job)
    where = f"/api/v1/namespaces/{PLAIN}/pods"
    forged = (("labels", names.WORKLOAD), ("labels", names.TEAM), ("labels", names.RANK), ("annotations", names.GPUS))
    for field, key in forged:
        pod = _pod(site)
        pod["metadata"] = {"name": "forged", "namespace": PLAIN, field: {key: "1"}}
        yield Attempt(f"{field} {key} elsewhere", ADMIN, "POST", where, pod)
        change: Json = {"metadata": {field: {key: "1"}}}
        yield Attempt(f"{field} {key} elsewhere, later", ADMIN, "PATCH", f"{where}/bystander", change, MERGE)


def _objects(site: Site) -> Iterator[Attempt]:
    """Services that open the team to the outside, and namespaces that are not what they say."""
    namespace = names.namespace(TEAM, site.prefix)
    where = f"/api/v1/namespaces/{namespace}/services"
    port = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
    specs: dict[str, Json] = {
        "NodePort": {**port, "type": "NodePort"},
        "LoadBalancer": {**port, "type": "LoadBalancer"},
        "ExternalName": {"type": "ExternalName", "externalName": "metadata.internal"},
        "externalIPs": {**port, "externalIPs": ["8.8.8.8"]},
    }
    for name, spec in specs.items():
        for account in (SCHEDULER, OWNER):
            yield Attempt(
                f"{name} by the {account}", account, "POST", where, obj("v1", "Service", "out", namespace, spec=spec)
            )
    labelled = obj("v1", "Service", "ours", namespace, spec=port, labels={names.WORKLOAD: UID})
    yield Attempt("a Service that passes for ours", OWNER, "POST", where, labelled)
    level = "pod-security.kubernetes.io/enforce"
    for change in ({level: "privileged"}, {level: None}, {names.TEAM: None}, {names.TEAM: ROOMY}):
        body: Json = {"metadata": {"labels": change}}
        yield Attempt(f"namespace {change}", OWNER, "PATCH", f"/api/v1/namespaces/{namespace}", body, MERGE)
    stolen: Json = {"metadata": {"labels": {names.TEAM: TEAM}}}
    yield Attempt("a second namespace of a team", ADMIN, "PATCH", f"/api/v1/namespaces/{PLAIN}", stolen, MERGE)
    new = obj("v1", "Namespace", f"{site.prefix}fake", labels={names.TEAM: "fake"})
    yield Attempt("a namespace of a team by its owner", OWNER, "POST", "/api/v1/namespaces", new)


def _accounts(site: Site) -> Iterator[Attempt]:
    """Our own accounts beyond their duty."""
    for name, change in (
        ("labels", {"metadata": {"labels": {"a": "b"}}}),
        ("annotations", {"metadata": {"annotations": {"a": "b"}}}),
        ("taints", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
    ):
        yield Attempt(f"a node's {name}", SCHEDULER, "PATCH", f"/api/v1/nodes/{NODE}", change, MERGE)  # type: ignore[arg-type]
    quota = obj("v1", "ResourceQuota", "none", PLAIN, spec={"hard": {"pods": "0"}})
    network = obj("networking.k8s.io/v1", "NetworkPolicy", "none", PLAIN, spec={"podSelector": {}})
    account = obj("v1", "ServiceAccount", "more", PLAIN)
    for kind, path, body in (
        ("ResourceQuota", f"/api/v1/namespaces/{PLAIN}/resourcequotas", quota),
        ("NetworkPolicy", f"/apis/networking.k8s.io/v1/namespaces/{PLAIN}/networkpolicies", network),
        ("ServiceAccount", f"/api/v1/namespaces/{PLAIN}/serviceaccounts", account),
        ("Namespace", "/api/v1/namespaces", obj("v1", "Namespace", "other")),
        ("Namespace of no team", "/api/v1/namespaces", obj("v1", "Namespace", f"{site.prefix}none")),
    ):
        yield Attempt(f"{kind} elsewhere by the provisioner", PROVISIONER, "POST", path, body)
