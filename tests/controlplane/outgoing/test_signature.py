"""Signatures are checked by the very snippet that the documentation gives to receivers."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from controlplane.outgoing import sealing, signature

ROOT = Path(__file__).resolve().parents[3]
SECRET = "a secret of the team"
BODY = '{"title":"bért"}'.encode()


@pytest.fixture(scope="module")
def is_from_weft() -> Callable[..., bool]:
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notifications.md").read_text(), re.S)
    space: dict[str, Any] = {}
    exec(snippet, space)
    found: Callable[..., bool] = space["is_from_weft"]
    return found


def sent(at: int | None = None, secret: str = SECRET) -> dict[str, str]:
    return signature.headers(secret, "an-id", "ended", int(time.time()) if at is None else at, BODY)


def test_the_documented_check_takes_what_we_send(is_from_weft: Callable[..., bool]) -> None:
    assert is_from_weft(SECRET, sent(), BODY)


def test_it_refuses_another_secret_another_body_and_what_is_old(is_from_weft: Callable[..., bool]) -> None:
    assert not is_from_weft("another secret, as long", sent(), BODY)
    assert not is_from_weft(SECRET, sent(), BODY + b" ")
    assert not is_from_weft(SECRET, sent(int(time.time()) - 301), BODY)
    later = {**sent(), "Weft-Timestamp": str(int(time.time()) + 1)}
    assert not is_from_weft(SECRET, later, BODY)


def test_made_secrets_are_long_and_differ() -> None:
    one, other = signature.new_secret(), signature.new_secret()
    assert one != other
    assert len(one) >= 40


def test_a_sealed_secret_is_not_in_what_is_stored_and_can_be_opened() -> None:
    sealed = sealing.seal(SECRET)
    assert SECRET not in sealed
    assert sealing.seal(SECRET) != sealed
    assert sealing.opened(sealed) == SECRET


def test_after_a_change_of_the_key_the_old_one_opens_it_as_a_fallback_and_no_other_does() -> None:
    with override_settings(SECRET_KEY="the old key " * 5):
        sealed = sealing.seal(SECRET)
    with override_settings(SECRET_KEY_FALLBACKS=["the old key " * 5]):
        assert sealing.opened(sealed) == SECRET
    with pytest.raises(sealing.SealBrokenError):
        sealing.opened(sealed)
