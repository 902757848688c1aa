"""What the API server's audit log says of our accounts: rights they used, what was denied, what they wrote."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane.kubeobjects.names import TEAMS, WORKLOADS
from controlplane.manifests import policy, system, webhook
from controlplane.manifests.site import ACTIVATOR, ACTIVATOR_SWITCH, Site

SITE = Site(has_monitors=True, has_istio=True)
ACCOUNTS = (
    "weft-scheduler", "weft-reader", "weft-provisioner", "weft-admission", "weft-web", ACTIVATOR, ACTIVATOR_SWITCH,
)  # fmt: skip
OF_WEFT = (WORKLOADS, TEAMS)
WRITES = ("create", "update", "patch", "delete", "deletecollection")
DECISION = "authorization.k8s.io/decision"  # of an entry: what its sender's rights say of it
CREATED = 201
NOTHING_WRITTEN = "dryRun=All"
Entry = Mapping[str, Any]
Right = tuple[str, str]  # verb, resource with its part


def used(entries: Iterable[Entry], account: str) -> set[Right]:
    """What an account did, or wanted to. To apply what is not there is a patch that needs the right to create it."""
    ours = [one for one in entries if one["user"]["username"] == SITE.user(account) and "objectRef" in one]
    made = [one for one in ours if one["verb"] == "patch" and one.get("responseStatus", {}).get("code") == CREATED]
    return {(entry["verb"], _resource(entry)) for entry in ours} | {("create", _resource(entry)) for entry in made}


def denied(entries: Iterable[Entry], accounts: Iterable[str] = ACCOUNTS) -> list[str]:
    """What our accounts wanted and have no right to; what a fence or a quota refuses is none of these."""
    ours = {SITE.user(account) for account in accounts}
    return [
        f"{entry['user']['username']} {entry['verb']} {entry['requestURI']}"
        for entry in entries
        if entry["user"]["username"] in ours and entry.get("annotations", {}).get(DECISION) == "forbid"
    ]


def granted(
    account: str, groups: Collection[str] | None = None, site: Site = SITE, also: Iterable[Any] = ()
) -> set[Right]:  # fmt: skip
    """What the manifests allow it, of all objects or of those of some API groups ("": pods, nodes and the like).

    also: ClusterRoles beside those of the manifests.
    """
    roles: list[Any] = [one for one in (*system.system(site), *also) if one["kind"] == "ClusterRole"]
    mine = [role for role in roles if _is_of(role["metadata"]["name"], account)]
    rules = [rule for role in mine for rule in role["rules"]]
    return {
        (verb, resource)
        for rule in rules
        if groups is None or set(rule["apiGroups"]) & set(groups)
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def _is_of(role: str, account: str) -> bool:
    """A role is called as its account, and what it is for; one account's name may begin with another's."""
    return max((one for one in ACCOUNTS if role.startswith(one)), key=len, default="") == account


def strange_writes(entries: Iterable[Entry], labelled: Collection[str], site: Site = SITE) -> list[str]:
    """Writes of ours to anything but namespaces of ours (`labelled`), a node's cordon, and our own cluster objects."""
    own = _own_objects(site)
    ours = {SITE.user(account) for account in ACCOUNTS}
    written = [entry for entry in entries if entry["verb"] in WRITES and entry["user"]["username"] in ours]
    written = [entry for entry in written if NOTHING_WRITTEN not in entry["requestURI"]]
    return [f"{entry['verb']} {entry['requestURI']}" for entry in written if not _is_expected(entry, labelled, own)]


def _is_expected(entry: Entry, labelled: Collection[str], own: Collection[tuple[str, str]]) -> bool:
    about = entry["objectRef"]
    if about["resource"] in OF_WEFT and about.get("subresource") == "status":
        return True  # what our own objects say of themselves
    if namespace := about.get("namespace", ""):
        return namespace in labelled
    if about["resource"] == "nodes":
        return set(entry["requestObject"]) == {"spec"} and set(entry["requestObject"]["spec"]) == {"unschedulable"}
    return (about["resource"], about.get("name", "")) in own


def _own_objects(site: Site) -> set[tuple[str, str]]:
    """Those without a namespace that `manage.py manifests` prints."""
    listed: list[Any] = [*system.system(site), *policy.policies(site), *webhook.webhook(site)]
    bare = [one for one in listed if "namespace" not in one["metadata"]]
    return {(_plural(one["kind"]), one["metadata"]["name"]) for one in bare}


def _plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def _resource(entry: Entry) -> str:
    about = entry["objectRef"]
    return "/".join(filter(None, (about["resource"], about.get("subresource"))))
