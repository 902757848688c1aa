"""Teams. They are never deleted: their accounts stay."""

from django.db import transaction

from controlplane.models import PodSecurity, Reallocation, Team
from controlplane.runtime.wake import wake
from controlplane.services.accounts import endings
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes


@transaction.atomic
def create(*, name: str, parent: Team | None, actor: str, colour: int | None = None, managed_by: str = "") -> Team:
    """A new team; refused if there is one of this name. `managed_by`: the Kubernetes resource that makes it."""
    if Team.objects.filter(name=name).exists():
        raise Refused(409, "NameTaken", "name", f"There is a team {name} already. Choose another name.")
    if colour is None:
        colour = Team.objects.count() % 8
    team = Team.objects.create(name=name, parent=parent, colour=colour, managed_by=managed_by)
    _tell("TeamCreated", team, actor, parent=parent.name if parent else None)
    return team


@transaction.atomic
def move(*, team: Team, parent: Team | None, actor: str, by_object: bool = False) -> None:
    """Give a team another parent; refused if that is the team itself or below it."""
    if (parent.pk if parent else None) != team.parent_id:
        require_here(team, by_object=by_object)
    above = parent
    while above is not None:
        if above.pk == team.pk:
            message = f"{parent} is {team} or below it. A team cannot be its own ancestor; choose another parent."
            raise Refused(422, "TeamCycle", "parent", message)
        above = above.parent
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if before.parent_id == (parent.pk if parent else None):
        return
    Team.objects.filter(pk=team.pk).update(parent=parent, version=before.version + 1)
    _tell("TeamMoved", team, actor, parent=parent.name if parent else None)
    endings.of_moved_team(actor=actor)


@transaction.atomic
def set_pod_security(*, team: Team, level: PodSecurity, actor: str, by_object: bool = False) -> None:
    """Change what the team's pods may do; its namespace follows when the namespaces are next applied."""
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if before.pod_security == level:
        return
    require_here(team, by_object=by_object)
    Team.objects.filter(pk=team.pk).update(pod_security=level, version=before.version + 1)
    _tell("PodSecurityChanged", team, actor, level=str(level), before=before.pod_security)


@transaction.atomic
def set_sharing(*, team: Team, allowed: bool, actor: str) -> None:
    """Say whether the team's shares may lie beside other teams'; shares that lie together already stay as they are."""
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if before.shares_with_others == allowed:
        return
    Team.objects.filter(pk=team.pk).update(shares_with_others=allowed, version=before.version + 1)
    _tell("SharingChanged", team, actor, shares_with_others=allowed)


@transaction.atomic
def change(*, team: Team, shares_with_others: bool | None, reallocation: str | None, actor: str) -> None:
    """What a team's admins say of it, all of it or nothing; None: it stays as it is."""
    if shares_with_others is not None:
        set_sharing(team=team, allowed=shares_with_others, actor=actor)
    if reallocation is not None:
        set_reallocation(team=team, mode=Reallocation(reallocation), actor=actor)


@transaction.atomic
def set_reallocation(*, team: Team, mode: Reallocation, actor: str) -> None:
    """Say whether what makes the team's trainings faster is recommended, tried as well, or neither."""
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if before.reallocation == mode:
        return
    Team.objects.filter(pk=team.pk).update(reallocation=mode, version=before.version + 1)
    _tell("ReallocationChanged", team, actor, mode=str(mode), before=before.reallocation)


@transaction.atomic
def hand_over(*, team: Team, managed_by: str, actor: str) -> None:
    """Have a Kubernetes object change the team from now on, or, with an empty resource, Weft again."""
    if Team.objects.filter(pk=team.pk).exclude(managed_by=managed_by).update(managed_by=managed_by):
        _tell("TeamHandedOver", team, actor, to=managed_by or "weft")


def require_here(team: Team, *, by_object: bool) -> None:
    """Raise Refused 409 with the command to use where only the team's Kubernetes object may change it."""
    if team.managed_by and not by_object:
        message = f"Team {team} is managed by kubectl and is changed there: kubectl edit {team.managed_by} {team}"
        raise Refused(409, "ManagedByKubernetes", "", message)


def _tell(kind: str, team: Team, actor: str, **data: object) -> None:
    events.record(kind=kind, actor=actor, team=team.name, data=data)
    changes.touch(None)
    wake("schedule")
