"""Strangers who come in crowds are sent away by the event loop, before a thread has to do with them.

Whoever shows the API an unknown token, or asks it for one with a password, meets the same limits in the middleware
(limiting.py), which takes from them. Here they are only asked: what they would refuse needs none of the few threads,
for each of which the one interpreter would turn away from somebody's page and back.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from controlplane.api import errors
from controlplane.guards import limiting
from controlplane.security import bounded, known
from controlplane.security.network import network_of
from controlplane.services.accounts import logins

Headers = list[tuple[bytes, bytes]]


def wait(scope: Mapping[str, Any]) -> int:
    """Seconds after which a request to the API is to come again; 0 if the middleware shall decide."""
    path: str = scope["path"]
    if not path.startswith("/api/"):
        return 0
    address = network_of((scope.get("client") or ("",))[0])
    if scope["method"] == "POST" and path in limiting.SIGN_IN:
        return logins.closed_to(address)
    token = b",".join(value for name, value in scope["headers"] if name == b"authorization")
    if not token or address in known.addresses or limiting.digest(token.decode("latin1")) in known.credentials:
        return 0
    return limiting.strangers().wait()


@lru_cache(maxsize=256)
def answer(seconds: int) -> tuple[Headers, bytes]:
    """The headers and the body of 429."""
    body = errors.answer(429, limiting.TOO_MANY.format(wait=seconds)).content
    headers = [tuple(line.split(b": ", 1)) for line in bounded.HEADERS.split(b"\r\n") if line]
    own = {b"content-type": errors.CONTENT_TYPE.encode(), b"content-length": b"%d" % len(body)}
    own[b"retry-after"] = b"%d" % seconds
    return [*[(name, value) for name, value in headers if name != b"connection"], *own.items()], body
