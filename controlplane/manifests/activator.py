"""The activators and their switch (docs/activator.md): accounts, rights, Deployments, and what may reach them.

The activators handle what strangers send, and may only read. The switch writes, and sees no request. It may send the
traffic of a team's service through the activators or back, and nothing else: an admission policy holds it to that.
"""

from controlplane.cluster.kubernetes import names
from controlplane.manifests.site import ACTIVATOR, ACTIVATOR_SWITCH, Json, Site, obj

RBAC = "rbac.authorization.k8s.io"
FIRST_PORT, LAST_PORT, ADMIN_PORT = 20_000, 20_255, 8790
GATEWAYS = "weft.dev/reaches-teams"
REPLICAS = 2
USER = 10_001  # of the image
NAME = "app.kubernetes.io/name"


def activator(site: Site) -> list[Json]:
    """All of it; nothing without an image to run."""
    if not site.activator_image:
        return []
    reads = [_rule("", ["pods", "services"], ["list", "watch"])]
    looks = [*reads, _rule("discovery.k8s.io", ["endpointslices"], ["list"])]
    turns = [
        _rule("", ["services"], ["patch"]),
        _rule("discovery.k8s.io", ["endpointslices"], ["create", "patch", "delete"]),
    ]
    return [
        *(obj("v1", "ServiceAccount", name, site.namespace) for name in (ACTIVATOR, ACTIVATOR_SWITCH)),
        *(
            made
            for name, rules in ((ACTIVATOR, reads), (ACTIVATOR_SWITCH, looks))
            for made in (obj(f"{RBAC}/v1", "ClusterRole", f"{name}-cluster", rules=rules), _bound(site, name))
        ),
        obj(f"{RBAC}/v1", "ClusterRole", f"{ACTIVATOR_SWITCH}-team", rules=turns),
        _deployment(
            site, ACTIVATOR, REPLICAS,
            ["activator", "--cluster", "--host=0.0.0.0", "--admin-host=0.0.0.0", f"--ports={FIRST_PORT}-{LAST_PORT}"],
        ),
        _deployment(site, ACTIVATOR_SWITCH, 1, ["activator", "--switch", f"--ports={FIRST_PORT}-{LAST_PORT}"]),
        _service(site),
        _reachable(site),
    ]  # fmt: skip


def pods_of(site: Site) -> Json:
    """The activators' pods, as a NetworkPolicy names them."""
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    return {"namespaceSelector": namespace, "podSelector": {"matchLabels": {NAME: ACTIVATOR}}}


def ports() -> list[Json]:
    """Their ports for services."""
    return [{"protocol": "TCP", "port": FIRST_PORT, "endPort": LAST_PORT}]


def _deployment(site: Site, name: str, replicas: int, arguments: list[str]) -> Json:
    labels = {NAME: name}
    container: Json = {
        "name": "main",
        "image": site.activator_image,
        "command": ["python", "manage.py", *arguments],
        "env": [{"name": "WEFT_NAMESPACE_PREFIX", "value": site.prefix}],
        "resources": {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if name == ACTIVATOR:
        ready = {"httpGet": {"path": "/readyz", "port": ADMIN_PORT}, "periodSeconds": 1, "failureThreshold": 2}
        alive = {"httpGet": {"path": "/healthz", "port": ADMIN_PORT}, "periodSeconds": 10, "timeoutSeconds": 5}
        container |= {"ports": [{"name": "admin", "containerPort": ADMIN_PORT}], "readinessProbe": ready}
        container |= {"livenessProbe": alive}
    pod: Json = {
        "serviceAccountName": name,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 60,  # it settles for 3 s, and drains for up to 30
        "containers": [container],
    }
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": {**labels, "app.kubernetes.io/part-of": "weft"}}, "spec": pod},
    }
    if replicas == 1:
        spec["strategy"] = {"type": "Recreate"}  # two would contradict each other
    return obj("apps/v1", "Deployment", name, site.namespace, spec=spec)


def _service(site: Site) -> Json:
    """Where Prometheus and the loop that scales find each activator: without an address of its own."""
    spec = {"clusterIP": "None", "ports": [{"name": "admin", "port": ADMIN_PORT}], "selector": {NAME: ACTIVATOR}}
    return obj("v1", "Service", ACTIVATOR, site.namespace, spec=spec)


def _reachable(site: Site) -> Json:
    """Requests from pods of teams and from gateways; the admin port from the control plane and from Prometheus."""
    teams = {"namespaceSelector": {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]}}
    gateways = {"namespaceSelector": {"matchLabels": {GATEWAYS: "true"}}}
    ingress = [
        {"from": [teams, gateways], "ports": ports()},
        {"from": [{"podSelector": {}}, gateways], "ports": [{"protocol": "TCP", "port": ADMIN_PORT}]},
    ]
    spec = {"podSelector": {"matchLabels": {NAME: ACTIVATOR}}, "policyTypes": ["Ingress"], "ingress": ingress}
    return obj("networking.k8s.io/v1", "NetworkPolicy", ACTIVATOR, site.namespace, spec=spec)


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _bound(site: Site, account: str) -> Json:
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{account}-cluster"}
    return obj(f"{RBAC}/v1", "ClusterRoleBinding", f"{account}-cluster", subjects=subjects, roleRef=reference)
