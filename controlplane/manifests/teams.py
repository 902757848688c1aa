"""A team's namespace and the fences around it."""

from controlplane.cluster.kubernetes import names
from controlplane.manifests import activator, notebooks
from controlplane.manifests.site import (
    ACTIVATOR_SWITCH,
    ADMISSION,
    PRIVATE_V4,
    PRIVATE_V6,
    READER,
    SCHEDULER,
    Json,
    Site,
    TeamSpace,
    obj,
)

GATEWAY = "weft.dev/reaches-teams"  # on namespaces whose pods may reach notebooks and services: gateways, Prometheus
DNS_PORT = 53


def team(site: Site, space: TeamSpace) -> list[Json]:
    """Everything in and about the namespace of one team, in the order in which it can be made."""
    namespace = names.namespace(space.name, site.prefix)
    accounts = (SCHEDULER, READER, *((ADMISSION,) if site.has_admission else ()))
    accounts += (ACTIVATOR_SWITCH,) if site.activator_image else ()
    return [
        _namespace(namespace, space),
        obj("v1", "ServiceAccount", "default", namespace, automountServiceAccountToken=False),
        _quota(site, namespace, space),
        *_networks(site, namespace),
        *(_bound(site, namespace, account) for account in accounts),
    ]


def _namespace(name: str, space: TeamSpace) -> Json:
    level = {f"pod-security.kubernetes.io/{mode}": space.level for mode in ("enforce", "audit", "warn")}
    return obj("v1", "Namespace", name, labels={names.TEAM: space.name, **level})


def _quota(site: Site, namespace: str, space: TeamSpace) -> Json:
    """A second fence, should ours fail: nothing that opens the cluster to the outside, not endlessly many pods.

    GPUs only where asked for; docs/kubernetes.md says why: Kubernetes counts a pod from its creation, bound or not, and
    what the pods of waiting workloads ask for has no bound.
    """
    hard: dict[str, object] = {
        "count/pods": str(site.max_pods),
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }
    if site.fence_gpus and space.gpus is not None:
        hard[f"requests.{names.GPU_RESOURCE}"] = str(space.gpus)
    return obj("v1", "ResourceQuota", "weft", namespace, spec={"hard": hard})


def _networks(site: Site, namespace: str) -> list[Json]:
    """Nothing gets in or out, but: the team's pods among themselves, gateways, DNS, the internet, what is named."""
    anywhere: Json = {"podSelector": {}}
    dns = {"namespaceSelector": _labelled("kubernetes.io/metadata.name", "kube-system"), **_pods("k8s-app", "kube-dns")}
    gateways = {"namespaceSelector": _labelled(GATEWAY, "true")}
    internet = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [*PRIVATE_V4, *(c for c in site.no_egress if ":" not in c)]}},
        {"ipBlock": {"cidr": "::/0", "except": [*PRIVATE_V6, *(c for c in site.no_egress if ":" in c)]}},
    ]
    named = [{"ipBlock": {"cidr": cidr}} for cidr in site.egress]
    ports = [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")]
    return [
        _network("deny-all", namespace, {"policyTypes": ["Ingress", "Egress"]}),
        _network("team", namespace, {"ingress": [{"from": [anywhere]}], "egress": [{"to": [anywhere]}]}),
        _network("gateways", namespace, {"ingress": [{"from": [gateways]}]}),
        _network("dns", namespace, {"egress": [{"to": [dns], "ports": ports}]}),
        _network("internet", namespace, {"egress": [{"to": [*internet, *named]}]}),
        *([_queue(site, namespace)] if site.activator_image else []),
        *([notebooks.entrance(site, namespace)] if site.notebook_proxy_image else []),
    ]


def _queue(site: Site, namespace: str) -> Json:
    """The team's pods reach the activators, whose traffic is let in again; whom they let in, they decide by address."""
    them = [activator.pods_of(site)]
    spec: Json = {"ingress": [{"from": them}], "egress": [{"to": them, "ports": activator.ports()}]}
    return _network("activator", namespace, spec)


def _network(name: str, namespace: str, spec: Json) -> Json:
    types = [kind for key, kind in (("ingress", "Ingress"), ("egress", "Egress")) if key in spec]
    full = {"podSelector": {}, "policyTypes": types, **spec}
    return obj("networking.k8s.io/v1", "NetworkPolicy", f"weft-{name}", namespace, spec=full)


def _bound(site: Site, namespace: str, account: str) -> Json:
    """What an account may do in team namespaces, it may do in this one."""
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{account}-team"}
    return obj("rbac.authorization.k8s.io/v1", "RoleBinding", account, namespace, subjects=subjects, roleRef=role)


def _labelled(key: str, value: str) -> Json:
    return {"matchLabels": {key: value}}


def _pods(key: str, value: str) -> Json:
    return {"podSelector": _labelled(key, value)}
