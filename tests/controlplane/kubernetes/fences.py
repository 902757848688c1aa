"""Waiting for the fences: the API server reads a new policy a moment after it was made."""

import itertools
from collections.abc import Callable
from typing import Any

from controlplane.cluster.kubernetes import pods as builder
from controlplane.manifests.policy import ADMISSION
from controlplane.manifests.site import Site, TeamSpace
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.jobs import job, pod_of

DRY = "?dryRun=All"
PLURALS = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
_numbers = itertools.count(1)


def in_force(cluster: TestCluster, space: TeamSpace, site: Site) -> None:
    """Wait until the newest policies for a team's pods, their bindings, and its Services refuse the administrator."""
    _goes_by_the_newest(cluster)  # or the ones before, of another site, would do the refusing
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
    """Take the policies away and wait until none of them refuses anything any more."""
    cluster.empty()
    _goes_by_the_newest(cluster)


def _goes_by_the_newest(cluster: TestCluster) -> None:
    """Wait until the API server goes by the policies that there are now, and by no others.

    It hears of bindings in their order, and then reads all policies anew at once. So when it goes by a policy whose
    binding is made now, it goes by all that were made before and by none that were deleted.
    """
    made = _last_one(f"weft-last-{next(_numbers)}")
    cluster.apply(made)
    name = made[0]["metadata"]["name"]
    body, where = {"metadata": {"name": name}}, f"/api/v1/namespaces/default/configmaps{DRY}"
    cluster.wait_for(lambda: "denied" in refusal(lambda: cluster.request("POST", where, body)), "the newest policies")
    cluster.delete(*(f"/apis/{ADMISSION}/{plural}/{name}" for plural in PLURALS))


def _last_one(name: str) -> list[dict[str, Any]]:
    """A policy that refuses a ConfigMap of a new name, for which no older policy answers, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.name != '{name}'"}],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    kinds = (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", bound))
    return [{"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec} for kind, spec in kinds]


def refusal(request: Callable[[], object]) -> str:
    """What the API server says against it; empty if nothing."""
    try:
        request()
    except ApiError as error:
        return error.message
    return ""
