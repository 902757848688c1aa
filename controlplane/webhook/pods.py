"""Review of new pods in the namespace of a team: those of queued objects are gated and bound to their object.

What a manifest leaves open is filled in so that the fences let it in (docs/kubernetes.md#fences); what it says
otherwise is left as it is, and refused by them.
"""

from typing import Any

from controlplane.adopted import sharepods
from controlplane.adopted.jobfiles import CPU, GPU, MEMORY
from controlplane.adopted.kinds import GATE, INDEX, OWNER, POD_SET, QUEUE
from controlplane.adopted.sharepods import is_word
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends.variables import SHARE_VARIABLES, noted
from controlplane.cluster.kubernetes.pods import FS_GROUP, SERVICE_ACCOUNT
from controlplane.webhook.review import RESERVED, Asked, DeniedError, Json, Lookup, Top, texts

# Labels by which controllers say which of an object's pods this is: pod set, number.
_OF_JOB = "batch.kubernetes.io/job-completion-index"
_PLACES = (
    ("jobset.sigs.k8s.io/replicatedjob-name", ("jobset.sigs.k8s.io/job-index", _OF_JOB)),
    ("training.kubeflow.org/replica-type", ("training.kubeflow.org/replica-index",)),
    ("", (_OF_JOB,)),
)
MAIN = "worker"
ADMINS = "system:masters"  # a group that may do everything in a cluster
TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - the beginning of a volume's name
INDEX_BASE = 100_000  # more than the pods of one Job
# Waits until a PyTorchJob's master has a name; its workers start together with it, and try again by themselves.
NEEDLESS_INIT = "init-pytorch"


async def review(asked: Asked, lookup: Lookup) -> Json:
    """The pod as it is to be stored. Raises DeniedError."""
    metadata = dict(asked.object.get("metadata") or {})
    spec: Json = dict(asked.object.get("spec") or {})
    made: Json = {**asked.object, "metadata": metadata, "spec": spec}
    forged = [key for field in ("labels", "annotations") for key in texts(made, field) if key.startswith(RESERVED)]
    if any(key != QUEUE for key in forged):
        raise DeniedError(f"metadata: {forged[0]} is Weft's. Leave it out.")
    top = await lookup.top(asked.namespace, metadata.get("ownerReferences") or [])
    _refuse_strange(top, lookup.team(asked.namespace))
    if ADMINS not in asked.groups and not lookup.is_controller(asked.username):
        raise DeniedError(
            f"only its controller makes pods of {top.label if top else 'it'}, and {asked.username} is none."
        )
    assert top is not None and top.kind is not None  # noqa: S101 - _refuse_strange has seen to it
    pod_set, index = _place(texts(made, "labels"), texts(made, "annotations"))
    metadata["labels"] = {key: value for key, value in texts(made, "labels").items() if key != QUEUE} | {
        names.WORKLOAD: top.uid,
        names.TEAM: lookup.team(asked.namespace),
        names.NAME: top.label.partition("/")[2][:63],
        names.KIND: top.kind.workload.value,
        **({names.SERVING: "true"} if top.is_ours else {}),
    }
    metadata["annotations"] = texts(made, "annotations") | {
        OWNER: top.label,
        POD_SET: pod_set,
        INDEX: str(index),
        names.MILLI: "1000",
        names.GPU_MEMORY: "0",
    }
    share = _share(made)
    metadata["annotations"] |= share
    _gate(spec)
    _fill(spec, is_share=bool(share))
    return made


def _share(made: Json) -> dict[str, str]:
    """What our annotations say of a share that KubeShare's words ask for.

    Annotations of KubeShare's go; labels stay, as the pod's controller may select by them.
    """
    try:
        told = sharepods.asked(made["metadata"])
    except sharepods.SharePodError as error:
        raise DeniedError(f"metadata: {error}") from None
    annotations = made["metadata"]["annotations"]
    made["metadata"]["annotations"] = {key: text for key, text in annotations.items() if not is_word(key)}
    if told is None or "gpus" in told:
        return {}
    amounts = {names.MILLI: "guarantee", names.LIMIT: "limit", names.GPU_MEMORY: "memory"}
    return {key: str(told[name]) for key, name in amounts.items()}


def _refuse_strange(top: Top | None, team: str) -> None:
    if top is None:
        raise DeniedError(
            "pods in the namespace of a team are made by its workloads. Submit one with `weft submit`, or create a Job "
            f"with the label {QUEUE}: {team}."
        )
    if top.kind is None:
        raise DeniedError(f"{top.label}: Weft does not queue this kind. Make it a Job or a Deployment.")
    if not top.is_queued:
        raise DeniedError(f"{top.label} is not queued. Create it anew with the label {QUEUE}: {team}.")


def _place(labels: dict[str, str], annotations: dict[str, str]) -> tuple[str, int]:
    """Which of its object's pods it is: the name of its pod set, and its number there."""
    for name, numbers in _PLACES:
        if name and name not in labels:
            continue
        index = 0
        for key in numbers:
            text = labels.get(key) or annotations.get(key) or "0"
            index = index * INDEX_BASE + (int(text) if text.isdigit() else 0)
        return (labels[name].lower() if name else MAIN), index
    return MAIN, 0


def _gate(spec: Json) -> None:
    if spec.get("schedulingGates"):
        raise DeniedError("spec.schedulingGates: leave them out, Weft sets its own.")
    if spec.get("nodeName"):
        raise DeniedError("spec.nodeName: leave it out, Weft decides where it runs.")
    spec["schedulerName"] = names.SCHEDULER_NAME
    spec["schedulingGates"] = [{"name": GATE}]


def _fill(spec: Json, *, is_share: bool) -> None:
    spec["automountServiceAccountToken"] = False
    spec["enableServiceLinks"] = False
    if spec.get("serviceAccountName", SERVICE_ACCOUNT) == SERVICE_ACCOUNT:
        spec["serviceAccountName"] = SERVICE_ACCOUNT
    first = [one for one in spec.get("initContainers") or () if one.get("name") != NEEDLESS_INIT]
    spec.pop("initContainers", None)
    if first:
        spec["initContainers"] = first
    context = dict(spec.get("securityContext") or {})
    context.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    context.setdefault("runAsNonRoot", context.get("runAsUser") != 0)
    context.setdefault("fsGroup", FS_GROUP)
    context.setdefault("fsGroupChangePolicy", "OnRootMismatch")
    spec["securityContext"] = context
    containers = [dict(one) for one in spec.get("containers") or ()]
    spec["containers"] = containers
    for one in containers:
        _fill_container(one, is_share=is_share)
    if is_share or any(GPU in one["resources"]["limits"] for one in containers):
        _tolerate(spec)
    # The volumes that a controller gives every pod hold its token, which pods of teams do not get.
    if volumes := spec.get("volumes"):
        spec["volumes"] = [v for v in volumes if not str(v.get("name", "")).startswith(TOKEN_VOLUME)]


def _fill_container(one: Json, *, is_share: bool) -> None:
    one["imagePullPolicy"] = "Always"  # else a node would run another team's private image from its cache
    security = dict(one.get("securityContext") or {})
    security.setdefault("allowPrivilegeEscalation", False)
    security["capabilities"] = {"drop": ["ALL"], **(security.get("capabilities") or {})}
    one["securityContext"] = security
    given = one.get("resources") or {}
    amounts = {"cpu": CPU, "memory": MEMORY, **(given.get("requests") or {}), **(given.get("limits") or {})}
    amounts = {name: amount for name, amount in amounts.items() if name != GPU or str(amount) != "0"}
    one["resources"] = {**given, "requests": amounts, "limits": dict(amounts)}
    env: list[Any] = list(one.get("env") or [])
    if is_share:
        env = [v for v in env if v.get("name") not in SHARE_VARIABLES]
        env += [noted(name, annotation) for name, annotation in SHARE_VARIABLES.items()]
    elif GPU not in amounts and not any(v.get("name") == "NVIDIA_VISIBLE_DEVICES" for v in env):
        env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    if env:
        one["env"] = env
    if mounts := one.get("volumeMounts"):
        one["volumeMounts"] = [m for m in mounts if not str(m.get("name", "")).startswith(TOKEN_VOLUME)]


def _tolerate(spec: Json) -> None:
    tolerations = list(spec.get("tolerations") or [])
    for key in names.TOLERATED_TAINTS:
        if not any(one.get("key") == key for one in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    spec["tolerations"] = tolerations
