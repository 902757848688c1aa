"""At the door the API refuses strangers as the middleware would, and takes nothing from anybody."""

import asyncio
import json
import secrets
from typing import Any

import pytest

from controlplane.asgi import Handler
from controlplane.guards import door, limiting
from controlplane.security import known
from controlplane.services.accounts import logins


@pytest.fixture
def few(settings: Any) -> None:
    """One unknown token, and one sign-in of strangers."""
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "strangers": 0.1, "sign_ins": 0.04}


def request(path: str = "/api/v1/queue", token: str = "", address: str = "10.3.0.1") -> dict[str, Any]:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    method = "POST" if path.endswith("login") or path.endswith("login/") else "GET"
    return {"type": "http", "method": method, "path": path, "headers": headers, "client": (address, 1)}


def test_unknown_tokens_are_refused_once_strangers_have_used_up_theirs(few: None) -> None:
    token = secrets.token_urlsafe()
    assert [door.wait(request(token=token)) for _ in range(3)] == [0, 0, 0]  # asking takes nothing
    assert limiting.strangers().take() == 0
    assert door.wait(request(token=token)) > 0
    assert door.wait(request()) == 0  # without a token it is no stranger's try
    known.addresses.note("10.3.0.1")
    assert door.wait(request(token=token)) == 0


def test_a_token_that_is_known_is_let_in_from_anywhere(few: None, rf: Any) -> None:
    limiting.strangers().take()
    shown = limiting.caller(rf.get("/api/v1/queue", headers={"authorization": "Bearer good"}))
    known.credentials.note(shown)
    assert door.wait(request(token="good")) == 0
    assert door.wait(request(token="bad")) > 0


def test_sign_ins_of_the_api_are_refused_and_pages_left_to_the_middleware(few: None) -> None:
    assert door.wait(request("/api/v1/login")) == 0
    assert logins._strangers().take() == 0
    assert door.wait(request("/api/v1/login")) > 0
    assert door.wait(request("/login/")) == 0


def test_the_refusal_is_a_problem_with_the_headers_of_all_answers(few: None) -> None:
    limiting.strangers().take()
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Handler()(request(token="bad"), None, send))  # type: ignore[arg-type]  # the body is not read
    start, body = sent
    headers = dict(start["headers"])
    assert start["status"] == 429
    assert int(headers[b"retry-after"]) > 0
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"connection" not in headers
    assert json.loads(body["body"])["code"] == "TooManyRequests"
