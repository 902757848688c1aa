"""Waiting for the fences: the API server reads a new policy a moment after it was made."""

from collections.abc import Callable

from controlplane.cluster.kubernetes import pods as builder
from controlplane.manifests.site import Site, TeamSpace
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.jobs import job, pod_of

DRY = "?dryRun=All"


def in_force(cluster: TestCluster, space: TeamSpace, site: Site) -> None:
    """Wait until the policies for a team's pods, their bindings, and its Services refuse the administrator."""
    namespace = f"{site.prefix}{space.name}"
    where = f"/api/v1/namespaces/{namespace}"
    pod = builder.build(pod_of(job(team=space.name)), namespace=namespace)
    service = {"metadata": {"name": "out"}, "spec": {"type": "ExternalName", "externalName": "a.test"}}
    binding = {"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "a"}}
    requests = ((f"pods{DRY}", pod), (f"services{DRY}", service), (f"pods/none/binding{DRY}", binding))
    for path, body in requests:
        cluster.wait_for(
            lambda path=path, body=body: "denied" in refusal(lambda: cluster.request("POST", f"{where}/{path}", body)),  # type: ignore[misc]
            f"the policy of {path}",
        )


def out_of_force(cluster: TestCluster) -> None:
    """Take the policies away and wait until they refuse nothing: all are read anew together."""
    cluster.empty()
    forged = builder.build(pod_of(job()), namespace="default")
    where = f"/api/v1/namespaces/default/pods{DRY}"
    cluster.wait_for(lambda: not refusal(lambda: cluster.request("POST", where, forged)), "the end of the policies")


def refusal(request: Callable[[], object]) -> str:
    """What the API server says against it; empty if nothing."""
    try:
        request()
    except ApiError as error:
        return error.message
    return ""
