"""API tokens: 256 random bits, shown once; only their digest is kept. They live by the database's clock."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from controlplane.models import Scope, Team, Token, User, loading
from controlplane.models.lookups import NOW
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now

PREFIX = "weft_"  # so that scanners for leaked secrets can know one
SHOWN = 10  # characters kept, to tell tokens apart in a list
DEFAULT_LIFETIME = timedelta(days=90)
MAX_LIFETIME = timedelta(days=365)
MAX_TOKENS = 50  # live ones of one user
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
    lifetime: timedelta | None = None,
    scope: Scope = Scope.ADMIN,
    team: Team | None = None,
    issuer: User | None = None,
) -> Issued:
    """Issue a token of a scope, for one team only if one is given. issuer is the person who asks: else its user.

    Whoever asks with a token gets none that lives longer; without a lifetime it is DEFAULT_LIFETIME, or as long as that
    one. Raises Refused if it should live too long, the token asked with is limited, or there are too many.
    """
    maker = issuer or user
    if lifetime is not None and not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise Refused(400, "Invalid", "expires_in", f"expires_in must be from 1m to {MAX_LIFETIME.days}d.")
    now = database_now()
    expires_at = _end(maker.via, now, lifetime)
    if Token.objects.filter(user=user, expires_at__gt=now).count() >= MAX_TOKENS:
        raise Refused(
            409,
            "TooManyTokens",
            "",
            f"There are {MAX_TOKENS} live tokens of {user.username}. Delete one that is not used.",
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
        expires_at=expires_at,
        issuer=maker,
        made_with=maker.via.pk if maker.via and maker.pk == user.pk else None,
    )
    _tell("TokenCreated", token, maker.username)
    return Issued(token, secret)


def _end(asked_with: Token | None, now: datetime, lifetime: timedelta | None) -> datetime:
    """When a new token ends: never later than the one that it is made with. Raises Refused."""
    wanted = now + (lifetime or DEFAULT_LIFETIME)
    if asked_with is None:
        return wanted
    if asked_with.scope != Scope.ADMIN or asked_with.team_id is not None:
        message = (
            "This token is limited, so it makes none. Sign in, or use one of scope admin that is bound to no team."
        )
        raise Refused(403, "LimitedToken", "", message)
    if lifetime is None:
        return min(wanted, asked_with.expires_at)
    if wanted > asked_with.expires_at:
        left = int((asked_with.expires_at - now).total_seconds() // 60)
        message = f"The token that you ask with ends in {left} min and makes none that lives longer. Ask for less."
        raise Refused(403, "OutlivesItsMaker", "expires_in", message)
    return wanted


def owner(secret: str) -> Token | None:
    """The live token with this secret, with its user; None if there is none, or its user is disabled."""
    if not secret.startswith(PREFIX) or len(secret) > 100 or not secret.isascii():
        return None
    found = loading.load(Token, {"digest": digest_of(secret), "expires_at__gt": NOW}, related=("user",))
    if not found or not found[0].user.is_active:
        return None
    (token,) = found
    if token.last_used_at is None or timezone.now() - token.last_used_at > NOTED:  # by this machine's clock: coarse
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


@transaction.atomic
def revoke(*, user: User, pk: int, actor: str = "") -> bool:
    """Delete one of the user's tokens, with those that were made with it; tell whether there was one."""
    token = Token.objects.filter(user=user, pk=pk).select_related("user", "team").first()
    if token is None:
        return False
    for made in _made_with(token):
        made.delete()
        _tell("TokenRevoked", made, actor)
    return True


@transaction.atomic
def revoke_all(*, user: User, actor: str) -> int:
    """Delete all tokens of a user, each told; how many there were."""
    found = list(Token.objects.filter(user=user).select_related("user", "team").order_by("pk"))
    for token in found:
        token.delete()
        _tell("TokenRevoked", token, actor)
    return len(found)


def _made_with(token: Token) -> list[Token]:
    """A token, those that were made with it, those made with them, and so on."""
    found, last = [token], [token]
    while last:
        last = list(Token.objects.filter(made_with__among=[one.pk for one in last]).select_related("user", "team"))
        found += last
    return found


def digest_of(secret: str) -> str:
    """What is kept of a secret. Not a password hash: 256 random bits need no slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _tell(kind: str, token: Token, actor: str) -> None:
    team = token.team.name if token.team else ""
    about = {"user": token.user.username, "scope": str(token.scope), "team": team}
    message = f"{token.name} ({token.prefix}...)"
    events.record(kind=kind, actor=actor or token.user.username, team=team, message=message, data=about)
