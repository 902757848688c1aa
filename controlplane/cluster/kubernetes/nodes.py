"""What one node's JSON says, less what others use of it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends import hami, mig, mps
from controlplane.cluster.kubernetes.podstatus import Foreign
from controlplane.cluster.kubernetes.quantities import mebibytes, milli, seconds, whole
from controlplane.enforcer import inside
from gpushare.backends.catalogue import CHOSEN
from gpushare.gpu import Enforcer
from scheduler.model.snapshot import Node

Json = Mapping[str, Any]

POOL = "weft.dev/pool"
SHARES = "weft.dev/shares"  # "true": its GPUs may be shared
# "true": what shares them there holds each to its limit, and follows a change; or the name of the back-end that does.
# Our own needs none: a node whose plug-in offers slots has it, and one without has it not, whatever it says. on-demand:
# it is for notebooks on demand, if its plug-in says as well that it can move memory there; else it takes no shares.
ENFORCED = "weft.dev/shares-enforced"
RACK = "weft.dev/rack"
NVLINK = "weft.dev/nvlink"  # devices in one NVLink domain
LOST_GPUS = "weft.dev/lost-gpus"  # annotation: indices of devices that are broken, where something knows them
ZONE = "topology.kubernetes.io/zone"
PRODUCT = "nvidia.com/gpu.product"
GPU_COUNT = "nvidia.com/gpu.count"  # of the machine, where no device plugin offers whole ones
GPU_MEMORY = "nvidia.com/gpu.memory"  # MiB of each device
DEFAULT_POOL = "default"

# Taints that say what we read elsewhere: conditions and the cordon.
_KNOWN_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable")


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as Kubernetes has it. unready_since: when it stopped answering; None while it does."""

    node: Node  # with all that is allocatable, and `lost` as far as it is known which
    version: int
    unknown_lost: int  # devices that are broken, without saying which
    unready_since: float | None
    devices: tuple[str, ...] = ()  # what the node's own software calls its GPUs, where it says so


def machine_of(thing: Json) -> Machine:
    """One node."""
    meta, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    devices = hami.registered(annotations.get(hami.REGISTERED, ""))
    plugged = 0 if devices else whole(capacity.get(names.GPU_RESOURCE))
    # Where all GPUs are divided, the device plugin offers their parts under other names, or too many under this one.
    says, is_kept = labels.get(ENFORCED, ""), False
    if says in ("", "true", Enforcer.WEFT):
        is_ours = whole(allocatable.get(inside.RESOURCE)) > 0
        says = Enforcer.WEFT if is_ours else "true" if says else ""
    if says == Enforcer.ON_DEMAND:
        is_ready = all(whole(allocatable.get(name)) for name in (inside.RESOURCE, inside.ON_DEMAND))
        says, is_kept = (Enforcer.ON_DEMAND, False) if is_ready else ("", True)
    is_divided = says == Enforcer.DRA or any(key == mps.RESOURCE or key.startswith(mig.PREFIX) for key in capacity)
    gpus = len(devices) or (whole(labels.get(GPU_COUNT)) if is_divided else plugged)
    ill = tuple(index for index, (_, is_well) in enumerate(devices) if not is_well)
    lost = tuple(sorted({*_indices(annotations.get(LOST_GPUS, ""), gpus), *ill}))
    is_ready, changed_at = _ready(status.get("conditions") or ())
    version = meta.get("resourceVersion", "0")
    return Machine(
        node=Node(
            name=meta["name"],
            pool=labels.get(POOL) or DEFAULT_POOL,
            model=(labels.get(PRODUCT) or "unknown") if gpus else "",
            gpus=gpus,
            gpu_memory=whole(labels.get(GPU_MEMORY)) if gpus else 0,
            cpu_milli=milli(allocatable.get("cpu")),
            memory=mebibytes(allocatable.get("memory")),
            rack=labels.get(RACK, ""),
            zone=labels.get(ZONE, ""),
            nvlink=whole(labels.get(NVLINK)),
            ready=is_ready,
            schedulable=not spec.get("unschedulable") and not any(map(_repels, spec.get("taints") or ())),
            lost=lost,
            takes_shares=labels.get(SHARES) == "true" and not is_kept,
            enforces_limits=says in ("true", Enforcer.WEFT, Enforcer.ON_DEMAND),
            enforcer=says if says in (*CHOSEN, Enforcer.ON_DEMAND) else "",
        ),
        version=int(version) if version.isdigit() else 0,
        unknown_lost=max(0, plugged - whole(allocatable.get(names.GPU_RESOURCE)) - len(lost)),
        unready_since=None if is_ready else changed_at,
        devices=tuple(name for name, _ in devices),
    )


def device_of(machine: Machine | None, gpu: int) -> str:
    """What a machine's own software calls a GPU; empty where it does not say."""
    return machine.devices[gpu] if machine and gpu < len(machine.devices) else ""


def _ready(conditions: Iterable[Json]) -> tuple[bool, float]:
    for condition in conditions:
        if condition.get("type") == "Ready":
            return condition.get("status") == "True", seconds(condition.get("lastTransitionTime")) or 0.0
    return False, 0.0


def _repels(taint: Json) -> bool:
    key = taint.get("key")
    return taint.get("effect") in ("NoSchedule", "NoExecute") and key not in (*names.TOLERATED_TAINTS, *_KNOWN_TAINTS)


def _indices(text: str, gpus: int) -> tuple[int, ...]:
    parts = {int(part) for part in text.split(",") if part.strip().isdigit()}
    return tuple(sorted(index for index in parts if index < gpus))


def offered(
    machine: Machine,
    foreign: Iterable[Foreign],
    used: Iterable[int],
    before: Iterable[int] = (),
    has_ghosts: bool = False,
) -> Node:
    """What the node has for us.

    Devices that others use, or that are broken, are `lost`. Which they are is not known: of those that no worker of
    ours was given and no placeholder holds (`used`) the last, and where possible the same as `before`. A node that
    still has workers which were given up when it was lost (`has_ghosts`) is not ready before they have left.
    """
    others = tuple(foreign)
    node = machine.node
    missing = machine.unknown_lost + sum(pod.gpus for pod in others)
    kept, busy = set(before), set(used)
    free = [i for i in range(node.gpus) if i not in node.lost]
    free.sort(key=lambda index: (index in busy, index not in kept, -index))
    lost = tuple(sorted((*node.lost, *free[:missing])))
    if not others and not missing and not has_ghosts:
        return node
    return replace(
        node,
        cpu_milli=max(0, node.cpu_milli - sum(pod.cpu_milli for pod in others)),
        memory=max(0, node.memory - sum(pod.memory for pod in others)),
        ready=node.ready and not has_ghosts,
        lost=lost,
    )
