"""The admission policy's rules for pods of teams: what the builder never makes, the API server never takes.

They repeat `cluster.kubernetes.pods` in CEL; both follow docs/kubernetes.md#a-pod. PodSecurity checks much of it as
well; the rules here hold at level `baseline` too, and for what PodSecurity does not know of.
"""

import json

from controlplane.adopted import kinds
from controlplane.cluster.kubernetes import distributed, names, pods
from controlplane.cluster.kubernetes.backends.variables import ON_DEMAND_VARIABLES, SHARE_VARIABLES
from controlplane.cluster.kubernetes.volumes import SHARED_MEMORY_PATH
from controlplane.jobspec import jobfile
from controlplane.jobspec.jobfile import RESERVED_PATHS
from controlplane.jobspec.reserved import REPORT_ENV, RESERVED_ENV
from controlplane.manifests import queuedrules, sharerules
from controlplane.manifests.cel import OURS, Rule, text, texts
from controlplane.manifests.site import BASELINE, SCHEDULER, Site
from scheduler.model.workload import Kind

LABELS = (names.WORKLOAD, names.TEAM, names.NAME, names.KIND, names.ATTEMPT, names.RANK)
LABELS_OF_ROLES = (names.ROLE, names.ROLE_INDEX)  # of a gang with roles
LABELS_OF_REVISION = (names.REVISION, pods.CANONICAL)  # of a service
ALL_LABELS = (*LABELS, *LABELS_OF_ROLES, *LABELS_OF_REVISION, names.SERVING)
ANNOTATIONS = (
    names.GPUS, names.MILLI, names.GPU_MEMORY, names.LIMIT, names.DIGEST, names.ENFORCER, names.ON_DEMAND,
)  # fmt: skip
# Labels of its node that the API server gives a pod when it is bound (admission plugin PodTopologyLabels).
OF_NODE = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
# Put on every pod by the API server itself.
DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Reserved variables that the builder sets all the same; their values are bound by rules of their own.
OWN_VARIABLES = (
    *SHARE_VARIABLES, *ON_DEMAND_VARIABLES, *REPORT_ENV, distributed.ROLE, distributed.ROLE_INDEX, distributed.BATCH,
)  # fmt: skip
HOSTS_OF_ROLE = f"'^{distributed.HOSTS}[A-Z0-9_]{{1,40}}$'"  # CEL
NORMAL_PATH = r"^(/[^/:\x00-\x1f\x7f]+)+$"
DOTS = r"/\.\.?(/|$)"
MAX_GRACE_SECONDS = 3600  # of a job file's checkpoint.grace
ABSENT = (  # of a pod's spec: nothing here is ever ours
    *("hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostAliases", "dnsConfig", "shareProcessNamespace"),
    *("ephemeralContainers", "nodeSelector", "topologySpreadConstraints", "overhead"),
    *("runtimeClassName", "priorityClassName", "readinessGates"),
    *("setHostnameAsFQDN", "os", "resources"),
)
ABSENT_IN_CONTAINER = (
    *("envFrom", "lifecycle", "volumeDevices"),
    *("stdin", "stdinOnce", "tty", "restartPolicy", "resizePolicy"),
)
ABSENT_IN_POD_CONTEXT = (
    *("supplementalGroups", "supplementalGroupsPolicy", "seLinuxOptions", "seLinuxChangePolicy"),
    *("appArmorProfile", "windowsOptions"),
)


def variables(site: Site) -> dict[str, str]:
    """Names that the rules use."""
    return {
        "isScheduler": f"request.userInfo.username == {text(site.user(SCHEDULER))}",
        "isNew": "request.operation == 'CREATE'",
        # Whether the controller of a queued object made it: then the admission server has seen it.
        "isQueued": f"has(object.metadata.annotations) && {text(names.OWNER)} in object.metadata.annotations"
        if site.has_admission
        else "false",
        "labels": "has(object.metadata.labels) ? object.metadata.labels : {}",
        "annotations": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
        "oldLabels": "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}",
        "oldAnnotations": "oldObject != null && has(oldObject.metadata.annotations)"
        " ? oldObject.metadata.annotations : {}",
        # What holds a share that Kubernetes accounts itself; empty for all other pods.
        "enforcer": f"{text(names.ENFORCER)} in variables.annotations"
        f" ? variables.annotations[{text(names.ENFORCER)}] : ''",
        "main": "object.spec.containers[0]",
        "limits": "has(variables.main.resources) && has(variables.main.resources.limits)"
        " ? variables.main.resources.limits : {}",
        "requests": "has(variables.main.resources) && has(variables.main.resources.requests)"
        " ? variables.main.resources.requests : {}",
        "env": "has(variables.main.env) ? variables.main.env : []",
        "hasRole": f"{text(names.ROLE)} in variables.labels",
        "volumes": "has(object.spec.volumes) ? object.spec.volumes : []",
        "mounts": "has(variables.main.volumeMounts) ? variables.main.volumeMounts : []",
        "tolerations": "has(object.spec.tolerations) ? object.spec.tolerations : []",
        "mayBeRoot": f"namespaceObject.metadata.labels['pod-security.kubernetes.io/enforce'] == {text(BASELINE)}",
    }


def rules(site: Site) -> list[Rule]:
    """All rules for a pod in a team's namespace."""
    found = [*_whose(), *_spec(), *_security(), *_container(site), *_roles(), _batch(), *_storage(), *_devices(site)]
    return [*found, *sharerules.amounts()]


def _absent(place: str, what: str, fields: tuple[str, ...]) -> Rule:
    """None of these fields is there; one rule, as each costs the API server a little at every pod."""
    check = " && ".join(f"!has({place}.{field})" for field in fields)
    found = ", ".join(f"has({place}.{field}) ? {text(field)} : ''" for field in fields)
    told = f"'Weft: {what}: not allowed: ' + [{found}].filter(f, f != '').join(', ') + '.'"
    return Rule(check, f"{what}: not allowed is any of {', '.join(fields)}", told)


def _whose() -> list[Rule]:
    same = " && ".join(
        f"variables.{now}.all(k, !({OURS}) || (k in variables.{old} && variables.{old}[k] == variables.{now}[k]))"
        f" && variables.{old}.all(k, !({OURS}) || k in variables.{now})"
        for now, old in (("labels", "oldLabels"), ("annotations", "oldAnnotations"))
    )
    workload, attempt, rank = (f"variables.labels[{text(key)}]" for key in (names.WORKLOAD, names.ATTEMPT, names.RANK))
    return [
        Rule(
            "variables.isScheduler || !variables.isNew || variables.isQueued",
            "only Weft's scheduler creates pods in a team's namespace",
        ),
        *queuedrules.rules(),
        Rule(
            f"variables.isScheduler || variables.isNew || (object.spec == oldObject.spec && {same})",
            "only Weft's scheduler changes the spec, and the weft.dev labels and annotations, of a team's pod",
        ),
        Rule(
            f"variables.isQueued || {texts(LABELS)}.all(k, k in variables.labels)"
            f" && variables.labels.all(k, !k.contains('/') || k in {texts(ALL_LABELS)}"
            f" || (!variables.isNew && k in {texts(OF_NODE)}))",
            "labels with a prefix must be Weft's own, and all of them",
        ),
        Rule(
            f"{texts(LABELS_OF_REVISION)}.all(k, !(k in variables.labels)"
            f" || (variables.labels[{text(names.KIND)}] == {text(Kind.INFERENCE)} && {text(names.REVISION)} in"
            f" variables.labels && variables.labels[k] == variables.labels[{text(names.REVISION)}]"
            " && variables.labels[k].matches('^[0-9]{1,9}$')))",
            f"{names.REVISION} and {pods.CANONICAL} must be the number of a service's revision",
        ),
        Rule(
            f"!({text(names.SERVING)} in variables.labels)"
            f" || (variables.labels[{text(names.KIND)}] == {text(Kind.INFERENCE.value)}"
            f" && variables.labels[{text(names.SERVING)}] in ['true', 'false'])",
            f"{names.SERVING} is true or false, on replicas of a service only",
        ),
        Rule(
            f"variables.labels[{text(names.TEAM)}] == namespaceObject.metadata.labels[{text(names.TEAM)}]",
            f"{names.TEAM} must be the namespace's team",
        ),
        Rule(
            f"variables.isQueued || object.metadata.name == {workload} + '-' + {attempt} + '-' + {rank}",
            "the name must be workload-attempt-rank",
        ),
        Rule(
            f"!variables.isNew || variables.isQueued || variables.annotations.all(k, k in {texts(ANNOTATIONS)})",
            "annotations must be Weft's own",
        ),
        Rule(
            "variables.isQueued || (!has(object.metadata.finalizers) && !has(object.metadata.ownerReferences))",
            "finalizers and owners are not allowed",
        ),
    ]


def _spec() -> list[Rule]:
    tolerated = texts((*names.TOLERATED_TAINTS, *DEFAULT_TOLERATIONS))
    return [
        _absent("object.spec", "spec", ABSENT),
        Rule(
            "!has(object.spec.schedulingGates)"
            f" || (variables.isQueued && object.spec.schedulingGates.all(g, g.name == {text(kinds.GATE)}))",
            "spec.schedulingGates are not allowed",
        ),
        Rule("size(object.spec.containers) == 1", "a pod has one container"),
        *sharerules.spec(),
        Rule("!variables.isNew || !has(object.spec.nodeName)", "spec.nodeName is not allowed; pods are bound"),
        Rule("variables.isQueued || object.spec.restartPolicy == 'Never'", "spec.restartPolicy must be Never"),
        Rule(
            "!has(object.spec.preemptionPolicy) || object.spec.preemptionPolicy == 'PreemptLowerPriority'",
            "spec.preemptionPolicy is not allowed",
        ),
        Rule("object.spec.dnsPolicy == 'ClusterFirst'", "spec.dnsPolicy is not allowed"),
        Rule(
            f"object.spec.serviceAccountName == {text(pods.SERVICE_ACCOUNT)}"
            " && has(object.spec.automountServiceAccountToken) && !object.spec.automountServiceAccountToken",
            "the service account must be default, without its token",
        ),
        Rule(
            f"object.spec.terminationGracePeriodSeconds <= {MAX_GRACE_SECONDS}",
            f"spec.terminationGracePeriodSeconds may be {MAX_GRACE_SECONDS} at most",
        ),
        Rule(
            f"variables.tolerations.all(t, has(t.key) && t.key in {tolerated})",
            f"tolerations may name {', '.join(names.TOLERATED_TAINTS)} only",
        ),
    ]


def _security() -> list[Rule]:
    pod, main = "object.spec.securityContext", "variables.main.securityContext"
    of_main = ("allowPrivilegeEscalation", "capabilities")
    others = (
        *("privileged", "procMount", "runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem"),
        *("seLinuxOptions", "appArmorProfile", "seccompProfile", "windowsOptions"),
    )
    never = ("procMount", "seLinuxOptions", "appArmorProfile", "windowsOptions")
    return [
        Rule(
            f"has({pod}) && has({pod}.seccompProfile) && {pod}.seccompProfile.type == 'RuntimeDefault'",
            "spec.securityContext.seccompProfile must be RuntimeDefault",
        ),
        Rule(
            f"has({pod}) && ((has({pod}.runAsNonRoot) && {pod}.runAsNonRoot"
            f" && (!has({pod}.runAsUser) || {pod}.runAsUser != 0)) || variables.mayBeRoot)",
            "root is for teams at PodSecurity level baseline",
        ),
        Rule(
            f"!has({pod}.fsGroup) || {pod}.fsGroup == {pods.FS_GROUP}",
            f"spec.securityContext.fsGroup must be {pods.FS_GROUP}",
        ),
        Rule(
            f"!has({pod}.runAsGroup) || {pod}.runAsGroup != 0 || variables.mayBeRoot",
            "root is for teams at PodSecurity level baseline",
        ),
        Rule(
            f"!has({pod}.sysctls) || {pod}.sysctls.all(s, s.name == {text(pods.LOW_PORTS['name'])})",
            "sysctls are not allowed",
        ),
        _absent(pod, "spec.securityContext", ABSENT_IN_POD_CONTEXT),
        Rule(
            f"has({main}) && " + " && ".join(f"has({main}.{field})" for field in of_main) + ""
            f" && !{main}.allowPrivilegeEscalation && !has({main}.capabilities.add)"
            f" && has({main}.capabilities.drop) && {main}.capabilities.drop == ['ALL']",
            "a container drops all capabilities and cannot gain any",
        ),
        Rule(
            f"has({main}) && (variables.isQueued || (" + " && ".join(f"!has({main}.{f})" for f in others) + "))",
            "a container's securityContext holds allowPrivilegeEscalation and capabilities only",
        ),
        Rule(
            f"!variables.isQueued || !has({main}) || ("
            + " && ".join(f"!has({main}.{field})" for field in never)
            + f" && (!has({main}.privileged) || !{main}.privileged)"
            f" && (!has({main}.seccompProfile) || {main}.seccompProfile.type == 'RuntimeDefault')"
            f" && ((!has({main}.runAsNonRoot) || {main}.runAsNonRoot)"
            f" && (!has({main}.runAsUser) || {main}.runAsUser != 0)"
            f" && (!has({main}.runAsGroup) || {main}.runAsGroup != 0) || variables.mayBeRoot))",
            "a container's securityContext gives it nothing that its pod's does not",
        ),
    ]


def _container(site: Site) -> list[Rule]:
    main = "variables.main"
    reserved = text(f"(?i)^({RESERVED_ENV.pattern})$")
    told = SHARE_VARIABLES | ON_DEMAND_VARIABLES
    noted = json.dumps({name: f"metadata.annotations['{key}']" for name, key in told.items()})
    reference = (
        f"e.name in {noted} && has(e.valueFrom) && has(e.valueFrom.fieldRef)"
        f" && e.valueFrom.fieldRef.fieldPath == {noted}[e.name]"
    )
    from_registry = " || ".join(f"{main}.image.startsWith({text(prefix)})" for prefix in site.registries)
    return [
        _absent(main, "spec.containers[0]", ABSENT_IN_CONTAINER),
        *queuedrules.probes(),
        Rule(f"{main}.imagePullPolicy == 'Always'", "imagePullPolicy must be Always"),
        *([Rule(from_registry, f"images come from {', '.join(site.registries)}")] if from_registry else []),
        Rule(
            f"!has({main}.ports) || {main}.ports.all(p, !has(p.hostPort) && !has(p.hostIP))",
            "host ports are not allowed",
        ),
        Rule(
            f"variables.env.all(e, !e.name.matches({reserved}) || e.name in {texts(OWN_VARIABLES)}"
            f" || {sharerules.VARIABLES}"
            f" || e.name.matches({HOSTS_OF_ROLE}))",
            "env sets a variable that decides about GPUs or about what is loaded",
        ),
        Rule(
            f"variables.env.all(e, !(e.name in {noted}) || ({reference})"
            " || (e.name == 'NVIDIA_VISIBLE_DEVICES' && has(e.value) && e.value == 'void'))",
            "NVIDIA_VISIBLE_DEVICES is void, or what the pod is bound to; a share's variables say its annotations",
        ),
        Rule(
            f"variables.env.all(e, !has(e.valueFrom) || has(e.valueFrom.secretKeyRef) || ({reference})"
            f" || (variables.isQueued && !(e.name in {noted}) && has(e.valueFrom.fieldRef)"
            " && e.valueFrom.fieldRef.fieldPath.startsWith('metadata.')))",
            "env takes values from the team's secrets only",
        ),
        Rule(
            "!variables.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES' && has(e.valueFrom))"
            f" || ({texts(tuple(SHARE_VARIABLES))}.all(n, variables.env.exists(e, e.name == n))"
            f" && {texts(sharerules.OF_SHARE)}.all(k, k in variables.annotations))",
            "a share has its guarantee, limit and memory in its annotations, and all variables that say them",
        ),
    ]


def _roles() -> list[Rule]:
    """Which role a member of a gang has, and where the others are: as `cluster.kubernetes.distributed` says it."""
    kind, role, index, rank = (
        f"variables.labels[{text(key)}]" for key in (names.KIND, names.ROLE, names.ROLE_INDEX, names.RANK)
    )
    is_role = f"{role}.matches('^[a-z0-9]([a-z0-9-]{{0,38}}[a-z0-9])?$')"
    is_index = f"{index}.matches('^(0|[1-9][0-9]{{0,4}})$') && int({index}) <= int({rank})"
    told = {distributed.ROLE: role, distributed.ROLE_INDEX: index}
    # The name of a host is begin, a rank, end. All begins and ends but the outer ones become a space, which no host
    # holds: what is left is ranks. That costs one pass over a list of up to 1,000 hosts.
    begin = f"variables.labels[{text(names.WORKLOAD)}] + '-' + variables.labels[{text(names.ATTEMPT)}] + '-'"
    end = f"'.' + {text(names.gang_service(''))} + variables.labels[{text(names.WORKLOAD)}]"
    are_hosts = (
        f"has(e.value) && e.value.startsWith({begin}) && e.value.endsWith({end}) && !e.value.contains(' ')"
        f" && size(e.value) > size({begin}) + size({end})"
        f" && e.value.substring(size({begin}), size(e.value) - size({end}))"
        f".replace({end} + ',' + {begin}, ' ').matches('^[0-9]{{1,5}}( [0-9]{{1,5}})*$')"
    )
    return [
        Rule(
            f"variables.hasRole == ({text(names.ROLE_INDEX)} in variables.labels)"
            f" && (!variables.hasRole || ({kind} == {text(Kind.TRAINING.value)} && {is_role} && {is_index}))",
            f"{names.ROLE} and {names.ROLE_INDEX} are a role's name and a number in it, on members of a gang only",
        ),
        *(
            Rule(
                f"(!variables.hasRole || variables.env.exists(e, e.name == {text(name)}))"
                f" && variables.env.all(e, e.name != {text(name)}"
                f" || (variables.hasRole && has(e.value) && e.value == {label}))",
                f"{name} must be what the label of the pod says, in a gang with roles only",
            )
            for name, label in told.items()
        ),
        Rule(
            f"variables.env.all(e, !e.name.matches({HOSTS_OF_ROLE}) || (variables.hasRole && {are_hosts}))",
            f"{distributed.HOSTS}<ROLE> must be hosts of the pod's own gang, in a gang with roles only",
        ),
    ]


def _batch() -> Rule:
    kind = f"variables.labels[{text(names.KIND)}] == {text(Kind.TRAINING.value)}"
    is_count = "has(e.value) && e.value.matches('^[1-9][0-9]{0,9}$')"
    return Rule(
        f"variables.env.all(e, e.name != {text(distributed.BATCH)} || ({kind} && {is_count}))",
        f"{distributed.BATCH} must be a number of examples, of a training only",
    )


def _storage() -> list[Rule]:
    inside = " || ".join(
        f"m.mountPath == {text(path)} || m.mountPath.startsWith({text(path + '/')})" for path in RESERVED_PATHS
    )
    return [
        Rule(
            "variables.volumes.all(v, has(v.persistentVolumeClaim) || (has(v.emptyDir) && has(v.emptyDir.sizeLimit)))",
            "a volume is a claim of the team, or emptyDir with a sizeLimit",
        ),
        Rule(
            "variables.mounts.all(m, !has(m.subPath) && !has(m.subPathExpr) && !has(m.mountPropagation))",
            "subPath and mountPropagation are not allowed",
        ),
        Rule(
            f"variables.mounts.all(m, m.mountPath.matches({text(NORMAL_PATH)}) && !m.mountPath.matches({text(DOTS)}))",
            "a mount's path must be absolute and written in one way only: no //, no part . or .., no / at its end",
        ),
        Rule(
            f"variables.mounts.all(m, m.mountPath == {text(SHARED_MEMORY_PATH)} || !({inside}))"
            f" && variables.mounts.all(m, !(m.mountPath in {texts(jobfile.ABOVE_RESERVED)}))",
            "a mount covers a path of the system",
        ),
    ]


def _devices(site: Site) -> list[Rule]:
    asked = "variables.limits"
    extra = "".join(f" || k.startsWith({text(prefix)})" for prefix in site.extra_resources)
    gpu = text(names.GPU_RESOURCE)
    return [
        Rule(
            f"'cpu' in {asked} && 'memory' in {asked} && {asked} == variables.requests",
            "limits must name cpu and memory, and be the requests",
        ),
        Rule(
            f"{asked}.all(k, k in ['cpu', 'memory', {gpu}]{extra} || {sharerules.RESOURCES})",
            f"resources may be cpu, memory, {', '.join((names.GPU_RESOURCE, *site.extra_resources))}",
        ),
        Rule(
            f"{gpu} in {asked} || variables.enforcer in {texts(sharerules.PLUGGED)}"
            " || variables.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')",
            "a pod without whole GPUs must set NVIDIA_VISIBLE_DEVICES, or it would see all of them",
        ),
    ]
