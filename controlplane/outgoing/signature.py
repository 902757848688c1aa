"""How a webhook's request is signed: HMAC-SHA256 over its time and its body (docs/notifications.md)."""

import hashlib
import hmac
import secrets

MIN_SECRET, MAX_SECRET = 16, 128  # characters
PREFIX = "whsec_"  # so that scanners for leaked secrets can know one
VERSION = "v1"
OLD_EVENT_TYPE = "Weft-Matter"  # the header's name before 0.1, sent beside the new one until REMOVED_IN of oldnames.py


def new_secret() -> str:
    """256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def headers(secret: str, delivery: str, event_type: str, at: int, body: bytes) -> dict[str, str]:
    """What says from whom a request is, which one, and when it was signed: `at`, Unix seconds."""
    return {
        "Weft-Delivery": delivery,
        "Weft-Event-Type": event_type,
        OLD_EVENT_TYPE: event_type,
        "Weft-Timestamp": str(at),
        "Weft-Signature": f"{VERSION}={signed(secret, at, body)}",
    }


def signed(secret: str, at: int, body: bytes) -> str:
    """The signature, in hex, of the text `at.body`."""
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
