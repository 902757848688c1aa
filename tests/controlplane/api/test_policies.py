"""The policy's versions and what-ifs over REST."""

import os
from typing import Any

import pytest
from django.core.management import call_command

from controlplane.models import Event, PolicyVersion, Simulation
from controlplane.models.simulation import NO_WORD, SILENT
from controlplane.services.scheduling import simulations
from tests.controlplane.api.conftest import People, body_of, fields_of

FIFO = {"source": "trace", "trace": "demo", "hours": 1, "jobs": 5, "policy": {"scheduling": {"policy": "fifo"}}}


def test_the_policy_is_read_by_all_and_saved_by_platform_admins_by_version(api: People) -> None:
    first = api.viewer.get("/policies/0")
    assert body_of(first)["settings"]["scheduling"]["policy"] == "weft"
    saved = api.platform.post("/policies", {"scheduling": {"restart_seconds": 90}, "comment": "slow"}, if_match='"0"')
    row = body_of(saved, 201)
    assert row["changes"] == [{"field": "scheduling.restart_seconds", "before": 60.0, "after": 90.0}]
    assert (row["in_force"], row["author"], row["comment"]) == (True, "root", "slow")
    assert saved["ETag"] == f'"{row["version"]}"'
    again = api.platform.post("/policies", {"scheduling": {"restart_seconds": 80}}, if_match='"0"')
    assert fields_of(again, 412) == ["version"]
    restored = body_of(api.platform.post("/policies/0/restore"), 201)
    assert restored["settings"] == body_of(first)["settings"]
    listed = body_of(api.viewer.get("/policies"))["results"]
    assert [(r["version"], r["in_force"]) for r in listed] == [(restored["version"], True), (row["version"], False)]
    assert Event.objects.filter(kind="PolicyChanged", actor="root").count() == 2


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"scheduling": {"ageing_seconds": 0}}, 422, "scheduling.ageing_seconds"),
        ({"scheduling": {"policy": "native-k8s"}}, 422, "scheduling.policy"),
        ({"scheduling": {"nonsense": 1}}, 422, "scheduling.nonsense"),
        ({"scheduling": [1]}, 400, "scheduling"),
        ({"shedule": {}}, 400, "shedule"),
        ({"comment": "x" * 201}, 400, "comment"),
    ],
)
def test_a_bad_setting_is_refused_by_field(api: People, body: dict[str, Any], status: int, field: str) -> None:
    assert fields_of(api.platform.post("/policies", body), status) == [field]
    assert not PolicyVersion.objects.exists()


def test_a_what_if_is_started_followed_answered_and_deleted(api: People) -> None:
    niceness = os.nice(0)
    row = body_of(api.platform.post("/simulations", FIFO), 201)
    path = f"/simulations/{row['id']}"
    assert (row["state"], row["author"], row["asked"]) == ("Running", "root", FIFO)
    fields_of(api.platform.get(f"{path}/results"), 409)
    call_command("simulation", str(row["id"]))  # what its process runs
    assert os.nice(0) == niceness, "only a process of its own steps back"
    done = body_of(api.platform.get(path))
    assert (done["state"], done["progress"]) == ("Done", 1.0)
    found = body_of(api.platform.get(f"{path}/results"))
    assert found["policy"] == {"before": "weft", "after": "fifo"}
    assert found["teams"][0]["team"] == "all"
    assert set(found["teams"][0]["difference"]) == set(found["teams"][0]["before"])
    assert api.platform.send("DELETE", path).status_code == 204
    fields_of(api.platform.get(path), 404)


def test_one_what_if_runs_at_a_time_and_a_dead_one_is_found_out(api: People) -> None:
    row = body_of(api.platform.post("/simulations", FIFO), 201)
    refused = body_of(api.platform.post("/simulations", FIFO), 409)
    assert f"What-if {row['id']} of root is running." in refused["detail"]
    started = Simulation.objects.get(pk=row["id"])
    Simulation.objects.update(seen_at=started.seen_at - SILENT * 2)
    assert body_of(api.platform.get(f"/simulations/{row['id']}"))["state"] == "Failed"
    body_of(api.platform.post("/simulations", FIFO), 201)
    assert body_of(api.platform.get(f"/simulations/{row['id']}"))["error"] == NO_WORD


def test_a_deleted_what_if_stops(api: People) -> None:
    row = simulations.start(asked=FIFO, author="root")
    simulations.tell(number=row.pk, part=0.5, doing="Replaying")
    assert simulations.remove(number=row.pk)
    with pytest.raises(simulations.StoppedError):
        simulations.tell(number=row.pk, part=0.6, doing="Replaying")


def test_a_what_if_that_cannot_be_answered_says_why(api: People) -> None:
    asked = {"policy": {"scheduling": {"policy": "fifo"}}}  # of stored rounds, and there are none
    row = body_of(api.platform.post("/simulations", asked), 201)
    call_command("simulation", str(row["id"]))
    done = body_of(api.platform.get(f"/simulations/{row['id']}"))
    assert (done["state"], "Fewer than two rounds" in done["error"]) == ("Failed", True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "policy"),
        ({"policy": {"scheduling": {"policy": "fair"}}}, "policy.scheduling.policy"),
        ({"trace": "../secret.csv"}, "trace"),
        ({"cycles": 10**9}, "cycles"),
        ({"quotas": {}}, "quotas"),
        ({"nodes": []}, "nodes"),
    ],
)
def test_a_bad_what_if_is_refused_by_field(api: People, body: dict[str, Any], field: str) -> None:
    assert field in fields_of(api.platform.post("/simulations", body))
    assert not Simulation.objects.exists()


def test_what_a_what_if_tried_is_put_in_force_by_version(api: People) -> None:
    row = body_of(api.platform.post("/simulations", FIFO), 201)
    path = f"/simulations/{row['id']}/apply"
    assert api.platform.post(path).status_code == 409
    Simulation.objects.update(state="Done")
    assert fields_of(api.platform.post(path, if_match='"7"'), 412) == ["version"]
    applied = body_of(api.platform.post(path, if_match='"0"'), 201)
    assert applied["settings"]["scheduling"]["policy"] == "fifo"
    assert applied["comment"] == f"As tried in what-if {row['id']}"
    assert api.platform.post("/simulations/999/apply").status_code == 404
