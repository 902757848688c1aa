"""Leaving again: a team's namespace as it was before Weft, with its pods running on.

Our accounts lose their rights there first, so that nothing of ours acts on what it then sees. What waits for a place is
let go: its pods are made anew by their controllers, for whatever scheduler the cluster has.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError

from controlplane.adopted import native
from controlplane.adopted.kinds import CRON_JOB, CRON_JOBS, KINDS, QUEUE, at
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.queued import suspension
from controlplane.manifests.apply import ApplyError, Change, message_of
from controlplane.manifests.site import Site

OURS = ("weft.dev/", "internal.weft.dev/")
LEVELS = "pod-security.kubernetes.io/"
PART_OF = "app.kubernetes.io/part-of=weft"
AUTOSCALERS = f"{native.WORKLOAD},app.kubernetes.io/managed-by=weft"
MERGE = "application/merge-patch+json"
LOOK_SECONDS = 0.2
FENCES_SECONDS = 20.0  # until the API server has seen that the namespace is no team's any more


def leave(cluster: Any, site: Site, team: str, *, is_dry_run: bool) -> Iterator[Change]:
    """Take what is Weft's out of a team's namespace, and tell each step. Raises ApplyError."""
    namespace = names.namespace(team, site.prefix)
    try:
        roles = ("rbac.authorization.k8s.io/v1", "RoleBinding")
        yield from _objects(cluster, namespace, roles, PART_OF, is_dry_run)
        yield _namespace(cluster, namespace, is_dry_run)
        yield from _cron_jobs(cluster, namespace, is_dry_run)
        yield from _owners(cluster, namespace, is_dry_run)
        # They ask for a measurement that is over, so they would say so for ever, and scale nothing.
        yield from _objects(cluster, namespace, (native.API_VERSION, native.KIND), AUTOSCALERS, is_dry_run)
        yield from _pods(cluster, namespace, is_dry_run)
        for kind in (("v1", "ResourceQuota"), ("networking.k8s.io/v1", "NetworkPolicy")):
            yield from _objects(cluster, namespace, kind, PART_OF, is_dry_run)
    except DynamicApiError as error:
        raise ApplyError(f"The cluster refused it in {namespace}: {message_of(error)}") from error


def _objects(
    cluster: Any, namespace: str, kind: tuple[str, str], selector: str, is_dry_run: bool
) -> Iterator[Change]:  # fmt: skip
    """Objects of our own."""
    resource = cluster.resources.get(api_version=kind[0], kind=kind[1])
    for one in resource.get(namespace=namespace, label_selector=selector).items:
        if not is_dry_run:
            _delete(resource, one.metadata.name, namespace)
        yield Change(kind[1], one.metadata.name, namespace, "deleted")


def _namespace(cluster: Any, namespace: str, is_dry_run: bool) -> Change:
    resource = cluster.resources.get(api_version="v1", kind="Namespace")
    labels = resource.get(name=namespace).to_dict()["metadata"].get("labels") or {}
    gone = {key: None for key in labels if key.startswith((*OURS, LEVELS)) or key == "app.kubernetes.io/part-of"}
    if gone and not is_dry_run:
        _patch(resource, namespace, None, {"metadata": {"labels": gone}})
    return Change("Namespace", namespace, "", "changed" if gone else "same")


def _owners(cluster: Any, namespace: str, is_dry_run: bool) -> Iterator[Change]:
    """Queued objects lose the label, and may make their pods."""
    for kind in KINDS:
        try:
            resource = cluster.resources.get(api_version=kind.api_version, kind=kind.kind)
        except Exception:  # noqa: S112 - the client's own, of a kind that the cluster does not have
            continue
        for one in resource.get(namespace=namespace, label_selector=QUEUE).items:
            meta = one.to_dict()["metadata"]
            change = {"metadata": _stripped(meta)}
            if kind.suspend and at(one.to_dict(), *kind.suspend):
                change = suspension(kind, False, change["metadata"])
            if not is_dry_run:
                _once_open(lambda r=resource, m=meta, c=change: _patch(r, m["name"], namespace, c))  # type: ignore[misc]
            yield Change(kind.kind, meta["name"], namespace, "changed")


def _cron_jobs(cluster: Any, namespace: str, is_dry_run: bool) -> Iterator[Change]:
    """Their next Jobs are Kubernetes' own: without the label, which is of a team's namespace only."""
    resource = cluster.resources.get(api_version="/".join(CRON_JOBS[:2]), kind=CRON_JOB[1])
    for one in resource.get(namespace=namespace).items:
        found = one.to_dict()
        change, inside = _stripped(found["metadata"]), _stripped(at(found, "spec", "jobTemplate", "metadata") or {})
        if not any((*change.values(), *inside.values())):
            continue
        body = {"metadata": change, "spec": {"jobTemplate": {"metadata": inside}}}
        if not is_dry_run:
            _once_open(lambda m=found["metadata"], c=body: _patch(resource, m["name"], namespace, c))  # type: ignore[misc]
        yield Change(CRON_JOB[1], found["metadata"]["name"], namespace, "changed")


def _pods(cluster: Any, namespace: str, is_dry_run: bool) -> Iterator[Change]:
    """Those that run go on, without our labels; those that are gated can never run under another scheduler."""
    resource = cluster.resources.get(api_version="v1", kind="Pod")
    for one in resource.get(namespace=namespace, label_selector=names.WORKLOAD).items:
        pod = one.to_dict()
        name = pod["metadata"]["name"]
        is_placed = bool(pod["spec"].get("nodeName"))
        if not is_dry_run and is_placed:
            change = {"metadata": _stripped(pod["metadata"])}
            _once_open(lambda n=name, c=change: _patch(resource, n, namespace, c))  # type: ignore[misc]
        elif not is_dry_run:
            _delete(resource, name, namespace)
        yield Change("Pod", name, namespace, "changed" if is_placed else "deleted")


def _stripped(meta: Any) -> dict[str, Any]:
    """The change that takes away what is ours of an object's labels and annotations."""
    return {
        field: {key: None for key in meta.get(field) or {} if key.startswith(OURS)}
        for field in ("labels", "annotations")
    }


def _patch(resource: Any, name: str, namespace: str | None, change: Any) -> None:
    try:
        resource.patch(name=name, namespace=namespace, body=change, content_type=MERGE)
    except NotFoundError:
        return  # it has ended meanwhile


def _delete(resource: Any, name: str, namespace: str) -> None:
    try:
        resource.delete(name=name, namespace=namespace)
    except NotFoundError:
        return


def _once_open(change: Callable[[], None]) -> None:
    """The fences hold until the API server has read the namespace's new labels."""
    until = time.monotonic() + FENCES_SECONDS
    while True:
        try:
            change()
            return
        except DynamicApiError as error:
            if error.status not in (403, 500) or time.monotonic() >= until:
                raise
        time.sleep(LOOK_SECONDS)
