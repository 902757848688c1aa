"""The Workload object of Kubernetes in the place of a job file: the same workload; faults of its own fields."""

from typing import Any

import pytest

from controlplane.kubeobjects import conversion
from controlplane.models import Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, job

ENV = {"MAX_EPOCHS": "3"}


def document(name: str = "hello", **spec: Any) -> dict[str, Any]:
    """The object of the short job file."""
    small = {"type": "training", "image": "registry.example/app:1", "resources": {"gpus": 1}}
    meta = {"name": name, "namespace": "weft-red"}
    return {"apiVersion": "weft.dev/v1beta1", "kind": "Workload", "metadata": meta, "spec": {**small, **spec}}


def test_an_object_makes_the_workload_that_its_job_file_makes(api: People) -> None:
    file = job(
        "one",
        resources={"gpus": 1, "gpu_model": ["A100"]},
        env=ENV,
        expected_duration="1h",
        workers={"max": 2, "count": 1},
    )
    one = body_of(api.member.post("/workloads", file), 201)
    two = body_of(api.member.post("/workloads", conversion.workload({**file, "name": "two"}, "weft-")), 201)
    for part in ("normalised", "spec", "managed_by", "created_by", "team"):
        assert {**one["spec"], "name": ""} == {**two["spec"], "name": ""} if part == "spec" else one[part] == two[part]
    assert two["spec"]["env"] == ENV


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"apiVersion": "batch/v1"}, "apiVersion", 'apiVersion is "batch/v1". Write apiVersion: weft.dev/v1beta1'),
        ({"kind": "Job"}, "kind", "Write apiVersion: weft.dev/v1beta1 and kind: Workload"),
        ({"kind": None}, "kind", "kind is null."),
        ({"metadata": {"namespace": "weft-red"}}, "metadata.name", "metadata.name is missing"),
        ({"metadata": {"name": "a"}}, "metadata.namespace", "Write the namespace of the team: weft-TEAM."),
        ({"metadata": {"name": "a", "namespace": "default"}}, "metadata.namespace", '"default", which is no team\'s'),
        ({"metadata": {"name": "a", "namespace": "weft-blue"}}, "metadata.namespace", "There is no team blue"),
        ({"metadata": {"name": 7, "namespace": "weft-red"}}, "metadata.name", "metadata.name is 7, which is not text"),
        ({"metadata": "x"}, "metadata", 'metadata is "x". Give an object.'),
        ({"spec": None}, "spec", "spec is null. Give an object."),
        ({"team": "blue"}, "team", "Leave team out."),
        ({"team": 7}, "team", "Give the name of a team"),
        ({"type": "training"}, "type", "type is not a field of a Workload. Fields here: apiVersion, kind, metadata"),
    ],
)
def test_what_is_wrong_with_the_object_is_told_with_the_fix(
    api: People, change: dict[str, Any], field: str, said: str
) -> None:
    answer = api.member.post("/workloads", {**document(), **change})
    assert field in fields_of(answer, answer.status_code)
    assert answer.status_code in (400, 404)
    assert any(said in one["message"] for one in body_of(answer, answer.status_code)["errors"])


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"gpu_model": "A100"}, "spec.gpu_model", "spec.gpu_model is not a field"),
        ({"resources": {"gpus": 1, "gpu_model": "A100"}}, "spec.resources.gpu_model", "Did you mean gpuModel?"),
        ({"volumes": [{"path": "/data", "read_only": True}]}, "spec.volumes.0.read_only", "Did you mean readOnly?"),
        ({"name": "other"}, "spec.name", "Write it as metadata.name"),
        ({"suspend": "yes"}, "spec.suspend", "Use true or false"),
        ({"maxDuration": "soon"}, "spec.maxDuration", "spec.maxDuration"),
        ({"workers": {"count": 1, "min": 2}}, "spec.workers.min", "spec.workers.min"),
        ({"env": {"a-b": "c"}}, "spec.env.a-b", "a-b"),
        (
            {"roles": [{"name": "ps", "resources": {"cpu": 0}}]},
            "spec.roles.0.resources.cpu",
            "spec.roles.0.resources.cpu",
        ),
        ({"priorityClass": "none-such"}, "spec.priorityClass", "none-such"),
        ({"retrys": 1}, "spec.retrys", "Did you mean retries?"),
        ({"maxDuratoin": "1h"}, "spec.maxDuratoin", "Did you mean maxDuration?"),
        ({"idle": {"parkAfter": "1h"}}, "spec.idle", "not a field of a Workload. It belongs to notebook"),
    ],
)
def test_faults_of_the_job_are_told_of_the_objects_fields(
    api: People, change: dict[str, Any], field: str, said: str
) -> None:
    body = document()
    answer = api.member.post("/workloads", {**body, "spec": {**body["spec"], **change}})
    assert field in fields_of(answer, answer.status_code)
    assert answer.status_code in (400, 422)
    assert any(said in one["message"] for one in body_of(answer, answer.status_code)["errors"])
    assert not Workload.objects.exists()


def test_a_batch_mixes_both_and_names_the_one_that_is_at_fault(api: People) -> None:
    both = [document("first"), job("second", after=["first"])]
    made = body_of(api.member.post("/workloads:batch", both), 201)
    assert [one["name"] for one in made["results"]] == ["first", "second"]
    assert fields_of(api.member.post("/workloads:batch", [job("a"), document("b", gpu=1)])) == ["1.spec.gpu"]
    unknown = document("b", priorityClass="none-such")
    assert fields_of(api.member.post("/workloads:batch", [document("a"), unknown]), 422) == ["spec.priorityClass"]
    foreign = {**document("b"), "metadata": {"name": "b", "namespace": "weft-blue"}}
    assert fields_of(api.member.post("/workloads:batch", [job("a"), foreign]), 404) == ["1.metadata.namespace"]


def test_one_that_is_to_rest_is_submitted_so_and_neither_tried_nor_applied(api: People) -> None:
    made = body_of(api.member.post("/workloads", document(suspend=True)), 201)
    assert made["phase"] == "Held"
    batch = body_of(api.member.post("/workloads:batch", [document("a"), document("b", suspend=True)]), 201)
    assert [one["phase"] for one in batch["results"]] == ["Queued", "Held"]
    for path in ("preview", "apply", "diff"):
        assert fields_of(api.member.post(f"/workloads:{path}", document("c", suspend=True))) == ["spec.suspend"]


def test_what_names_no_namespace_may_name_its_team(api: People) -> None:
    bare = {**document(), "metadata": {"name": "bare"}, "team": "red"}
    assert body_of(api.member.post("/workloads", bare), 201)["team"] == "red"


def test_an_object_is_compared_previewed_and_applied_as_its_job_file_is(api: People) -> None:
    made = body_of(api.member.post("/workloads", job()), 201)
    changed = document(expectedDuration="2h")
    told = body_of(api.member.post("/workloads:diff", changed))
    assert told["uid"] == made["uid"]
    assert [one["field"] for one in told["differences"]] == ["expected_duration"]
    assert body_of(api.member.post("/workloads:apply", changed))["changed"] == ["expected_duration"]
    assert "will_start" in body_of(api.member.post("/workloads:preview", document("other")))


def test_the_addresses_of_one_type_say_where_an_object_goes(api: People) -> None:
    answer = api.member.post("/trainings", document())
    assert fields_of(answer) == ["apiVersion"]
    assert "Send it to /api/v1/workloads" in body_of(answer, 400)["detail"]
