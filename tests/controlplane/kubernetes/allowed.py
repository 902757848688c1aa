"""What a tenant's pod may hold (S15, docs/kubernetes.md#a-pod), said a second time and independently of the builder.

Everything is an allow-list of paths with a check each: what is not named here is a violation.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

QUANTITY = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
FORBIDDEN_ENV = re.compile(r"NVIDIA_.*|CUDA_.*|GPU_DEVICE_ORDINAL|ROCR?_.*|HIP_.*|LD_.*|KUBERNETES_.*|WEFT_.*", re.I)
OF_ROLES = re.compile("WEFT_(ROLE|ROLE_INDEX|HOSTS_.*)$")
OF_REPORTS = ("WEFT_REPORT_PORT", "WEFT_REPORT_ADDRESS", "WEFT_REPORT_FILE")  # where `weft.report` tells of steps
OF_BATCH = "WEFT_BATCH_SIZE"
DNS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})?[A-Za-z0-9]|")


def violations(pod: dict[str, Any], *, team: str, namespace: str) -> list[str]:
    """The paths of the pod that may not be there, or not like this."""
    found = [path for path, value in _leaves(pod) if not _is_allowed(path, value)]
    spec, meta = pod["spec"], pod["metadata"]
    main = spec["containers"][0]
    demands = {
        "namespace": meta["namespace"] == namespace,
        "team": meta["labels"]["weft.dev/team"] == team,
        "scheduler": spec["schedulerName"] == "weft",
        "one container": len(spec["containers"]) == 1,
        "limits": main["resources"]["limits"] == main["resources"]["requests"],
        "cpu and memory": {"cpu", "memory"} <= main["resources"]["limits"].keys(),
        "token": spec["automountServiceAccountToken"] is False,
        "account": spec["serviceAccountName"] == "default",
        "root": spec["securityContext"]["runAsNonRoot"] is (spec["securityContext"].get("runAsUser") != 0),
        "seccomp": spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"},
        "escalation": main["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "pull": main["imagePullPolicy"] == "Always",
        "mounts": {m["name"] for m in main.get("volumeMounts", ())} == {v["name"] for v in spec["volumes"]},
        "devices": _devices_are_right(main),
        "readiness": "readinessProbe" not in main or meta["labels"]["weft.dev/kind"] == "inference",
        "revision": meta["labels"].get("weft.dev/revision")
        == meta["labels"].get("service.istio.io/canonical-revision"),
        "batch": _batch_is_right(meta["labels"], main),
        "roles": _roles_are_right(meta["name"], meta["labels"], main),
        "variables": len(names := [v["name"] for v in main.get("env", ())]) == len(set(names)),
    }
    return found + [name for name, is_met in demands.items() if not is_met]


def _devices_are_right(main: dict[str, Any]) -> bool:
    """Without whole GPUs the variable is ours: `void`, or what the pod was bound to."""
    ours = (*OF_REPORTS, OF_BATCH)
    env = [v for v in main.get("env", ()) if v["name"] not in ours and not OF_ROLES.match(v["name"])]
    variables = [v for v in env if FORBIDDEN_ENV.fullmatch(v["name"])]
    if "nvidia.com/gpu" in main["resources"]["limits"]:
        return not variables
    return variables in ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], SHARED)


def _noted(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['internal.weft.dev/{key}']"}}}


SHARED = [
    _noted("NVIDIA_VISIBLE_DEVICES", "device"),
    _noted("WEFT_GPU_GUARANTEE_MILLI", "milli"),
    _noted("WEFT_GPU_LIMIT_MILLI", "limit"),
    _noted("WEFT_GPU_MEMORY_MIB", "gpu-memory"),
]


def _batch_is_right(labels: dict[str, str], main: dict[str, Any]) -> bool:
    """A training's number of examples, if any."""
    told = [v for v in main.get("env", ()) if v["name"] == OF_BATCH]
    is_training = labels["weft.dev/kind"] == "training"
    return not told or (is_training and re.fullmatch("[1-9][0-9]{0,9}", told[0].get("value", "")) is not None)


def _roles_are_right(name: str, labels: dict[str, str], main: dict[str, Any]) -> bool:
    """In a gang with roles: the member's own, as its labels say, and hosts of the gang. Elsewhere nothing of it."""
    found = {v["name"]: v.get("value", "") for v in main.get("env", ()) if OF_ROLES.match(v["name"])}
    role, index = labels.get("weft.dev/role"), labels.get("weft.dev/role-index")
    if role is None or index is None:
        return role is index is None and not found
    workload, attempt, rank = name.rsplit("-", 2)
    host = rf"{workload}-{attempt}-[0-9]+\.w-{workload}"
    return (
        labels["weft.dev/kind"] == "training"
        and int(index) <= int(rank)
        and (found.pop("WEFT_ROLE"), found.pop("WEFT_ROLE_INDEX")) == (role, index)
        and all(re.fullmatch(f"({host},)*{host}", hosts) for hosts in found.values())
        and all(re.fullmatch("WEFT_HOSTS_[A-Z0-9_]+", variable) for variable in found)
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}>{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    else:
        yield path, value


def _is_allowed(path: str, value: Any) -> bool:
    return any(re.fullmatch(pattern, path) and check(value) for pattern, check in RULES)


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(value == one and type(value) is type(one) for one in values)


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def _in(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    """Of one way to be written, and neither in nor above what is the system's."""
    if value == "/dev/shm":
        return True
    parts = str(value).split("/")
    is_normal = len(parts) > 1 and parts[0] == "" and not {"", ".", ".."} & set(parts[1:]) and ":" not in value
    banned = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/usr/local/nvidia", "/usr/local/cuda")
    return is_normal and not any(f"{value}/".startswith(f"{p}/") or p.startswith(f"{value}/") for p in banned)


_empty = _one_of([], {})
_main = r">spec>containers\[\]"
# What says that a replica answers: the node asks the pod itself, so no host, no headers and no command.
_READY = r">spec>containers\[\]>readinessProbe"
RULES: list[tuple[str, Callable[[Any], bool]]] = [
    (rf"{_READY}>(tcpSocket|httpGet)>port", _in(1, 65_535)),
    (rf"{_READY}>httpGet>path", lambda value: _is_text(value) and value.startswith("/")),
    (rf"{_READY}>(periodSeconds|failureThreshold)", _in(1, 60)),
    (">apiVersion", _one_of("v1")),
    (">kind", _one_of("Pod")),
    (">metadata>(name|namespace)", _matches(DNS)),
    (
        r">metadata>labels>(weft\.dev/(workload|team|name|kind|role|role-index|revision)|service\.istio\.io/canonical-revision|internal\.weft\.dev/(attempt|rank)|[^/]+)",
        _matches(LABEL),
    ),
    (r">metadata>labels>weft\.dev/serving", _one_of("true", "false")),
    (r">metadata>annotations>internal\.weft\.dev/(milli|limit|gpu-memory)", _matches(re.compile("[0-9]+"))),
    (">metadata>annotations", _empty),
    (">spec>schedulerName", _one_of("weft")),
    (">spec>restartPolicy", _one_of("Never")),
    (">spec>serviceAccountName", _one_of("default")),
    (">spec>(automountServiceAccountToken|enableServiceLinks)", _one_of(False)),
    (">spec>terminationGracePeriodSeconds", _in(1, 3600)),
    (">spec>securityContext>runAsNonRoot", lambda value: isinstance(value, bool)),
    (">spec>securityContext>runAsUser", _in(0, 2**31 - 1)),
    (">spec>securityContext>fsGroup", _one_of(1000)),
    (">spec>securityContext>fsGroupChangePolicy", _one_of("OnRootMismatch")),
    (">spec>securityContext>seccompProfile>type", _one_of("RuntimeDefault")),
    (r">spec>securityContext>sysctls\[\]>name", _one_of("net.ipv4.ip_unprivileged_port_start")),
    (r">spec>securityContext>sysctls\[\]>value", _one_of("0")),
    (r">spec>(volumes|imagePullSecrets|tolerations)", _empty),
    (r">spec>volumes\[\]>(name|persistentVolumeClaim>claimName)", _matches(DNS)),
    (r">spec>volumes\[\]>emptyDir>sizeLimit", _matches(QUANTITY)),
    (r">spec>volumes\[\]>emptyDir>medium", _one_of("Memory")),
    (r">spec>imagePullSecrets\[\]>name", _matches(DNS)),
    (r">spec>tolerations\[\]>key", _one_of("nvidia.com/gpu")),
    (r">spec>tolerations\[\]>operator", _one_of("Exists")),
    (r">spec>tolerations\[\]>effect", _one_of("NoSchedule")),
    (">spec>(hostname|subdomain)", _matches(re.compile("[a-z0-9-]{1,63}"))),
    (f"{_main}>name", _one_of("main")),
    (f"{_main}>(image|workingDir)", _is_text),
    (f"{_main}>imagePullPolicy", _one_of("Always")),
    (rf"{_main}>(command|args)\[\]", _is_text),
    (rf"{_main}>env\[\]>name", _is_text),
    (rf"{_main}>env\[\]>value", _is_text),
    (rf"{_main}>env\[\]>valueFrom>secretKeyRef>(name|key)", _is_text),
    (
        rf"{_main}>env\[\]>valueFrom>fieldRef>fieldPath",
        _one_of(*(one["valueFrom"]["fieldRef"]["fieldPath"] for one in SHARED)),
    ),
    (rf"{_main}>ports\[\]>containerPort", _in(1, 65_535)),
    (rf"{_main}>ports\[\]>protocol", _one_of("TCP")),
    (rf"{_main}>resources>(requests|limits)>(cpu|memory|nvidia\.com/gpu|rdma/hca)", _matches(QUANTITY)),
    (rf"{_main}>volumeMounts\[\]>name", _matches(DNS)),
    (rf"{_main}>volumeMounts\[\]>mountPath", _is_path),
    (rf"{_main}>volumeMounts\[\]>readOnly", _one_of(True)),
    (rf"{_main}>securityContext>allowPrivilegeEscalation", _one_of(False)),
    (rf"{_main}>securityContext>capabilities>drop\[\]", _one_of("ALL")),
    (f"{_main}>terminationMessagePolicy", _one_of("FallbackToLogsOnError")),
]
