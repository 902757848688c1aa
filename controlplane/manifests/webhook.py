"""What has the API server ask the admission server: only in the namespaces of teams, and there nothing without it."""

from typing import Any

from controlplane.adopted.kinds import CRON_JOBS, KINDS
from controlplane.cluster.kubernetes import names
from controlplane.kubeobjects.names import GROUP, TEAMS, VERSION, WORKLOADS
from controlplane.manifests.site import ADMISSION, SCHEDULER, Json, Site, obj

TIMEOUT_SECONDS = 5  # then what is made in a team's namespace is refused; elsewhere nothing waits for us
PATH = "/review"


def webhook(site: Site) -> list[Json]:
    """The registration; nothing without the admission server."""
    if not site.has_admission:
        return []
    service: Json = {"namespace": site.namespace, "name": ADMISSION, "path": PATH, "port": 443}
    client: Json = {"url": f"{site.admission_url}{PATH}"} if site.admission_url else {"service": service}
    if site.admission_ca:
        client["caBundle"] = site.admission_ca
    rules = [
        _rule("", "v1", "pods", ["CREATE"]),
        *(_rule(kind.group, kind.version, kind.plural, ["CREATE", "UPDATE"]) for kind in KINDS),
    ]
    writes = ["CREATE", "UPDATE"]
    rules += [_rule(*CRON_JOBS, writes), _rule(GROUP, VERSION, WORKLOADS, writes)]
    teams = {**_hook("teams.weft.dev", client, site), "rules": [_rule(GROUP, VERSION, TEAMS, [*writes, "DELETE"])]}
    teams["rules"][0]["scope"] = "Cluster"
    # Deleting waits for no server of ours: else a namespace, or a cluster that leaves Weft, could not be cleaned up.
    ends = {**_hook("end.weft.dev", client, site), "rules": [_rule(GROUP, VERSION, WORKLOADS, ["DELETE"])]}
    hooks = [{**_hook("queue.weft.dev", client, site), "rules": rules}, teams, {**ends, "failurePolicy": "Ignore"}]
    return [obj("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "weft", webhooks=hooks)]


def _hook(name: str, client: Json, site: Site) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": client,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": TIMEOUT_SECONDS,
        "reinvocationPolicy": "Never",
        "namespaceSelector": {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]},
        # What the scheduler makes itself needs no answer: then the way from a decision to a pod depends on no server.
        "matchConditions": [
            {"name": "not-the-scheduler", "expression": f"request.userInfo.username != '{site.user(SCHEDULER)}'"}
        ],
    }


def _rule(group: str, version: str, resource: str, operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        "operations": operations,
        "scope": "Namespaced",
    }
