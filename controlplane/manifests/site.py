"""What the manifests depend on: choices of the platform, and the teams there are."""

from dataclasses import dataclass

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.placeholders import IMAGE

Json = dict[str, object]

# Pods reach the internet, and of private networks only what is named: not the API server, not the nodes, not the
# metadata service of a cloud (169.254.169.254).
PRIVATE_V4 = ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
PRIVATE_V6 = ("::1/128", "fc00::/7", "fe80::/10")

SCHEDULER, READER, PROVISIONER = "weft-scheduler", "weft-reader", "weft-provisioner"
ADMISSION = "weft-admission"  # the account of the admission server, and its Service
METRICS = "weft-metrics"  # the Service of the external metrics server
ACTIVATOR, ACTIVATOR_SWITCH = "weft-activator", "weft-activator-switch"  # accounts and Deployments
NOTEBOOKS = "weft-notebooks"  # of the notebooks' proxy: account, Deployment, Service, and the Secret that it reads
ENFORCER = "weft-enforcer"  # of what holds shares to their parts on nodes: account and DaemonSet
RESTRICTED, BASELINE = "restricted", "baseline"
FIELD_MANAGER = "weft"


@dataclass(frozen=True, slots=True)
class Site:
    """The platform's choices. registries and extra_resources are prefixes; no registries: any image."""

    namespace: str = names.SYSTEM_NAMESPACE  # of the control plane
    prefix: str = "weft-"  # of team namespaces
    registries: tuple[str, ...] = ()
    extra_resources: tuple[str, ...] = ("rdma/",)
    egress: tuple[str, ...] = ()  # private networks that pods may reach, such as a file server's
    no_egress: tuple[str, ...] = ()  # public ones that they may not, such as a managed API server's address
    fence_gpus: bool = False  # see teams._quota
    placeholder_image: str = IMAGE  # of the pods that hold devices for shares
    max_pods: int = 20_000  # of one team, waiting ones too
    has_external_metrics: bool = False  # autoscalers of Kubernetes may ask us what a service's load is
    has_monitors: bool = False  # services get ServiceMonitors of the Prometheus operator
    has_istio: bool = False  # Istio splits the requests of services without our queue (docs/revisions.md)
    has_dra: bool = False  # shares may be parts of devices that a DRA driver offers (docs/shared-gpus.md)
    has_admission: bool = False  # the admission server runs: objects with the label weft.dev/queue are workloads
    admission_ca: str = ""  # what signed its certificate, base64 of PEM; empty: something else puts it in
    admission_url: str = ""  # where it is, if not behind its Service
    activator_image: str = ""  # Weft's own, for the queue in front of services; empty: there is none
    notebook_proxy_image: str = ""  # Weft's own, for the notebooks' proxy; empty: there is none
    enforcer_image: str = ""  # Weft's own, for what holds shares to their parts on nodes; empty: there is none
    url: str = ""  # where people reach Weft's pages, and
    notebook_url: str = ""  # the notebooks' proxy
    database: tuple[str, ...] = ()  # networks in which the proxy's database is, if it is not a pod beside it

    def user(self, account: str) -> str:
        """The name by which the API server knows one of our accounts."""
        return f"system:serviceaccount:{self.namespace}:{account}"


@dataclass(frozen=True, slots=True)
class TeamSpace:
    """A team as its namespace needs it. gpus is the most it may ever hold, None: no limit is set."""

    name: str
    level: str = RESTRICTED
    gpus: int | None = None


def obj(api_version: str, kind: str, name: str, namespace: str = "", **rest: object) -> Json:
    """One object; labels may be given, everything else is its top-level fields."""
    labels = rest.pop("labels", {})
    meta: Json = {"name": name, "labels": {"app.kubernetes.io/part-of": "weft", **labels}}  # type: ignore[dict-item]
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}
