"""What one pod's JSON says: a worker of ours, or something foreign that uses a node. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends import own
from controlplane.cluster.kubernetes.quantities import MIB, most, requested, requests_of, seconds, weights_of
from controlplane.cluster.port import PodPhase, PodSeen

Json = Mapping[str, Any]

ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_PHASES = {"Running": PodPhase.RUNNING, "Succeeded": PodPhase.SUCCEEDED, "Failed": PodPhase.FAILED}

# The kubelet's and the controllers' words for what the port has one word for.
_REASONS = {
    "OutOfcpu": "OutOfCpu",
    "OutOfmemory": "OutOfMemory",
    "OutOfpods": "OutOfPods",
    "OutOfephemeral-storage": "OutOfStorage",
    f"OutOf{names.GPU_RESOURCE}": "OutOfGpu",
    "NodeShutdown": "NodeShutdown",
    "Terminated": "NodeShutdown",
    "Preempting": "Preempted",
}
SIGNALS = 128  # exit codes above it are those of signals
_NO_DEVICES = "UnexpectedAdmissionError"  # what the kubelet says where a device plugin has no device left
# Condition DisruptionTarget: what took the pod away.
_DISRUPTIONS = {
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "PreemptionByScheduler": "Preempted",
    "TerminationByKubelet": "Evicted",
}
DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:/._-]{0,127}")  # one device, as NVIDIA_VISIBLE_DEVICES names it
_RESIZES = ("PodResizePending", "PodResizeInProgress")
_USUAL_WAITS = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Worker:
    """A pod of ours. `seen` has no node while it is not placed; `told_at`: when it was first told to leave."""

    namespace: str
    uid: str
    version: int
    seen: PodSeen
    told_at: float | None
    digest: str
    created_at: float
    has_share: bool = False  # of one GPU
    enforcer: str = ""  # of a share whose resource Kubernetes accounts itself; empty: a placeholder holds its device
    called: str = ""  # the pod's own name, where its controller has chosen it
    owner: str = ""  # the object that it is of, KIND/NAME; empty: we made it
    host_memory: int = 0  # MiB of its memory that are for its weights
    reach: tuple[int, ...] = ()  # of a notebook on demand: the GPUs to which its memory may be moved

    @property
    def devices(self) -> tuple[int, ...]:
        """The GPUs that it may compute on."""
        return self.reach or self.seen.gpus

    @property
    def name(self) -> str:
        """By which worker of which attempt it is."""
        return self.seen.name

    @property
    def pod(self) -> str:
        """The pod's name in its namespace."""
        return self.called or self.seen.name

    @property
    def is_placed(self) -> bool:
        """Whether it has been bound."""
        return bool(self.seen.node)

    @property
    def is_leaving(self) -> bool:
        """Whether it has been told to leave."""
        return self.told_at is not None

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself."""
        return self.seen.phase in ENDED


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod of a queued object, made by its controller, that has no place yet: so it is no worker of an attempt."""

    namespace: str
    uid: str
    version: int
    called: str  # the pod's name
    workload: str
    owner: str  # KIND/NAME
    pod_set: str
    order: tuple[int, str]  # among those of its pod set
    ask: tuple[int, int, int]  # GPUs, CPU in 1/1000 cores, MiB
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Foreign:
    """A pod that is not ours and takes room on a node."""

    node: str
    gpus: int
    cpu_milli: int
    memory: int


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A pod of ours that holds one device of a node for shares, in Kubernetes' own accounting.

    device: what the container runtime calls that device, where the node has said it.
    """

    namespace: str
    name: str
    uid: str
    version: int
    node: str
    gpu: int
    claimants: tuple[str, ...]
    phase: PodPhase
    reason: str
    device: str
    is_leaving: bool

    @property
    def holds(self) -> bool:
        """Whether it counts on its node."""
        return self.phase not in ENDED


def key_of(pod: Json) -> tuple[str, str]:
    """Namespace and name."""
    meta = pod["metadata"]
    return meta["namespace"], meta["name"]


def version_of(thing: Json) -> int:
    """resourceVersion, as the number that it is (comparable since Kubernetes 1.35, and with etcd ever since)."""
    text = thing["metadata"].get("resourceVersion", "0")
    return int(text) if text.isdigit() else 0


Pod = Worker | Candidate | Foreign | Placeholder


def pod_of(pod: Json, known: Pod | None = None) -> Pod | None:
    """What this pod is to us, after what was known of it before; None for one that takes no room."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    if not is_ours(labels):
        if _is_candidate(pod):
            return _candidate(pod)
        return placeholder_of(pod) or _foreign(pod)
    before = known.told_at if isinstance(known, Worker) and known.uid == meta["uid"] else None
    return _worker(pod, labels, _told_at(meta, before))


def is_ours(labels: Json) -> bool:
    """Whether a pod has the labels that the admission policy lets only us write."""
    return names.WORKLOAD in labels and all(str(labels.get(k, "")).isdigit() for k in (names.ATTEMPT, names.RANK))


def is_placeholder(meta: Json) -> bool:
    """Whether a pod is one of those that only we may make in their namespace."""
    is_there = meta.get("namespace") == names.PLACEHOLDER_NAMESPACE
    return is_there and names.PLACEHOLDER in (meta.get("labels") or {})


def placeholder_of(pod: Json) -> Placeholder | None:
    """What holds a device for shares, or None."""
    meta, status = pod["metadata"], pod.get("status") or {}
    gpus, node = _gpus(meta.get("annotations") or {}), pod["spec"].get("nodeName", "")
    if not is_placeholder(meta) or len(gpus) != 1 or not node:
        return None
    phase = _PHASES.get(str(status.get("phase")), PodPhase.PENDING)
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    states = [c.get("state") or {} for c in containers]
    ends = [s["terminated"] for s in states if s.get("terminated")]
    told = next((str(end["message"]).strip() for end in ends if end.get("message")), "")
    return Placeholder(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        version=version_of(pod),
        node=node,
        gpu=gpus[0],
        claimants=tuple(filter(None, (meta.get("annotations") or {}).get(names.CLAIMANTS, "").split(","))),
        phase=phase,
        reason=_why(phase, status, states, ends),
        device=told if DEVICE_NAME.fullmatch(told) else "",
        is_leaving=meta.get("deletionTimestamp") is not None,
    )


def is_known(meta: Json) -> bool:
    """Whether a pod with this metadata is a worker of ours, or may become one."""
    return is_ours(meta.get("labels") or {}) or names.OWNER in (meta.get("annotations") or {})


def _worker(pod: Json, labels: Json, told_at: float | None) -> Worker:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    annotations = meta.get("annotations") or {}
    attempt, rank = int(labels[names.ATTEMPT]), int(labels[names.RANK])
    phase, weights = _PHASES.get(str(status.get("phase")), PodPhase.PENDING), weights_of(annotations)
    containers = [c.get("state") or {} for c in status.get("containerStatuses") or ()]
    ends = [s["terminated"] for s in containers if s.get("terminated")]
    if phase == PodPhase.RUNNING and not any(s.get("running") or s.get("terminated") for s in containers):
        phase = PodPhase.PENDING
    if phase == PodPhase.RUNNING and told_at is None and _is_not_ready(spec, status):
        phase = PodPhase.PENDING  # a replica runs once it answers
    if phase in ENDED and _is_our_doing(told_at, ends):
        phase = PodPhase.RUNNING  # it leaves because it was told to; once it is away it is gone, and nothing else
    running = [s["running"] for s in containers if s.get("running")]
    is_over = phase in ENDED
    unheld = own.unheld(status) if is_over else None
    gpus, is_on_demand = _gpus(annotations), names.ON_DEMAND in annotations
    return Worker(
        namespace=meta["namespace"],
        uid=meta["uid"],
        version=version_of(pod),
        seen=PodSeen(
            labels[names.WORKLOAD], attempt, rank, spec.get("nodeName", ""), gpus[:1] if is_on_demand else gpus, phase,
            None if phase == PodPhase.PENDING else most(seconds(s.get("startedAt")) for s in [*running, *ends]),
            _ended_at(status, ends) if is_over else None,
            unheld.code if unheld else _exit_code(phase, ends) if is_over else _own_code(told_at, ends),
            unheld.reason if unheld else _why(phase, status, containers, ends),
            None,
            None,
            *(weights.beside(*resized(meta, spec, status)) if phase == PodPhase.RUNNING else (None, None, "", "")),
            *weights.seen,
            unheld.message if unheld else "",
        ),
        told_at=told_at,
        digest=annotations.get(names.DIGEST, ""),
        created_at=seconds(meta.get("creationTimestamp")) or 0.0,
        has_share=names.MILLI in annotations
        and (names.ENFORCER in annotations or not requested(spec, names.GPU_RESOURCE)),
        enforcer=annotations.get(names.ENFORCER, ""),
        called=meta["name"] if names.OWNER in annotations else "",
        owner=annotations.get(names.OWNER, ""),
        host_memory=weights.memory,
        reach=gpus if is_on_demand else (),
    )  # fmt: skip


def _is_not_ready(spec: Json, status: Json) -> bool:
    """Whether a pod that says how it is to be asked does not answer yet."""
    if not any(container.get("readinessProbe") for container in spec.get("containers") or ()):
        return False
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    return conditions.get("Ready") != "True"


def _is_candidate(pod: Json) -> bool:
    meta = pod["metadata"]
    is_queued = names.WORKLOAD in (meta.get("labels") or {}) and names.OWNER in (meta.get("annotations") or {})
    return is_queued and not pod["spec"].get("nodeName")


def _candidate(pod: Json) -> Candidate:
    meta, spec = pod["metadata"], pod["spec"]
    annotations = meta["annotations"]
    index = str(annotations.get(names.INDEX, ""))
    return Candidate(
        namespace=meta["namespace"],
        uid=meta["uid"],
        version=version_of(pod),
        called=meta["name"],
        workload=meta["labels"][names.WORKLOAD],
        owner=annotations[names.OWNER],
        pod_set=annotations.get(names.POD_SET, ""),
        order=(int(index) if index.isdigit() else 0, meta["name"]),
        ask=(
            int(requested(spec, names.GPU_RESOURCE)),
            int((requested(spec, "cpu") * 1000).to_integral_value(ROUND_CEILING)),  # as in the job file
            -(-int(requested(spec, "memory")) // MIB),
        ),
        is_leaving=bool(meta.get("deletionTimestamp")) or bool((pod.get("status") or {}).get("phase") == "Failed"),
    )


def resized(meta: Json, spec: Json, status: Json) -> tuple[int | None, int | None, str, str]:
    """CPU and memory of our container, both None while its node changes them, and why it does not.

    A condition that was written for an older generation says nothing about the newest size.
    """
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _RESIZES:
            is_old = condition.get("observedGeneration", meta.get("generation", 0)) < meta.get("generation", 0)
            if condition["type"] == "PodResizeInProgress" or is_old:
                return None, None, "", ""
            return None, None, str(condition.get("reason", "")), str(condition.get("message", ""))
    asked = requests_of(spec.get("containers") or ())
    has = requests_of(status.get("containerStatuses") or ())
    return (*has, "", "") if has == asked else (None, None, "", "")


def _gpus(annotations: Json) -> tuple[int, ...]:
    try:
        return names.gpus_of(annotations.get(names.GPUS, ""))
    except ValueError:
        return ()


def _told_at(meta: Json, before: float | None) -> float | None:
    """When it was told to leave, by its deadline and its grace.

    Once its containers have ended the kubelet deletes it again, without grace, and the deadline becomes that moment. So
    what was known before goes first: else a worker that saved and left well would have succeeded before it was told.
    """
    deadline = seconds(meta.get("deletionTimestamp"))
    if deadline is None:
        return None
    told_at = deadline - float(meta.get("deletionGracePeriodSeconds") or 0)
    return told_at if before is None else min(before, told_at)


def _is_our_doing(told_at: float | None, ends: Iterable[Json]) -> bool:
    """Whether its containers ended after it was told to leave: what they answer to that is no success or failure."""
    if told_at is None:
        return False
    ended = most(seconds(end.get("finishedAt")) for end in ends)
    return ended is None or ended >= told_at


def _ended_at(status: Json, ends: Iterable[Json]) -> float | None:
    return most(seconds(end.get("finishedAt")) for end in ends) or seconds(status.get("startTime"))


def _exit_code(phase: PodPhase, ends: Iterable[Json]) -> int | None:
    if phase == PodPhase.SUCCEEDED:
        return 0
    return (
        next((end.get("exitCode") for end in ends if end.get("exitCode")), None) if phase == PodPhase.FAILED else None
    )


def _own_code(told_at: float | None, ends: Iterable[Json]) -> int | None:
    """The code of one that ended in the second in which it was told to leave, as its object had failed of it.

    Moments are whole seconds, so which was first is not known: a code that no signal gives may be of its own failure.
    """
    if told_at is None:
        return None
    codes = [end.get("exitCode") or 0 for end in ends if seconds(end.get("finishedAt")) == told_at]
    return next((code for code in codes if 0 < code <= SIGNALS), None)


def _why(phase: PodPhase, status: Json, containers: Iterable[Json], ends: Iterable[Json]) -> str:
    if phase == PodPhase.FAILED:
        if found := disruption(status) or status.get("reason"):
            is_gpus = found == _NO_DEVICES and f" {names.GPU_RESOURCE}" in str(status.get("message", ""))
            return "OutOfGpu" if is_gpus else _REASONS.get(str(found), str(found))
        return next((str(end["reason"]) for end in ends if end.get("exitCode") and end.get("reason")), "Error")
    if phase == PodPhase.PENDING:
        waits = (str((s.get("waiting") or {}).get("reason", "")) for s in containers)
        return next((wait for wait in waits if wait and wait not in _USUAL_WAITS), "")
    return ""


def disruption(status: Json) -> str:
    """What takes a pod away, where Kubernetes says so."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _DISRUPTIONS.get(str(condition.get("reason")), str(condition.get("reason", "")))
    return ""


def gone(worker: Worker, reason: str = "") -> Worker:
    """The same worker when its pod is no longer there. One that had ended is what it was."""
    if worker.is_over:
        return worker
    return replace(worker, seen=replace(worker.seen, phase=PodPhase.GONE, reason=reason, ended_at=None))


def _foreign(pod: Json) -> Foreign | None:
    spec, status = pod["spec"], pod.get("status") or {}
    node = spec.get("nodeName")
    if not node or status.get("phase") in ("Succeeded", "Failed"):
        return None
    return Foreign(
        node,
        int(requested(spec, names.GPU_RESOURCE)),
        int(requested(spec, "cpu") * 1000),
        -(-int(requested(spec, "memory")) // MIB),  # rounded up, as `//` of a Decimal would not
    )
