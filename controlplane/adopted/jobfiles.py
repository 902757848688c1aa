"""An object's manifest as the job file of the workload that it is: how many pods of which size, and their roles.

Only what placing needs is taken over. The pods are made by the object's own controller, from its own template.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from controlplane.adopted import sharepods
from controlplane.adopted.kinds import DEPLOYMENT, JOB, JOB_SET, Json, at
from controlplane.adopted.port import Owner

GPU = "nvidia.com/gpu"
CPU, MEMORY = "1", "2Gi"  # of a container that names none, as of a job file
BACKOFF_LIMIT = 6  # of a Job that says nothing
MAX_RETRIES = 100
MAX_GRACE_SECONDS = 3600
MAIN = "worker"  # what the main role of a job file is called
_REPLICA_SPECS = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}


class UnfitError(Exception):
    """Weft cannot queue this object; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of an object that are alike. field: where their template is in the manifest."""

    name: str
    count: int
    template: Json
    field: str


def job_file(owner: Owner) -> dict[str, Any]:
    """The job file of the workload that this object is. Raises UnfitError."""
    sets = pod_sets(owner.kind.kind, owner.manifest)
    main = main_set(sets)
    pod = at(main.template, "spec") or {}
    file: dict[str, Any] = {
        "type": owner.kind.workload.value,
        "name": owner.name,
        "team": owner.team,
        "image": str(container(main).get("image", "")),
        "resources": _resources(main),
    }
    if owner.priority_class:
        file["priority_class"] = owner.priority_class
    if owner.kind is DEPLOYMENT:
        ports = [port["containerPort"] for port in container(main).get("ports") or ()]
        return {**file, "replicas": {"min": max(1, main.count)}, **({"port": ports[0]} if ports else {})}
    grace = pod.get("terminationGracePeriodSeconds", 30)
    file["checkpoint"] = {"grace": f"{min(MAX_GRACE_SECONDS, max(1, int(grace)))}s"}
    file["workers"] = {"count": main.count}
    file["retries"] = min(MAX_RETRIES, _retries(owner))
    if others := [one for one in sets if one is not main]:
        file["roles"] = [_role(one) for one in others]
    return file


def beside(owner: Owner) -> dict[str, Any]:
    """What is kept beside the job file: which object it is, and what its pods of the main role are called."""
    main = main_set(pod_sets(owner.kind.kind, owner.manifest))
    return {"kubernetes": {"kind": owner.kind.kind, "name": owner.name, "main": main.name}}


def pod_sets(kind: str, manifest: Json) -> tuple[PodSet, ...]:
    """The pods that an object wants, with at least one pod each. Raises UnfitError."""
    sets: tuple[PodSet, ...]
    if kind == JOB.kind:
        sets = (PodSet(MAIN, _job_pods(at(manifest, "spec"), "spec"), _template(manifest), "spec.template"),)
    elif kind == DEPLOYMENT.kind:
        count = at(manifest, "spec", "replicas")
        return (PodSet(MAIN, 1 if count is None else int(count), _template(manifest), "spec.template"),)
    elif kind == JOB_SET.kind:
        sets = tuple(_of_job_set(manifest))
    else:
        sets = tuple(_of_kubeflow(manifest, _REPLICA_SPECS[kind]))
        _refuse_elastic(manifest, sets)
    found = tuple(one for one in sets if one.count > 0)
    if not found:
        raise UnfitError("spec asks for no pods. Ask for at least one, or take the label weft.dev/queue off.")
    return found


def main_set(sets: Iterable[PodSet]) -> PodSet:
    """The one that becomes the workers: it is called so, or has the most pods."""
    ordered = sorted(sets, key=lambda one: (one.name not in (MAIN, f"{MAIN}s"), -one.count))
    return ordered[0]


def container(pod_set: PodSet) -> Json:
    """Its one container. Raises UnfitError."""
    found = at(pod_set.template, "spec", "containers") or []
    if len(found) != 1:
        raise UnfitError(
            f"{pod_set.field}.spec.containers has {len(found)} containers. A pod of a team has one: put the others "
            "into an object of their own."
        )
    first: Json = found[0]
    return first


def resources(of: Json, field: str) -> dict[str, Any]:
    """What a container asks for, as a job file says it: limits go before requests. Raises UnfitError."""
    asked = {**(at(of, "resources", "requests") or {}), **(at(of, "resources", "limits") or {})}
    found: dict[str, Any] = {
        "cpu": f"{milli(asked.pop('cpu', CPU), f'{field}.resources')}m",
        "memory": f"{mebibytes(asked.pop('memory', MEMORY), f'{field}.resources')}Mi",
        "gpus": _whole(asked.pop(GPU, 0), f"{field}.resources"),
    }
    if extra := {name: _whole(count, f"{field}.resources") for name, count in asked.items() if "/" in name}:
        found["extra"] = extra
    if strange := sorted(name for name in asked if "/" not in name):
        raise UnfitError(f"{field}.resources names {strange[0]}. Leave it out: a pod of a team asks for cpu, memory "
                         f"and {GPU}.")  # fmt: skip
    return found


def milli(text: object, field: str = "") -> int:
    """CPU in 1/1000 cores, rounded up."""
    return int((_quantity(text, field) * 1000).to_integral_value(ROUND_CEILING))


def mebibytes(text: object, field: str = "") -> int:
    """Memory in MiB, rounded up."""
    return int((_quantity(text, field) / 2**20).to_integral_value(ROUND_CEILING))


_UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}  # fmt: skip


def _quantity(text: object, field: str) -> Decimal:
    written = str(text)
    number = written.rstrip("numkKMGTPEi")
    try:
        return Decimal(number) * _UNITS[written[len(number) :]]
    except (InvalidOperation, KeyError):
        raise UnfitError(f"{field} says {written}. Write an amount such as 500m or 16Gi.") from None


def _whole(text: object, field: str) -> int:
    return int(_quantity(text, field).to_integral_value(ROUND_CEILING))


def _template(manifest: Json) -> Json:
    return at(manifest, "spec", "template") or {}


def _job_pods(spec: Json | None, field: str) -> int:
    """How many pods of a Job run together: all of them, as one gang. Raises UnfitError."""
    parallelism, completions = (at(spec or {}, name) for name in ("parallelism", "completions"))
    together = 1 if parallelism is None else int(parallelism)
    if completions is not None and int(completions) > together:
        raise UnfitError(
            f"{field}.completions is {completions} and {field}.parallelism is {together}: Weft starts the pods of a "
            f"Job together. Set parallelism to {completions}, or make several Jobs."
        )
    return together if completions is None else int(completions)


def _of_job_set(manifest: Json) -> Iterable[PodSet]:
    if at(manifest, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder":
        raise UnfitError("spec.startupPolicy is InOrder: Weft starts the pods of a JobSet together. Set AnyOrder.")
    for number, one in enumerate(at(manifest, "spec", "replicatedJobs") or ()):
        field = f"spec.replicatedJobs.{number}"
        if one.get("dependsOn"):
            raise UnfitError(f"{field}.dependsOn: Weft starts the pods of a JobSet together. Leave it out.")
        spec = at(one, "template", "spec") or {}
        pods = _job_pods(spec, f"{field}.template.spec") * int(one.get("replicas", 1))
        yield PodSet(str(one.get("name", "")), pods, spec.get("template") or {}, f"{field}.template.spec.template")


def _of_kubeflow(manifest: Json, key: str) -> Iterable[PodSet]:
    for name, one in (at(manifest, "spec", key) or {}).items():
        count = one.get("replicas")
        template = one.get("template") or {}
        yield PodSet(name.lower(), 1 if count is None else int(count), template, f"spec.{key}.{name}.template")


def _refuse_elastic(manifest: Json, sets: Iterable[PodSet]) -> None:
    """A PyTorchJob of several sizes: its workers are made by its controller and counted by its own object.

    To grow or shrink it Weft would have to write `replicas`, which is its user's, or an autoscaler's.
    """
    policy = at(manifest, "spec", "elasticPolicy") or {}
    count = next((one.count for one in sets if one.name == MAIN), 0)
    instead = (
        "for a gang that Weft grows and shrinks apply a Workload of Weft's own with workers.min and workers.max "
        "(docs/kubernetes-objects.md)."
    )
    for name in ("minReplicas", "maxReplicas"):
        if policy.get(name) not in (None, count):
            raise UnfitError(
                f"spec.elasticPolicy.{name} is {policy[name]}, and Worker.replicas is {count}: how many workers a "
                f"PyTorchJob has is not Weft's to change. Set it to {count}, or leave it out; {instead}"
            )
    if policy.get("metrics"):
        raise UnfitError(
            "spec.elasticPolicy.metrics would have an autoscaler change the number of workers while they run. Leave it "
            f"out; {instead}"
        )


def _role(pod_set: PodSet) -> dict[str, Any]:
    its = container(pod_set)
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        "image": str(its.get("image", "")),
        "resources": _resources(pod_set),
    }


def _resources(pod_set: PodSet) -> dict[str, Any]:
    """What each pod of a set asks for: of its GPU a share, where its template says that as KubeShare's SharePods do."""
    found = resources(container(pod_set), f"{pod_set.field}.spec.containers.0")
    try:
        told = sharepods.asked(metadata := at(pod_set.template, "metadata") or {})
        labels = sharepods.labels(metadata)
    except sharepods.SharePodError as error:
        raise UnfitError(f"{pod_set.field}.metadata: {error}") from None
    if told is None:
        return found
    if found["gpus"]:
        raise UnfitError(
            f"{pod_set.field} asks for {GPU} and, in KubeShare's words, for GPUs as well. Leave out one of the two."
        )
    if "gpus" in told:
        raise UnfitError(f"{pod_set.field}.metadata asks for {told['gpus']} whole GPUs. Ask for {GPU} instead.")
    guarantee, limit = (Decimal(told[name]) / sharepods.MILLI for name in ("guarantee", "limit"))
    share = {"guarantee": float(guarantee), "limit": float(limit), "memory": f"{told['memory']}Mi", **labels}
    return {key: value for key, value in found.items() if key != "gpus"} | {"gpu_share": share}


def _retries(owner: Owner) -> int:
    """How often its controller makes pods again after one has failed."""
    if owner.kind is JOB_SET:
        return int(at(owner.manifest, "spec", "failurePolicy", "maxRestarts") or 0)
    path = ("spec", "backoffLimit") if owner.kind is JOB else ("spec", "runPolicy", "backoffLimit")
    found = at(owner.manifest, *path)
    return BACKOFF_LIMIT if found is None else int(found)
