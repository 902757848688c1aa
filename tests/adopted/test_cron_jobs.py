"""CronJobs of a team: each of their Jobs is queued for the user that wrote it, or none is made, with the fix."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.models import User, Workload
from tests.adopted.rig import Rig, cron_job, job
from tests.adopted.test_jobs import conditions

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True)]
STATUS = "application/merge-patch+json"


def make_due(adopted: Rig, name: str) -> None:
    """As if it had last been due minutes ago: its controller makes a Job at once."""
    at = (datetime.now(UTC) - timedelta(minutes=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = f"{adopted.path('cronjobs', name)}/status"
    adopted.server.request("PATCH", path, {"status": {"lastScheduleTime": at}}, content_type=STATUS)


def jobs_of(adopted: Rig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = adopted.server.request("GET", adopted.path("jobs"))["items"]
    return found


def told(adopted: Rig, name: str) -> str:
    path = f"/api/v1/namespaces/weft-nlp/events?fieldSelector=involvedObject.name={name}"
    return " ".join(item["message"] for item in adopted.server.request("GET", path)["items"])


def test_its_job_is_queued_for_the_user_that_wrote_it_runs_and_ends(adopted: Rig) -> None:
    adopted.create("cronjobs", cron_job("nightly", gpus=2, priority_class="high"))
    make_due(adopted, "nightly")
    adopted.server.wait_for(lambda: bool(jobs_of(adopted)), "its Job")
    (made,) = jobs_of(adopted)
    uid, name = made["metadata"]["uid"], made["metadata"]["name"]
    assert made["spec"]["suspend"] is True
    adopted.until_phase(uid, "Running")
    row = Workload.objects.get(uid=uid)
    assert (row.name, row.managed_by, str(row.created_by)) == (name, "jobs.batch", "ada")
    assert str(row.priority_class) == "high"
    for pod in adopted.pods(uid):
        adopted.server.annotate(adopted.path("pods", pod["metadata"]["name"]), run_for="0")
    adopted.until_phase(uid, "Succeeded")
    adopted.server.wait_for(lambda: "Complete" in conditions(adopted, name), "the Job's own end")


def test_one_without_the_label_is_refused_with_the_fix(adopted: Rig) -> None:
    bare = cron_job("nightly")
    del bare["spec"]["jobTemplate"]["metadata"]
    said = adopted.refused("POST", adopted.path("cronjobs"), bare)
    assert "spec.jobTemplate.metadata.labels has no weft.dev/queue. Write weft.dev/queue: nlp there" in said
    assert "There is no team nlp" in adopted.refused("POST", adopted.path("cronjobs"), cron_job("x"), by="vic")


def test_the_jobs_of_one_from_before_the_adoption_are_refused_until_it_has_the_label(adopted: Rig) -> None:
    bare = cron_job("old")
    labels = bare["spec"]["jobTemplate"].pop("metadata")
    with adopted.before():
        adopted.kubectl("POST", adopted.path("cronjobs"), bare)
    make_due(adopted, "old")
    adopted.server.wait_for(lambda: "CronJob/old: its Jobs are not queued" in told(adopted, "old"), "the refusal")
    assert jobs_of(adopted) == []
    adopted.kubectl("PATCH", adopted.path("cronjobs", "old"), {"spec": {"schedule": "*/2 * * * *"}})  # its user's own
    adopted.kubectl("PATCH", adopted.path("cronjobs", "old"), {"spec": {"jobTemplate": {"metadata": labels}}})
    make_due(adopted, "old")
    adopted.server.wait_for(lambda: bool(jobs_of(adopted)), "its Job")
    adopted.until_phase(jobs_of(adopted)[0]["metadata"]["uid"], "Running")


def test_nothing_is_made_for_a_user_that_has_left_the_team(adopted: Rig) -> None:
    adopted.create("cronjobs", cron_job("nightly"))
    User.objects.get(username="ada").memberships.all().delete()
    make_due(adopted, "nightly")
    said = "CronJob/nightly is system:serviceaccount:people:ada's: There is no team nlp"
    adopted.server.wait_for(lambda: said in told(adopted, "nightly"), "the refusal")
    assert jobs_of(adopted) == []


def test_nobody_makes_jobs_in_the_name_of_anothers_cron_job(adopted: Rig) -> None:
    uid = adopted.create("cronjobs", cron_job("nightly"))
    forged = copy.deepcopy(job("forged"))
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    forged["metadata"]["ownerReferences"] = [reference]
    assert "There is no team nlp" in adopted.refused("POST", adopted.path("jobs"), forged, by="vic")
