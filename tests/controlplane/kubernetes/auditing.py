"""What the API server's audit log says of our accounts: rights they used, what was denied, what they wrote."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane.manifests import policy, system
from controlplane.manifests.site import Site

SITE = Site(has_monitors=True)
ACCOUNTS = ("weft-scheduler", "weft-reader", "weft-provisioner", "weft-web")
WRITES = ("create", "update", "patch", "delete", "deletecollection")
FORBIDDEN = 403
Entry = Mapping[str, Any]
Right = tuple[str, str]  # verb, resource with its part


def used(entries: Iterable[Entry], account: str) -> tuple[set[Right], list[str]]:
    """What an account did, and what it was denied."""
    rights, denied = set(), []
    for entry in entries:
        if entry["user"]["username"] != SITE.user(account) or "objectRef" not in entry:
            continue
        right = (entry["verb"], _resource(entry))
        if entry.get("responseStatus", {}).get("code") == FORBIDDEN:
            denied.append(f"{right} {entry['responseStatus'].get('message', '')}")
        rights.add(right)
    return rights, denied


def granted(account: str, groups: Collection[str] | None = None) -> set[Right]:
    """What the manifests allow it, of all objects or of those of some API groups ("": pods, nodes and the like)."""
    roles: list[Any] = [one for one in system.system(SITE) if one["kind"] == "ClusterRole"]
    mine = [role for role in roles if role["metadata"]["name"].startswith(account)]
    rules = [rule for role in mine for rule in role["rules"]]
    return {
        (verb, resource)
        for rule in rules
        if groups is None or set(rule["apiGroups"]) & set(groups)
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def strange_writes(entries: Iterable[Entry], labelled: Collection[str]) -> list[str]:
    """Writes of ours to anything but team namespaces (`labelled`), a node's cordon, and our own cluster objects."""
    ours = {SITE.user(account) for account in ACCOUNTS}
    written = [entry for entry in entries if entry["verb"] in WRITES and entry["user"]["username"] in ours]
    return [f"{entry['verb']} {entry['requestURI']}" for entry in written if not _is_expected(entry, labelled)]


def _is_expected(entry: Entry, labelled: Collection[str]) -> bool:
    about = entry["objectRef"]
    if namespace := about.get("namespace", ""):
        return namespace in labelled
    if about["resource"] == "nodes":
        return set(entry["requestObject"]) == {"spec"} and set(entry["requestObject"]["spec"]) == {"unschedulable"}
    return (about["resource"], about.get("name", "")) in _own_objects()


def _own_objects() -> set[tuple[str, str]]:
    """Those without a namespace that `manage.py manifests` prints."""
    listed: list[Any] = [*system.system(SITE), *policy.policies(SITE)]
    bare = [one for one in listed if "namespace" not in one["metadata"]]
    return {(_plural(one["kind"]), one["metadata"]["name"]) for one in bare}


def _plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def _resource(entry: Entry) -> str:
    about = entry["objectRef"]
    return "/".join(filter(None, (about["resource"], about.get("subresource"))))
