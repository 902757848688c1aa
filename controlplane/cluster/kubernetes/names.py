"""What our objects are called in Kubernetes: namespaces, labels, annotations, Services. Nothing else spells them.

`weft.dev/*` is for people and their tools to select by; `internal.weft.dev/*` is the scheduler's own state, which the
admission policy lets no other account write.
"""

from controlplane.adopted import kinds
from controlplane.cluster import devicenumbers
from controlplane.domain import addresses

namespace = addresses.namespace  # pages and answers need these two as well
address_service = addresses.service
placeholder = devicenumbers.placeholder  # and what measures devices needs this one

SCHEDULER_NAME = "weft"  # of every pod of ours; kube-scheduler leaves such pods alone
SYSTEM_NAMESPACE = "weft"  # of the control plane; no team's, as those have a prefix that ends in "-"
CONTAINER = "main"  # the one container of a pod
PLACEHOLDER_NAMESPACE = devicenumbers.PLACEHOLDERS  # of the pods that hold devices for shares; no team's either

# Labels.
WORKLOAD = "weft.dev/workload"  # uid
TEAM = "weft.dev/team"  # also on the team's namespace, which is how policies find it
NAME = "weft.dev/name"  # the workload's name
KIND = "weft.dev/kind"  # training, notebook, inference
ROLE = "weft.dev/role"  # in a gang with roles: ps, worker, ...
ROLE_INDEX = "weft.dev/role-index"  # its number within the role, from 0
REVISION = "weft.dev/revision"  # of a service's pod: the number of the image and environment that it is made of
SERVING = "weft.dev/serving"  # "true" on replicas that get requests, "false" on those on standby
GATEWAY = "weft.dev/gateway"  # "true" on the Service of a service with our queue in front (docs/activator.md)
ATTEMPT = "internal.weft.dev/attempt"
RANK = "internal.weft.dev/rank"
PLACEHOLDER = "internal.weft.dev/placeholder"  # "true" on a placeholder; on its namespace too

# Annotations.
# Device indices, "0,3"; set by the Binding together with the node. On demand all to which its memory may be moved, the
# one of its guarantee first.
GPUS = "internal.weft.dev/gpus"
ON_DEMAND = "internal.weft.dev/on-demand"  # of a notebook on demand: MiB of each GPU of its node
MILLI = "internal.weft.dev/milli"  # milli-GPU of each of those devices
GPU_MEMORY = "internal.weft.dev/gpu-memory"  # MiB of each of those devices; 0 = all of it
LIMIT = "internal.weft.dev/limit"  # of a share: milli-GPU that it may use while others leave them idle
ENFORCER = "internal.weft.dev/enforced-by"  # of a share whose resource Kubernetes accounts itself: its back-end
# Of a share: its device as the container runtime knows it, or on demand all of them, as in GPUS; set by the Binding.
DEVICE = "internal.weft.dev/device"
WEIGHTS = "internal.weft.dev/weights"  # of a replica: where its weights are, and what they take there (sleepmode.py)
CLAIMANTS = "internal.weft.dev/claimants"  # of a placeholder: "namespace/name" of the shares it was claimed for
DIGEST = "internal.weft.dev/digest"  # of the manifest: a pod prepared from an older job file is made anew
QUEUE = "internal.weft.dev/queue"  # of such a Service: slots, late_after, waiting, patience as JSON
SPLIT = "internal.weft.dev/split"  # of such a Service: revision, percent and within (s) of split requests as JSON
QUEUE_PORT = "internal.weft.dev/queue-port"  # of such a Service: the activators' port for it; the switch gives it
# Of pods that a queued object's controller made (docs/adopting.md).
OWNER, POD_SET, INDEX = kinds.OWNER, kinds.POD_SET, kinds.INDEX

GPU_RESOURCE = "nvidia.com/gpu"
TOLERATED_TAINTS = (GPU_RESOURCE,)  # taint keys that pods of ours with a GPU tolerate; others keep us away


def gang_service(workload: str) -> str:
    """The headless Service through which the workers of a gang find each other."""
    return f"w-{workload}"


def replicas(workload: str) -> dict[str, str]:
    """Labels of the pods to which the Service of an inference workload sends requests."""
    return {WORKLOAD: workload, SERVING: "true"}


def around(workload: str) -> str:
    """The PodDisruptionBudget and the ServiceMonitor of a service."""
    return f"w-{workload}"


def host(name: str, namespace: str) -> str:
    """A Service's whole name in the cluster's DNS."""
    return f"{name}.{namespace}.svc.cluster.local"


def gpus_text(gpus: tuple[int, ...]) -> str:
    """Device indices as the annotation has them."""
    return ",".join(map(str, gpus))


def gpus_of(text: str) -> tuple[int, ...]:
    """Device indices from the annotation. Raises ValueError when it is not of our form."""
    return tuple(int(part) for part in text.split(",") if part)
