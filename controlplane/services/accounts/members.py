"""Who may do what in a team: memberships by hand and from groups. One that ends takes sessions and tokens along."""

from django.db import transaction

from controlplane.models import Membership, Role, Source, Team, User
from controlplane.services.accounts import endings
from controlplane.services.audit import events
from controlplane.services.errors import Refused

_RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.ADMIN: 3}


@transaction.atomic
def save(*, team: Team, user: User, role: Role, actor: str) -> Membership:
    """Add a user to a team, or change what they may do there; by hand, so that no group ends it.

    Raises Refused if the team would be left without an admin, or for another team's service account.
    """
    _lock(team)
    if user.service_of_id not in (None, team.pk):
        message = f"{user.username} is a service account of another team. Make one of this team's own."
        raise Refused(422, "NotAPerson", "username", message)
    before = Membership.objects.filter(team=team, user=user).first()
    if before is not None and role != Role.ADMIN:
        _require_another_admin(before)
    return _write(team, user, role, Source.HAND, before, actor)


@transaction.atomic
def remove(*, team: Team, user: User, actor: str) -> bool:
    """Take somebody out of a team, with their sessions and tokens; tell whether they were in it.

    Raises Refused for the last admin, and for a membership that a group would give again.
    """
    _lock(team)
    found = Membership.objects.filter(team=team, user=user).first()
    if found is None:
        return False
    if found.source == Source.GROUPS:
        message = (
            f"{user.username} is in {team} by a group of the identity provider. Take them out of the group, or change "
            "the mapping."
        )
        raise Refused(409, "FromGroups", "username", message)
    _require_another_admin(found)
    _end(found, actor)
    return True


@transaction.atomic
def follow_groups(*, user: User, roles: dict[Team, Role]) -> None:
    """Have the memberships from groups be these. One by hand is left as it is, whatever the groups say."""
    standing = {one.team_id: one for one in Membership.objects.filter(user=user).select_related("team")}
    for team, role in roles.items():
        before = standing.pop(team.pk, None)
        if before is None or (before.source == Source.GROUPS and before.role != role):
            _write(team, user, role, Source.GROUPS, before, user.username)
    for one in standing.values():
        if one.source == Source.GROUPS:
            _end(one, user.username)


def _lock(team: Team) -> None:
    """One at a time changes who is in a team: two admins cannot take the role from each other."""
    Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)


def _write(team: Team, user: User, role: Role, source: Source, before: Membership | None, actor: str) -> Membership:
    given = {"role": role, "source": source}
    membership, _ = Membership.objects.update_or_create(team=team, user=user, defaults=given)
    if before is None or (before.role, before.source) != (role, source):
        data = {"user": user.username, "role": str(role), "source": str(source), "before": before and before.role}
        kind = "MemberAdded" if before is None else "MemberChanged"
        events.record(kind=kind, actor=actor, team=team.name, data=data)
    if before is not None and _RANK[role] < _RANK[Role(before.role)]:
        endings.of_role(user=user, why=f"no {before.role} of {team.name} any more", actor=actor)
    return membership


def _end(membership: Membership, actor: str) -> None:
    data = {"user": membership.user.username, "role": membership.role}
    membership.delete()
    events.record(kind="MemberRemoved", actor=actor, team=membership.team.name, data=data)
    why = f"no {membership.role} of {membership.team.name} any more"
    endings.of_role(user=membership.user, why=why, actor=actor)


def _require_another_admin(leaving: Membership) -> None:
    """Refuse if this is the last admin of the team: somebody has to be able to let others in."""
    if leaving.role != Role.ADMIN or not leaving.user.is_active:
        return
    admins = Membership.objects.filter(team=leaving.team, role=Role.ADMIN, user__is_active=True)
    if not admins.filter(user__service_of=None).exclude(pk=leaving.pk).exists():
        message = f"{leaving.user.username} is the last admin of {leaving.team}. Make another user an admin first."
        raise Refused(409, "LastAdmin", "username", message)
