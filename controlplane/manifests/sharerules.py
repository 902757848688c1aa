"""The admission policy's rules for shares that Kubernetes accounts itself (MIG, MPS, HAMi, DRA) and for our own.

They repeat `cluster.kubernetes.backends` in CEL. Which one a pod has is an annotation that only the scheduler's account
sets, when it makes the pod; each then asks for its own resource, and what it asks for is what the annotations say.
"""

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends import dra, hami, mig, mps, own
from controlplane.cluster.kubernetes.backends.variables import ON_DEMAND_VARIABLES, SAID
from controlplane.enforcer import inside
from controlplane.manifests.cel import Rule, text, texts
from gpushare.gpu import Enforcer
from scheduler.model.workload import Kind

MIG, MPS, HAMI, DRA = (text(one.value) for one in (Enforcer.MIG, Enforcer.MPS, Enforcer.HAMI, Enforcer.DRA))
PLUGGED = (Enforcer.MIG.value, Enforcer.MPS.value)  # a device plugin says which device the container sees
OF_SHARE = (names.MILLI, names.LIMIT, names.GPU_MEMORY)  # annotations
_OF_HAMI = (hami.MEMORY, hami.CORES)
# CEL over a resource k that such a pod may ask for beside the usual ones, and over a variable e of its own.
RESOURCES = (
    f"(variables.enforcer == {MIG} && k.startsWith({text(mig.PREFIX)}))"
    f" || (variables.enforcer == {MPS} && k == {text(mps.RESOURCE)})"
    f" || (variables.enforcer == {HAMI} && k in {texts(_OF_HAMI)})"
    f" || (variables.enforcer == '' && k == {text(inside.RESOURCE)})"
)
VARIABLES = f"(variables.enforcer == {MPS} && e.name in {texts((mps.PERCENTAGE, mps.MEMORY))})"


def spec() -> list[Rule]:
    """Who binds the pod, and what it claims: of DRA kube-scheduler, on the node that the scheduler's account names."""
    terms = "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    one_node = (
        "has(object.spec.affinity) && !has(object.spec.affinity.podAffinity)"
        " && !has(object.spec.affinity.podAntiAffinity) && has(object.spec.affinity.nodeAffinity)"
        " && !has(object.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution)"
        f" && size({terms}) == 1 && !has({terms}[0].matchExpressions) && size({terms}[0].matchFields) == 1"
        f" && {terms}[0].matchFields[0].key == 'metadata.name' && {terms}[0].matchFields[0].operator == 'In'"
        f" && size({terms}[0].matchFields[0].values) == 1"
    )
    one_claim = (
        "has(object.spec.resourceClaims) && size(object.spec.resourceClaims) == 1"
        " && has(object.spec.resourceClaims[0].resourceClaimName)"
        " && object.spec.resourceClaims[0].resourceClaimName == object.metadata.name"
    )
    return [
        Rule(
            f"object.spec.schedulerName == (variables.enforcer == {DRA} ? {text(dra.SCHEDULER)}"
            f" : {text(names.SCHEDULER_NAME)})",
            "spec.schedulerName must be weft",
        ),
        Rule(
            f"variables.enforcer == {DRA} ? ({one_claim}) : !has(object.spec.resourceClaims)",
            "spec.resourceClaims are for shares by DRA, one each, of the pod's own name",
        ),
        Rule(
            f"variables.enforcer == {DRA} ? ({one_node}) : !has(object.spec.affinity)",
            "spec.affinity is for shares by DRA, and names their node",
        ),
        *_first(),
    ]


def _first() -> list[Rule]:
    """The container before the main one, which has our library tried: of shares with a slot, and of nothing else."""
    slot, first, size = text(inside.RESOURCE), "object.spec.initContainers[0]", text(names.ON_DEMAND)
    same = " && ".join(
        f"has({first}.{key}) && has(variables.main.{key}) && {first}.{key} == variables.main.{key}" for key in own.SAME
    )
    others = ("args", "env", "envFrom", "lifecycle", "ports", "restartPolicy", "stdin", "tty", "volumeDevices",
              "workingDir", "livenessProbe", "readinessProbe", "startupProbe", "resizePolicy")  # fmt: skip
    # The API server itself mounts the account's token, which our pods do not have.
    bare = " && ".join(f"!has({first}.{key})" for key in (*others, "volumeMounts"))
    return [
        Rule(
            f"{slot} in variables.limits"
            f" ? (has(object.spec.initContainers) && size(object.spec.initContainers) == 1"
            f" && {first}.name == {text(own.FIRST)} && has({first}.command) && {first}.command == {texts(own.COMMAND)})"
            " : !has(object.spec.initContainers)",
            f"spec.initContainers: not allowed but one that tries our library, where {inside.RESOURCE} is asked for",
        ),
        Rule(
            f"!({slot} in variables.limits) || ({bare} && {same})",
            "spec.initContainers[0] is as the main container, and has nothing more",
        ),
        Rule(
            f"!({slot} in variables.limits) || ({texts(OF_SHARE)}"
            f".all(k, k in variables.annotations) && quantity(variables.limits[{slot}]).compareTo(quantity('1')) == 0)",
            f"{inside.RESOURCE} is one, of a share, which has its guarantee, limit and memory in annotations",
        ),
        Rule(
            f"!({size} in variables.annotations) || (variables.labels[{text(names.KIND)}] == {text(Kind.NOTEBOOK)}"
            f" && {slot} in variables.limits && variables.annotations[{size}].matches('^[1-9][0-9]{{0,8}}$'))",
            f"{names.ON_DEMAND} is of a notebook with a share of our own back-end: MiB of each GPU of its node",
        ),
        Rule(
            f"!variables.env.exists(e, e.name in {texts(tuple(ON_DEMAND_VARIABLES))})"
            f" || {size} in variables.annotations",
            f"{', '.join(ON_DEMAND_VARIABLES)} is of notebooks on demand",
        ),
    ]


def amounts() -> list[Rule]:
    """A share asks for what its annotations say, and says it in its variables."""
    kinds = texts(tuple(one.value for one in (Enforcer.MIG, Enforcer.MPS, Enforcer.HAMI, Enforcer.DRA)))
    limits = "variables.limits"
    milli, memory = (f"variables.annotations[{text(key)}]" for key in (names.MILLI, names.GPU_MEMORY))
    one = "quantity('1')"
    mine = {
        Enforcer.MIG.value: f"{limits}.filter(k, k.startsWith({text(mig.PREFIX)})).size() == 1"
        f" && {limits}.all(k, !k.startsWith({text(mig.PREFIX)}) || quantity({limits}[k]).compareTo({one}) == 0)",
        Enforcer.MPS.value: f"{text(mps.RESOURCE)} in {limits}"
        f" && quantity({limits}[{text(mps.RESOURCE)}]).compareTo({one}) == 0"
        f" && variables.env.exists_one(e, e.name == {text(mps.PERCENTAGE)} && has(e.value)"
        f" && e.value == string(int({milli}) / 10))"
        f" && variables.env.exists_one(e, e.name == {text(mps.MEMORY)} && has(e.value)"
        f" && e.value == '0=' + {memory} + 'M')",
        Enforcer.HAMI.value: f"{text(names.GPU_RESOURCE)} in {limits}"
        f" && quantity({limits}[{text(names.GPU_RESOURCE)}]).compareTo({one}) == 0"
        f" && {text(hami.MEMORY)} in {limits}"
        f" && quantity({limits}[{text(hami.MEMORY)}]).compareTo(quantity({memory})) == 0"
        f" && {text(hami.CORES)} in {limits}"
        f" && quantity({limits}[{text(hami.CORES)}]).compareTo(quantity(string(int({milli}) / 10))) == 0",
    }
    return [
        Rule(
            f"variables.enforcer == '' || (variables.enforcer in {kinds}"
            f" && {texts(OF_SHARE)}.all(k, k in variables.annotations) && int({milli}) >= 10"
            f" && {texts(tuple(SAID))}.all(n, variables.env.exists(e, e.name == n)))",
            f"{names.ENFORCER} is the back-end of a share, which has its guarantee, limit and memory in annotations",
        ),
        *(
            Rule(f"variables.enforcer != {text(kind)} || ({check})", f"a share by {kind} asks for its own part")
            for kind, check in mine.items()
        ),
    ]
