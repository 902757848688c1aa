"""The control plane's own namespace, its service accounts and what each of them may do.

No account of ours may read secrets, run commands in pods, give rights to others (the provisioner may give the two
team roles, no more), or change what a namespace enforces (only the provisioner, which runs no loop).
"""

from controlplane.adopted.kinds import CRON_JOBS, KINDS
from controlplane.cluster.kubernetes import names
from controlplane.kubeobjects import crd
from controlplane.kubeobjects.names import GROUP, TEAMS, WORKLOADS
from controlplane.manifests.activator import activator
from controlplane.manifests.enforcer import enforcer
from controlplane.manifests.notebooks import notebooks
from controlplane.manifests.site import (
    ACTIVATOR_SWITCH,
    ADMISSION,
    PROVISIONER,
    READER,
    RESTRICTED,
    SCHEDULER,
    Json,
    Site,
    obj,
)

RBAC = "rbac.authorization.k8s.io"
WEB = "weft-web"  # pages and API: a database and nothing else


def system(site: Site) -> list[Json]:
    """Namespace, accounts, roles and their bindings."""
    level = {f"pod-security.kubernetes.io/{mode}": RESTRICTED for mode in ("enforce", "audit", "warn")}
    objects = [
        obj("v1", "Namespace", site.namespace, labels=level),
        obj("v1", "ServiceAccount", WEB, site.namespace, automountServiceAccountToken=False),
    ]
    accounts = (SCHEDULER, READER, PROVISIONER, *((ADMISSION,) if site.has_admission else ()))
    objects += [obj("v1", "ServiceAccount", name, site.namespace) for name in accounts]
    for account, rules in ((SCHEDULER, _scheduler_in_cluster(site)), (READER, _reader_in_cluster())):
        objects += [_role(f"{account}-cluster", rules), _bound(site, account, f"{account}-cluster")]
    objects += [_role(f"{SCHEDULER}-team", _scheduler_in_team(site)), _role(f"{READER}-team", _reader_in_team())]
    if site.has_admission:
        above = [("apps", "replicasets"), (CRON_JOBS[0], CRON_JOBS[2])]
        objects += [_role(f"{ADMISSION}-team", _owners(["get"], more=above)), _service(site)]
    objects += [*_people(), *_placeholders(site, level), *activator(site), *notebooks(site), *enforcer(site)]
    provisioner = [_role(PROVISIONER, _provisioner(site)), _bound(site, PROVISIONER, PROVISIONER)]
    return [*crd.definitions(), *objects, *provisioner]


def _placeholders(site: Site, level: dict[str, str]) -> list[Json]:
    """The namespace of the pods that hold devices for shares: nothing gets in or out, and one account makes pods."""
    namespace, role = names.PLACEHOLDER_NAMESPACE, f"{SCHEDULER}-shares"
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    subjects = [{"kind": "ServiceAccount", "name": SCHEDULER, "namespace": site.namespace}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return [
        obj("v1", "Namespace", namespace, labels={names.PLACEHOLDER: "true", **level}),
        obj("v1", "ServiceAccount", "default", namespace, automountServiceAccountToken=False),
        obj("networking.k8s.io/v1", "NetworkPolicy", "weft-deny-all", namespace, spec=closed),
        _role(role, [_rule("", ["pods"], ["get", "create", "patch", "delete"])]),
        obj(f"{RBAC}/v1", "RoleBinding", SCHEDULER, namespace, subjects=subjects, roleRef=reference),
    ]


def _people() -> list[Json]:
    """What Kubernetes' own roles `view`, `edit` and `admin` say of workloads, in the namespaces they are given in."""
    verbs = ["get", "list", "watch"]
    return [
        _aggregated(f"{WORKLOADS}-view", ["view"], [_rule(GROUP, [WORKLOADS], verbs)]),
        _aggregated(
            f"{WORKLOADS}-edit",
            ["edit", "admin"],
            [_rule(GROUP, [WORKLOADS], [*verbs, "create", "update", "patch", "delete"])],
        ),
    ]


def _scheduler_in_cluster(site: Site) -> list[Json]:
    """Reads what there is; outside of team namespaces it writes a node's cordon (see policy.py), and status of ours."""
    policy = _rule("admissionregistration.k8s.io", ["validatingadmissionpolicybindings"], ["get"])
    rules = [
        _rule("", ["pods"], ["list", "watch"]),
        _rule("", ["nodes"], ["list", "watch", "patch"]),
        _rule(GROUP, [WORKLOADS, TEAMS], ["list", "watch"]),
        _rule(GROUP, [f"{WORKLOADS}/status", f"{TEAMS}/status"], ["patch"]),
        {**policy, "resourceNames": ["weft-objects"]},  # whether authors are who they are said to be
    ]
    if not site.has_admission:
        return rules
    autoscalers = [_rule("autoscaling", ["horizontalpodautoscalers"], ["list"])] if site.has_external_metrics else []
    return [*rules, _rule("", ["namespaces"], ["list"]), *_owners(["list"]), *autoscalers]


def _scheduler_in_team(site: Site) -> list[Json]:
    """With the admission server it takes the gates off pods that controllers make, and suspends what makes them."""
    pods = ["get", "create", "patch", "delete"]  # patch: which replicas get requests
    suspended = [(kind.group, kind.plural) for kind in KINDS if kind.suspend]
    return [
        _rule("", ["pods"], pods),
        *([_rule(group, [plural], ["patch"]) for group, plural in suspended] if site.has_admission else []),
        _rule("", ["pods/binding"], ["create"]),
        _rule("", ["pods/resize"], ["patch"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["services"], ["get", "create", "patch"]),
        _rule("policy", ["poddisruptionbudgets"], ["create", "patch"]),
        *(
            [_rule("monitoring.coreos.com", ["servicemonitors"], ["get", "create", "patch"])]
            if site.has_monitors
            else []
        ),
        *(
            [_rule("networking.istio.io", ["virtualservices", "destinationrules"], ["create", "patch", "delete"])]
            if site.has_istio
            else []
        ),
        *([_rule("resource.k8s.io", ["resourceclaims"], ["get", "create"])] if site.has_dra else []),
        _rule("", ["events"], ["get", "create", "patch"]),
        *([*_autoscalers(), *_deployments()] if site.has_admission and site.has_external_metrics else []),
    ]


def _autoscalers() -> list[Json]:
    """Of Deployments that ask for Kubernetes' own scaling."""
    return [_rule("autoscaling", ["horizontalpodautoscalers"], ["get", "create", "patch", "delete"])]


def _deployments() -> list[Json]:
    """Of services that Kubernetes' own autoscaler scales. Their number of replicas is never written."""
    return [_rule("apps", ["deployments"], ["get", "create", "patch", "delete"])]


def _reader_in_cluster() -> list[Json]:
    """For a process that only shows logs: it finds a workload's pods by their label."""
    return [_rule("", ["pods"], ["list"])]


def _reader_in_team() -> list[Json]:
    return [_rule("", ["pods/log"], ["get"])]


def _owners(verbs: list[str], more: list[tuple[str, str]] | None = None) -> list[Json]:
    """Objects that can be queued."""
    return [_rule(group, [plural], verbs) for group, plural in [*((k.group, k.plural) for k in KINDS), *(more or [])]]


def _service(site: Site) -> Json:
    """Where the API server finds the admission server."""
    ports = [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]
    selector = {"app.kubernetes.io/name": ADMISSION}
    return obj("v1", "Service", ADMISSION, site.namespace, spec={"ports": ports, "selector": selector})


def _provisioner(site: Site) -> list[Json]:
    """Makes team namespaces; `bind` names the only roles that it may hand out."""
    write = ["get", "create", "patch"]
    roles = [f"{SCHEDULER}-team", f"{READER}-team", *([f"{ADMISSION}-team"] if site.has_admission else [])]
    roles += [f"{ACTIVATOR_SWITCH}-team"] if site.activator_image else []
    return [
        _rule("", ["namespaces"], write),
        _rule("", ["serviceaccounts", "resourcequotas"], write),
        _rule("networking.k8s.io", ["networkpolicies"], write),
        _rule(RBAC, ["rolebindings"], write),
        {**_rule(RBAC, ["clusterroles"], ["bind"]), "resourceNames": roles},
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _aggregated(name: str, into: list[str], rules: list[Json]) -> Json:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in into}
    return obj(f"{RBAC}/v1", "ClusterRole", f"weft-{name}", labels=labels, rules=rules)


def _role(name: str, rules: list[Json]) -> Json:
    return obj(f"{RBAC}/v1", "ClusterRole", name, rules=rules)


def _bound(site: Site, account: str, role: str) -> Json:
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return obj(f"{RBAC}/v1", "ClusterRoleBinding", role, subjects=subjects, roleRef=reference)
