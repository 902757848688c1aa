"""Teams of Kubernetes objects: made, moved and given quotas as the object says; nothing but by its object."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from controlplane.kubeobjects.names import TEAM_RESOURCE
from controlplane.models import NodePool, PodSecurity, Quota, Team
from controlplane.services.errors import Refused
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.tenancy import quotas, teams

ACTOR = "loop:intake"


@transaction.atomic
def follow(*, name: str, wanted: Mapping[str, Any], adopts: bool, actor: str, lease: HeldLease) -> None:
    """Make the team of this name what its object says, as `teamfile.TEAM_FILE` reads it. Raises Refused."""
    lease.check()
    team = Team.objects.select_for_update(no_key=True).select_related(None).filter(name=name).first()
    if team is not None and not team.managed_by and not adopts:
        message = (
            f"Team {name} was made in Weft and is changed there. To have this object change it instead, annotate it: "
            f"kubectl annotate teams.weft.dev {name} weft.dev/adopt=true. Else delete the object."
        )
        raise Refused(409, "Conflict", "metadata.name", message)
    parent = _parent(wanted["parent"])
    if team is None:
        team = teams.create(name=name, parent=parent, actor=actor, managed_by=TEAM_RESOURCE)
    else:
        teams.hand_over(team=team, managed_by=TEAM_RESOURCE, actor=actor)
        teams.move(team=team, parent=parent, actor=actor, by_object=True)
    teams.set_pod_security(team=team, level=PodSecurity(wanted["pod_security"]), actor=actor, by_object=True)
    _quotas(team, wanted["quotas"] or (), actor)


def differs(*, name: str, wanted: Mapping[str, Any]) -> bool:
    """Whether the team of this name is another than its object says, or another's to change."""
    team = Team.objects.select_related("parent").filter(name=name, managed_by=TEAM_RESOURCE).first()
    if team is None:
        return True
    columns = ("pool__name", "nominal", "borrowing_limit", "lending_limit", "weight")
    there = set(Quota.objects.filter(team=team).values_list(*columns))
    parent = team.parent.name if team.parent else None
    said = {(one["pool"], *_numbers(one).values()) for one in wanted["quotas"] or ()}
    return (parent, team.pod_security, there) != (wanted["parent"], wanted["pod_security"], said)


@transaction.atomic
def release(*, team: Team, lease: HeldLease) -> None:
    """A team whose object is gone stays, with its quotas, and is changed in Weft from now on."""
    lease.check()
    teams.hand_over(team=team, managed_by="", actor=ACTOR)


def _parent(name: str | None) -> Team | None:
    if name is None:
        return None
    found = Team.objects.filter(name=name).first()
    if found is None:
        raise Refused(404, "UnknownTeam", "parent", f"There is no team {name}. Name a team there is, or make it first.")
    return found


def _quotas(team: Team, wanted: Any, actor: str) -> None:
    pools = {pool.name: pool for pool in NodePool.objects.all()}
    there = {quota.pool.name: quota for quota in Quota.objects.filter(team=team).select_related("team", "pool")}
    for one in wanted:
        values = _numbers(one)
        if one["pool"] not in pools:
            known = ", ".join(sorted(pools)) or "none"
            message = f"There is no node pool {one['pool']}. Use one of: {known}."
            raise Refused(404, "UnknownPool", "quotas", message)
        before = there.pop(one["pool"], None)
        if before is None or any(getattr(before, name) != value for name, value in values.items()):
            quotas.save(team=team, pool=pools[one["pool"]], **values, actor=actor, by_object=True)
    for quota in there.values():
        quotas.remove(quota=quota, actor=actor, by_object=True)


def _numbers(one: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a quota, in milli-GPU."""
    limits = {name: one[f"{name}_milli"] for name in ("nominal", "borrowing_limit", "lending_limit")}
    return {**limits, "weight": one["weight"]}
