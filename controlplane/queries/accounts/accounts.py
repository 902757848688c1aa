"""People, service accounts, members and tokens, as the REST API and the pages show them."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from controlplane.jobspec.quantities import iso
from controlplane.models import GroupMapping, Membership, Session, Source, Team, Token, User
from controlplane.queries.accounts import access
from controlplane.security.sessions import is_whole

__all__ = [
    "Source",
    "group_mapping_row",
    "group_mappings",
    "inherited",
    "me",
    "member_row",
    "members",
    "person_at",
    "service_account_row",
    "service_accounts",
    "sessions",
    "token_row",
    "tokens",
]


def me(user: User, token: Any) -> dict[str, Any]:
    """The user of a request, in which teams, with which token (None for a session)."""
    return {
        "username": user.username,
        "name": user.get_full_name(),
        "email": user.email,
        "is_platform_admin": access.is_platform_admin(user),
        "service_account_of": user.service_of.name if user.service_of else None,
        "teams": [{"team": name, "role": role.value} for name, role in sorted(access.roles(user).items())],
        "token": token_row(token) if token else None,
    }


# --- tokens -----------------------------------------------------------------------------------


def tokens(user: Any) -> QuerySet[Token]:
    """A user's tokens; a limited token sees itself alone among its user's."""
    found = Token.objects.filter(user=user).select_related("team")
    own = access.token_of(user)
    return found if own is None or access.is_whole(user) else found.filter(pk=own.pk)


def token_row(token: Token) -> dict[str, Any]:
    """One token. Times are the database's clock."""
    times = {name: _moment(getattr(token, name)) for name in ("created_at", "expires_at", "last_used_at")}
    same = {"id": token.pk, "name": token.name, "prefix": token.prefix, "scope": token.scope}
    return {**same, "team": token.team.name if token.team else None, **times}


# --- members ----------------------------------------------------------------------------------


def person_at(username: str) -> User | None:
    """The person of this user name: no service account."""
    if not username.isprintable():  # NUL is no text to Postgres
        return None
    return User.objects.filter(username=username, service_of=None).first()


def members(team: str) -> list[dict[str, Any]]:
    """A team's own members, people first; those who have a role from a team above are not among them."""
    found = Membership.objects.filter(team__name=team).select_related("user")
    rows = [member_row(one) for one in found.order_by("user__username")]
    return sorted(rows, key=lambda row: row["is_service_account"])


def member_row(one: Membership) -> dict[str, Any]:
    """One member."""
    return {
        "username": one.user.username,
        "role": one.role,
        "source": one.source,
        "is_service_account": one.user.service_of_id is not None,
        "is_active": one.user.is_active,
    }


def inherited(team: str) -> list[dict[str, str]]:
    """Who has a role in a team because of one above: (username, role, the team it comes from)."""
    parents = {pk: (name, parent) for pk, name, parent in Team.objects.values_list("pk", "name", "parent_id")}
    at = next((parent for name, parent in parents.values() if name == team), None)
    above: dict[int, str] = {}
    while at is not None and at not in above:
        above[at], at = parents[at][0], parents[at][1]
    found = Membership.objects.filter(team_id__in=above, user__is_active=True).order_by("user__username")
    rows = found.values_list("user__username", "role", "team_id")
    return [{"username": username, "role": role, "team": above[pk]} for username, role, pk in rows]


# --- service accounts -------------------------------------------------------------------------


def service_accounts(user: access.Person) -> QuerySet[User]:
    """The live service accounts of the teams whose members the user manages."""
    found = User.objects.filter(service_of__isnull=False, is_active=True).select_related("service_of")
    found = found.prefetch_related("memberships")
    if access.is_platform_admin(user):
        return found
    return found.filter(service_of__name__in=access.team_names(user, access.Verb.MANAGE))


def service_account_row(account: User) -> dict[str, Any]:
    """One service account, with its role in the team that owns it."""
    role = next((one.role for one in account.memberships.all() if one.team_id == account.service_of_id), None)
    team = account.service_of.name if account.service_of else ""
    name = account.username.removeprefix(f"{team}/")
    return {"id": account.pk, "username": account.username, "name": name, "team": team, "role": role}


# --- groups and sessions ----------------------------------------------------------------------


def group_mappings() -> QuerySet[GroupMapping]:
    """Which group has which role where."""
    return GroupMapping.objects.select_related("team")


def group_mapping_row(one: GroupMapping) -> dict[str, Any]:
    """One mapping."""
    return {"id": one.pk, "group": one.group, "team": one.team.name, "role": one.role}


def sessions(user: User) -> list[Session]:
    """The user's sessions that have not run out, the last used first."""
    return [one for one in Session.objects.filter(user=user).order_by("-seen_at") if is_whole(one)]


def _moment(at: datetime | None) -> str | None:
    return None if at is None else iso(at.timestamp())
