"""Carry manifests to a cluster by server-side apply: what is ours is set, what others have added stays.

The account is the one of KUBECONFIG (or WEFT_KUBECONFIG), or the pod's own; TLS is verified.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError

from controlplane.manifests.site import FIELD_MANAGER, Json

_OF_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


class ApplyError(Exception):
    """The cluster refused or did not answer; the message is a sentence with the fix."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one object: created, changed or same."""

    kind: str
    name: str
    namespace: str
    what: str


def connect() -> Any:
    """A client for the cluster that the environment names. Raises ApplyError."""
    path = os.environ.get("WEFT_KUBECONFIG") or os.environ.get("KUBECONFIG")
    settings = client.Configuration()
    try:
        if path or "KUBERNETES_SERVICE_HOST" not in os.environ:
            config.load_kube_config(config_file=path, client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        return dynamic.DynamicClient(client.ApiClient(settings))  # type: ignore[no-untyped-call]
    except Exception as error:  # many kinds: no file, no such context, no answer, no valid certificate
        message = f"There is no cluster to talk to: {error}. Set KUBECONFIG to the provisioner's kubeconfig."
        raise ApplyError(message) from error


def apply(cluster: Any, manifests: Iterable[Json], *, is_dry_run: bool = False) -> Iterator[Change]:
    """Apply each object in its order and tell what changed; a dry run changes nothing. Raises ApplyError.

    A dry run cannot try what lies in a namespace that is not there yet; such objects count as created.
    """
    for manifest in manifests:
        meta: Any = manifest["metadata"]
        change = Change(str(manifest["kind"]), meta["name"], meta.get("namespace", ""), "")
        try:
            what = _apply(cluster, manifest, is_dry_run)
        except DynamicApiError as error:
            raise ApplyError(f"The cluster refused {change.kind} {change.name}: {message_of(error)}") from error
        except Exception as error:  # urllib3's, whichever
            raise ApplyError(f"The cluster did not answer for {change.kind} {change.name}: {error}") from error
        yield replace(change, what=what)


def _apply(cluster: Any, manifest: Json, is_dry_run: bool) -> str:
    meta: Any = manifest["metadata"]
    resource = cluster.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    try:
        before = _plain(resource.get(name=meta["name"], namespace=meta.get("namespace")).to_dict())
    except NotFoundError:
        before = None
    if before is None and is_dry_run:
        return "created"
    options = {"field_manager": FIELD_MANAGER, "force_conflicts": True} | ({"dry_run": "All"} if is_dry_run else {})
    after = _plain(resource.server_side_apply(body=manifest, **options).to_dict())
    return "created" if before is None else "same" if before == after else "changed"


def message_of(error: DynamicApiError) -> str:
    """What the API server says."""
    try:
        return str(json.loads(str(error.body))["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"


def _plain(found: Json) -> Json:
    """An object without what the server counts."""
    meta: Any = found["metadata"]
    kept = {key: value for key, value in meta.items() if key not in _OF_SERVER}
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": kept}
