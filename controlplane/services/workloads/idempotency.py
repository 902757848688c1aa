"""Idempotency-Key: the first answer to a request is kept for 24 h and given again.

The key is written in the transaction of the work itself, so a crash leaves both or neither. Refused requests leave
nothing: they can be mended and sent again with the same key.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import OperationalError, transaction
from django.db.models.functions import Now

from controlplane.models import IdempotencyKey, User, bulk
from controlplane.models.upserts import claim_key
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now

KEPT = timedelta(hours=24)
MAX_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it is sent."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)
    is_replayed: bool = False


def once(*, user: User, key: str, request: tuple[str, str, Any], work: Callable[[], Answer]) -> Answer:
    """Do the work and keep its answer, or give the answer kept under this key.

    request is (method, path, decoded body). Raises Refused 422 if the key was used for another request, 409 while
    the first one is at work, 400 for a key that is none, and whatever `work` raises, after which nothing is kept.
    """
    _check(key)
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    with transaction.atomic():
        if not _claim(user, key, digest):
            return _kept(user, key, digest)
        answer = work()
        values = (answer.status, answer.body, answer.headers, user.pk, key)
        bulk.update(IdempotencyKey, ("status", "body", "headers"), ("user_id", "key"), [values])
    return answer


def _check(key: str) -> None:
    if not (0 < len(key) <= MAX_LENGTH and key.isascii() and key.isprintable()):
        message = f"Idempotency-Key must be 1 to {MAX_LENGTH} printable ASCII characters, for example a UUID."
        raise Refused(400, "Invalid", "Idempotency-Key", message)


def prune() -> None:
    """Forget the answers that are kept no longer. One that is claimed anew meanwhile is not touched."""
    IdempotencyKey.objects.filter(expires_at__lte=Now()).delete()


def _claim(user: User, key: str, digest: str) -> bool:
    """Write the key as in flight; False if it is there. Waits for another transaction that is writing it."""
    now = database_now()
    try:
        return claim_key(user.pk, key, digest, now=now, until=now + KEPT)
    except OperationalError as error:  # lock_timeout: the first request is still at work
        raise _in_flight(key) from error


def _kept(user: User, key: str, digest: str) -> Answer:
    row = IdempotencyKey.objects.get(user=user, key=key)
    if row.digest != digest:
        message = f"Idempotency-Key {key} was used for another request in the last 24 h. Use a new key."
        raise Refused(422, "KeyReused", "Idempotency-Key", message)
    if row.status is None:
        raise _in_flight(key)
    return Answer(row.status, row.body, row.headers, is_replayed=True)


def _in_flight(key: str) -> Refused:
    message = f"The first request with Idempotency-Key {key} is still at work. Try again in a second."
    return Refused(409, "InFlight", "Idempotency-Key", message)
