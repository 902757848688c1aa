"""ValidatingAdmissionPolicies: the fences inside the API server, which hold even for our own scheduler's account.

They run in the API server itself, need no webhook, and refuse when they cannot be evaluated.
"""

from controlplane.adopted.kinds import CRON_JOBS, KINDS
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends import hami
from controlplane.kubeobjects.names import AUTHOR, GROUP, TEAMS, WORKLOADS
from controlplane.manifests.cel import OURS, Rule, text, texts
from controlplane.manifests.placeholderrules import parts, placeholders
from controlplane.manifests.podrules import OF_NODE, rules, variables
from controlplane.manifests.site import ACTIVATOR_SWITCH, PROVISIONER, SCHEDULER, Json, Site, obj

ADMISSION = "admissionregistration.k8s.io/v1"
MASTERS = "'system:masters' in request.userInfo.groups"
KUBE_SCHEDULER = "system:kube-scheduler"  # its user in any cluster
LEVELS = "pod-security.kubernetes.io/"


def policies(site: Site) -> list[Json]:
    """Each policy, and the binding that puts it into force."""
    in_teams: Json = {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]}
    elsewhere: Json = {
        "matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in (names.TEAM, names.PLACEHOLDER)]
    }
    held: Json = {"matchExpressions": [{"key": names.PLACEHOLDER, "operator": "Exists"}]}
    scheduler, provisioner = (f"request.userInfo.username == {text(site.user(a))}" for a in (SCHEDULER, PROVISIONER))
    writes = ["CREATE", "UPDATE"]
    return [
        *_policy("weft-pods", rules(site), [_on("", ["pods"], writes)], selector=in_teams, given=variables(site)),
        *_policy("weft-binding", _binding(site, scheduler), _pod_parts(), selector=in_teams),
        *_policy("weft-placeholders", placeholders(site, scheduler), [_on("", ["pods"], writes)], selector=held),
        *_policy("weft-placeholder-parts", parts(), _pod_parts(), selector=held),
        *_policy("weft-services", _services(site, scheduler), [_on("", ["services"], writes)], selector=in_teams),
        *_policy("weft-labels", _labels(), [_on("", ["pods"], writes)], selector=elsewhere),
        *_policy("weft-queue-labels", _queue_labels(), _owners(writes), selector=elsewhere),
        *_policy("weft-namespaces", _namespaces(site, provisioner), [_on("", ["namespaces"], writes)]),
        *_policy("weft-cordon", _cordon(), [_on("", ["nodes"], writes)], only=scheduler),
        *_policy("weft-provisioner", _provisioner(site), _provisioned(), only=provisioner),
        *_policy("weft-objects", _objects(), [_on(GROUP, [WORKLOADS, TEAMS], writes)]),
    ]


def _pod_parts() -> list[Json]:
    return [_on("", [f"pods/{part}" for part in ("binding", "resize", "ephemeralcontainers")], ["CREATE", "UPDATE"])]


def _binding(site: Site, scheduler: str) -> list[Rule]:
    """The Binding's annotations become the pod's, so that the account that binds decides about GPUs.

    kube-scheduler binds shares by DRA, and no other pods: only those name it. It says nothing of them.
    """
    others = (
        f" || (request.userInfo.username == {text(KUBE_SCHEDULER)} && request.subResource == 'binding'"
        " && !has(object.metadata.annotations) && (!has(object.metadata.labels)"
        f" || object.metadata.labels.all(k, k in {texts(OF_NODE)})))"
    )
    return [
        Rule("request.subResource != 'ephemeralcontainers'", "containers cannot be added to a team's pod"),
        Rule(
            f"{scheduler}{others if site.has_dra else ''}",
            "only Weft's scheduler binds and resizes the pods of a team",
        ),
        Rule(
            "request.subResource != 'binding' || !has(object.metadata.annotations)"
            f" || object.metadata.annotations.all(k, k in {texts((names.GPUS, names.DEVICE, *hami.OF_BINDING))})",
            f"a binding may carry the annotations {names.GPUS}, {names.DEVICE} and those of HAMi only",
        ),
        Rule(
            "request.subResource != 'binding' || !has(object.metadata.labels)"
            f" || object.metadata.labels.all(k, k in {texts((*OF_NODE, names.ATTEMPT, names.RANK))})",
            "a binding may carry the labels of an attempt and rank only",
        ),
    ]


def _services(site: Site, scheduler: str) -> list[Rule]:
    labels = "has(object.metadata.labels) ? object.metadata.labels : {}"
    return [
        Rule(
            "!has(object.spec.type) || object.spec.type == 'ClusterIP'",
            "a Service of a team opens nothing to the outside: its type is ClusterIP",
        ),
        Rule("!has(object.spec.externalIPs)", "externalIPs are not allowed"),
        Rule("!has(object.spec.externalName)", "externalName is not allowed"),
        Rule(
            f"{scheduler} || {_is_switch(site)}!({labels}).exists(k, {OURS})",
            "only Weft's scheduler sets weft.dev labels",
        ),
        *([_switched(site)] if site.activator_image else []),
    ]


def _is_switch(site: Site) -> str:
    """The activators' switch, which changes no label."""
    if not site.activator_image:
        return ""
    user = text(site.user(ACTIVATOR_SWITCH))
    return f"(request.userInfo.username == {user} && object.metadata.labels == oldObject.metadata.labels) || "


def _switched(site: Site) -> Rule:
    uid, serving, user = text(names.WORKLOAD), text(names.SERVING), text(site.user(ACTIVATOR_SWITCH))
    selector = "object.spec.selector"
    return Rule(
        f"request.userInfo.username != {user} || !has({selector}) || (size({selector}) == 2"
        f" && {uid} in {selector} && {selector}[{uid}] == object.metadata.labels[{uid}]"
        f" && {serving} in {selector} && {selector}[{serving}] == 'true')",
        "the activators' switch sends a Service to the pods of its own workload, or to none",
    )


def _labels() -> list[Rule]:
    """Elsewhere no pod passes for one of ours: a forged label would make a pod look like a placed worker."""
    message = "weft.dev labels and annotations belong to pods of teams"
    return [
        Rule(f"!has(object.metadata.{field}) || object.metadata.{field}.all(k, !({OURS}))", message)
        for field in ("labels", "annotations")
    ]


def _owners(operations: list[str]) -> list[Json]:
    listed = [(kind.group, kind.plural) for kind in KINDS]
    return [_on(group, [plural], operations) for group, plural in (*listed, (CRON_JOBS[0], CRON_JOBS[2]))]


def _queue_labels() -> list[Rule]:
    """Nothing that becomes a team's later brings along what only the admission server stamps: which user made it."""
    message = "weft.dev labels and annotations belong to the namespaces of teams"
    is_over = "has(object.metadata.deletionTimestamp)"
    return [
        Rule(f"{is_over} || !has(object.metadata.{field}) || object.metadata.{field}.all(k, !({OURS}))", message)
        for field in ("labels", "annotations")
    ]


def _namespaces(site: Site, provisioner: str) -> list[Rule]:
    """What makes a namespace a team's, and how strict it is, only the provisioner (or a cluster admin) changes."""
    new, old = (
        "(has(object.metadata.labels) ? object.metadata.labels : {})",
        "(oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})",
    )
    team = text(names.TEAM)
    held = text(names.PLACEHOLDER)
    ours = f"k == {team} || k == {held} || k.startsWith({text(LEVELS)})"
    is_ours = " || ".join(f"{key} in {labels}" for key in (team, held) for labels in (new, old))
    same = f"{new}.all(k, !({ours}) || (k in {old} && {old}[k] == {new}[k])) && {old}.all(k, !({ours}) || k in {new})"
    return [
        Rule(
            f"{provisioner} || {MASTERS} || !({is_ours}) || ({same})",
            "only Weft's provisioner makes a namespace a team's, or changes its PodSecurity level",
        ),
        Rule(
            f"!({held} in {new})"
            f" || (object.metadata.name == {text(names.PLACEHOLDER_NAMESPACE)} && !({team} in {new}))",
            f"placeholders are in the namespace {names.PLACEHOLDER_NAMESPACE}, which is no team's",
        ),
        Rule(
            f"!({team} in {new}) || object.metadata.name == {text(site.prefix)} + {new}[{team}]",
            f"a team's namespace is named {site.prefix} and its team",
        ),
    ]


# All that an update of a node could change but `spec.unschedulable`; the API server itself sees to the rest of metadata
# (name, uid, times, versions, what it manages) and takes no status here. A test asks a real one for what there is.
NODE_FIELDS = (
    "metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences",
    "spec.taints", "spec.podCIDR", "spec.podCIDRs", "spec.providerID", "spec.configSource", "spec.externalID",
)  # fmt: skip


def _cordon() -> list[Rule]:
    same = " && ".join(
        f"has(object.{f}) == has(oldObject.{f}) && (!has(object.{f}) || object.{f} == oldObject.{f})"
        for f in NODE_FIELDS
    )
    return [Rule(f"request.operation == 'UPDATE' && {same}", "the scheduler may change a node's unschedulable only")]


def _provisioned() -> list[Json]:
    return [
        _on("", ["namespaces", "serviceaccounts", "resourcequotas"], ["CREATE", "UPDATE"]),
        _on("networking.k8s.io", ["networkpolicies"], ["CREATE", "UPDATE"]),
        _on("rbac.authorization.k8s.io", ["rolebindings"], ["CREATE", "UPDATE"]),
    ]


def _provisioner(site: Site) -> list[Rule]:
    has_team = f"has(object.metadata.labels) && {text(names.TEAM)} in object.metadata.labels"
    where = "(has(object.metadata.namespace) ? object.metadata.namespace : object.metadata.name)"
    mine = f"{where}.startsWith({text(site.prefix)})"
    return [
        Rule(mine, "the provisioner writes in the namespaces of teams only"),
        Rule(
            f"object.kind != 'Namespace' || ({has_team})",
            "the provisioner makes namespaces of teams only",
        ),
    ]


def _objects() -> list[Rule]:
    """The author of a Workload or Team is who sent its spec: the loop that follows these objects relies on that."""
    new, old = (
        f"(has({one}.metadata.annotations) && {text(AUTHOR)} in {one}.metadata.annotations"
        f" ? {one}.metadata.annotations[{text(AUTHOR)}] : '')"
        for one in ("object", "oldObject")
    )
    same = f"(request.operation == 'UPDATE' && {new} == {old} && object.spec == oldObject.spec)"
    return [
        Rule(
            f"{new} in ['', request.userInfo.username] || {same}",
            f"the annotation {AUTHOR} names the user that sends the spec, and no other",
        )
    ]


def _on(group: str, resources: list[str], operations: list[str]) -> Json:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": resources}


def _policy(
    name: str,
    checks: list[Rule],
    on: list[Json],
    *,
    selector: Json | None = None,
    given: dict[str, str] | None = None,
    only: str = "",
) -> list[Json]:
    match: Json = {"resourceRules": on, "matchPolicy": "Equivalent"}
    if selector:
        match["namespaceSelector"] = selector
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": match,
        "validations": [_validation(rule) for rule in checks],
    }
    if given:
        spec["variables"] = [{"name": key, "expression": value} for key, value in given.items()]
    if only:
        spec["matchConditions"] = [{"name": "only", "expression": only}]
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        obj(ADMISSION, "ValidatingAdmissionPolicy", name, spec=spec),
        obj(ADMISSION, "ValidatingAdmissionPolicyBinding", name, spec=binding),
    ]


def _validation(rule: Rule) -> Json:
    found: Json = {"expression": rule.check, "message": f"Weft: {rule.message}.", "reason": "Forbidden"}
    return {**found, "messageExpression": rule.told} if rule.told else found
