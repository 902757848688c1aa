"""What the admission server and the fences refuse in a team's namespace, each with the fix; elsewhere, nothing."""

from typing import Any

import pytest

from controlplane.models import Workload
from controlplane.testbed.api import ApiError
from tests.adopted.rig import Rig, bare_pod, deployment, job, template

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]


def test_only_members_of_the_team_queue_anything_there(adopted: Rig) -> None:
    said = adopted.refused("POST", adopted.path("jobs"), job("mine"), by="vic")
    assert "There is no team nlp, or you are not in it" in said
    with pytest.raises(ApiError) as refused:
        adopted.server.request("POST", adopted.path("jobs"), job("admins"))
    assert "No user of Weft is the Kubernetes user admin" in refused.value.message
    assert not Workload.objects.exists()


def without_label(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {"name": body["metadata"]["name"]}}


def test_pods_that_no_queued_object_has_made_are_refused_with_what_to_do(adopted: Rig) -> None:
    said = adopted.refused("POST", adopted.path("pods"), bare_pod())
    assert "create a Job with the label weft.dev/queue: nlp" in said
    adopted.kubectl("POST", adopted.path("jobs"), without_label(job("plain")))
    adopted.kubectl("POST", adopted.path("deployments"), without_label(deployment("web")))

    def told(name: str) -> str:
        path = f"/api/v1/namespaces/weft-nlp/events?fieldSelector=involvedObject.name={name}"
        return " ".join(item["message"] for item in adopted.server.request("GET", path)["items"])

    adopted.server.wait_for(lambda: "Job/plain is not queued" in told("plain"), "the refusal of its pods")
    path = "/apis/apps/v1/namespaces/weft-nlp/replicasets"
    adopted.server.wait_for(lambda: bool(adopted.server.request("GET", path)["items"]), "its ReplicaSet")
    name = adopted.server.request("GET", path)["items"][0]["metadata"]["name"]
    adopted.server.wait_for(lambda: "Deployment/web is not queued" in told(name), "the refusal of its pods")
    assert adopted.server.request("GET", adopted.path("pods"))["items"] == []


OURS = {"weft.dev/queue": "nlp"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"metadata": {"name": "a", "labels": {"weft.dev/queue": "vision"}}}, 'weft.dev/queue is "vision". In this'),
        ({"metadata": {"name": "a", "labels": OURS, "annotations": {"internal.weft.dev/user": "root"}}},
         "internal.weft.dev/user is Weft's"),
        ({"spec": {"parallelism": 2, "completions": 9, "template": template()}}, "Set parallelism to 9"),
        ({"spec": {"parallelism": 0, "template": template()}}, "asks for no pods"),
        ({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "a", "image": "a"}, {"name": "b", "image": "b"}]}}}}, "has 2 containers"),
        ({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "a", "image": "a", "resources": {"limits": {"ephemeral-storage": 1}}}]}}}}, "ephemeral-storage"),
        ({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "a", "image": "a", "resources": {"limits": {"amd.com/gpu": 1}}}]}}}}, "which is a GPU"),
    ],
)  # fmt: skip
def test_what_cannot_be_queued_is_refused_at_once_with_the_fix(
    adopted: Rig, changed: dict[str, Any], said: str
) -> None:
    assert said in adopted.refused("POST", adopted.path("jobs"), {**job("a"), **changed})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": {"suspend": False}}, "spec.suspend is Weft's"),
        ({"spec": {"parallelism": 3}}, "workers cannot change while it is queued"),
        ({"spec": {"parallelism": 0}}, "asks for no pods"),
        ({"metadata": {"labels": {"weft.dev/queue": None}}}, "cannot be taken off"),
        ({"metadata": {"labels": {"weft.dev/priority-class": "high"}}}, "priority_class cannot change"),
        ({"metadata": {"annotations": {"internal.weft.dev/user": "system:admin"}}}, "is Weft's"),
    ],
)
def test_what_its_placement_depends_on_does_not_change(adopted: Rig, change: dict[str, Any], said: str) -> None:
    adopted.create("jobs", job("fixed", completions=None))
    assert said in adopted.refused("PATCH", adopted.path("jobs", "fixed"), change)


def test_a_label_is_given_when_an_object_is_created(adopted: Rig) -> None:
    adopted.kubectl("POST", adopted.path("deployments"), without_label(deployment("web")))
    change = {"metadata": {"labels": {"weft.dev/queue": "nlp"}}}
    assert "when it is created" in adopted.refused("PATCH", adopted.path("deployments", "web"), change)


def test_a_pod_passes_for_no_pod_of_a_queued_object(adopted: Rig) -> None:
    uid = adopted.create("jobs", job("train"))
    forged = bare_pod("forged")
    forged["metadata"] |= {
        "annotations": {"internal.weft.dev/owner": "Job/train"},
        "labels": {"weft.dev/workload": uid},
    }
    assert "is Weft's. Leave it out" in adopted.refused("POST", adopted.path("pods"), forged)
    adopted.until_phase(uid, "Running")
    (pod,) = adopted.pods(uid)
    path = adopted.path("pods", pod["metadata"]["name"])
    change = {"metadata": {"labels": {"internal.weft.dev/rank": "7"}}}
    assert "only Weft's scheduler changes" in adopted.refused("PATCH", path, change)


def test_only_a_controller_makes_pods_of_a_queued_object(adopted: Rig) -> None:
    """Else one that is none of its own would keep a Job's controller from making any."""
    uid = adopted.create("jobs", job("train", gpus=1))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    forged = {**bare_pod("large"), **template(8)}
    forged["metadata"]["ownerReferences"] = [reference]
    assert "only its controller makes pods of Job/train" in adopted.refused("POST", adopted.path("pods"), forged)


def test_the_fences_hold_for_pods_of_queued_objects(adopted: Rig) -> None:
    bad = job("bad")
    bad["spec"]["template"]["spec"] |= {"hostNetwork": True}
    uid = adopted.create("jobs", bad)
    adopted.until_phase(uid, "Admitted")
    path = "/api/v1/namespaces/weft-nlp/events?fieldSelector=involvedObject.name=bad"

    def told() -> str:
        return " ".join(item["message"] for item in adopted.server.request("GET", path)["items"])

    adopted.until(lambda: "hostNetwork" in told(), "the refusal")
    assert adopted.pods(uid) == []


def test_elsewhere_nothing_is_asked_and_nothing_may_pass_for_ours(adopted: Rig) -> None:
    adopted.admission.close()  # without it, too
    other = "/apis/batch/v1/namespaces/people/jobs"
    adopted.kubectl("POST", other, without_label(job("free")))
    adopted.server.wait_for(
        lambda: bool(adopted.server.request("GET", "/api/v1/namespaces/people/pods")["items"]), "its pod"
    )
    # The cluster is emptied between tests, so the policy may take a moment to be in force again.
    adopted.server.wait_for(
        lambda: "weft.dev labels" in adopted.refused("POST", f"{other}?dryRun=All", job("ours")), "the policy"
    )
    said = adopted.refused("POST", adopted.path("jobs"), job("closed"))
    assert "failed calling webhook" in said
