"""Keys and addresses of REST that have another name now: both are answered and read, and the old one is deprecated."""

import json
import re
from typing import Any

import pytest

from controlplane.api import renamed
from controlplane.api.endpoint import VERBS
from controlplane.api.serializers import policies as policy_answers
from controlplane.domain.policyfields import OLD_NAMES
from controlplane.models import PolicyVersion
from controlplane.services.scheduling import policy
from tests.controlplane.api.conftest import People, body_of, fields_of, job
from tests.controlplane.api.test_notices import HOOK
from tests.controlplane.api.test_schema import document


def test_an_answer_has_a_renamed_key_under_both_names(api: People) -> None:
    made = body_of(api.member.post("/workloads", job("train")), 201)
    explained = body_of(api.viewer.get(f"/workloads/{made['uid']}/explanation"))
    assert explained["remedies"] == explained["suggestions"]
    (node, *_) = body_of(api.viewer.get("/nodes"))["results"]
    assert node["held_milli"] == node["allocated_milli"]
    assert [gpu["held_milli"] for gpu in node["gpus"]] == [gpu["allocated_milli"] for gpu in node["gpus"]]
    told = body_of(api.viewer.get("/policies/0"))
    assert all(one["least"] == one["min"] and one["most"] == one["max"] for one in told["described"])
    settings = told["settings"]
    assert all(settings[part][was] == settings[part][now] for part in OLD_NAMES for was, now in OLD_NAMES[part].items())


def test_a_result_that_was_stored_before_has_the_new_name_as_well() -> None:
    stored = {"teams": [{"before": {"held_gpu_hours": 3.0}}]}
    told = renamed.with_old_names(policy_answers.SimulationResult, stored)
    assert told["teams"][0]["before"] == {"held_gpu_hours": 3.0, "allocated_gpu_hours": 3.0}


@pytest.mark.parametrize("key", ["matter", "event_type"])
@pytest.mark.parametrize("address", ["/notification-rules", "/notification-subscriptions"])
def test_a_request_may_use_either_name_at_either_address(api: People, key: str, address: str) -> None:
    made = body_of(api.member.post(address, {key: "ended"}), 201)
    assert made["matter"] == made["event_type"] == "ended"
    assert [one["id"] for one in body_of(api.member.get(address))["results"]] == [made["id"]]
    assert api.member.send("DELETE", f"{address}/{made['id']}").status_code == 204


def test_both_names_with_one_value_are_read_and_with_two_refused_by_name(api: People) -> None:
    body_of(api.member.post("/notification-subscriptions", {"matter": "ended", "event_type": "ended"}), 201)
    both = {"matter": "ended", "event_type": "preempted"}
    refused = api.member.post("/notification-subscriptions", both)
    assert fields_of(refused) == ["matter"]
    assert "Give event_type alone" in json.loads(refused.content)["detail"]
    hook = {**HOOK, "matters": ["slo"], "event_types": ["ended"]}
    assert fields_of(api.admin.post("/webhooks", hook)) == ["matters"]
    assert fields_of(api.member.post("/notification-subscriptions", {})) == ["event_type"]
    assert fields_of(api.member.post("/notification-subscriptions", {"matter": "nothing"})) == ["matter"]


def test_a_setting_of_a_policy_may_have_either_name(api: People) -> None:
    saved = body_of(api.platform.post("/policies", {"scheduling": {"most_changes": 7}}), 201)
    assert saved["changes"] == [{"field": "scheduling.max_changes", "before": 500, "after": 7}]
    both = {"scheduling": {"most_changes": 8, "max_changes": 9}}
    assert fields_of(api.platform.post("/policies", both)) == ["scheduling.most_changes"]
    bad = {"scheduling": {"most_changes": 0}}
    assert fields_of(api.platform.post("/policies", bad), 422) == ["scheduling.most_changes"]


def test_a_policy_that_was_stored_before_keeps_its_settings(api: People) -> None:
    row = PolicyVersion.objects.get(
        pk=body_of(api.platform.post("/policies", {"scaling": {"tail": 2}}), 201)["version"]
    )
    row.data["scaling"]["up_part"] = 2  # a setting of the rule before this one
    row.data["scheduling"]["most_changes"] = row.data["scheduling"].pop("max_changes") + 1
    PolicyVersion.objects.filter(pk=row.pk).update(data=row.data)
    stored = policy.version(row.pk)
    assert (stored.scaling.tail, stored.scheduling.max_changes) == (2, 501)


def test_each_old_name_is_deprecated_in_the_document_and_names_its_successor() -> None:
    found: dict[str, str] = {}

    def walk(value: Any) -> None:
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(one, dict) and one.get("deprecated") and "operationId" not in one:
                found[name] = re.search(r"use (\S+)\. The old name is removed in 0\.2", one["description"])[1]  # type: ignore[index]
            if isinstance(one, dict | list):
                walk(one)

    schema = document()
    walk(schema)
    assert found == {
        "matter": "event_type",
        "matters": "event_types",
        "remedies": "suggestions",
        "no_remedies": "no_suggestions",
        "held_milli": "allocated_milli",
        "held_milli_seconds": "allocated_milli_seconds",
        "held_gpu_hours": "allocated_gpu_hours",
        "decayed_milli": "recent_usage_milli",
        "least": "min",
        "most": "max",
        **OLD_NAMES["scheduling"],
        **OLD_NAMES["scaling"],
    }
    moved = {path for path, verbs in schema["paths"].items() for verb in VERBS if verbs.get(verb, {}).get("deprecated")}
    assert moved == {
        "/api/v1/notification-rules",
        "/api/v1/notification-rules/{subscription}",
        "/api/v1/workloads/{uid}/remedy",
    }
