"""API tokens: 256 random bits, shown once; only their digest is kept. They live by the database's clock."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from controlplane.models import Scope, Team, Token, User, loading
from controlplane.services import events
from controlplane.services.clock import database_now, database_sql
from controlplane.services.errors import Refused

PREFIX = "weft_"  # so that scanners for leaked secrets can know one
SHOWN = 10  # characters kept, to tell tokens apart in a list
DEFAULT_LIFETIME = timedelta(days=90)
MOST_LIFETIME = timedelta(days=365)
MOST_TOKENS = 50  # live ones of one user
NOTED = timedelta(minutes=1)  # last_used_at is this coarse, so that reading requests hardly ever write


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token and its secret, which exists nowhere else."""

    token: Token
    secret: str


@transaction.atomic
def create(
    *,
    user: User,
    name: str,
    lifetime: timedelta = DEFAULT_LIFETIME,
    scope: Scope = Scope.ADMIN,
    team: Team | None = None,
    actor: str = "",
) -> Issued:
    """Issue a token of a scope, for one team only if one is given; actor is its user if nobody else is named.

    Raises Refused if it should live too long or there are too many.
    """
    if not timedelta(0) < lifetime <= MOST_LIFETIME:
        raise Refused(400, "Invalid", "expires_in", f"expires_in must be from 1m to {MOST_LIFETIME.days}d.")
    now = database_now()
    if Token.objects.filter(user=user, expires_at__gt=now).count() >= MOST_TOKENS:
        raise Refused(
            409,
            "TooManyTokens",
            "",
            f"There are {MOST_TOKENS} live tokens of {user.username}. Delete one that is not used.",
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        user=user,
        name=name,
        prefix=secret[:SHOWN],
        digest=digest_of(secret),
        scope=scope,
        team=team,
        created_at=now,
        expires_at=now + lifetime,
    )
    _tell("TokenCreated", token, actor)
    return Issued(token, secret)


def owner(secret: str) -> Token | None:
    """The live token with this secret, with its user; None if there is none, or its user is disabled."""
    if not secret.startswith(PREFIX) or len(secret) > 100 or not secret.isascii():
        return None
    live = f'WHERE "t"."digest" = %s AND "t"."expires_at" > {database_sql()} AND "r1"."is_active"'
    found = loading.load(Token, live, (digest_of(secret),), related=("user",))
    if not found:
        return None
    (token,) = found
    if token.last_used_at is None or timezone.now() - token.last_used_at > NOTED:  # by this machine's clock: coarse
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


@transaction.atomic
def revoke(*, user: User, pk: int, actor: str = "") -> bool:
    """Delete one of the user's own tokens; tell whether there was one."""
    token = Token.objects.filter(user=user, pk=pk).first()
    if token is None:
        return False
    token.delete()
    _tell("TokenRevoked", token, actor)
    return True


def digest_of(secret: str) -> str:
    """What is kept of a secret. Not a password hash: 256 random bits need no slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _tell(kind: str, token: Token, actor: str) -> None:
    team = token.team.name if token.team else ""
    about = {"user": token.user.username, "scope": str(token.scope), "team": team}
    message = f"{token.name} ({token.prefix}...)"
    events.record(kind=kind, actor=actor or token.user.username, team=team, message=message, data=about)
