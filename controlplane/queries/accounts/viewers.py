"""The readers of streams, and whether they still may read: a stream outlives the request that began it."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Now

from controlplane.models import Membership, Team, Token, User
from controlplane.security.sessions import live

Rights = tuple[Hashable, ...]


Who = tuple[int, int | None]  # a user, and the team that the token is bound to, if it is to one


@dataclass(frozen=True, slots=True)
class Viewer:
    """Someone who watches: by a session or a token, with what they might see at the beginning."""

    user: int
    session: str | None
    token: int | None
    rights: Rights
    team: int | None = None  # the token's


def viewer(request: Any) -> Viewer:
    """Who asks. The request is of somebody who is signed in."""
    user = request.user
    token = getattr(user, "via", None)
    key = None if token else request.session.session_key
    who = (user.pk, token.team_id if token else None)
    return Viewer(user.pk, key, token.pk if token else None, _rights([who]).get(who, ()), who[1])


def gone(viewers: Iterable[Viewer]) -> set[Viewer]:
    """Those whose session or token has ended, who were switched off, or who may see other teams now. Five queries."""
    watching = set(viewers)
    if not watching:
        return set()
    rights = _rights({(one.user, one.team) for one in watching})
    sessions = set(live().filter(pk__among={v.session for v in watching if v.session}).values_list("pk", flat=True))
    keys = {v.token for v in watching if v.token}
    tokens = set(Token.objects.filter(pk__among=keys, expires_at__gt=Now()).values_list("pk", flat=True))
    return {
        one
        for one in watching
        if rights.get((one.user, one.team)) != one.rights
        or (one.session is not None and one.session not in sessions)
        or (one.token is not None and one.token not in tokens)
    }


def _rights(whose: Iterable[Who]) -> Mapping[Who, Rights]:
    """What each of these may see at all, comparable; those who are switched off are missing.

    A role holds in the teams below its own, so what is below belongs to it: a team that moves changes it.
    """
    wanted = set(whose)
    users = {user for user, _ in wanted}
    roles: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for user, team, role in Membership.objects.filter(user__in=users).values_list("user_id", "team_id", "role"):
        roles[user].append((team, role))
    active = dict(User.objects.filter(pk__among=users, is_active=True).values_list("pk", "is_superuser"))
    below = _Below(Team.objects.values_list("pk", "parent_id", "name"))
    return {
        (user, bound): (
            active[user],
            *((team, role, below.of(team)) for team, role in sorted(roles[user])),
            below.of(bound) if bound is not None else None,
        )
        for user, bound in wanted
        if user in active
    }


class _Below:
    """The names of the teams below each one, worked out once for those that are asked about."""

    def __init__(self, teams: Iterable[tuple[int, int | None, str]]) -> None:
        self._children: dict[int | None, list[tuple[int, str]]] = defaultdict(list)
        for pk, parent, name in teams:
            self._children[parent].append((pk, name))
        self._known: dict[int, frozenset[str]] = {}

    def of(self, team: int) -> frozenset[str]:
        if team not in self._known:
            found: set[str] = set()
            stack = [team]
            while stack:
                for pk, name in self._children[stack.pop()]:
                    found.add(name)
                    stack.append(pk)
            self._known[team] = frozenset(found)
        return self._known[team]
