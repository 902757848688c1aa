"""One owner: a workload that was made by a Kubernetes object is changed there, and is read-only elsewhere.

What its object does not say may be done anywhere: a requeue, another half hour for a notebook, the return of one that
was parked. A platform admin may stop anything, as somebody must be able to when the cluster cannot be reached.
"""

from enum import StrEnum

from django.conf import settings

from controlplane.domain import addresses
from controlplane.models import Workload
from controlplane.services.errors import Refused

OURS, DEPLOYMENTS = ".weft.dev", "deployments.apps"
CODE = "ManagedByKubernetes"
CULLED = "Culled"  # the reason of a notebook that was parked


class Hand(StrEnum):
    """By whose hand a workload is changed."""

    PERSON = "person"  # by a page, REST or the CLI
    ADMIN = "admin"  # the same, a platform admin
    OBJECT = "object"  # the Kubernetes object that it was made by
    LOOP = "loop"  # the platform itself


def require(workload: Workload, verb: str, hand: Hand) -> None:
    """Raise Refused 409 with the command to use where only its Kubernetes object may do this."""
    if message := refusal(workload, verb, hand):
        raise Refused(409, CODE, "managed_by", message)


def refusal(workload: Workload, verb: str, hand: Hand) -> str:
    """Why this cannot be done here, and the command that does it; empty if it can."""
    if not workload.managed_by or hand in (Hand.OBJECT, Hand.LOOP) or _is_free(workload, verb, hand):
        return ""
    return f"{workload.name} was made by kubectl and is changed there: {command(workload, verb)}"


def command(workload: Workload, verb: str) -> str:
    """The command that does this to the object of a workload."""
    namespace = addresses.namespace(workload.team.name, settings.NAMESPACE_PREFIX)
    at = f"{workload.managed_by} {workload.name} -n {namespace}"
    if verb == "stop":
        return f"kubectl delete {at}"
    if verb in ("suspend", "resume") and workload.managed_by == DEPLOYMENTS:
        return f"kubectl scale {at} --replicas={0 if verb == 'suspend' else 1}"
    if verb in ("suspend", "resume") and not workload.managed_by.endswith(OURS):
        return f"kubectl delete {at}"  # whether it is suspended is Weft's own way to have it wait
    if verb in ("suspend", "resume"):
        value = "true" if verb == "suspend" else "false"
        return f"""kubectl patch {at} --type merge -p '{{"spec":{{"suspend":{value}}}}}'"""
    return f"kubectl edit {at}"


def _is_free(workload: Workload, verb: str, hand: Hand) -> bool:
    return (
        verb == "requeue" or (verb == "stop" and hand is Hand.ADMIN) or (verb == "resume" and workload.reason == CULLED)
    )
