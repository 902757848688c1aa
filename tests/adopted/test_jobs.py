"""Plain batch/v1 Jobs with the label: queued, gated, placed, preempted, ended, deleted."""

from typing import Any

import pytest

from controlplane.models import Placement, Workload
from tests.adopted.rig import Rig, job

MERGE = "application/merge-patch+json"

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]


def gpus(pod: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(one) for one in pod["metadata"]["annotations"]["internal.weft.dev/gpus"].split(","))


def test_a_job_is_queued_placed_and_ends_as_its_controller_says(adopted: Rig) -> None:
    uid = adopted.create("jobs", job("train", pods=2, gpus=2))
    assert adopted.get("jobs", "train")["spec"]["suspend"] is True
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.name, row.kind, str(row.created_by), row.managed_by) == ("train", "training", "ada", "jobs.batch")
    pods = adopted.pods(uid)
    places = {(p.node, tuple(p.gpus)) for p in Placement.objects.filter(workload__uid=uid)}
    assert {(pod["spec"]["nodeName"], gpus(pod)) for pod in pods} == places
    assert not any(pod["spec"].get("schedulingGates") for pod in pods)
    for pod in pods:
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until_phase(uid, "Succeeded")
    adopted.server.wait_for(lambda: adopted.get("jobs", "train")["status"].get("succeeded") == 2, "the Job's end")


def run(adopted: Rig, name: str, **asked: object) -> str:
    uid = adopted.create("jobs", job(name, **asked))  # type: ignore[arg-type]
    adopted.until_phase(uid, "Running")
    return uid


def test_a_job_waits_whole_and_says_why_on_itself(adopted: Rig) -> None:
    run(adopted, "first", pods=3, gpus=6)
    uid = adopted.create("jobs", job("second", pods=2, gpus=6))
    adopted.until(lambda: any("GPU" in message for message in adopted.told("second")), "the reason")
    assert adopted.phase(uid) == "Queued"
    assert adopted.get("jobs", "second")["spec"]["suspend"] is True
    assert adopted.pods(uid) == []


def test_a_job_gives_way_to_one_of_higher_priority_and_goes_on_later_with_no_failure_counted(adopted: Rig) -> None:
    low = run(adopted, "low", pods=3, gpus=8, backoffLimit=0)
    before = {pod["metadata"]["uid"] for pod in adopted.pods(low)}
    high = adopted.create("jobs", job("high", pods=1, gpus=8, labels={"weft.dev/priority-class": "high"}))
    adopted.until_phase(high, "Running")
    adopted.until_phase(low, "Queued")
    found = adopted.get("jobs", "low")
    assert (found["spec"]["suspend"], found["status"].get("failed", 0)) == (True, 0)
    (pod,) = adopted.pods(high)
    adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until_phase(high, "Succeeded")
    adopted.until_phase(low, "Running")
    live = [pod for pod in adopted.pods(low) if pod["status"]["phase"] == "Running"]
    assert len(live) == 3
    assert not before & {pod["metadata"]["uid"] for pod in live}
    assert Workload.objects.get(uid=low).attempt == 2
    assert [kind for kind in adopted.story(low) if kind in ("Evicted", "Requeued")] == ["Evicted", "Requeued"]


def fail(adopted: Rig, uid: str) -> None:
    pod = next(pod for pod in adopted.pods(uid) if pod["status"]["phase"] == "Running")
    adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), fail_after="0", exit_code="3")


def test_a_job_whose_pod_fails_has_failed_once_its_backoff_limit_is_reached(adopted: Rig) -> None:
    uid = run(adopted, "broken", pods=2, backoffLimit=0)
    fail(adopted, uid)
    adopted.until_phase(uid, "Failed")
    row = Workload.objects.get(uid=uid)
    assert (row.exit_code, row.retries) == (3, 0)
    adopted.server.wait_for(lambda: "Failed" in conditions(adopted, "broken"), "the Job's own end")


def test_the_exit_code_is_the_pods_also_where_the_job_is_seen_to_have_failed_first(adopted: Rig) -> None:
    uid = run(adopted, "broken", pods=2, backoffLimit=0)
    fail(adopted, uid)
    adopted.server.wait_for(lambda: "Failed" in conditions(adopted, "broken"), "the Job's own end")
    adopted.until_phase(uid, "Failed")
    row = Workload.objects.get(uid=uid)
    assert (row.exit_code, row.reason) == (3, "BackoffLimitExceeded")


def conditions(adopted: Rig, name: str) -> set[str]:
    return {c["type"] for c in adopted.get("jobs", name)["status"].get("conditions", ()) if c["status"] == "True"}


def test_a_job_that_is_deleted_is_stopped_and_its_places_are_free(adopted: Rig) -> None:
    uid = run(adopted, "gone", pods=2, gpus=8)
    adopted.kubectl("DELETE", adopted.path("jobs", "gone") + "?propagationPolicy=Background")
    adopted.until_phase(uid, "Stopped")
    assert not Placement.objects.filter(workload__uid=uid).exclude(state="Released").exists()
    run(adopted, "full", pods=3, gpus=8)
    waiting = adopted.create("jobs", job("waits", gpus=8))
    adopted.until_phase(waiting, "Queued")
    adopted.kubectl("DELETE", adopted.path("jobs", "waits") + "?propagationPolicy=Background")
    adopted.until_phase(waiting, "Stopped")


def test_a_job_that_no_quota_could_ever_hold_is_told_so_and_stays_suspended(adopted: Rig) -> None:
    uid = adopted.create("jobs", job("huge", gpus=8, pods=4))
    adopted.until(lambda: any("Weft does not queue it" in message for message in adopted.told("huge")), "the refusal")
    assert adopted.phase(uid) == ""
    assert adopted.get("jobs", "huge")["spec"]["suspend"] is True


def test_a_job_that_its_controller_ends_ends_here_too(adopted: Rig) -> None:
    uid = run(adopted, "short", pods=2)
    # Only now: a deadline that passes while the pods start would end it before it is seen to run.
    change = {"spec": {"activeDeadlineSeconds": 1}}
    adopted.server.request("PATCH", adopted.path("jobs", "short"), change, content_type=MERGE)
    adopted.until_phase(uid, "Failed")
    assert "DeadlineExceeded" in Workload.objects.get(uid=uid).reason


def test_what_was_missed_is_made_up_for(adopted: Rig) -> None:
    """A Job that runs without a place (an administrator let it go) is held back again."""
    run(adopted, "first", pods=3, gpus=8)
    uid = adopted.create("jobs", job("loose", pods=1, gpus=8))
    adopted.until(lambda: adopted.phase(uid) == "Queued", "the queue")
    token = adopted.server.token("weft/weft-scheduler")
    change = {"spec": {"suspend": False}}
    adopted.server.request("PATCH", adopted.path("jobs", "loose"), change, content_type=MERGE, token=token)
    adopted.server.wait_for(lambda: bool(adopted.pods(uid)), "its pod")
    (pod,) = adopted.pods(uid)
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["weft.dev/queue"]
    assert pod["spec"]["schedulerName"] == "weft"
    adopted.until(lambda: not adopted.pods(uid), "the end of its pod")
    assert adopted.get("jobs", "loose")["spec"]["suspend"] is True
