"""Groups of the identity provider: which gives which role, and what that makes of somebody who signs in."""

from collections.abc import Collection, Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.models import GroupMapping, Membership, Role, Source, Team, User
from controlplane.services.accounts import members
from controlplane.services.audit import events
from controlplane.services.errors import Refused

_RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.ADMIN: 3}


@transaction.atomic
def save(*, group: str, team: Team, role: Role, actor: str, mapping: GroupMapping | None = None) -> GroupMapping:
    """Map a group to a role in a team, or change a mapping. Raises Refused if there is one for both already.

    People get a new role at their next sign-in; what a changed mapping gives no longer ends at once.
    """
    before = GroupMapping.objects.filter(pk=mapping.pk).select_related("team").first() if mapping else None
    saved = GroupMapping(pk=mapping.pk if mapping else None, group=group, team=team, role=role)
    try:
        with transaction.atomic():
            saved.save()
    except IntegrityError as error:
        message = f"{group} is mapped to {team} already. Change that mapping."
        raise Refused(409, "AlreadyMapped", "group", message) from error
    if before is not None:
        _follow({before.team, team})
    data = {"group": group, "role": str(role)}
    events.record(kind="GroupMapped", actor=actor, team=team.name, data=data)
    return saved


@transaction.atomic
def remove(*, mapping: GroupMapping, actor: str) -> None:
    """Take a mapping away. Who has a role by it loses it at once, unless another of their groups gives one."""
    mapping.delete()
    _follow({mapping.team})
    events.record(kind="GroupUnmapped", actor=actor, team=mapping.team.name, data={"group": mapping.group})


def _follow(teams: Collection[Team]) -> None:
    """Have those who are in these teams by a group be what their groups, as of the last sign-in, give now."""
    given = Membership.objects.filter(team__in=teams, source=Source.GROUPS).values("user")
    for account in SocialAccount.objects.filter(user__in=given).select_related("user"):
        sync(user=account.user, groups=names_of(account.extra_data))


def names_of(claims: Mapping[str, Any]) -> list[str]:
    """The groups in what the provider said at a sign-in; those of the ID token, which is signed, before the others."""
    for part in ("id_token", "userinfo"):
        found = (claims.get(part) or {}).get(settings.OIDC_GROUPS_CLAIM)
        if isinstance(found, str):
            return [found]
        if isinstance(found, list):
            return [str(name) for name in found]
    return []


@transaction.atomic
def sync(*, user: User, groups: Collection[str]) -> None:
    """Give a person who signs in the roles of these groups, the highest for each team, and end those of no group."""
    roles: dict[Team, Role] = {}
    for one in GroupMapping.objects.filter(group__in=list(groups)).select_related("team").order_by("pk"):
        role = Role(one.role)
        roles[one.team] = max(roles.get(one.team, role), role, key=_RANK.__getitem__)
    members.follow_groups(user=user, roles=roles)
