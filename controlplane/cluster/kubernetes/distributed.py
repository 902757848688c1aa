"""The environment by which the workers of a training job find each other.

Every worker gets MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, LOCAL_RANK as if it ran one process, and torchrun's
PET_* besides, from which `torchrun train.py` starts one process for each GPU. TF_CONFIG only when it is asked for.

In a gang with roles every member also gets WEFT_ROLE, WEFT_ROLE_INDEX and each role's WEFT_HOSTS_<ROLE>. Ranks and the
world are the workers' alone, from 0; role members know where these meet, and TF_CONFIG has a list for each role.

Where the job file names a batch, all get WEFT_BATCH_SIZE: the examples of all workers in a step, which Weft may have
changed since (docs/job-file.md).
"""

import json
from collections.abc import Mapping
from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.port import PodSpec, pod_name
from controlplane.jobspec import members
from scheduler.model.workload import MAIN_ROLE, Kind

MASTER_PORT = 29_500  # torch's own default
TENSORFLOW_PORT = 2222
TENSORFLOW = "tensorflow"
EVALUATOR = "evaluator"
ROLE, ROLE_INDEX, HOSTS = "WEFT_ROLE", "WEFT_ROLE_INDEX", "WEFT_HOSTS_"
BATCH = "WEFT_BATCH_SIZE"
MAX_HOSTS = 1000  # members of a gang: one variable holds 128 KiB


def env(pod: PodSpec) -> list[dict[str, Any]]:
    """Variables of one worker of a gang (of one worker, too: a script need not tell the cases apart)."""
    is_worker = pod.rank >= members.role_members(pod.spec)
    values = {**_usual(pod), **_torchrun(pod)} if is_worker else _meeting(pod)
    if members.roles(pod.spec):
        values |= _role(pod)
    if pod.batch:
        values[BATCH] = str(pod.batch)
    if pod.spec.get("framework") == TENSORFLOW:
        values["TF_CONFIG"] = _tf_config(pod)
    return [{"name": name, "value": value} for name, value in values.items()]


def is_gang(pod: PodSpec) -> bool:
    """Whether it is one of several workers that talk to each other."""
    return pod.spec.get("type") == Kind.TRAINING and _most(pod) > 1


def host(pod: PodSpec, rank: int) -> str:
    """The name at which the gang reaches one of its workers, from inside its namespace."""
    if not is_gang(pod):
        return "localhost"
    return f"{pod_name(pod.workload, pod.attempt, rank)}.{names.gang_service(pod.workload)}"


def _meeting(pod: PodSpec) -> dict[str, str]:
    return {
        "MASTER_ADDR": _first(pod),
        "MASTER_PORT": str(MASTER_PORT),
        "WORLD_SIZE": str(_size(pod)),
    }


def _usual(pod: PodSpec) -> dict[str, str]:
    rank = str(_rank(pod))
    return {
        "MASTER_ADDR": _first(pod),
        "MASTER_PORT": str(MASTER_PORT),
        "RANK": rank,
        "WORLD_SIZE": str(_size(pod)),
        "LOCAL_RANK": "0",
        "NODE_RANK": rank,
    }


def _role(pod: PodSpec) -> dict[str, str]:
    """Which role it has, and where all of each role are; no such lists where one variable has no room for them."""
    name, number = members.role_of(pod.spec, pod.rank)
    values = {ROLE: name, ROLE_INDEX: str(number)}
    if _most(pod) <= MAX_HOSTS:
        for role, ranks in _by_role(pod).items():
            variable = f"{HOSTS}{role.upper().replace('-', '_')}"
            values[variable] = ",".join(host(pod, rank) for rank in ranks)
    return values


def _by_role(pod: PodSpec) -> dict[str, range]:
    """The ranks of each role, the workers' last: those that start together."""
    first = members.role_members(pod.spec)
    return {**dict(members.ranks(pod.spec)), MAIN_ROLE: range(first, first + _size(pod))}


def _torchrun(pod: PodSpec) -> dict[str, str]:
    """Each PET_X is torchrun's default for --x. An elastic gang meets at rank 0, whichever workers come and go."""
    gang = _gang(pod)
    processes = max(1, int(_normalised(pod).get("gpus") or 0))
    values = {"PET_NPROC_PER_NODE": str(processes)}
    if gang["min"] == gang["max"]:
        return values | {
            "PET_NNODES": str(_size(pod)),
            "PET_NODE_RANK": str(_rank(pod)),
            "PET_MASTER_ADDR": _first(pod),
            "PET_MASTER_PORT": str(MASTER_PORT),
        }
    return values | {
        "PET_NNODES": f"{gang['min']}:{gang['max']}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{_first(pod)}:{MASTER_PORT}",
        "PET_RDZV_ID": f"{pod.workload}-{pod.attempt}",
    }


def _tf_config(pod: PodSpec) -> str:
    """As Kubeflow writes it: an evaluator knows of the cluster and is no part of it."""
    name, number = members.role_of(pod.spec, pod.rank)
    cluster = {
        role: [f"{host(pod, rank)}:{TENSORFLOW_PORT}" for rank in ranks]
        for role, ranks in _by_role(pod).items()
        if role != EVALUATOR
    }
    return json.dumps({"cluster": cluster, "task": {"type": name, "index": number}}, separators=(",", ":"))


def _size(pod: PodSpec) -> int:
    """Workers of this attempt: those that start together, or more where it grew after its start."""
    return max(pod.size, pod.rank + 1) - members.role_members(pod.spec)


def _most(pod: PodSpec) -> int:
    """All members that the gang may have."""
    return max(_size(pod), _gang(pod)["max"]) + members.role_members(pod.spec)


def _rank(pod: PodSpec) -> int:
    """Its rank among the workers."""
    return pod.rank - members.role_members(pod.spec)


def _first(pod: PodSpec) -> str:
    """Where the workers meet: at the first of them."""
    return host(pod, members.role_members(pod.spec))


def _gang(pod: PodSpec) -> Mapping[str, int]:
    return _normalised(pod).get("workers") or {"count": 1, "min": 1, "max": 1}


def _normalised(pod: PodSpec) -> Mapping[str, Any]:
    found = pod.spec.get("normalised")
    return found if isinstance(found, Mapping) else {}
