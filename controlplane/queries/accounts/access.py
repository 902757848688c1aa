"""Who may do what: the one table of verbs and roles, used by pages and API alike.

A role holds in its team and in every team below it. A platform admin (is_superuser) may do everything. A token may be
limited to less than its user may do: to a scope, and to one team with those below it. Nothing is cached, so that a
change of role holds from the next request on.
"""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from django.contrib.auth.models import AnonymousUser

from controlplane.models import Membership, Role, Scope, Team, Token, User

# Role and Scope are the models', for pages and API, which do not load those.
__all__ = [
    "Branch",
    "Person",
    "Role",
    "Scope",
    "Verb",
    "allows",
    "bound_to",
    "can",
    "is_platform_admin",
    "is_whole",
    "is_whole_person",
    "knows_prices",
    "may_write",
    "roles",
    "team_at",
    "team_names",
    "token_of",
]


class Verb(StrEnum):
    """What can be done in a team."""

    READ = "read"  # see the team, its workloads, usage and quotas
    SUBMIT = "submit"  # submit workloads, and preview them
    ACT = "act"  # stop, suspend, resume and requeue the team's workloads
    CHANGE = "change"  # change a workload's priority, size and times; its submitter may as well
    MANAGE = "manage"  # the team's members
    ADMINISTER = "administer"  # quotas, priority classes, node pools, nodes: platform admins only


_RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.ADMIN: 3}
_MIN = {Verb.READ: 1, Verb.SUBMIT: 2, Verb.ACT: 2, Verb.CHANGE: 3, Verb.MANAGE: 3, Verb.ADMINISTER: 4}

_MAX = {Scope.READ: Role.VIEWER, Scope.SUBMIT: Role.MEMBER, Scope.ADMIN: Role.ADMIN}

Person = User | AnonymousUser
Branch = tuple[int, int | None, str]  # a team: its key, its parent's, its name


def token_of(user: Person) -> Token | None:
    """The token that the request came with; None for a session."""
    return getattr(user, "via", None)


def is_whole(user: Person) -> bool:
    """Whether all of the user's rights may be used: by a session, or by a token without limits."""
    token = token_of(user)
    return token is None or (token.scope == Scope.ADMIN and token.team_id is None)


def bound_to(user: Person) -> list[str] | None:
    """The teams that the request may be about at all: those of its token, if that is bound to one; else None, for all.

    What belongs to a person and not to a team (notices, rules, saved views) is read through this.
    """
    token = token_of(user)
    return None if token is None or token.team_id is None else team_names(user)


def is_whole_person(user: Person) -> bool:
    """Whether a person asks with all of their rights: not a service account, whose token may outlive its maker's role.

    Only such a one gives rights to others, or a credential.
    """
    return is_whole(user) and getattr(user, "service_of_id", None) is None


def may_write(user: Person) -> bool:
    """Whether anything may be changed at all: not with a token of scope read."""
    token = token_of(user)
    return token is None or token.scope != Scope.READ


# What REST and pages say alike to who may not do something in a team.
NO_TEAM = "There is no team {team}, or you are not in it. Name one of your teams."
LOW_ROLE = "Your role in team {team} does not allow this. Ask an admin of the team."


def is_platform_admin(user: Person) -> bool:
    """Whether everything is allowed."""
    return bool(user.is_authenticated and user.is_active and user.is_superuser and is_whole(user))


def roles(user: Person) -> dict[str, Role]:
    """The user's role by team name, teams below included; a platform admin is an admin everywhere. Two queries."""
    if not (user.is_authenticated and user.is_active):
        return {}
    teams = Team.objects.values_list("pk", "parent_id", "name")
    if user.is_superuser:
        return _within({name: Role.ADMIN for _, _, name in teams}, token_of(user), teams)
    given = {team: Role(role) for team, role in Membership.objects.filter(user=user).values_list("team_id", "role")}
    return _within(_inherited(given, list(teams)), token_of(user), teams) if given else {}


def allows(role: Role | None, verb: str) -> bool:
    """Whether a role in a team is enough for the verb. For lists: ask `roles` once, then this for each row."""
    return role is not None and _RANK[role] >= _MIN[Verb(verb)]


def can(user: Person, verb: str, team: str | Team | None = None, *, submitter: int | None = None) -> bool:
    """Whether the user may do this in the team (None: on the platform as a whole).

    submitter is the primary key of the user who submitted the workload: members may change their own ones.
    """
    if is_platform_admin(user):
        return True
    if team is None:
        return verb == Verb.READ and bool(user.is_authenticated and user.is_active)
    role = roles(user).get(team if isinstance(team, str) else team.name)
    if verb == Verb.CHANGE and submitter is not None and submitter == user.pk:
        verb = Verb.ACT
    return allows(role, verb)


def team_names(user: Person, verb: str = Verb.READ) -> list[str]:
    """The teams in which the user may do this, by name in order."""
    return sorted(name for name, role in roles(user).items() if is_platform_admin(user) or allows(role, verb))


def knows_prices(user: Person) -> bool:
    """Whether the user may know what a GPU hour costs: whoever has a role in some team pays for some."""
    return is_platform_admin(user) or bool(roles(user))


def team_at(name: str) -> Team | None:
    """The team of this name; the caller sees to it that the user may."""
    return Team.objects.filter(name=name).first()


def _within(found: dict[str, Role], token: Token | None, teams: Iterable[Branch]) -> dict[str, Role]:
    """As much of the roles as the token allows."""
    if token is None:
        return found
    if token.team_id is not None:
        inside = _inherited({token.team_id: Role.ADMIN}, list(teams))
        found = {name: role for name, role in found.items() if name in inside}
    most = _MAX[Scope(token.scope)]
    if token.told_at is not None:  # its maker manages the team no longer: it is kept for what CI does
        most = min(most, Role.MEMBER, key=_RANK.__getitem__)
    return {name: min(role, most, key=_RANK.__getitem__) for name, role in found.items()}


def _inherited(given: dict[int, Role], teams: list[Branch]) -> dict[str, Role]:
    children: dict[int | None, list[int]] = defaultdict(list)
    names = {}
    for pk, parent, name in teams:
        children[parent].append(pk)
        names[pk] = name
    found: dict[str, Role] = {}
    stack: list[tuple[int, Role | None]] = [(pk, None) for pk in children[None]]
    while stack:
        pk, above = stack.pop()
        role = max((r for r in (above, given.get(pk)) if r), key=lambda r: _RANK[r], default=None)
        if role:
            found[names[pk]] = role
        stack.extend((child, role) for child in children[pk])
    return found
