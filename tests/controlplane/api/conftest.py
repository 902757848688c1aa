"""People with tokens over a small world: teams red and blue, two nodes of 8 GPUs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from controlplane.models import Budget, Membership, NodePool, Quota, Team, User
from controlplane.services.accounts import tokens
from tests.controlplane.state import World
from tests.sameness import answers

V1 = "/api/v1"


@pytest.fixture(autouse=True)
def _answers_are_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test gets the answers that were recorded for it once, but for the table in tests/sameness/words.py.

    On SQLite alone: on Postgres numbers that were rolled back are not given again.
    """
    test = request.node.nodeid
    with answers.noted(test):
        yield
    is_recording = request.config.getoption("answers", None) is not None
    if not is_recording and connection.vendor == "sqlite" and test in answers.recorded():
        told = answers.difference(answers.recorded()[test], answers.recorder.found[test])
        assert not told, "\n".join(["other answers than recorded:", *told])


@dataclass
class Caller:
    """Someone who calls the API; `token` "" is nobody."""

    token: str = ""
    user: User | None = None
    client: Client = field(default_factory=Client)

    def send(self, method: str, path: str, body: object = None, **headers: str) -> HttpResponse:
        """Send JSON (or bytes as they are); header names as in Python, `idempotency_key`."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"CONTENT_TYPE": headers.pop("content_type", "application/json" if raw else "")}
        given |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        if self.token:
            given["HTTP_AUTHORIZATION"] = f"Bearer {self.token}"
        return self.client.generic(method, V1 + path, raw, **given)  # type: ignore[return-value,arg-type]

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: object = None, **headers: str) -> HttpResponse:
        return self.send("POST", path, body, **headers)


def body_of(answer: HttpResponse, status: int = 200) -> Any:
    """The decoded body of an answer with this status."""
    assert answer.status_code == status, answer.content.decode()
    return json.loads(answer.content) if answer.content else None


def fields_of(answer: HttpResponse, status: int = 400) -> list[str]:
    """The fields that a problem names."""
    problem = body_of(answer, status)
    assert answer["Content-Type"] == "application/problem+json"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert all(error["message"] for error in problem["errors"])
    return [error["field"] for error in problem["errors"]]


def job(name: str = "hello", team: str = "red", **fields: Any) -> dict[str, Any]:
    """The short form of CI."""
    return {
        "type": "training",
        "name": name,
        "team": team,
        "image": "registry.example/app:1",
        "resources": {"gpus": 1},
        **fields,
    }


@dataclass
class People:
    """A world, and one caller for each role in team red, two of team blue, one without a team, and nobody."""

    world: World
    viewer: Caller
    member: Caller
    admin: Caller
    blue_member: Caller
    blue_admin: Caller
    outsider: Caller
    platform: Caller
    nobody: Caller


def caller(name: str, team: str = "", role: str = "", **columns: Any) -> Caller:
    """A user with a token, in a team if one is named."""
    user = User.objects.create(username=name, **columns)
    if team:
        Membership.objects.create(user=user, team=Team.objects.get(name=team), role=role)
    return Caller(tokens.create(user=user, name="test").secret, user)


def people() -> People:
    """Fill an empty database."""
    world = World()
    pool = NodePool.objects.get(name="main")
    for team in Team.objects.all():
        Quota.objects.create(team=team, pool=pool, nominal=8000)
        Budget.objects.create(team=team, period="month", gpu_hours=1000)
    return People(
        world,
        caller("vera", "red", "viewer"),
        caller("mia", "red", "member"),
        caller("ada", "red", "admin"),
        caller("bob", "blue", "member"),
        caller("bea", "blue", "admin"),
        caller("otto"),
        caller("root", is_superuser=True, is_staff=True),
        Caller(),
    )


@pytest.fixture(autouse=True)
def _quick_passwords_and_no_failures_yet(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()


@pytest.fixture
def api(db: None) -> People:
    return people()


def submit(who: Caller, *args: str, **fields: object) -> dict[str, object]:
    """Submit a job file; the answer."""
    return body_of(who.post("/workloads", job(*args, **fields)), 201)  # type: ignore[no-any-return]
