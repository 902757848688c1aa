"""How rows of the audit log hang together: each has the SHA-256 of itself and of the row before."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

FIRST = "0" * 64  # what stands before the first row
COLUMNS = (
    "number", "at", "actor", "token", "address", "method", "route", "path", "status", "outcome", "kind", "team", "name",
    "changes",
)  # fmt: skip


def digest_of(previous: str, row: Sequence[Any]) -> str:
    """The digest of a row (the values of COLUMNS) after the one with digest `previous`: 64 hexadecimal digits."""
    number, at, *rest = row
    text = json.dumps([previous, number, at.astimezone(UTC).isoformat(timespec="microseconds"), *rest])
    return hashlib.sha256(text.encode()).hexdigest()
