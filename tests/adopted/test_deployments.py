"""Deployments with the label: a service whose replicas its Deployment decides."""

from typing import Any

import pytest

from controlplane.models import Placement, Workload
from tests.adopted.rig import Rig, deployment, job

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]


def running(adopted: Rig, uid: str) -> list[dict[str, Any]]:
    return [
        pod
        for pod in adopted.pods(uid)
        if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]


def held(uid: str) -> int:
    return Placement.objects.filter(workload__uid=uid).exclude(state="Released").count()


def serve(adopted: Rig, name: str, replicas: int, **asked: Any) -> str:
    uid = adopted.create("deployments", deployment(name, replicas=replicas, **asked))
    adopted.until_phase(uid, "Running")
    return uid


def set_replicas(adopted: Rig, name: str, replicas: int) -> None:
    adopted.kubectl("PATCH", adopted.path("deployments", name), {"spec": {"replicas": replicas}})


def settled(adopted: Rig, uid: str, replicas: int) -> bool:
    return len(running(adopted, uid)) == len(adopted.pods(uid)) == held(uid) == replicas


def test_a_deployment_is_a_service_with_its_replicas(adopted: Rig) -> None:
    uid = adopted.create("deployments", deployment("chat", replicas=2, gpus=2))
    adopted.server.wait_for(lambda: len(adopted.pods(uid)) == 2, "its pods")
    for pod in adopted.pods(uid):
        assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["weft.dev/queue"]
        assert pod["spec"]["schedulerName"] == "weft"
        assert "nodeName" not in pod["spec"]
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.kind, row.workers, row.managed_by) == ("inference", 2, "deployments.apps")
    assert settled(adopted, uid, 2)


def test_its_replicas_go_up_and_down_with_kubectl_scale(adopted: Rig) -> None:
    uid = serve(adopted, "chat", 2)
    set_replicas(adopted, "chat", 5)
    adopted.until(lambda: settled(adopted, uid, 5), "5 replicas")
    set_replicas(adopted, "chat", 1)
    adopted.until(lambda: settled(adopted, uid, 1), "1 replica")
    adopted.until(lambda: Workload.objects.get(uid=uid).workers == 1, "1 in its row")
    set_replicas(adopted, "chat", 0)
    adopted.until_phase(uid, "Suspended")
    set_replicas(adopted, "chat", 2)
    adopted.until(lambda: settled(adopted, uid, 2), "2 replicas again")
    adopted.until_phase(uid, "Running")


def test_a_new_image_is_rolled_out_one_replica_after_the_other(adopted: Rig) -> None:
    uid = serve(adopted, "chat", 2)
    container = adopted.get("deployments", "chat")["spec"]["template"]["spec"]["containers"][0]
    change = {"spec": {"template": {"spec": {"containers": [{**container, "image": "registry.example/train:2"}]}}}}
    adopted.kubectl("PATCH", adopted.path("deployments", "chat"), change)

    def is_new() -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in running(adopted, uid)]
        return images == ["registry.example/train:2"] * 2 and settled(adopted, uid, 2)

    adopted.until(is_new, "the new image on both")
    adopted.until(lambda: Workload.objects.get(uid=uid).workers == 2, "2 in its row")


def test_its_replicas_give_way_to_higher_priority_and_wait_gated(adopted: Rig) -> None:
    uid = serve(adopted, "chat", 3, gpus=8)
    high = adopted.create("jobs", job("high", pods=2, gpus=8, labels={"weft.dev/priority-class": "high"}))
    adopted.until_phase(high, "Running")
    adopted.until(lambda: len(running(adopted, uid)) == 1 and len(adopted.pods(uid)) == 3, "one replica, two gated")
    for pod in adopted.pods(high):
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until(lambda: settled(adopted, uid, 3), "3 replicas again")


def test_a_deployment_that_is_deleted_is_stopped(adopted: Rig) -> None:
    uid = serve(adopted, "chat", 2)
    adopted.kubectl("DELETE", adopted.path("deployments", "chat") + "?propagationPolicy=Background")
    adopted.until_phase(uid, "Stopped")
    assert held(uid) == 0


def test_a_lost_replica_is_made_and_placed_anew(adopted: Rig) -> None:
    uid = serve(adopted, "chat", 2)
    first = running(adopted, uid)[0]["metadata"]
    adopted.kubectl("DELETE", adopted.path("pods", first["name"]))

    def is_replaced() -> bool:
        return settled(adopted, uid, 2) and all(p["metadata"]["uid"] != first["uid"] for p in adopted.pods(uid))

    adopted.until(is_replaced, "another one")
