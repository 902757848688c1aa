"""People of the identity provider: their sessions and tokens end when it drops them, or was not heard of for long."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from controlplane.models import ProviderGrant, User
from controlplane.outgoing import sealing
from controlplane.services.accounts import endings
from controlplane.services.scheduling.clock import database_now

EVERY = timedelta(hours=24)
AGAIN = timedelta(hours=1)  # after no answer


@dataclass(frozen=True, slots=True)
class Due:
    """Somebody to ask the provider about, by this refresh token; empty: there is nothing to ask with."""

    user: int
    sealed: str
    token: str


@transaction.atomic
def signed_in(*, user: User, token: str) -> None:
    """Note that the provider knows them now, and by which refresh token to ask from now on."""
    now = database_now()
    given = {"sealed_token": sealing.seal(token) if token else "", "checked_at": now, "tried_at": now}
    ProviderGrant.objects.update_or_create(user=user, defaults=given)


def due(most: int) -> Iterator[Due]:
    """Those to be asked about now, the longest waiting first; each is claimed as it is taken, so that one asks."""
    now = database_now()
    found = ProviderGrant.objects.filter(checked_at__lte=now - EVERY, tried_at__lte=now - AGAIN).order_by("tried_at")
    for grant in found[:most]:
        if ProviderGrant.objects.filter(pk=grant.pk, tried_at=grant.tried_at).update(tried_at=now):
            yield Due(grant.pk, grant.sealed_token, _opened(grant.sealed_token))


@transaction.atomic
def known(*, one: Due, token: str) -> None:
    """The provider knows them; token is the one to ask with next time, empty: the same. A sign-in meanwhile stays."""
    mine = ProviderGrant.objects.filter(pk=one.user, sealed_token=one.sealed)
    changed = {"sealed_token": sealing.seal(token)} if token else {}
    mine.update(checked_at=database_now(), **changed)


@transaction.atomic
def dropped(*, one: Due) -> bool:
    """The provider has dropped them: end their sessions and tokens, unless they signed in meanwhile."""
    deleted, _ = ProviderGrant.objects.filter(pk=one.user, sealed_token=one.sealed).delete()
    if deleted:
        _end(one.user, "the identity provider dropped the account")
    return bool(deleted)


@transaction.atomic
def not_heard_of(*, one: Due) -> bool:
    """The provider said nothing. End their sessions and tokens once that has lasted too long; tell whether it has."""
    before = database_now() - settings.SSO_UNCHECKED
    deleted, _ = ProviderGrant.objects.filter(pk=one.user, sealed_token=one.sealed, checked_at__lte=before).delete()
    if deleted:
        _end(one.user, "the identity provider was not heard of for too long")
    return bool(deleted)


def _end(user: int, why: str) -> None:
    endings.of_person(user=User.objects.get(pk=user), why=why, actor="system")


def _opened(sealed: str) -> str:
    try:
        return sealing.opened(sealed) if sealed else ""
    except sealing.SealBrokenError:
        return ""  # the key was changed, and the old one is not kept: nobody can be asked
