"""What becomes of each kind's manifest, and which cannot be queued. No cluster, no database."""

from typing import Any

import pytest

from controlplane.adopted import jobfiles, kinds, status
from controlplane.adopted.jobfiles import UnfitError
from controlplane.adopted.port import Owner
from controlplane.jobspec.spec import parse
from tests.adopted.rig import deployment, job, job_set, kubeflow, template

UID = "0a1b2c3d-0000-4000-8000-00000000000a"


def owner(body: dict[str, Any]) -> Owner:
    kind = kinds.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    return Owner(kind, "nlp", {**body, "metadata": {"uid": UID, "namespace": "weft-nlp", **body["metadata"]}})


def file(body: dict[str, Any]) -> dict[str, Any]:
    found = jobfiles.job_file(owner(body))
    parse(found)  # each is a job file without faults
    return found


def test_a_job_is_a_training_of_its_pods() -> None:
    found = file(job("train", pods=3, gpus=2, backoffLimit=4, labels={"weft.dev/priority-class": "high"}))
    assert found == {
        "type": "training", "name": "train", "team": "nlp", "image": "registry.example/train:1",
        "resources": {"cpu": "1000m", "memory": "1024Mi", "gpus": 2}, "priority_class": "high",
        "checkpoint": {"grace": "30s"}, "workers": {"count": 3}, "retries": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "workers", "retries"),
    [
        ({"parallelism": None, "completions": None}, 1, 6),
        ({"parallelism": 4, "completions": None}, 4, 6),  # a work queue: all of them work until it is empty
        ({"parallelism": 4, "completions": 2, "backoffLimit": 0}, 2, 0),
    ],
)
def test_how_many_pods_a_job_has_together(spec: dict[str, Any], workers: int, retries: int) -> None:
    found = file(job("a", **spec))
    assert (found["workers"]["count"], found["retries"]) == (workers, retries)


def test_what_a_container_leaves_open_is_as_in_a_job_file() -> None:
    bare = {"spec": {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}}
    assert file(job("a", template=bare))["resources"] == {"cpu": "1000m", "memory": "2048Mi", "gpus": 0}


@pytest.mark.parametrize(
    ("amounts", "cpu", "memory"),
    [
        ({"cpu": "0.0015", "memory": "1500000000"}, "2m", "1431Mi"),
        ({"cpu": 2, "memory": "1.5Gi"}, "2000m", "1536Mi"),
        ({"cpu": "1e1", "memory": "128974848"}, "10000m", "123Mi"),
    ],
)
def test_amounts_are_read_as_kubernetes_writes_them(amounts: dict[str, Any], cpu: str, memory: str) -> None:
    found = jobfiles.resources({"resources": {"requests": amounts}}, "c")
    assert (found["cpu"], found["memory"]) == (cpu, memory)


def test_a_deployment_is_a_service_with_as_many_replicas() -> None:
    found = file(deployment("chat", replicas=3))
    assert (found["type"], found["replicas"]) == ("inference", {"min": 3})


def elastic(**policy: Any) -> dict[str, Any]:
    body = kubeflow("PyTorchJob", "elastic", {"Worker": (3, 1)})
    body["spec"]["elasticPolicy"] = policy
    return body


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"minReplicas": 1}, "spec.elasticPolicy.minReplicas is 1, and Worker.replicas is 3"),
        ({"minReplicas": 3, "maxReplicas": 6}, "spec.elasticPolicy.maxReplicas is 6, and Worker.replicas is 3"),
        ({"minReplicas": 3, "metrics": [{"type": "Resource"}]}, "spec.elasticPolicy.metrics would have an autoscaler"),
    ],
)
def test_a_job_of_several_sizes_is_refused_and_told_what_weft_has_for_that(policy: dict[str, Any], said: str) -> None:
    with pytest.raises(UnfitError, match="workers.min and workers.max") as refused:
        file(elastic(**policy))
    assert said in str(refused.value)


def test_an_elastic_policy_of_one_size_is_a_gang_of_that_size() -> None:
    assert file(elastic(minReplicas=3, maxReplicas=3, rdzvBackend="c10d"))["workers"] == {"count": 3}
    assert file(elastic(nProcPerNode=2))["workers"] == {"count": 3}


def test_a_job_set_has_a_role_for_each_replicated_job_but_the_workers() -> None:
    found = file(job_set("pretrain", {"driver": (1, 1, 0), "workers": (2, 4, 8)}))
    assert found["workers"] == {"count": 8}
    assert [(role["name"], role["count"], role["resources"]["gpus"]) for role in found["roles"]] == [("driver", 1, 0)]
    assert jobfiles.beside(owner(job_set("p", {"a": (1, 1, 0), "b": (1, 3, 1)})))["kubernetes"]["main"] == "b"


@pytest.mark.parametrize(
    ("kind", "replicas", "workers", "roles"),
    [
        ("PyTorchJob", {"Master": (1, 1), "Worker": (3, 1)}, 3, [("master", 1)]),
        ("PyTorchJob", {"Master": (1, 1)}, 1, []),
        ("TFJob", {"PS": (2, 0), "Worker": (4, 1), "Evaluator": (1, 0)}, 4, [("ps", 2), ("evaluator", 1)]),
    ],
)
def test_a_training_operators_job_has_a_role_for_each_replica_type_but_the_workers(
    kind: str, replicas: dict[str, tuple[int, int]], workers: int, roles: list[tuple[str, int]]
) -> None:
    found = file(kubeflow(kind, "train", replicas))
    assert found["workers"] == {"count": workers}
    assert [(role["name"], role["count"]) for role in found.get("roles", [])] == roles


def test_a_job_set_whose_jobs_wait_for_each_other_is_refused() -> None:
    body = job_set("p", {"a": (1, 1, 0), "b": (1, 1, 0)})
    body["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    with pytest.raises(UnfitError, match=r"spec.replicatedJobs.1.dependsOn"):
        file(body)


def test_an_amount_that_is_none_is_refused_by_name() -> None:
    body = job("a", template=template())
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "much"}}
    with pytest.raises(UnfitError, match=r"spec.template.spec.containers.0.resources says much"):
        file(body)


@pytest.mark.parametrize(
    ("type_", "value", "has_succeeded"),
    [("Complete", "True", True), ("Failed", "True", False), ("Failed", "False", None), ("Suspended", "True", None)],
)
def test_how_an_object_ended_is_what_its_conditions_say(type_: str, value: str, has_succeeded: bool | None) -> None:
    conditions = [{"type": type_, "status": value, "reason": "Because", "message": "It is so."}]
    found = status.end_of(owner({**job("a"), "status": {"conditions": conditions}}))
    assert (found and found.has_succeeded) == has_succeeded


SHARES = (
    {"labels": {"sharedgpu/gpu_request": "0.3", "sharedgpu/gpu_limit": "0.8", "sharedgpu/gpu_mem": "1073741824"}},
    {"annotations": {"kubeshare/gpu_request": "0.3", "kubeshare/gpu_limit": "0.8", "kubeshare/gpu_mem": "1073741824"}},
)


def shared(metadata: dict[str, Any], **resources: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "a", **({"resources": {"limits": resources}} if resources else {})}
    return job("a", template={"metadata": metadata, "spec": {"containers": [container], "restartPolicy": "Never"}})


@pytest.mark.parametrize("metadata", SHARES)
def test_the_words_of_sharepods_ask_for_a_share(metadata: dict[str, Any]) -> None:
    found = file(shared(metadata))["resources"]
    assert found == {
        "cpu": "1000m", "memory": "2048Mi", "gpu_share": {"guarantee": 0.3, "limit": 0.8, "memory": "1024Mi"},
    }  # fmt: skip


def test_the_labels_of_sharepods_are_those_of_the_share() -> None:
    labels = {
        "kubeshare/sched_affinity": "red", "kubeshare/sched_anti-affinity": "green", "kubeshare/sched_exclusion": "blue"
    }  # fmt: skip
    found = file(shared({"annotations": {**SHARES[1]["annotations"], **labels}}))["resources"]["gpu_share"]
    assert [found[name] for name in ("affinity", "anti_affinity", "exclusion")] == ["red", "green", "blue"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"sched_affinity": "red"}, "sharedgpu/gpu_request is missing"),
        (
            {"gpu_request": "0.3", "gpu_mem": "1073741824", "sched_exclusion": "a b"},
            'sharedgpu/sched_exclusion is "a b". Use letters, digits',
        ),
        ({"gpu_limit": "1"}, "sharedgpu/gpu_request is missing"),
        ({"gpu_request": "0.3"}, "sharedgpu/gpu_mem is missing"),
        ({"gpu_request": "0", "gpu_mem": "1073741824"}, "Give at least 0.001"),
        ({"gpu_request": "0.5", "gpu_limit": "0.3", "gpu_mem": "1073741824"}, "gpu_limit is 0.3. Give 0.5 to 1."),
        ({"gpu_request": "0.5", "gpu_limit": "2", "gpu_mem": "1073741824"}, "gpu_limit is 2. Give 0.5 to 1."),
        ({"gpu_request": "half", "gpu_mem": "1"}, "gpu_request is half. Give a number."),
        ({"gpu_request": "NaN", "gpu_mem": "1"}, "Give a number that is not below 0."),
        ({"gpu_request": "0.5", "gpu_mem": "0"}, "gpu_mem is 0."),
        ({"gpu_request": "1.5", "gpu_mem": "1"}, "Give a part of one GPU, or whole GPUs."),
        ({"gpu_request": "2"}, "asks for 2 whole GPUs. Ask for nvidia.com/gpu instead."),
    ],
)
def test_what_of_sharepods_is_no_share_is_refused_with_the_fix(words: dict[str, str], told: str) -> None:
    with pytest.raises(UnfitError, match=r"^spec\.template\.metadata") as refused:
        file(shared({"labels": {f"sharedgpu/{key}": text for key, text in words.items()}}))
    assert told in str(refused.value)


def test_a_share_and_whole_gpus_in_one_pod_are_refused() -> None:
    with pytest.raises(UnfitError, match="Leave out one of the two"):
        file(shared(SHARES[0], **{"nvidia.com/gpu": "1"}))


def test_other_words_with_such_a_prefix_ask_for_nothing() -> None:
    assert file(shared({"labels": {"sharedgpu/group_name": "g"}}))["resources"]["gpus"] == 0
