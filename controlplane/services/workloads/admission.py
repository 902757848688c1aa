"""What a team's pods may be: said at the submission, so that no user waits hours for a refusal by the cluster.

The cluster's own fences (PodSecurity level, admission policy) are made from the same settings by `manage.py manifests`.
"""

from collections.abc import Iterable

from django.conf import settings

from controlplane.jobspec import members
from controlplane.jobspec.spec import Spec
from controlplane.lifecycle import notebooks
from controlplane.lifecycle.canaries import WHOLE
from controlplane.models import PodSecurity, Team
from controlplane.services.errors import Refused
from scheduler.model.workload import Kind

ROOT = 0


def check(spec: Spec, team: Team) -> None:
    """Raise Refused if the cluster would refuse this job's pods in the team's namespace."""
    if spec.run_as_user == ROOT and team.pod_security == PodSecurity.RESTRICTED:
        _refuse(
            "run_as_user",
            f"run_as_user is 0, which is root, but team {team} runs at PodSecurity level restricted. "
            "Give another user id, or ask a platform admin to set the team's level to baseline.",
        )
    _check_image("image", spec.image)
    if spec.rollout.weight < WHOLE and not _can_split(spec):
        fix = "Give the service a gateway, such as {slots: 8}, or leave" if settings.ACTIVATORS else "Leave"
        _refuse(
            "rollout.weight",
            f"rollout.weight is {spec.rollout.weight}, but nothing splits the requests of this service by weight. "
            f"{fix} it out: a new revision gets as many requests as it has replicas.",
        )
    check_queue(spec)
    _check_notebook(spec, team)
    _check_scaling(spec)
    _check_extra("resources.extra", spec.extra)
    for number, role in enumerate(members.roles(spec.text)):
        _check_image(f"roles.{number}.image", str(role.get("image") or spec.image))
        _check_extra(f"roles.{number}.resources.extra", role["resources"].get("extra") or ())


def _check_notebook(spec: Spec, team: Team) -> None:
    """Raise Refused for a notebook that is larger, or stays longer without use, than its team allows."""
    if spec.type is not Kind.NOTEBOOK:
        return
    most, minutes = team.notebook_max_milli, team.notebook_park_minutes
    if most and (asked := spec.resources.milli) > most:
        field = "resources.gpu_share.guarantee" if spec.resources.share else "resources.gpus"
        _refuse(
            field,
            f"{field} asks for {asked / 1000:g} GPUs, but notebooks of team {team} get at most {most / 1000:g}. "
            "Ask for less, or have an admin of the team raise it.",
        )
    after = spec.idle.park_after
    if minutes and after is not None and after > notebooks.MINUTE * minutes:
        _refuse(
            "idle.park_after",
            f"idle.park_after is {after / notebooks.MINUTE:g} minutes, but notebooks of team {team} are parked after "
            f"{minutes} minutes without use. Leave it out, or set it to {minutes}m at most.",
        )


def check_queue(spec: Spec) -> None:
    """Raise Refused for a service that may have no replica where nothing would hold its requests."""
    if spec.idle_after is not None and settings.CLUSTER == "kubernetes" and not settings.ACTIVATORS:
        _refuse(
            "replicas.min",
            "replicas.min is 0, but this platform runs no queues in front of services, so nothing would wake it. Set "
            "min to 1, or ask a platform admin to run the activators (WEFT_ACTIVATORS).",
        )


def _check_scaling(spec: Spec) -> None:
    """Raise Refused where nothing would gate a Deployment's pods, or tell its autoscaler of the load."""
    if not spec.is_native or settings.CLUSTER != "kubernetes" or (settings.ADMISSION and settings.EXTERNAL_METRICS):
        return
    _refuse(
        "scaling",
        "scaling is native, but this platform lets no Deployments be queued. Remove scaling, or ask a platform admin "
        "to set WEFT_ADMISSION and WEFT_EXTERNAL_METRICS.",
    )


def _can_split(spec: Spec) -> bool:
    """The simulated cluster draws each request; elsewhere our queue in front of the service does that, or Istio."""
    if settings.CLUSTER != "kubernetes" or settings.ISTIO:
        return True
    return bool(spec.gateway and settings.ACTIVATORS)


def _check_image(field: str, image: str) -> None:
    registries: tuple[str, ...] = settings.REGISTRIES
    if registries and not image.startswith(registries):
        _refuse(field, f"{field} is {image}, which is from no allowed registry. Use one of: {_list(registries)}.")


def _check_extra(field: str, extra: Iterable[str]) -> None:
    allowed: tuple[str, ...] = settings.EXTRA_RESOURCES
    for name in extra:
        if not name.startswith(allowed):
            fix = f"Remove it; allowed is what begins with {_list(allowed)}." if allowed else "Remove it."
            _refuse(field, f"{field} names {name}, which this platform does not give out. {fix}")


def _list(prefixes: tuple[str, ...]) -> str:
    return ", ".join(prefixes)


def _refuse(field: str, message: str) -> None:
    raise Refused(422, "NotAllowed", field, message)
