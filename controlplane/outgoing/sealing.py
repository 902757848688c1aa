"""Secrets that must be readable again, sealed with keys that follow from the installation's SECRET_KEY.

A copy of the database alone is of no use. After SECRET_KEY was changed, those sealed before are still readable as long
as the old key is in SECRET_KEY_FALLBACKS.
"""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

_PURPOSE = b"weft webhook secret\0"  # other uses of SECRET_KEY must not make the same key


class SealBrokenError(Exception):
    """It was sealed with a key that is not known any more."""


def seal(secret: str) -> str:
    """The secret as it may be stored."""
    return _keys().encrypt(secret.encode()).decode()


def opened(sealed: str) -> str:
    """The secret again. Raises SealBrokenError."""
    try:
        return _keys().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise SealBrokenError("sealed with another SECRET_KEY") from error


def _keys() -> MultiFernet:
    return MultiFernet([_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(_PURPOSE + secret.encode()).digest()))
