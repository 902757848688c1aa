"""What holds shares of GPUs to their parts on each node that takes them (docs/shared-gpus.md#a-back-end-of-our-own).

It serves the kubelet as a device plugin, so it has the node's folders for that, and sees the node's processes. Hence a
namespace of its own, at PodSecurity's level `privileged`, in which no other account of ours has any right. Of
Kubernetes it may ask one thing: which pods there are.
"""

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.nodes import SHARES
from controlplane.manifests.site import ENFORCER, Json, Site, obj

RBAC = "rbac.authorization.k8s.io"
NAMESPACE = "gpus-of-weft"
PRIVILEGED = "privileged"
PORT = 9465  # of its counters
NAME = "app.kubernetes.io/name"
SCRAPER = "weft.dev/reaches-teams"  # of the namespaces whose pods may read them: gateways and Prometheus
BUILT = "/opt/weft/lib/enforcer/."  # in the image
LIBRARY = "/run/weft/enforcer-library"
# The node's folders, each at the same path in the container: shares, the library, the kubelet's two sockets.
FOLDERS = {
    "shares": "/run/weft/enforcer",
    "library": LIBRARY,
    "plugins": "/var/lib/kubelet/device-plugins",
    "pods": "/var/lib/kubelet/pod-resources",
    "tools": "/opt/weft/tools",
}
# Of the node's driver what cuda-checkpoint loads: the container runtime brings it to who says so.
DRIVER = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def enforcer(site: Site) -> list[Json]:
    """All of it; nothing without an image to run."""
    if not site.enforcer_image:
        return []
    return [
        *rights(),
        obj("apps/v1", "DaemonSet", ENFORCER, NAMESPACE, spec=_daemons(site)),
        obj("networking.k8s.io/v1", "NetworkPolicy", ENFORCER, NAMESPACE, spec=_network()),
    ]


def rights() -> list[Json]:
    """Its namespace, and what it may do."""
    level = {f"pod-security.kubernetes.io/{mode}": PRIVILEGED for mode in ("enforce", "audit", "warn")}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ENFORCER}
    subjects = [{"kind": "ServiceAccount", "name": ENFORCER, "namespace": NAMESPACE}]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    return [
        obj("v1", "Namespace", NAMESPACE, labels=level),
        obj("v1", "ServiceAccount", ENFORCER, NAMESPACE),
        obj(f"{RBAC}/v1", "ClusterRole", ENFORCER, rules=rules),
        obj(f"{RBAC}/v1", "ClusterRoleBinding", ENFORCER, subjects=subjects, roleRef=reference),
    ]


def _daemons(site: Site) -> Json:
    labels = {NAME: ENFORCER}
    arguments = ["--node=$(NODE)", f"--metrics-port={PORT}", "--metrics-address=$(ADDRESS)"]
    arguments += [f"--tools={FOLDERS['tools']}"]
    from_pod = {"NODE": "spec.nodeName", "ADDRESS": "status.podIP"}
    closed: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    common: Json = {"image": site.enforcer_image, "securityContext": closed}
    copy = {"name": "library", "command": ["cp", "-a", BUILT, LIBRARY], "volumeMounts": [_mount("library")]}
    main: Json = {
        "name": "main",
        "command": ["python", "-m", "controlplane.enforcer", *arguments],
        "env": [
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in from_pod.items()),
            *({"name": name, "value": value} for name, value in DRIVER.items()),
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [_mount(name) for name in FOLDERS],
    }
    pod: Json = {
        "serviceAccountName": ENFORCER,
        "hostPID": True,
        "nodeSelector": {SHARES: "true"},
        "tolerations": [{"key": key, "operator": "Exists"} for key in names.TOLERATED_TAINTS],
        "priorityClassName": "system-node-critical",
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{**common, **copy}],
        "containers": [{**common, **main}],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in FOLDERS.items()
        ],
    }
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _mount(name: str) -> Json:
    return {"name": name, "mountPath": FOLDERS[name], **({"readOnly": True} if name == "tools" else {})}


def _network() -> Json:
    there = {"namespaceSelector": {"matchLabels": {SCRAPER: "true"}}}
    ports = [{"protocol": "TCP", "port": PORT}]
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [there], "ports": ports}]}
