"""Teams. They are never deleted: their accounts stay."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from controlplane.domain import sharedemands
from controlplane.lifecycle.notebooks import MOST_MINUTES
from controlplane.models import PodSecurity, Reallocation, Team
from controlplane.runtime.wake import wake
from controlplane.services.accounts import endings
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes
from gpushare.backends.catalogue import DEMANDS

NOTEBOOKS = ("notebook_park_minutes", "notebook_max_milli", "notebook_extend")
MOST_MILLI = 1000 * 64  # the GPUs of the largest node there is, and more


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
def change(
    *,
    team: Team,
    shares_with_others: bool | None,
    reallocation: str | None,
    share_demands: Sequence[str] | None = None,
    actor: str,
    notebooks: Mapping[str, Any] | None = None,
) -> None:
    """What a team's admins say of it, all of it or nothing; None: it stays as it is. notebooks: some of NOTEBOOKS."""
    if notebooks:
        set_notebooks(team=team, actor=actor, **notebooks)
    if share_demands is not None:
        set_share_demands(team=team, demands=share_demands, actor=actor)
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
def set_notebooks(
    *,
    team: Team,
    actor: str,
    notebook_park_minutes: int | None = None,
    notebook_max_milli: int | None = None,
    notebook_extend: bool | None = None,
) -> None:
    """Say when the team's notebooks are parked, how large they may be, and whether they are extended.

    None: it stays as it is; 0: no limit. Those that run follow the first and the last at once, and keep their places.
    """
    bounds = {
        "notebook_park_minutes": (notebook_park_minutes, MOST_MINUTES),
        "notebook_max_milli": (notebook_max_milli, MOST_MILLI),
    }
    for field, (value, most) in bounds.items():
        if value is not None and not 0 <= value <= most:
            raise Refused(422, "Invalid", field, f"{field} is {value}. Set it to 0 (no limit) to {most}.")
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    said = dict(zip(NOTEBOOKS, (notebook_park_minutes, notebook_max_milli, notebook_extend), strict=True))
    new = {name: value for name, value in said.items() if value is not None and value != getattr(before, name)}
    if not new:
        return
    Team.objects.filter(pk=team.pk).update(**new, version=before.version + 1)
    _tell("NotebookPolicyChanged", team, actor, **new)


@transaction.atomic
def set_share_demands(*, team: Team, demands: Sequence[str], actor: str) -> None:
    """Say what must be held of the team's shares: words of the catalogue. What runs stays where it is."""
    if strange := sorted(set(demands) - set(DEMANDS)):
        message = f"share_demands names {', '.join(strange)}. Give some of {', '.join(DEMANDS)}."
        raise Refused(422, "BadDemand", "share_demands", message)
    wanted = sharedemands.text(demands)
    before = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if before.share_demands == wanted:
        return
    Team.objects.filter(pk=team.pk).update(share_demands=wanted, version=before.version + 1)
    _tell("ShareDemandsChanged", team, actor, demands=wanted.split(",") if wanted else [])


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
