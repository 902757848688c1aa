"""Plain batch/v1 Jobs with the label: queued, gated, placed, preempted, ended, deleted."""

import pytest

from controlplane.models import Placement, Workload
from tests.adopted.rig import Rig, job

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]


def test_a_job_is_queued_placed_and_ends_as_its_controller_says(adopted: Rig) -> None:
    uid = adopted.create("jobs", job("train", pods=2, gpus=2))
    assert adopted.get("jobs", "train")["spec"]["suspend"] is True
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.name, row.kind, row.created_by.username, row.managed_by) == ("train", "training", "ada", "jobs.batch")
    pods = adopted.pods(uid)
    places = {(p.node, tuple(p.gpus)) for p in Placement.objects.filter(workload=uid)}
    assert {(pod["spec"]["nodeName"], tuple(map(int, pod["metadata"]["annotations"]["internal.weft.dev/gpus"].split(","))))
            for pod in pods} == places  # fmt: skip
    assert not any(pod["spec"].get("schedulingGates") for pod in pods)
    for pod in pods:
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until_phase(uid, "Succeeded")
    adopted.server.wait_for(lambda: adopted.get("jobs", "train")["status"].get("succeeded") == 2, "the Job's end")
