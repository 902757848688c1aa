"""The notebooks' proxy (docs/notebooks.md#the-proxy): its account, its Deployment, and what may reach and be reached.

It takes what strangers send, so it may ask Kubernetes nothing and has no token: notebooks are found by their Services'
names. What it needs is a database, and the key by which tickets are sealed: files of a Secret that the platform makes.
"""

from controlplane.cluster.kubernetes import names
from controlplane.domain.addresses import NOTEBOOK_PORT
from controlplane.manifests.site import NOTEBOOKS, Json, Site, obj
from scheduler.model.workload import Kind

PORT = 8010
REPLICAS = 2
USER = 10_001  # of the image
NAME = "app.kubernetes.io/name"
SECRETS = "/run/secrets/weft"
GATEWAYS = "weft.dev/reaches-teams"
DNS_PORT = 53


def notebooks(site: Site) -> list[Json]:
    """All of it; nothing without an image to run."""
    if not site.notebook_proxy_image:
        return []
    ports = [{"name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP"}]
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {NAME: NOTEBOOKS}}}
    return [
        obj("v1", "ServiceAccount", NOTEBOOKS, site.namespace, automountServiceAccountToken=False),
        obj("apps/v1", "Deployment", NOTEBOOKS, site.namespace, spec=_deployment(site)),
        obj("v1", "Service", NOTEBOOKS, site.namespace, spec={"ports": ports, "selector": {NAME: NOTEBOOKS}}),
        obj("policy/v1", "PodDisruptionBudget", NOTEBOOKS, site.namespace, spec=budget),
        obj("networking.k8s.io/v1", "NetworkPolicy", NOTEBOOKS, site.namespace, spec=_network(site)),
    ]


def entrance(site: Site, namespace: str) -> Json:
    """In a team's namespace: the proxy reaches the port of its notebooks, and no other pod."""
    there = {"kubernetes.io/metadata.name": site.namespace}
    proxy = {"namespaceSelector": {"matchLabels": there}, "podSelector": {"matchLabels": {NAME: NOTEBOOKS}}}
    spec: Json = {
        "podSelector": {"matchLabels": {names.KIND: Kind.NOTEBOOK.value}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [proxy], "ports": [_tcp(NOTEBOOK_PORT)]}],
    }
    return obj("networking.k8s.io/v1", "NetworkPolicy", "weft-notebooks", namespace, spec=spec)


def _deployment(site: Site) -> Json:
    labels = {NAME: NOTEBOOKS}
    probe = {"httpGet": {"path": "/healthz", "port": PORT}}
    variables = {
        "WEFT_URL": site.url,
        "WEFT_NOTEBOOK_URL": site.notebook_url,
        "WEFT_NAMESPACE_PREFIX": site.prefix,
        "DATABASE_URL_FILE": f"{SECRETS}/database_url",
        "SECRET_KEY_FILE": f"{SECRETS}/secret_key",
    }
    container: Json = {
        "name": "main",
        "image": site.notebook_proxy_image,
        "command": ["python", "-m", "controlplane.notebookproxy", "--services", "--host=0.0.0.0", f"--port={PORT}"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "readinessProbe": {**probe, "periodSeconds": 2, "failureThreshold": 2},
        "livenessProbe": {**probe, "periodSeconds": 10, "timeoutSeconds": 5},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "secrets", "mountPath": SECRETS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container alone
            {"name": "home", "mountPath": "/var/lib/weft"},
        ],
    }
    pod: Json = {
        "serviceAccountName": NOTEBOOKS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,  # it drains for up to 10
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "containers": [container],
        "volumes": [
            {"name": "secrets", "secret": {"secretName": NOTEBOOKS, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "home", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    template = {"metadata": {"labels": {**labels, "app.kubernetes.io/part-of": "weft"}}, "spec": pod}
    return {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}


def _network(site: Site) -> Json:
    """In: from gateways and the control plane. Out: to notebooks' port, the database and DNS, and nowhere else."""
    teams = {"namespaceSelector": {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]}}
    theirs = {**teams, "podSelector": {"matchLabels": {names.KIND: Kind.NOTEBOOK.value}}}
    gateways = {"namespaceSelector": {"matchLabels": {GATEWAYS: "true"}}}
    system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    dns = {**system, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    databases: list[Json] = [{"podSelector": {}}, *[_block(cidr) for cidr in site.database]]
    return {
        "podSelector": {"matchLabels": {NAME: NOTEBOOKS}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}, gateways], "ports": [_tcp(PORT)]}],
        "egress": [
            {"to": [theirs], "ports": [_tcp(NOTEBOOK_PORT)]},
            {"to": databases},
            {"to": [dns], "ports": [{"protocol": one, "port": DNS_PORT} for one in ("UDP", "TCP")]},
        ],
    }


def _block(cidr: str) -> Json:
    return {"ipBlock": {"cidr": cidr}}


def _tcp(port: int) -> Json:
    return {"protocol": "TCP", "port": port}
