"""How rows of the audit log hang together: each has the SHA-256 of itself and of the row before."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
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


def fault(values: Sequence[Any], number: int, digest: str) -> str:
    """What is wrong with a row (COLUMNS, digest) as the one after `number`, as a sentence's end; "" for nothing."""
    if values[0] != number + 1:
        return f"row {number + 1}: it is missing; row {values[0]} follows row {number}"
    if values[-1] != digest_of(digest, values[:-1]):
        return f"row {values[0]}: it is not what was written, or not after what was written"
    return ""


def anchor_chain(previous: str, number: int, digest: str, rows: int, at: datetime) -> str:
    """The digest of an anchor after the one whose chain is `previous`. A trigger of Postgres computes the same."""
    moment = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return hashlib.sha256(f"{previous}|{number}|{digest}|{rows}|{moment}".encode()).hexdigest()
