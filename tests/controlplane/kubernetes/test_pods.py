import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from controlplane.cluster.kubernetes import names, services
from controlplane.cluster.kubernetes import pods as builder
from controlplane.cluster.port import PodSpec
from controlplane.jobspec import members
from tests.controlplane.kubernetes.allowed import violations
from tests.controlplane.kubernetes.jobs import UID, job, pod_of, pods


def built(**changes: Any) -> dict[str, Any]:
    return builder.build(pod_of(job(**changes)), namespace="weft-nlp")


def main(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def env(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in main(pod)["env"]}


@given(pods())
def test_every_job_file_becomes_a_pod_that_is_allowed(pod: PodSpec) -> None:
    made = builder.build(pod, namespace=names.namespace(pod.namespace))
    assert violations(made, team=pod.namespace, namespace=f"weft-{pod.namespace}") == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(max_examples=100_000)
@given(pods())
def test_every_job_file_of_100_000_becomes_a_pod_that_is_allowed(pod: PodSpec) -> None:
    made = builder.build(pod, namespace=names.namespace(pod.namespace))
    assert violations(made, team=pod.namespace, namespace=f"weft-{pod.namespace}") == []


@pytest.mark.parametrize(
    "extra",
    [
        {"hostNetwork": True},
        {"nodeName": "a"},
        {"priorityClassName": "system-node-critical"},
        {"initContainers": [{"name": "x"}]},
        {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
        {"schedulerName": "default-scheduler"},
    ],
)
def test_the_oracle_of_allowed_pods_sees_what_is_not(extra: dict[str, Any]) -> None:
    pod = built()
    assert violations(pod, team="nlp", namespace="weft-nlp") == []
    assert violations({**pod, "spec": {**pod["spec"], **extra}}, team="nlp", namespace="weft-nlp")


def test_what_a_stored_job_file_holds_beside_the_known_fields_stays_out_of_the_pod() -> None:
    pod = pod_of(job())
    smuggled = {
        "hostNetwork": True,
        "env": {"NVIDIA_VISIBLE_DEVICES": "all", "LD_PRELOAD": "/x.so", "FINE": "1"},
        "labels": {"internal.weft.dev/rank": "7", "mine": "1"},
    }
    made = builder.build(replace(pod, spec={**pod.spec, **smuggled}), namespace="weft-nlp")
    assert violations(made, team="nlp", namespace="weft-nlp") == []
    assert (env(made)["FINE"], made["metadata"]["labels"]["mine"]) == ("1", "1")
    assert made["metadata"]["labels"]["internal.weft.dev/rank"] == "0"


def test_the_counts_of_a_reporter_are_served_in_the_pod_unless_the_job_file_says_where() -> None:
    usual = {"WEFT_REPORT_PORT": "9464", "WEFT_REPORT_ADDRESS": "0.0.0.0"}  # noqa: S104 - of the pod
    assert env(built()).items() >= usual.items()
    told = env(built(env={"WEFT_REPORT_PORT": "7000", "WEFT_REPORT_FILE": "/report/steps"}))
    assert told.items() >= (usual | {"WEFT_REPORT_PORT": "7000", "WEFT_REPORT_FILE": "/report/steps"}).items()
    of_notebook = main(built(type="notebook")).get("env", [])
    assert not [variable for variable in of_notebook if variable["name"].startswith("WEFT_REPORT")]


def test_whole_gpus_are_asked_of_the_device_plugin() -> None:
    pod = built(resources={"gpus": 2, "cpu": "500m", "memory": "1Gi", "extra": {"rdma/hca": 1}})
    wanted = {"cpu": "500m", "memory": "1024Mi", "nvidia.com/gpu": "2", "rdma/hca": "1"}
    assert main(pod)["resources"] == {"requests": wanted, "limits": wanted}
    assert "NVIDIA_VISIBLE_DEVICES" not in env(pod)
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_share_sees_the_device_it_is_bound_to_and_its_part_is_an_annotation() -> None:
    pod = built(resources={"gpu_share": {"guarantee": 0.3, "limit": 0.6, "memory": "10Gi"}})
    assert "nvidia.com/gpu" not in main(pod)["resources"]["limits"]
    where = {"fieldRef": {"fieldPath": "metadata.annotations['internal.weft.dev/device']"}}
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == where
    noted = {"internal.weft.dev/milli": "300", "internal.weft.dev/limit": "600"}
    assert pod["metadata"]["annotations"] == noted | {"internal.weft.dev/gpu-memory": "10240"}


def test_a_share_knows_what_it_may_use() -> None:
    pod = built(resources={"gpu_share": {"guarantee": 0.3, "memory": "10Gi"}})
    told = {name: value["fieldRef"]["fieldPath"] for name, value in env(pod).items() if name.startswith("WEFT_GPU")}
    assert told == {
        "WEFT_GPU_GUARANTEE_MILLI": "metadata.annotations['internal.weft.dev/milli']",
        "WEFT_GPU_LIMIT_MILLI": "metadata.annotations['internal.weft.dev/limit']",
        "WEFT_GPU_MEMORY_MIB": "metadata.annotations['internal.weft.dev/gpu-memory']",
    }
    assert pod["metadata"]["annotations"]["internal.weft.dev/limit"] == "300"  # as the job file says no other


def test_a_worker_without_a_gpu_sees_none() -> None:
    pod = built(resources={"cpu": 4})
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert (pod["spec"]["tolerations"], pod["metadata"]["annotations"]) == ([], {})


def test_only_who_asks_to_run_as_root_does() -> None:
    assert built()["spec"]["securityContext"]["runAsNonRoot"] is True
    assert "runAsUser" not in built()["spec"]["securityContext"]
    user = built(run_as_user=1000)["spec"]["securityContext"]
    assert (user["runAsNonRoot"], user["runAsUser"]) == (True, 1000)
    root = built(run_as_user=0)["spec"]["securityContext"]
    assert (root["runAsNonRoot"], root["runAsUser"]) == (False, 0)


def test_volumes_are_claims_scratch_space_and_shared_memory() -> None:
    pod = built(
        volumes=[
            {"claim": "data", "path": "/data", "read_only": True},
            {"scratch": "5Gi", "path": "/tmp/x"},
            {"claim": "data", "path": "/again"},
        ],
        resources={"gpus": 1, "shared_memory": "512Mi"},
    )
    assert pod["spec"]["volumes"] == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch-1", "emptyDir": {"sizeLimit": "5Gi"}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
    ]
    assert main(pod)["volumeMounts"] == [
        {"name": "claim-0", "mountPath": "/data", "readOnly": True},
        {"name": "scratch-1", "mountPath": "/tmp/x"},
        {"name": "claim-0", "mountPath": "/again"},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]


@pytest.mark.parametrize(
    "path",
    [
        *("//etc", "/./etc", "/usr//local/nvidia", "//dev", "/var//run", "/data/../etc", "/data/", "/data/.", "data"),
        *("/", "//", "/etc", "/dev/shm", "/var", "/usr/local", "/x:y", "/x\n"),  # noqa: S108 - in a container
    ],
)
def test_a_stored_job_file_whose_mount_is_no_normal_path_becomes_no_pod(path: str) -> None:
    pod = pod_of(job(volumes=[{"claim": "data", "path": "/data"}]))
    stored = replace(pod, spec={**pod.spec, "volumes": [{"claim": "data", "path": path}]})
    with pytest.raises(ValueError, match=r"^A volume's path is "):
        builder.build(stored, namespace="weft-nlp")


def test_secrets_are_named_and_never_read() -> None:
    pod = built(secrets=[{"name": "tracker", "key": "token", "env": "TOKEN"}], pull_secrets=["registry"])
    assert env(pod)["TOKEN"] == {"secretKeyRef": {"name": "tracker", "key": "token"}}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def gang(rank: int, **changes: Any) -> dict[str, Any]:
    pod = pod_of(job(workers={"count": 4}, **changes), rank=rank, size=4, attempt=2)
    return builder.build(pod, namespace="weft-nlp")


def test_a_gang_finds_each_other_by_the_usual_variables() -> None:
    pod = gang(3, resources={"gpus": 8})
    master = f"{UID}-2-0.w-{UID}"
    found = env(pod)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (master, "29500")
    assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("3", "4", "0")
    assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_NPROC_PER_NODE"]) == ("4", "3", "8")
    assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == (master, "29500")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"{UID}-2-3", f"w-{UID}")
    assert "TF_CONFIG" not in found


def test_an_elastic_gang_meets_at_rank_0() -> None:
    pod = pod_of(job(workers={"count": 4, "min": 2, "max": 8}), rank=1, size=4)
    found = env(builder.build(pod, namespace="weft-nlp"))
    assert (found["PET_NNODES"], found["PET_RDZV_BACKEND"]) == ("2:8", "c10d")
    assert (found["PET_RDZV_ENDPOINT"], found["PET_RDZV_ID"]) == (f"{UID}-1-0.w-{UID}:29500", f"{UID}-1")
    assert "PET_NODE_RANK" not in found


def test_a_worker_that_joins_later_counts_those_before_it() -> None:
    pod = pod_of(job(workers={"count": 4, "min": 2, "max": 8}), rank=5, size=2)
    assert env(builder.build(pod, namespace="weft-nlp"))["WORLD_SIZE"] == "6"


def test_tf_config_names_all_workers_and_which_one_this_is() -> None:
    config = json.loads(env(gang(1, framework="tensorflow"))["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"]["worker"] == [f"{UID}-2-{rank}.w-{UID}:2222" for rank in range(4)]


ROLES = [
    {"name": "ps", "count": 2, "resources": {"cpu": 4, "memory": "1Gi"}, "command": ["serve"], "env": {"PORT": "1"}},
    {"name": "evaluator", "resources": {"cpu": 1}, "image": "registry.example/eval:1"},
]


def member(rank: int, **changes: Any) -> dict[str, Any]:
    """One of two servers (ranks 0, 1), an evaluator (2) and four workers (3 to 6)."""
    file = job(workers={"count": 4}, roles=ROLES, args=["--fast"], env={"EPOCHS": "3"}, **changes)
    return builder.build(pod_of(file, rank=rank, size=7, attempt=2), namespace="weft-nlp")


def test_a_role_member_runs_what_its_role_says_with_what_its_role_asks() -> None:
    server, evaluator, worker = member(1), member(2), member(3)
    assert main(server)["command"] == ["serve"]
    assert "args" not in main(server)
    assert main(server)["image"] == main(worker)["image"] == "registry.example/app:1"
    assert main(evaluator)["image"] == "registry.example/eval:1"
    assert main(evaluator)["args"] == main(worker)["args"] == ["--fast"]
    assert (env(server)["EPOCHS"], env(server)["PORT"]) == ("3", "1")
    assert "PORT" not in env(worker)
    assert "nvidia.com/gpu" not in main(server)["resources"]["limits"]
    assert env(server)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert main(worker)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert (server["spec"]["tolerations"], len(worker["spec"]["tolerations"])) == ([], 1)


def test_members_know_their_role_and_where_the_others_are() -> None:
    found = member(1)
    assert (found["metadata"]["labels"]["weft.dev/role"], env(found)["WEFT_ROLE"]) == ("ps", "ps")
    assert (found["metadata"]["labels"]["weft.dev/role-index"], env(found)["WEFT_ROLE_INDEX"]) == ("1", "1")
    assert env(member(4))["WEFT_ROLE_INDEX"] == "1"
    assert env(found)["WEFT_HOSTS_PS"] == f"{UID}-2-0.w-{UID},{UID}-2-1.w-{UID}"
    assert env(member(4))["WEFT_HOSTS_WORKER"].count(",") == 3


def test_ranks_and_the_world_are_the_workers_alone() -> None:
    master = f"{UID}-2-3.w-{UID}"
    worker, server = env(member(4)), env(member(0))
    assert (worker["RANK"], worker["WORLD_SIZE"], worker["MASTER_ADDR"]) == ("1", "4", master)
    assert (worker["PET_NNODES"], worker["PET_NODE_RANK"], worker["PET_MASTER_ADDR"]) == ("4", "1", master)
    assert (server["MASTER_ADDR"], server["WORLD_SIZE"]) == (master, "4")
    assert not {"RANK", "NODE_RANK", "PET_NNODES"} & server.keys()


def test_tf_config_has_a_list_for_each_role_but_the_evaluators() -> None:
    config = json.loads(env(member(2, framework="tensorflow"))["TF_CONFIG"])
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {"ps": 2, "worker": 4}
    assert config["cluster"]["worker"][0] == f"{UID}-2-3.w-{UID}:2222"


def test_one_whose_number_of_servers_was_changed_knows_them_all() -> None:
    """As a row has them after Weft gave it a third server; its job file says two."""
    file = job(workers={"count": 4}, roles=ROLES, framework="tensorflow")
    pod = pod_of(file, rank=4, size=8, attempt=2)
    spec = dict(members.counted(pod.spec, [["ps", 3, []], ["evaluator", 1, []]]))
    found = env(builder.build(replace(pod, spec=spec), namespace="weft-nlp"))
    config = json.loads(found["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 0}
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {"ps": 3, "worker": 4}
    assert found["WEFT_HOSTS_PS"] == ",".join(f"{UID}-2-{rank}.w-{UID}" for rank in range(3))
    assert (found["RANK"], found["WORLD_SIZE"]) == ("0", "4")


def test_the_batch_that_it_has_is_told_to_each_member_and_the_job_file_says_only_what_it_began_with() -> None:
    file = job(workers={"count": 4}, batch={"size": 256, "max": 1024}, roles=ROLES)
    for rank in (0, 4):
        pod = pod_of(file, rank=rank, size=7)
        told = [env(builder.build(replace(pod, batch=now), namespace="weft-nlp")) for now in (256, 512)]
        assert [one["WEFT_BATCH_SIZE"] for one in told] == ["256", "512"]
    assert "WEFT_BATCH_SIZE" not in env(gang(1))


def test_a_gang_without_roles_has_no_words_of_them() -> None:
    assert {name for name in env(gang(1)) if name.startswith("WEFT_")} == {"WEFT_REPORT_PORT", "WEFT_REPORT_ADDRESS"}
    assert not [label for label in gang(1)["metadata"]["labels"] if "role" in label]


def test_what_a_person_sets_of_the_gang_stays_as_set() -> None:
    found = [
        one for one in main(gang(0, env={"PET_NPROC_PER_NODE": "1"}))["env"] if one["name"].startswith("PET_NPROC")
    ]
    assert found == [{"name": "PET_NPROC_PER_NODE", "value": "1"}]


def test_one_worker_alone_is_its_own_master() -> None:
    pod = built()
    assert env(pod)["MASTER_ADDR"] == "localhost"
    assert "subdomain" not in pod["spec"]
    assert services.build(pod_of(job()), namespace="weft-nlp") is None


def test_a_gang_has_a_service_without_an_address() -> None:
    for rank in range(4):
        service = services.build(pod_of(job(workers={"count": 4}), rank=rank, size=4), namespace="weft-nlp")
        assert service is not None
        assert service["metadata"]["name"] == f"w-{UID}"
        assert service["metadata"]["namespace"] == "weft-nlp"
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["spec"]["selector"] == {"weft.dev/workload": UID}
        assert [port["port"] for port in service["spec"]["ports"]] == [29_500]


@pytest.mark.parametrize(
    ("changes", "name", "port"),
    [
        ({"type": "inference", "name": "chat", "port": 8080}, "chat", 8080),
        ({"type": "notebook", "name": "explore"}, "explore", 8888),
        ({"type": "notebook", "name": "explore", "ports": [9000, 22]}, "explore", 9000),
        ({"type": "inference", "name": "7b"}, f"w-{UID}", 8000),
        ({"type": "inference", "name": "w-x"}, f"w-{UID}", 8000),
    ],
)
def test_a_notebook_or_service_is_reached_by_its_name(changes: dict[str, Any], name: str, port: int) -> None:
    service = services.build(pod_of(job(**changes)), namespace="weft-nlp")
    assert service is not None
    assert service["metadata"]["name"] == name
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["ports"][0]["targetPort"] == port


def test_ports_below_1024_open_without_root() -> None:
    context = built(type="inference", port=80)["spec"]["securityContext"]
    assert context["sysctls"] == [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    assert "sysctls" not in built(type="inference", port=8000)["spec"]["securityContext"]
    assert built(type="notebook", ports=[9000, 22])["spec"]["securityContext"]["sysctls"] == context["sysctls"]


def test_devices_survive_the_way_through_the_annotation() -> None:
    for gpus in ((), (0,), (0, 3, 11)):
        assert names.gpus_of(names.gpus_text(gpus)) == gpus
    with pytest.raises(ValueError, match="invalid literal"):
        names.gpus_of("all")


def test_two_workers_or_one_that_more_may_join_are_a_gang_and_one_without_gpus_is_one_process() -> None:
    two = builder.build(pod_of(job(workers={"count": 2}), rank=1, size=2), namespace="weft-nlp")
    assert (env(two)["WORLD_SIZE"], env(two)["MASTER_ADDR"]) == ("2", f"{UID}-1-0.w-{UID}")
    assert two["spec"]["subdomain"] == f"w-{UID}"
    first = pod_of(job(workers={"count": 1, "min": 1, "max": 8}), rank=0, size=1)  # the others will have to find it
    assert builder.build(first, namespace="weft-nlp")["spec"]["subdomain"] == f"w-{UID}"
    assert env(built(resources={"cpu": 1}))["PET_NPROC_PER_NODE"] == "1"
    assert env(built(resources={"gpus": 2}))["PET_NPROC_PER_NODE"] == "2"
