"""The fields of a pod that must be refused, one at a time: (path, value); None takes the field away, + appends."""

from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.pods import CANONICAL

Change = tuple[str, Any]

_MAIN = "spec.containers.0"
_CONTEXT, _POD_CONTEXT = f"{_MAIN}.securityContext", "spec.securityContext"
_OTHER: dict[str, Any] = {
    "name": "other",
    "image": "registry.example/app:1",
    "imagePullPolicy": "Always",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
_PROBE = {"exec": {"command": ["true"]}}
_TERM = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
_NEAR = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}

_HOST: tuple[Change, ...] = (
    ("spec.hostNetwork", True),
    ("spec.hostPID", True),
    ("spec.hostIPC", True),
    ("spec.hostUsers", True),
    ("spec.shareProcessNamespace", True),
    ("spec.hostAliases", [{"ip": "10.0.0.1", "hostnames": ["registry.example"]}]),
    ("spec.dnsConfig", {"nameservers": ["8.8.8.8"]}),
    ("spec.dnsPolicy", "Default"),
    ("spec.dnsPolicy", "ClusterFirstWithHostNet"),
    (f"{_MAIN}.ports", [{"containerPort": 80, "hostPort": 80}]),
    (f"{_MAIN}.ports", [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}]),
)
_SOURCES: tuple[dict[str, Any], ...] = (
    {"hostPath": {"path": "/"}},
    {"hostPath": {"path": "/var/run/docker.sock", "type": "Socket"}},
    {"hostPath": {"path": "/dev"}},
    {"hostPath": {"path": "/var/lib/kubelet"}},
    {"nfs": {"server": "10.0.0.1", "path": "/"}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:x", "lun": 0}},
    {"configMap": {"name": "c"}},
    {"secret": {"secretName": "s"}},
    {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}},
    {"projected": {"sources": [{"secret": {"name": "s"}}]}},
    {"csi": {"driver": "secrets-store.csi.k8s.io"}},
    {
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        }
    },
    {"image": {"reference": "registry.example/data:1"}},
    {"cephfs": {"monitors": ["10.0.0.1"]}},
    {"rbd": {"monitors": ["10.0.0.1"], "image": "x"}},
    {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
    {"flexVolume": {"driver": "example/x"}},
    {"gitRepo": {"repository": "https://example.com/x"}},
    {"azureFile": {"secretName": "s", "shareName": "x"}},
    {"emptyDir": {}},
    {"emptyDir": {"medium": "Memory"}},
)
_VOLUMES: tuple[Change, ...] = tuple(("spec.volumes.+", {"name": "v", **source}) for source in _SOURCES)
_MOUNTS: tuple[Change, ...] = (
    *(
        (f"{_MAIN}.volumeMounts.0.mountPath", path)
        for path in (
            *("/proc", "/proc/self", "/sys", "/sys/fs/cgroup", "/dev", "/dev/nvidia0", "/etc", "/etc/ld.so.preload"),
            *("/run", "/var/run", "/usr/local/nvidia", "/usr/local/nvidia/lib64", "/usr/local/cuda", "/"),
            *(
                "//etc",
                "/./etc",
                "/etc/",
                "/etc/.",
                "/usr//local/nvidia",
                "//dev",
                "/dev//shm",
                "/var//run",
                "//",
                "/.",
            ),
            *("/data/../etc", "/..", "/data/", "/data//x", "/data/./x", "/data/.", "/data/x/..", "data", "./data"),
            *("/var", "/usr", "/usr/local", "/data:/etc", "/data\n"),
        )
    ),
    (f"{_MAIN}.volumeMounts.0.subPath", "x"),
    (f"{_MAIN}.volumeMounts.0.subPathExpr", "$(A)"),
    (f"{_MAIN}.volumeMounts.0.mountPropagation", "HostToContainer"),
)
_SECURITY: tuple[Change, ...] = (
    (_CONTEXT, None),
    (_CONTEXT, {"privileged": True}),
    (f"{_CONTEXT}.allowPrivilegeEscalation", True),
    (f"{_CONTEXT}.allowPrivilegeEscalation", None),
    (f"{_CONTEXT}.runAsUser", 0),
    (f"{_CONTEXT}.runAsNonRoot", False),
    (f"{_CONTEXT}.readOnlyRootFilesystem", True),
    (f"{_CONTEXT}.seccompProfile", {"type": "Unconfined"}),
    (f"{_CONTEXT}.seLinuxOptions", {"type": "spc_t"}),
    (f"{_CONTEXT}.appArmorProfile", {"type": "Unconfined"}),
    (f"{_CONTEXT}.capabilities.drop", ["NET_RAW"]),
    (f"{_CONTEXT}.capabilities", None),
    *(
        (f"{_CONTEXT}.capabilities.add", [name])
        for name in ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "NET_RAW", "NET_BIND_SERVICE", "IPC_LOCK", "ALL")
    ),
    (f"{_POD_CONTEXT}.runAsNonRoot", False),
    (f"{_POD_CONTEXT}.runAsNonRoot", None),
    (f"{_POD_CONTEXT}.runAsUser", 0),
    (f"{_POD_CONTEXT}.runAsGroup", 0),
    (f"{_POD_CONTEXT}.fsGroup", 0),
    (f"{_POD_CONTEXT}.supplementalGroups", [0]),
    (f"{_POD_CONTEXT}.seccompProfile", None),
    (f"{_POD_CONTEXT}.seccompProfile", {"type": "Unconfined"}),
    (f"{_POD_CONTEXT}.seccompProfile", {"type": "Localhost", "localhostProfile": "x.json"}),
    (f"{_POD_CONTEXT}.seLinuxOptions", {"level": "s0:c1"}),
    (f"{_POD_CONTEXT}.appArmorProfile", {"type": "Unconfined"}),
    (f"{_POD_CONTEXT}.sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
    (f"{_POD_CONTEXT}.sysctls", [{"name": "net.ipv4.tcp_syncookies", "value": "0"}]),
    ("spec.serviceAccountName", "builder"),
    ("spec.automountServiceAccountToken", None),
    ("spec.automountServiceAccountToken", True),
)
_SCHEDULING: tuple[Change, ...] = (
    ("spec.nodeName", "a"),
    *(("spec.schedulerName", name) for name in (None, "default-scheduler", "kai-scheduler", "volcano")),
    *(
        ("spec.tolerations.+", {"operator": "Exists", **toleration})
        for toleration in (
            {},
            {"key": "node-role.kubernetes.io/control-plane"},
            {"key": "node.kubernetes.io/unschedulable"},
            {"key": "node.kubernetes.io/disk-pressure"},
            {"key": "example.com/reserved", "effect": "NoExecute"},
        )
    ),
    *(
        ("spec.nodeSelector", {key: "x"})
        for key in ("kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "weft.dev/pool", "disk")
    ),
    (
        "spec.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}},
    ),
    ("spec.affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_NEAR]}}),
    ("spec.affinity", {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_NEAR]}}),
    (
        "spec.topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
    ),
    *(("spec.priorityClassName", name) for name in ("system-node-critical", "system-cluster-critical", "high")),
    ("spec.runtimeClassName", "nvidia"),
    ("spec.resourceClaims", [{"name": "gpu", "resourceClaimName": "gpu"}]),
    ("spec.schedulingGates", [{"name": "example.com/wait"}]),
    ("spec.readinessGates", [{"conditionType": "example.com/ready"}]),
    ("spec.setHostnameAsFQDN", True),
    ("spec.os", {"name": "linux"}),
)
_CONTAINERS: tuple[Change, ...] = (
    ("spec.initContainers", [_OTHER]),
    ("spec.initContainers", [{**_OTHER, "restartPolicy": "Always"}]),
    ("spec.containers.+", _OTHER),
    (f"{_MAIN}.lifecycle", {"postStart": _PROBE}),
    (f"{_MAIN}.lifecycle", {"preStop": {"sleep": {"seconds": 20}}}),
    (f"{_MAIN}.livenessProbe", _PROBE),
    (f"{_MAIN}.readinessProbe", _PROBE),
    (f"{_MAIN}.startupProbe", _PROBE),
    (f"{_MAIN}.stdin", True),
    (f"{_MAIN}.tty", True),
    (f"{_MAIN}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
    *((f"{_MAIN}.imagePullPolicy", policy) for policy in ("Never", "IfNotPresent")),
    *(
        (f"{_MAIN}.image", image)
        for image in ("python:3", "registry.example.evil.test/app:1", "evil.test/registry.example/app:1")
    ),
    *(("spec.restartPolicy", policy) for policy in ("Always", "OnFailure")),
    *(("spec.terminationGracePeriodSeconds", seconds) for seconds in (3601, 864_000)),
    (f"{_MAIN}.resources", None),
    (f"{_MAIN}.resources.requests.cpu", "1m"),
    (f"{_MAIN}.resources.requests.memory", "1Mi"),
    (f"{_MAIN}.resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
    *(
        (f"{_MAIN}.resources", {part: {"cpu": "1", "memory": "1Gi", name: "1"} for part in ("limits", "requests")})
        for name in ("nvidia.com/mig-1g.5gb", "amd.com/gpu", "example.com/fpga", "ephemeral-storage")
    ),
    ("metadata.name", "another-name-1-0"),
    ("metadata.finalizers", ["example.com/stay"]),
    (
        "metadata.ownerReferences",
        [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "00000000-0000-4000-8000-000000000000"}],
    ),
)
_ENV: tuple[Change, ...] = (
    *(
        (f"{_MAIN}.env.+", {"name": name, "value": "all"})
        for name in (
            *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_CUDA", "CUDA_VISIBLE_DEVICES"),
            *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT"),
            *("CUDA_DEVICE_SM_LIMIT", "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "ld_preload", "GPU_DEVICE_ORDINAL"),
            *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "KUBERNETES_SERVICE_HOST", "WEFT_TOKEN"),
        )
    ),
    *(
        (f"{_MAIN}.env.+", {"name": name, "valueFrom": source})
        for name, source in (
            ("NVIDIA_VISIBLE_DEVICES", {"secretKeyRef": {"name": "s", "key": "k"}}),
            ("NVIDIA_VISIBLE_DEVICES", {"fieldRef": {"fieldPath": "metadata.name"}}),
            ("HOST", {"fieldRef": {"fieldPath": "status.hostIP"}}),
            ("X", {"configMapKeyRef": {"name": "c", "key": "k"}}),
            ("X", {"resourceFieldRef": {"resource": "limits.cpu"}}),
        )
    ),
    (f"{_MAIN}.envFrom", [{"secretRef": {"name": "s"}}]),
    (f"{_MAIN}.envFrom", [{"configMapRef": {"name": "c"}}]),
)
CHANGES: tuple[Change, ...] = (*_HOST, *_VOLUMES, *_MOUNTS, *_SECURITY, *_SCHEDULING, *_CONTAINERS, *_ENV)
NO_GPU_CHANGES: tuple[Change, ...] = (  # of a pod without a GPU, which must say that it sees none
    (f"{_MAIN}.env", None),
    (f"{_MAIN}.env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}]),
    (f"{_MAIN}.env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]),
)
LABELS_WRONG: tuple[tuple[str, str, str | None], ...] = (
    *(("labels", key, None) for key in (names.WORKLOAD, names.TEAM, names.NAME, names.KIND, names.ATTEMPT, names.RANK)),
    ("labels", names.TEAM, "ops"),
    ("labels", names.RANK, "7"),
    ("labels", names.ATTEMPT, "9"),
    ("labels", names.REVISION, "2"),  # no service
    ("labels", CANONICAL, "2"),
    *(
        ("labels", key, "x")
        for key in (
            *("kai.scheduler/queue", "hami.io/webhook", "kueue.x-k8s.io/queue-name", "volcano.sh/queue-name"),
            *("scheduling.x-k8s.io/pod-group", "internal.weft.dev/other", "weft.dev/other", "sidecar.istio.io/inject"),
        )
    ),
    *(
        ("annotations", key, "x")
        for key in (
            *("hami.io/vgpu-devices-to-allocate", "nvidia.com/use-gputype", "scheduling.k8s.io/group-name"),
            *("gpu-fraction", "k8s.v1.cni.cncf.io/networks", "kubernetes.io/egress-bandwidth"),
            *("sidecar.istio.io/inject", "cluster-autoscaler.kubernetes.io/safe-to-evict", "internal.weft.dev/other"),
        )
    ),
)


def _each(key: str, *values: str) -> list[dict[str, str | None]]:
    return [{key: value} for value in values]


ROLE_LABELS_WRONG: tuple[dict[str, str | None], ...] = (  # of the first member of a gang, param-ps 0
    {names.ROLE: None},
    {names.ROLE_INDEX: None},
    {names.ROLE: None, names.ROLE_INDEX: None},
    {names.ROLE: "evaluator"},
    *_each(names.ROLE, "PS", "param_ps", "param.ps", "", "p" * 41),
    *_each(names.ROLE_INDEX, "1", "00", "x", "", "4096"),
    {names.KIND: "notebook"},
)


# Values of WEFT_BATCH_SIZE, each wrong.
BATCHES_WRONG: tuple[dict[str, Any], ...] = (
    *({"value": text} for text in ("", "0", "-1", "08", "8k", "1e3", " 8", "12345678901", "$(WEFT_ROLE)")),
    {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
)


def role_variables_wrong(own: str, other: str) -> tuple[Change, ...]:
    """Variables of that member, each wrong; own, other: a host of its gang, and of another one."""
    secret = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    hosts = (
        *("", "evil.test", other, f"{own},{other}", f"{other},{own}", f"{own},evil.test,{own}", f"{own},", f",{own}"),
        *(f"{own} {own}", f"{own},{own} ", own.upper(), own.replace("-0.", "-x."), own.replace("-0.", "-.")),
    )
    return (
        *((name, {"value": text}) for name in ("WEFT_ROLE", "WEFT_ROLE_INDEX") for text in ("", "worker", "1", "x")),
        *((name, secret) for name in ("WEFT_ROLE", "WEFT_ROLE_INDEX", "WEFT_HOSTS_WORKER")),
        *(("WEFT_HOSTS_WORKER", {"value": text}) for text in hosts),
        *((name, {"value": own}) for name in ("WEFT_HOSTS", "WEFT_HOSTS_", "WEFT_HOSTS_a", "weft_hosts_worker")),
        *((name, {"value": "param-ps"}) for name in ("weft_role", "WEFT_ROLES", "WEFT_TOKEN")),
    )
