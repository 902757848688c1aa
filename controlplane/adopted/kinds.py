"""The kinds of Kubernetes objects that can be queued by a label. What another kind needs is a row here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.model.workload import Kind

Json = Mapping[str, Any]

# `weft.dev/queue: TEAM` makes an object a workload of the team whose namespace it is in.
QUEUE = "weft.dev/queue"
PRIORITY = "weft.dev/priority-class"
USER = "internal.weft.dev/user"  # annotation: the Kubernetes user that made it, by the admission server
# annotation of a Deployment that Weft made: the workload that it is of (services/intake/natives.py)
MADE_FOR = "internal.weft.dev/workload"
OWNER = "internal.weft.dev/owner"  # annotation of a pod: the object that it is of, KIND/NAME
POD_SET = "internal.weft.dev/pod-set"  # annotation of a pod: which of the object's pod sets it belongs to
INDEX = "internal.weft.dev/index"  # annotation of a pod: its number in that pod set
GATE = QUEUE  # scheduling gate of its pods until they have a place


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """One kind. suspend: the path of the field that keeps it from having pods; empty: only gates keep them."""

    kind: str
    group: str
    version: str
    plural: str
    workload: Kind
    suspend: tuple[str, ...] = ()
    succeeded: str = ""  # the conditions that say how it ended
    failed: str = ""

    @property
    def api_version(self) -> str:
        """As a manifest has it."""
        return f"{self.group}/{self.version}"

    def path(self, namespace: str, name: str = "") -> str:
        """Of its objects in a namespace, or of one."""
        found = f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}"
        return f"{found}/{name}" if name else found


JOB = OwnerKind("Job", "batch", "v1", "jobs", Kind.TRAINING, ("spec", "suspend"), "Complete", "Failed")
DEPLOYMENT = OwnerKind("Deployment", "apps", "v1", "deployments", Kind.INFERENCE)
JOB_SET = OwnerKind(
    "JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets", Kind.TRAINING, ("spec", "suspend"), "Completed", "Failed"
)
_OF_KUBEFLOW: Any = (Kind.TRAINING, ("spec", "runPolicy", "suspend"), "Succeeded", "Failed")
PYTORCH_JOB = OwnerKind("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", *_OF_KUBEFLOW)
TF_JOB = OwnerKind("TFJob", "kubeflow.org", "v1", "tfjobs", *_OF_KUBEFLOW)

KINDS = (JOB, DEPLOYMENT, JOB_SET, PYTORCH_JOB, TF_JOB)
RESOURCES = frozenset(f"{one.plural}.{one.group}" for one in KINDS)  # as kubectl names them: jobs.batch
# Makes Jobs by its template: these are queued, each by itself (webhook/cronjobs.py).
CRON_JOB, CRON_JOBS = ("batch", "CronJob"), ("batch", "v1", "cronjobs")
# What lies between such an object and its pods.
BETWEEN: Mapping[tuple[str, str], str] = {("apps", "ReplicaSet"): "replicasets"}


def kind_of(api_version: str, kind: str) -> OwnerKind | None:
    """The kind of this name; None for one that cannot be queued. Another version of it is the same kind."""
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return next((one for one in KINDS if (one.group, one.kind) == (group, kind)), None)


def at(thing: Json, *path: str) -> Any:
    """What lies at a path; None if anything of it is missing."""
    found: Any = thing
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def made_for(kind: "OwnerKind | None", thing: Json) -> str:
    """The workload that Weft made this object for; empty: people made it."""
    return str(at(thing, "metadata", "annotations", MADE_FOR) or "") if kind is DEPLOYMENT else ""
