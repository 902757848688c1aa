"""Who may do what: the one table of verbs and roles, used by pages and API alike.

A role holds in its team and in every team below it. A platform admin (is_superuser) may do everything. Nothing is
cached, so that a change of role holds from the next request on.
"""

from collections import defaultdict
from enum import StrEnum

from django.contrib.auth.models import AnonymousUser

from controlplane.models import Membership, Role, Team, User


class Verb(StrEnum):
    """What can be done in a team."""

    READ = "read"  # see the team, its workloads, usage and quotas
    SUBMIT = "submit"  # submit workloads, and preview them
    ACT = "act"  # stop, suspend, resume and requeue the team's workloads
    CHANGE = "change"  # change a workload's priority, size and times; its submitter may as well
    MANAGE = "manage"  # the team's members
    ADMINISTER = "administer"  # quotas, priority classes, node pools, nodes: platform admins only


_RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.ADMIN: 3}
_LEAST = {Verb.READ: 1, Verb.SUBMIT: 2, Verb.ACT: 2, Verb.CHANGE: 3, Verb.MANAGE: 3, Verb.ADMINISTER: 4}

Person = User | AnonymousUser


def is_platform_admin(user: Person) -> bool:
    """Whether everything is allowed."""
    return bool(user.is_authenticated and user.is_active and user.is_superuser)


def roles(user: Person) -> dict[str, Role]:
    """The user's role by team name, teams below included; a platform admin is an admin everywhere. Two queries."""
    if not (user.is_authenticated and user.is_active):
        return {}
    teams = Team.objects.values_list("pk", "parent_id", "name")
    if user.is_superuser:
        return {name: Role.ADMIN for _, _, name in teams}
    given = {team: Role(role) for team, role in Membership.objects.filter(user=user).values_list("team_id", "role")}
    return _inherited(given, list(teams)) if given else {}


def allows(role: Role | None, verb: str) -> bool:
    """Whether a role in a team is enough for the verb. For lists: ask `roles` once, then this for each row."""
    return role is not None and _RANK[role] >= _LEAST[Verb(verb)]


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


def _inherited(given: dict[int, Role], teams: list[tuple[int, int | None, str]]) -> dict[str, Role]:
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
