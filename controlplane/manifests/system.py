"""The control plane's own namespace, its service accounts and what each of them may do.

No account of ours may read secrets, run commands in pods, give rights to others (the provisioner may give the two
team roles, no more), or change what a namespace enforces (only the provisioner, which runs no loop).
"""

from controlplane.cluster.kubernetes import names
from controlplane.manifests.site import PROVISIONER, READER, RESTRICTED, SCHEDULER, Json, Site, obj

RBAC = "rbac.authorization.k8s.io"
WEB = "weft-web"  # pages and API: a database and nothing else


def system(site: Site) -> list[Json]:
    """Namespace, accounts, roles and their bindings."""
    level = {f"pod-security.kubernetes.io/{mode}": RESTRICTED for mode in ("enforce", "audit", "warn")}
    objects = [
        obj("v1", "Namespace", site.namespace, labels=level),
        obj("v1", "ServiceAccount", WEB, site.namespace, automountServiceAccountToken=False),
    ]
    objects += [obj("v1", "ServiceAccount", name, site.namespace) for name in (SCHEDULER, READER, PROVISIONER)]
    for account, rules in ((SCHEDULER, _scheduler_in_cluster()), (READER, _reader_in_cluster())):
        objects += [_role(f"{account}-cluster", rules), _bound(site, account, f"{account}-cluster")]
    objects += [_role(f"{SCHEDULER}-team", _scheduler_in_team()), _role(f"{READER}-team", _reader_in_team())]
    objects += _placeholders(site, level)
    return [*objects, _role(PROVISIONER, _provisioner()), _bound(site, PROVISIONER, PROVISIONER)]


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


def _scheduler_in_cluster() -> list[Json]:
    """Reads what there is; the one thing it writes outside of team namespaces is a node's cordon (see policy.py)."""
    return [_rule("", ["pods"], ["list", "watch"]), _rule("", ["nodes"], ["list", "watch", "patch"])]


def _scheduler_in_team() -> list[Json]:
    return [
        _rule("", ["pods"], ["get", "create", "delete"]),
        _rule("", ["pods/binding"], ["create"]),
        _rule("", ["pods/resize"], ["patch"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["services"], ["get", "create", "patch"]),
        _rule("", ["events"], ["get", "create", "patch"]),
    ]


def _reader_in_cluster() -> list[Json]:
    """For a process that only shows logs: it finds a workload's pods by their label."""
    return [_rule("", ["pods"], ["list"])]


def _reader_in_team() -> list[Json]:
    return [_rule("", ["pods/log"], ["get"])]


def _provisioner() -> list[Json]:
    """Makes team namespaces; `bind` names the only roles that it may hand out."""
    write = ["get", "create", "patch"]
    return [
        _rule("", ["namespaces"], ["get", "list", "create", "patch"]),
        _rule("", ["serviceaccounts", "resourcequotas"], write),
        _rule("networking.k8s.io", ["networkpolicies"], write),
        _rule(RBAC, ["rolebindings"], write),
        {**_rule(RBAC, ["clusterroles"], ["bind"]), "resourceNames": [f"{SCHEDULER}-team", f"{READER}-team"]},
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(name: str, rules: list[Json]) -> Json:
    return obj(f"{RBAC}/v1", "ClusterRole", name, rules=rules)


def _bound(site: Site, account: str, role: str) -> Json:
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return obj(f"{RBAC}/v1", "ClusterRoleBinding", role, subjects=subjects, roleRef=reference)
