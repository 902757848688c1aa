"""Who watches a stream, and whether they still may: a stream outlives the request that began it."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from controlplane.models import Membership, Session, Token, User
from controlplane.sessions import idle_since

Standing = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Someone who watches: by a session or a token, with the roles they had at the beginning."""

    user: int
    session: str | None
    token: int | None
    standing: Standing


def viewer(request: Any) -> Viewer:
    """Who asks. The request is of somebody who is signed in."""
    user = request.user
    token = getattr(user, "via", None)
    key = None if token else request.session.session_key
    standing = _standings([user.pk]).get(user.pk, ())
    return Viewer(user.pk, key, token.pk if token else None, standing)


def gone(viewers: Iterable[Viewer]) -> set[Viewer]:
    """Those whose session or token has ended, who were switched off, or whose roles have changed. Four queries."""
    watching = set(viewers)
    if not watching:
        return set()
    standings = _standings({one.user for one in watching})
    live = Session.objects.filter(expire_date__gt=timezone.now(), seen_at__gt=idle_since(timezone.now()))
    sessions = set(live.filter(pk__in={v.session for v in watching if v.session}).values_list("pk", flat=True))
    keys = {v.token for v in watching if v.token}
    tokens = set(Token.objects.filter(pk__in=keys, expires_at__gt=Now()).values_list("pk", flat=True))
    return {
        one
        for one in watching
        if standings.get(one.user) != one.standing
        or (one.session is not None and one.session not in sessions)
        or (one.token is not None and one.token not in tokens)
    }


def _standings(users: Iterable[int]) -> Mapping[int, Standing]:
    """What each of these users may do at all, comparable; those who are switched off are missing."""
    wanted = list(users)
    roles: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for user, team, role in Membership.objects.filter(user__in=wanted).values_list("user_id", "team_id", "role"):
        roles[user].append((team, role))
    active = User.objects.filter(pk__in=wanted, is_active=True).values_list("pk", "is_superuser")
    return {pk: (is_admin, *sorted(roles[pk])) for pk, is_admin in active}
