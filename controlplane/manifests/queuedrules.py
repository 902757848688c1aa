"""The rules of `weft-pods` for pods that the controllers of queued objects make (docs/adopting.md)."""

from controlplane.cluster.kubernetes import names
from controlplane.manifests.cel import OURS, Rule, text, texts
from scheduler.model.workload import Kind

# Of pods that the controller of a queued object makes. The admission server writes ours, and refuses them from others.
LABELS_OF_QUEUED = (names.WORKLOAD, names.TEAM, names.NAME, names.KIND)
SOME = (names.SERVING,)  # of a service of Weft's own with a Deployment, as its Service selects by it
ANNOTATIONS_OF_QUEUED = (
    names.GPUS,
    names.MILLI,
    names.LIMIT,
    names.GPU_MEMORY,
    names.DIGEST,
    names.OWNER,
    names.POD_SET,
    names.INDEX,
)
CONTROLLERS = (  # beginnings of annotations that controllers, and people for them, put on a pod
    *("batch.kubernetes.io/", "jobset.sigs.k8s.io/", "alpha.jobset.sigs.k8s.io/", "training.kubeflow.org/"),
    *("kubectl.kubernetes.io/", "prometheus.io/", "sidecar.istio.io/inject"),
)
DELETING = ("foregroundDeletion", "orphan")  # finalizers of Kubernetes' own while it deletes
TRACKED = "batch.kubernetes.io/job-tracking"  # finalizer by which a Job counts its pods
READINESS = "readinessProbe"
PROBES = ("livenessProbe", READINESS, "startupProbe")


def rules() -> list[Rule]:
    """What makes a pod of a queued object: our labels but for attempt and rank, which come with its binding."""
    known = " || ".join(f"k.startsWith({text(prefix)})" for prefix in CONTROLLERS)
    return [
        Rule(
            f"!variables.isQueued || ({texts(LABELS_OF_QUEUED)}.all(k, k in variables.labels)"
            f" && variables.labels.all(k, !({OURS}) || k in {texts((*LABELS_OF_QUEUED, *SOME))}"
            f" || (!variables.isNew && k in {texts((names.ATTEMPT, names.RANK))})))",
            "weft.dev labels of a queued object's pod are the admission server's",
        ),
        Rule(
            f"!variables.isQueued || !variables.isNew || variables.annotations.all(k, !k.contains('/')"
            f" || k in {texts(ANNOTATIONS_OF_QUEUED)} || {known})",
            "annotations with a prefix must be Weft's own, or a controller's",
        ),
        Rule(
            f"!variables.isQueued || ((!has(object.metadata.finalizers)"
            f" || object.metadata.finalizers.all(f, f in {texts((TRACKED, *DELETING))}))"
            " && has(object.metadata.ownerReferences)"
            " && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller))",
            "a queued object's pod has a controller, and no finalizers of others",
        ),
    ]


def probes() -> list[Rule]:
    """A queued object's pod may have probes, a service's says when it is ready; of itself only: the node asks them."""
    ready = (
        f"{text(names.KIND)} in variables.labels && variables.labels[{text(names.KIND)}] == {text(Kind.INFERENCE)}"
        f" && !has(variables.main.{READINESS}.exec) && !has(variables.main.{READINESS}.grpc)"
    )
    return [
        Rule(
            f"!has(variables.main.{probe}) || ((variables.isQueued"
            + (f" || ({ready})" if probe == READINESS else "")
            + ")"
            f" && (!has(variables.main.{probe}.httpGet) || (!has(variables.main.{probe}.httpGet.host)"
            f" && !has(variables.main.{probe}.httpGet.httpHeaders)))"
            f" && (!has(variables.main.{probe}.tcpSocket) || !has(variables.main.{probe}.tcpSocket.host)))",
            f"spec.containers[0]: {probe} is for queued objects, and without host and httpHeaders"
            + (", or says by HTTP or TCP whether a service is ready" if probe == READINESS else ""),
        )
        for probe in PROBES
    ]
