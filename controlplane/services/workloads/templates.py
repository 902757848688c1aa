"""Templates: job files to begin from, of a team or of the platform."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from controlplane.jobspec import spec
from controlplane.jobspec.shapes import Faults, FieldError, Text
from controlplane.models import Team, Template, User
from controlplane.services.audit import events
from controlplane.services.errors import Refused

MAX = 200  # of one team, and of the platform
OF_THE_SUBMISSION = ("name", "team")  # a template says nothing of these
NAME = Text(40, "[A-Za-z0-9](?:[A-Za-z0-9 ._-]*[A-Za-z0-9])?", "Use letters, digits, spaces, `.`, _ and -.")
ABOUT = Text(200, may_be_empty=True)
STAND_INS = {"name": "stand-in", "team": "stand-in", "image": "stand-in"}


def read_job(given: object) -> dict[str, Any]:
    """The fields that a template sets. Raises SpecError for what no submission could say, each fault below `job`."""
    if not isinstance(given, Mapping):
        raise spec.SpecError([FieldError("job", "job is not an object. Give the fields of a job file.")])
    job = {name: value for name, value in given.items() if name not in OF_THE_SUBMISSION}
    try:
        spec.parse({**STAND_INS, **job})
    except spec.SpecError as error:
        raise spec.SpecError([FieldError(f"job.{e.field}".rstrip("."), e.message) for e in error.errors]) from None
    return job


def checked(name: str, about: str) -> None:
    """Raise SpecError for a name or a sentence that cannot be."""
    faults = Faults()
    NAME.read(name, "name", faults)
    ABOUT.read(about, "about", faults)
    if faults.errors:
        raise spec.SpecError(faults.errors)


@transaction.atomic
def create(*, team: Team | None, name: str, about: str, job: Mapping[str, Any], user: User) -> Template:
    """Keep a job file under a name; Refused 409 if there is one of that name. Raises SpecError."""
    checked(name, about)
    read = read_job(job)
    if Template.objects.filter(team=team, name=name).exists():
        whose = f"Team {team.name}" if team else "The platform"
        message = f"{whose} has a template {name} already. Choose another name, or replace it."
        raise Refused(409, "NameTaken", "name", message)
    if Template.objects.filter(team=team).count() >= MAX:
        raise Refused(409, "TooMany", "", f"There are {MAX} templates already. Delete one first.")
    made = Template.objects.create(team=team, name=name, about=about, kind=read["type"], job=read, author=user)
    _tell("TemplateSaved", made, user.get_username())
    return made


@transaction.atomic
def change(*, template: Template, about: str, job: Mapping[str, Any], version: int | None, actor: str) -> Template:
    """Replace what a template says. `version` is the one that was seen: Refused 412 if there is a newer one."""
    checked(template.name, about)
    read = read_job(job)
    if version is not None and version != template.version:
        raise _overtaken(template)
    seen = Template.objects.filter(pk=template.pk, version=template.version)
    if not seen.update(about=about, job=read, kind=read["type"], version=F("version") + 1):
        raise _overtaken(template)
    _tell("TemplateSaved", template, actor)
    return Template.objects.select_related("team", "author").get(pk=template.pk)


@transaction.atomic
def remove(*, template: Template, actor: str) -> None:
    """Forget a template; what was submitted from it stays."""
    _tell("TemplateRemoved", template, actor)
    Template.objects.filter(pk=template.pk).delete()


def _overtaken(template: Template) -> Refused:
    message = f"Template {template.name} was changed meanwhile. Read it again."
    return Refused(412, "VersionMismatch", "version", message)


def _tell(kind: str, template: Template, actor: str) -> None:
    team = template.team.name if template.team else ""
    events.record(kind=kind, actor=actor, team=team, data={"template": template.name})
