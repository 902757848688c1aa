"""What ends with what: docs/security.md#credentials has the table.

A person's sessions and tokens end at once when a second factor is set up, the password is changed or a role ends. What
they made for a service account goes on for SERVICE_TOKEN_NOTICE after the role by which they made it has ended: the
admins of its team are told first, so that they can replace it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from controlplane.jobspec.quantities import iso
from controlplane.models import ACCOUNT_MATTER, Membership, Notice, Role, Session, Team, Token, User
from controlplane.services.audit import events
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.clock import database_now

Above = dict[int, list[int]]  # the key of each team: its own and those of the teams above it


@transaction.atomic
def of_person(*, user: User, why: str, actor: str, but: str = "") -> tuple[int, int]:
    """End the sessions of a person, all but one, and the person's tokens; how many there were of each.

    A service account's tokens stay: they are another's. Open streams end within seconds (queries/viewers).
    """
    theirs = Session.objects.filter(user=user)
    sessions = _delete(theirs.exclude(pk=but) if but else theirs)  # a worker may read no keys
    tokens = 0 if user.service_of_id else _delete(Token.objects.filter(user=user))
    if sessions or tokens:
        data = {"user": user.username, "why": why, "sessions": sessions, "personal": tokens}
        events.record(kind="CredentialsEnded", actor=actor, data=data)
    return sessions, tokens


@transaction.atomic
def of_role(*, user: User, why: str, actor: str) -> None:
    """A role of this user has ended: so do the credentials that were made while they had it."""
    of_person(user=user, why=why, actor=actor)
    of_makers(actor=actor, issuers=[user.pk])


@transaction.atomic
def of_makers(*, actor: str, issuers: Iterable[int] | None = None) -> int:
    """Give notice for each token of a service account whose maker manages its team no longer; how many there are.

    issuers: only what these users made. Without, all tokens are looked at: what a change by hand left is found hourly.
    """
    found = Token.objects.filter(user__service_of__isnull=False, issuer__isnull=False, told_at__isnull=True)
    found = found if issuers is None else found.filter(issuer__among=list(issuers))
    columns = ("user__service_of", "issuer", "issuer__username", "pk", "name", "prefix", "user__username")
    rows = [Made(*row) for row in found.order_by("pk").values_list(*columns)]
    if not rows:
        return 0
    above, managed = _above(), _managed({row.issuer for row in rows})
    ending = [row for row in rows if not _manages(managed, row.issuer, above[row.team])]
    together: dict[tuple[int, str], list[Made]] = defaultdict(list)
    for row in ending:
        together[row.team, row.maker].append(row)
    for (team, _), tokens in together.items():
        _give_notice(Team.objects.get(pk=team), above[team], tokens, actor)
    return len(ending)


@transaction.atomic
def of_moved_team(*, actor: str) -> int:
    """A team has another parent: end the tokens bound to a team in which their user has no role any more; how many."""
    above = _above()
    bound = Token.objects.filter(team__isnull=False, user__is_superuser=False)
    roles = set(Membership.objects.filter(user__in=bound.values("user")).values_list("user", "team"))
    rows = bound.values_list("pk", "user", "team")
    ended = [pk for pk, user, team in rows if not any((user, one) in roles for one in above[team])]
    of_makers(actor=actor)
    return _delete(Token.objects.filter(pk__among=ended))


class Made(NamedTuple):
    """A token of a service account, the team that owns it, and who made it."""

    team: int
    issuer: int
    maker: str
    pk: int
    name: str
    prefix: str
    account: str


def _give_notice(team: Team, above: Sequence[int], tokens: Sequence[Made], actor: str) -> None:
    """Tell the admins of a team, and of those above it, which tokens of one maker end when; then have them end."""
    now = database_now()
    until = now + settings.SERVICE_TOKEN_NOTICE
    ending = Token.objects.filter(pk__among=[one.pk for one in tokens])
    ending.filter(expires_at__gt=until).update(expires_at=until)
    ending.update(told_at=now)
    maker = tokens[0].maker
    listed = ", ".join(f"{one.name} ({one.prefix}...) of {one.account}" for one in tokens)
    data = {"count": len(tokens), "maker": maker, "until": iso(until.timestamp())}
    events.record(kind="ServiceTokensEnd", actor=actor, team=team.name, message=listed, data=data)
    message = f"{maker}, who made them, is no admin of {team.name} any more. Make new ones, and revoke these: {listed}"
    admins = Membership.objects.filter(team__in=above, role=Role.ADMIN, user__is_active=True, user__service_of=None)
    said = {
        "key": f"tokens-end:{tokens[0].pk}",
        "matter": ACCOUNT_MATTER,
        "team": team.name,
        "title": f"Tokens of {team.name}'s service accounts end on {until:%d %b at %H:%M} UTC"[:160],
        "message": message[:400],
        "cluster_at": clock.now(),
        "at": now,
    }
    told = sorted(_told(admins.values_list("user", flat=True)))
    Notice.objects.bulk_create([Notice(user_id=user, **said) for user in told], ignore_conflicts=True)


def _told(admins: Iterable[int]) -> set[int]:
    """The admins of the team; without any, the platform's: somebody has to know."""
    return set(admins) or set(User.objects.filter(is_superuser=True, is_active=True).values_list("pk", flat=True))


def _above() -> Above:
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    found: Above = {}
    for team in parents:
        at, path = team, []
        while at is not None and at not in path:
            path.append(at)
            at = parents[at]
        found[team] = path
    return found


def _managed(users: Iterable[int]) -> dict[int, set[int] | None]:
    """The teams in which each of these users is an admin; None: in all, as a platform admin."""
    wanted = list(users)
    live = User.objects.filter(pk__among=wanted, is_active=True)
    found: dict[int, set[int] | None] = {
        pk: None if root else set() for pk, root in live.values_list("pk", "is_superuser")
    }
    for user, team in Membership.objects.filter(user__in=wanted, role=Role.ADMIN).values_list("user", "team"):
        teams = found.get(user)
        if teams is not None:
            teams.add(team)
    return found


def _manages(managed: dict[int, set[int] | None], user: int, above: Iterable[int]) -> bool:
    if user not in managed:
        return False  # switched off
    teams = managed[user]
    return teams is None or not teams.isdisjoint(above)


def _delete(rows: QuerySet[Any]) -> int:
    return rows.delete()[0]
