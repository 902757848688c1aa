"""The environment by which the workers of a training job find each other.

Every worker gets MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, LOCAL_RANK as if it ran one process, and torchrun's
PET_* besides, from which `torchrun train.py` starts one process for each GPU. TF_CONFIG only when it is asked for.
"""

import json
from collections.abc import Mapping
from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.port import PodSpec, pod_name
from scheduler.workload import Kind

MASTER_PORT = 29_500  # torch's own default
TENSORFLOW_PORT = 2222
TENSORFLOW = "tensorflow"


def env(pod: PodSpec) -> list[dict[str, Any]]:
    """Variables of one worker of a gang (of one worker, too: a script need not tell the cases apart)."""
    values = {**_usual(pod), **_torchrun(pod)}
    if pod.spec.get("framework") == TENSORFLOW:
        values["TF_CONFIG"] = _tf_config(pod)
    return [{"name": name, "value": value} for name, value in values.items()]


def is_gang(pod: PodSpec) -> bool:
    """Whether it is one of several workers that talk to each other."""
    return pod.spec.get("type") == Kind.TRAINING and max(_size(pod), _gang(pod)["max"]) > 1


def host(pod: PodSpec, rank: int) -> str:
    """The name at which the gang reaches one of its workers, from inside its namespace."""
    if not is_gang(pod):
        return "localhost"
    return f"{pod_name(pod.workload, pod.attempt, rank)}.{names.gang_service(pod.workload)}"


def _usual(pod: PodSpec) -> dict[str, str]:
    return {
        "MASTER_ADDR": host(pod, 0),
        "MASTER_PORT": str(MASTER_PORT),
        "RANK": str(pod.rank),
        "WORLD_SIZE": str(_size(pod)),
        "LOCAL_RANK": "0",
        "NODE_RANK": str(pod.rank),
    }


def _torchrun(pod: PodSpec) -> dict[str, str]:
    """Each PET_X is torchrun's default for --x. An elastic gang meets at rank 0, whoever comes and goes."""
    gang = _gang(pod)
    processes = max(1, int(_normalised(pod).get("gpus") or 0))
    values = {"PET_NPROC_PER_NODE": str(processes)}
    if gang["min"] == gang["max"]:
        return values | {
            "PET_NNODES": str(_size(pod)),
            "PET_NODE_RANK": str(pod.rank),
            "PET_MASTER_ADDR": host(pod, 0),
            "PET_MASTER_PORT": str(MASTER_PORT),
        }
    return values | {
        "PET_NNODES": f"{gang['min']}:{gang['max']}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{host(pod, 0)}:{MASTER_PORT}",
        "PET_RDZV_ID": f"{pod.workload}-{pod.attempt}",
    }


def _tf_config(pod: PodSpec) -> str:
    workers = [f"{host(pod, rank)}:{TENSORFLOW_PORT}" for rank in range(_size(pod))]
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": pod.rank}}
    return json.dumps(cluster, separators=(",", ":"))


def _size(pod: PodSpec) -> int:
    """Workers of this attempt: those that start together, or more where it grew after its start."""
    return max(pod.size, pod.rank + 1)


def _gang(pod: PodSpec) -> Mapping[str, int]:
    return _normalised(pod).get("workers") or {"count": 1, "min": 1, "max": 1}


def _normalised(pod: PodSpec) -> Mapping[str, Any]:
    found = pod.spec.get("normalised")
    return found if isinstance(found, Mapping) else {}
