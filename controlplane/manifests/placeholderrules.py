"""The admission policy's rules for placeholders: in their namespace is nothing else, and nothing of another sender.

They repeat `cluster.kubernetes.placeholders` in CEL, field by field: a placeholder holds a device and does nothing.
"""

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes import placeholders as made
from controlplane.manifests.cel import OURS, Rule, text, texts
from controlplane.manifests.podrules import ABSENT, ABSENT_IN_CONTAINER, OF_NODE
from controlplane.manifests.queuedrules import PROBES
from controlplane.manifests.site import Site

_SPEC = (
    *ABSENT,
    *("affinity", "resourceClaims"),
    "schedulingGates",
    "volumes",
    "activeDeadlineSeconds",
)
_CONTAINER = (*ABSENT_IN_CONTAINER, *PROBES, "args", "env", "volumeMounts", "ports", "workingDir")


def placeholders(site: Site, scheduler: str) -> list[Rule]:
    """All rules for a pod in the placeholders' namespace. scheduler: CEL that is true for its account."""
    containers = "(object.spec.containers + object.spec.initContainers)"
    script = f"[{text(made.SAYS_ITS_DEVICE)}, {text(made.WAITS)}]"
    gpus = f"object.metadata.annotations[{text(names.GPUS)}]"
    known = texts((names.GPUS, names.CLAIMANTS))
    return [
        Rule(
            f"{scheduler} || (request.operation != 'CREATE' && object.spec == oldObject.spec && {_kept()})",
            "only Weft's scheduler makes placeholders and changes them",
        ),
        Rule(
            f"has(object.metadata.labels) && {text(names.PLACEHOLDER)} in object.metadata.labels"
            f" && object.metadata.labels.all(k, k in {texts((names.PLACEHOLDER, *OF_NODE))})",
            "a placeholder has its own label and no other",
        ),
        Rule(
            f"has(object.metadata.annotations) && {text(names.GPUS)} in object.metadata.annotations"
            f" && {gpus}.matches('^[0-9]{{1,3}}$') && object.metadata.name.endsWith('-gpu-' + {gpus})"
            f" && (request.operation != 'CREATE' || object.metadata.annotations.all(k, k in {known}))",
            "a placeholder is named after its node and GPU, and its annotations are Weft's own",
        ),
        Rule(
            "!has(object.metadata.finalizers) && !has(object.metadata.ownerReferences)",
            "finalizers and owners are not allowed",
        ),
        Rule(
            " && ".join(f"!has(object.spec.{field})" for field in _SPEC),
            "a placeholder's spec holds its node and two containers",
        ),
        Rule(
            "has(object.spec.nodeName) && has(object.spec.automountServiceAccountToken)"
            " && !object.spec.automountServiceAccountToken && object.spec.serviceAccountName == 'default'"
            f" && object.spec.schedulerName == {text(names.SCHEDULER_NAME)} && object.spec.dnsPolicy == 'ClusterFirst'",
            "a placeholder is made on its node, without a token",
        ),
        Rule(
            "size(object.spec.containers) == 1"
            " && has(object.spec.initContainers) && size(object.spec.initContainers) == 1"
            f" && {containers}.all(c, c.image == {text(site.placeholder_image)} && size(c.command) == 3"
            f" && c.command[0] == '/bin/sh' && c.command[1] == '-c' && c.command[2] in {script})",
            "a placeholder runs the platform's image with Weft's own commands",
        ),
        Rule(
            f"{containers}.all(c, " + " && ".join(f"!has(c.{field})" for field in _CONTAINER) + ")",
            "a placeholder's containers have an image, a command and a GPU only",
        ),
        Rule(
            f"{containers}.all(c, has(c.resources) && has(c.resources.limits) && has(c.resources.requests)"
            f" && c.resources.limits == c.resources.requests && size(c.resources.limits) == 1"
            f" && {text(names.GPU_RESOURCE)} in c.resources.limits"
            f" && quantity(c.resources.limits[{text(names.GPU_RESOURCE)}]).compareTo(quantity('1')) == 0)",
            "a placeholder asks for one GPU and nothing else",
        ),
    ]


def _kept() -> str:
    """CEL: the labels and annotations of ours are what they were."""
    found = []
    for field in ("labels", "annotations"):
        new, old = (f"(has({one}.metadata.{field}) ? {one}.metadata.{field} : {{}})" for one in ("object", "oldObject"))
        found.append(f"{new}.all(k, !({OURS}) || (k in {old} && {old}[k] == {new}[k]))")
        found.append(f"{old}.all(k, !({OURS}) || k in {new})")
    return " && ".join(found)


def parts() -> list[Rule]:
    """Of what decides where a pod runs and what runs in it, beside the pod itself."""
    return [Rule("false", "a placeholder is not bound, resized or added to")]
