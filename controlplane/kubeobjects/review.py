"""Whether somebody may write a custom resource of ours: the decision of the admission webhook, and of the loop. Pure.

A message says what is wrong and what to do; an empty one lets it through. The same sentences as REST's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain import addresses
from controlplane.jobspec.difference import difference
from controlplane.jobspec.shapes import Faults
from controlplane.jobspec.spec import Spec, SpecError, amended, parse
from controlplane.kubeobjects import conversion
from controlplane.kubeobjects.names import AUTHOR, TEAM
from controlplane.kubeobjects.teamfile import TEAM_FILE

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
CONTROLLERS = "system:serviceaccount:kube-system:"  # Kubernetes' own: they delete what lies in a namespace that goes
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Author:
    """The sender of a request, as far as a decision needs it. The teams are those in which they may do it."""

    username: str  # Kubernetes' name
    name: str = ""  # ours; empty: none
    unknown: str = ""  # why it is none, with the fix
    is_admin: bool = False  # of the platform
    sees: frozenset[str] = frozenset()
    submits: frozenset[str] = frozenset()
    acts: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()


def review(operation: str, thing: Body, old: Body | None, author: Author, *, prefix: str, submitter: str = "") -> str:
    """Why this request about a Workload or Team is refused, with the fix; empty if it is let through.

    thing: the object as it would be (DELETE: as it is). old: as it is, for UPDATE. submitter: our name of who submitted
    the workload, if it was.
    """
    if operation == UPDATE and not must_be_stamped(operation, thing, old):
        return ""
    if operation == DELETE and author.username.startswith(CONTROLLERS):
        return ""
    if not author.name:
        return author.unknown
    if thing["kind"] == TEAM:
        return _team(operation, thing, author)
    return _workload(operation, thing, old, author, prefix, submitter)


def must_be_stamped(operation: str, thing: Body, old: Body | None) -> bool:
    """Whether this request makes its sender the author: a new object, or a changed spec."""
    return operation == CREATE or (operation == UPDATE and (old is None or thing.get("spec") != old.get("spec")))


def stamped(thing: Body, username: str) -> dict[str, Any]:
    """The object with its author noted."""
    meta = dict(thing["metadata"])
    meta["annotations"] = {**(meta.get("annotations") or {}), AUTHOR: username}
    return {**thing, "metadata": meta}


def job_of(thing: Body, prefix: str) -> Spec:
    """The job file of a Workload object. Raises SpecError with REST's faults."""
    return parse(conversion.job_file(thing, prefix))


def quotas_of(thing: Body) -> tuple[dict[str, Any], Faults]:
    """What a Team object says, and what is wrong with it."""
    faults = Faults()
    read = TEAM_FILE.read(conversion.team_file(thing), "", faults)
    return read, faults


def place(namespace: str, prefix: str) -> str:
    """What is wrong with a Workload's namespace; empty if it is a team's."""
    if conversion.team_of(namespace, prefix):
        return ""
    example = addresses.namespace("TEAM", prefix)
    return f"Namespace {namespace} is no team's. Apply it in the namespace of its team: -n {example}."


def may_write(thing: Body, old: Body | None, author: Author, team: str, submitter: str) -> str:
    """Why the author may not make (old is None) or change a workload of this team; empty if they may."""
    if author.is_admin:
        return ""
    if team not in author.sees:
        return f"There is no team {team}, or you are not in it. Name one of your teams."
    if old is None:
        allowed = team in author.submits
    elif _rest(old) == _rest(thing):  # suspended or resumed
        allowed = team in author.acts
    else:
        allowed = team in author.changes or (team in author.acts and submitter == author.name)
    return "" if allowed else f"Your role in team {team} does not allow this. Ask an admin of the team."


def _workload(operation: str, thing: Body, old: Body | None, author: Author, prefix: str, submitter: str) -> str:
    namespace = thing["metadata"]["namespace"]
    if fault := place(namespace, prefix):
        return fault if operation != DELETE else ""
    team = conversion.team_of(namespace, prefix)
    if operation == DELETE:
        return may_write(thing, thing, author, team, submitter)
    if refusal := may_write(thing, old if operation == UPDATE else None, author, team, submitter):
        return refusal
    try:
        wanted = job_of(thing, prefix)
        if submitter and old is not None:
            before = job_of(old, prefix)
            amended(before.text, difference(before.text, wanted))
    except SpecError as error:
        return str(error)
    return ""


def _team(operation: str, thing: Body, author: Author) -> str:
    if not author.is_admin:
        return f"{author.name} is no platform admin of Weft, so teams are not theirs to make. Ask one."
    if operation == DELETE:
        return ""
    _, faults = quotas_of(thing)
    return " ".join(error.message for error in faults.errors)


def _rest(thing: Body) -> dict[str, Any]:
    return {name: value for name, value in (thing.get("spec") or {}).items() if name != "suspend"}
