"""A worker as a Kubernetes pod, built by allow-list: only what is named here gets into a tenant's pod.

What a pod may hold is said in docs/kubernetes.md#a-pod (S15). PodSecurity (level `restricted`, or `baseline` for a run
as root) and our admission policy check the same inside the API server. Plain JSON, since typed models cost too much by
the thousand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from controlplane.cluster.kubernetes import distributed, names, volumes
from controlplane.cluster.kubernetes.backends import choice
from controlplane.cluster.kubernetes.backends.variables import HIDDEN
from controlplane.cluster.port import PodSpec
from controlplane.domain.addresses import ports
from controlplane.jobspec import members
from controlplane.jobspec.reserved import is_reserved
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind

Json = dict[str, Any]

FS_GROUP = 1000  # owns the volumes, so that any user of the image can write to them
ROOT = 0
# Opens ports below 1024 to all users; on the list of safe sysctls, which PodSecurity allows.
LOW_PORTS = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
FIRST_FREE_PORT = 1024
READY_PERIOD, READY_FAILURES = 2, 3  # s between two looks whether a replica answers; missed ones before it does not
# Where `weft.report` serves its counts: in the pod's own network, where the scrape settings of docs/metrics.md ask.
REPORTS: tuple[Json, ...] = (
    {"name": "WEFT_REPORT_PORT", "value": "9464"},
    {"name": "WEFT_REPORT_ADDRESS", "value": "0.0.0.0"},  # noqa: S104 - all addresses of the pod
)
CANONICAL = "service.istio.io/canonical-revision"
SERVICE_ACCOUNT = "default"  # of the team's namespace; it has no rights and its token is not mounted


def build(pod: PodSpec, *, namespace: str) -> Json:
    """The pod without a node: it is bound, together with its GPUs, by a Binding.

    Where kube-scheduler binds it, as it finds its device, it has its GPUs and the name of its node from the beginning.
    """
    pod = replace(pod, spec=dict(members.of_rank(pod.spec, pod.rank)))
    spec: Mapping[str, Any] = pod.spec
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": namespace,
            "labels": _labels(pod),
            "annotations": _annotations(pod),
        },
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "restartPolicy": "Never",
            "serviceAccountName": SERVICE_ACCOUNT,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": max(1, round(_normalised(pod).get("grace_seconds") or 0)),
            "securityContext": _security(spec),
            "containers": [_container(pod)],
            "volumes": volumes.volumes(spec),
            "imagePullSecrets": [{"name": str(name)} for name in spec.get("pull_secrets") or ()],
            "tolerations": [_toleration(key) for key in names.TOLERATED_TAINTS] if has_gpu(pod) else [],
            **_name_in_gang(pod),
        },
    }
    if has_share(pod):
        choice.of(pod).dress(pod, body)
    return body


def _annotations(pod: PodSpec) -> dict[str, str]:
    if not has_gpu(pod):
        return {}
    given = {names.MILLI: str(pod.milli), names.GPU_MEMORY: str(pod.gpu_memory)}
    if not has_share(pod):
        return given
    given[names.LIMIT] = str(_limit(pod))
    backend = choice.of(pod)
    if backend.accounts:
        given[names.ENFORCER] = pod.enforcer
    if backend.is_scheduled and pod.gpus:
        given[names.GPUS] = names.gpus_text(pod.gpus)
    return given


def _limit(pod: PodSpec) -> int:
    """Milli-GPU that a share may use while the others on its device leave them idle."""
    if pod.is_lent:
        return WHOLE
    if pod.limit:
        return max(pod.milli, pod.limit)
    share = _normalised(pod)["gpu_share"]
    limit = share.get("limit") if isinstance(share, Mapping) else None
    return max(pod.milli, int(limit or 0))


def has_gpu(pod: PodSpec) -> bool:
    """Whether it asks for whole GPUs or a share."""
    return whole_gpus(pod) > 0 or has_share(pod)


def has_share(pod: PodSpec) -> bool:
    """Whether it asks for a part of one GPU, or runs on one that a service lends: neither is Kubernetes' to give."""
    return bool(_normalised(pod).get("gpu_share")) or pod.is_lent


def whole_gpus(pod: PodSpec) -> int:
    """How many whole GPUs it asks for."""
    return 0 if has_share(pod) else int(_normalised(pod).get("gpus") or 0)


def _normalised(pod: PodSpec) -> Mapping[str, Any]:
    found = members.of_rank(pod.spec, pod.rank).get("normalised")
    return found if isinstance(found, Mapping) else {}


def _name_in_gang(pod: PodSpec) -> Json:
    """What makes `pod.service` a name in the cluster's DNS."""
    if not distributed.is_gang(pod):
        return {}
    return {"hostname": pod.name, "subdomain": names.gang_service(pod.workload)}


def _labels(pod: PodSpec) -> dict[str, str]:
    """The person's labels, which have no prefix, and ours, which all have one."""
    role, number = members.role_of(pod.spec, pod.rank)
    given = pod.spec.get("labels")
    theirs = {k: str(v) for k, v in given.items() if "/" not in k} if isinstance(given, Mapping) else {}
    return {
        **theirs,
        names.WORKLOAD: pod.workload,
        names.TEAM: pod.namespace,
        names.NAME: str(pod.spec.get("name", "")),
        names.KIND: str(pod.spec.get("type", "")),
        names.ATTEMPT: str(pod.attempt),
        names.RANK: str(pod.rank),
        # Istio tells requests apart by the second one.
        **({names.REVISION: str(pod.revision), CANONICAL: str(pod.revision)} if pod.revision else {}),
        **({names.SERVING: "false" if pod.is_asleep else "true"} if pod.spec.get("type") == Kind.INFERENCE else {}),
        **({names.ROLE: role, names.ROLE_INDEX: str(number)} if members.roles(pod.spec) else {}),
    }


def _security(spec: Mapping[str, Any]) -> Json:
    user = spec.get("run_as_user")
    context: Json = {
        "runAsNonRoot": user != ROOT,
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": FS_GROUP,
        "fsGroupChangePolicy": "OnRootMismatch",  # a large volume is not walked at every start
    }
    if user is not None:
        context["runAsUser"] = int(user)
    if any(port < FIRST_FREE_PORT for port in ports(spec)):
        context["sysctls"] = [LOW_PORTS]
    return context


def _container(pod: PodSpec) -> Json:
    spec = pod.spec
    resources = _resources(pod)
    container = {
        "name": names.CONTAINER,
        "image": str(spec["image"]),
        "imagePullPolicy": "Always",  # else a node would run another team's private image from its cache
        "command": _texts(spec.get("command")),
        "args": _texts(spec.get("args")),
        "workingDir": spec.get("working_dir"),
        "env": _env(pod),
        "ports": [{"containerPort": port, "protocol": "TCP"} for port in ports(spec)],
        "readinessProbe": _readiness(spec),
        "resources": {"requests": resources, "limits": dict(resources)},
        "volumeMounts": volumes.mounts(spec),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {key: value for key, value in container.items() if value not in (None, [])}


def _readiness(spec: Mapping[str, Any]) -> Json | None:
    """What says that a replica answers: its health path, or that its port takes connections."""
    if spec.get("type") != Kind.INFERENCE or not (port := next(iter(ports(spec)), None)):
        return None
    path = spec.get("health")
    asked: Json = {"httpGet": {"path": str(path), "port": port}} if path else {"tcpSocket": {"port": port}}
    return {**asked, "periodSeconds": READY_PERIOD, "failureThreshold": READY_FAILURES}


def _resources(pod: PodSpec) -> dict[str, str]:
    """Requests, which are the limits too. A share asks the kubelet for nothing: its annotations say what it may use."""
    asked = pod.spec.get("resources")
    extra = asked.get("extra") if isinstance(asked, Mapping) else None
    quantities = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory}Mi"}
    quantities |= {str(name): str(int(count)) for name, count in (extra or {}).items()}
    if gpus := whole_gpus(pod):
        quantities[names.GPU_RESOURCE] = str(gpus)
    return quantities


def _env(pod: PodSpec) -> list[Json]:
    """The person's variables, the values of their secrets, then ours; what a person set of a gang's stays as set."""
    spec = pod.spec
    given = spec.get("env")
    plain = given.items() if isinstance(given, Mapping) else ()
    theirs: list[Json] = [{"name": name, "value": str(value)} for name, value in plain]
    for secret in _mappings(spec.get("secrets")):
        reference = {"name": str(secret["name"]), "key": str(secret["key"])}
        theirs.append({"name": str(secret["env"]), "valueFrom": {"secretKeyRef": reference}})
    theirs = [variable for variable in theirs if not is_reserved(variable["name"])]
    set_by_them = {variable["name"] for variable in theirs}
    gang = [*distributed.env(pod), *REPORTS] if spec.get("type") == Kind.TRAINING else []
    return [*theirs, *(v for v in gang if v["name"] not in set_by_them), *_devices(pod)]


def _devices(pod: PodSpec) -> list[Json]:
    """Which GPUs the container runtime shows. Unset, it would show all of them to a container that asked for none.

    Whole GPUs: the device plugin's variable, which ours would override. A share: as its back-end has it.
    """
    return [] if whole_gpus(pod) or has_share(pod) else [HIDDEN]


def _toleration(key: str) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _texts(given: object) -> list[str] | None:
    return [str(one) for one in given] if isinstance(given, list | tuple) else None


def _mappings(given: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list | tuple) else []
