"""Every address of the API asked wrongly: as documented, nothing written, and others work on."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from controlplane.benchmarks.harness import tenants
from controlplane.benchmarks.reliability.authorization import OWN, Cell, cells, path_of, sent
from controlplane.models import AuditEntry
from controlplane.security import limits
from tests.controlplane.api.test_schema import document
from tests.untouched import stored

LARGE = json.dumps({"name": "a" * 300_000}).encode()
# What is sent in place of a body -> its content type.
BODIES: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{", "application/json"),
    "a number": (b"7", "application/json"),
    "null": (b"null", "application/json"),
    "an unknown field": (b'{"colour": "red"}', "application/json"),
    "a list of nonsense": (b'[{"colour": 1}, null]', "application/json"),
    "NUL": (b'{"name": "a\\u0000b"}', "application/json"),
    "a lone surrogate": (b'{"name": "\\ud800"}', "application/json"),
    "a key twice": (b'{"name": "a", "name": "b"}', "application/json"),
    "too large": (LARGE, "application/json"),
    "a form": (b"name=a", "application/x-www-form-urlencoded"),
}
QUERIES = (
    "colour=red",
    "page_size=0",
    "page_size=%D9%A1",
    "cursor=%00",
    "team=red&team=blue",
    "from=tomorrow&to=0",
    "format=xml",
)
OTHERS = ("api/v1/schema",)  # the framework's


@pytest.fixture
def made(db: None, settings: Any) -> tenants.Tenants:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return tenants.fill()


def asked(made: tenants.Tenants) -> Iterator[Cell]:
    """Each address of the API with each of its methods, by a platform admin, about team red."""
    for cell in cells(made):
        is_ours = (
            cell.route.address.startswith("api/v1/") and cell.rule is not None and cell.route.address not in OTHERS
        )
        if is_ours and cell.person.role == "platform admin" and cell.target == OWN:
            yield cell


def documented(schema: dict[str, Any], cell: Cell) -> set[int]:
    """The statuses that the OpenAPI document has for this operation."""
    plain = {re.sub(r"{[^}]+}", "{}", path): operations for path, operations in schema["paths"].items()}
    operation = plain["/" + re.sub(r"<[^>]+>", "{}", cell.route.address)][cell.method.lower()]
    return {int(status) for status in operation["responses"]}


def canary(made: tenants.Tenants) -> None:
    """Somebody of the other team, who asks for what is theirs."""
    blue = next(person for person in made.people if person.team == tenants.BLUE)
    rows = json.loads(blue.ask("GET", "/api/v1/workloads").content)["results"]
    assert len(rows) == len(tenants.KINDS)


def check(answer: HttpResponse, what: tuple[str, ...], allowed: set[int]) -> None:
    assert answer.status_code in allowed, (what, answer.status_code, answer.content[:300])
    assert 400 <= answer.status_code < 500, (what, answer.status_code, answer.content[:300])
    problem = json.loads(answer.content)
    assert answer["Content-Type"] == "application/problem+json", what
    assert problem["status"] == answer.status_code, what
    assert problem["detail"], what
    assert all(error["message"] for error in problem["errors"]), what
    assert b"Traceback" not in answer.content, what


def send(client: Client, cell: Cell, path: str, body: bytes = b"", content_type: str = "") -> HttpResponse:
    limits.of_process().forget()
    headers = {"authorization": f"Bearer {cell.person.token}"}
    return client.generic(cell.method, path, body, content_type=content_type, headers=headers)  # type: ignore[return-value]


@pytest.mark.slow
def test_no_body_that_is_not_right_does_anything(made: tenants.Tenants) -> None:
    schema, before, client, count = document(), stored(), Client(), 0
    for cell in asked(made):
        if cell.method == "GET":
            continue
        allowed = documented(schema, cell)
        for what, (body, content_type) in BODIES.items():
            answer = send(client, cell, path_of(cell, made), body, content_type)
            check(answer, (str(cell), what), allowed)
            canary(made)
            count += 1
        assert stored() == before, str(cell)
    assert count > 400


@pytest.mark.slow
def test_no_parameter_that_is_not_right_is_passed_over(made: tenants.Tenants) -> None:
    schema, before, client, count = document(), stored(), Client(), 0
    for cell in asked(made):
        body = sent(cell, made)
        right = b"" if body is None else json.dumps(body).encode()
        for query in QUERIES[: len(QUERIES) if cell.method == "GET" else 1]:
            answer = send(client, cell, f"{path_of(cell, made)}?{query}", right, "application/json" if right else "")
            check(answer, (str(cell), query), documented(schema, cell))
            canary(made)
            count += 1
        assert stored() == before, str(cell)
    assert count > 400


QUOTA, BUDGET = "teams/red/quotas/main", "teams/red/budgets/month"
HOOK = {"team": "red", "name": "new", "url": "https://hooks.example.test/", "matters": ["ended"]}
ACCOUNT = {"team": "red", "name": "new", "role": "member"}
# (method, address, body, status)
WRONG: tuple[tuple[str, str, Any, int], ...] = (
    *(("PUT", QUOTA, {"nominal_milli": value}, 400) for value in (-1, 1.5, "1", True, None, 10**9 + 1, [], {})),
    *(("PUT", QUOTA, {"nominal_milli": value}, 400) for value in (1, 8, 32, 64, 128, 256, 512, 999)),
    ("PUT", QUOTA, {"nominal_milli": 8000, "borrowing_limit_milli": 16}, 400),
    ("PUT", QUOTA, {"nominal_milli": 8000, "lending_limit_milli": 4}, 400),
    ("PATCH", QUOTA, {"nominal_milli": 32}, 400),
    ("PUT", QUOTA, b'{"nominal_milli": NaN}', 400),
    ("PUT", QUOTA, {"nominal_milli": 1000, "lending_limit_milli": 2000}, 422),
    *(("PUT", QUOTA, {"nominal_milli": 1000, "weight": value}, 400) for value in (0, -1, 10**6, 1e3, "1")),
    ("PUT", "teams/red/quotas/nowhere", {"nominal_milli": 1000}, 404),
    ("PUT", "teams/green/quotas/main", {"nominal_milli": 1000}, 404),
    *(("PUT", BUDGET, {"gpu_hours": value}, 400) for value in (0, -1, "9", 1.5, None, 10**9 + 1)),
    ("PUT", BUDGET, {"gpu_hours": 1, "is_hard": "yes"}, 400),
    ("PUT", "teams/red/budgets/year", {"gpu_hours": 1}, 422),
    *(("PUT", "teams/red/members/root", {"role": value}, 400) for value in ("owner", "", None, 1, ["admin"])),
    ("PUT", "teams/red/members/nobody", {"role": "admin"}, 422),
    ("PUT", "teams/red/members/%00", {"role": "admin"}, 404),
    ("DELETE", f"teams/red/members/{tenants.MARKS['red']}-admin", None, 409),
    *(("POST", "service-accounts", {**ACCOUNT, "name": one}, 400) for one in ("", "A", "a b", "-a", "a" * 41)),
    ("POST", "service-accounts", {**ACCOUNT, "role": "owner"}, 400),
    ("POST", "service-accounts", {**ACCOUNT, "team": "green"}, 404),
    ("POST", "service-accounts", {**ACCOUNT, "name": "ci"}, 409),
    *(("POST", "group-mappings", {"group": group, "team": "red"}, 400) for group in ("", "a\nb", "a" * 201, None)),
    ("POST", "group-mappings", {"group": "a", "team": "green"}, 404),
    *(("POST", "tokens", {"name": name}, 400) for name in ("", "a" * 81, "a\nb", None, 7)),
    *(("POST", "tokens", {"name": "a", "expires_in": time}, 400) for time in ("0s", "-1d", "10y", "366d", 90, "")),
    ("POST", "tokens", {"name": "a", "scope": "root"}, 400),
    ("POST", "tokens", {"name": "a", "team": "green"}, 400),
    *(("POST", "webhooks", {**HOOK, "secret": one}, 422) for one in ("fifteen chars..", "\u00e4" * 20)),
    ("POST", "webhooks", {**HOOK, "secret": "a" * 1000}, 400),
    *(("POST", "webhooks", {**HOOK, "url": url}, 422) for url in (
        "http://hooks.example.test/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest",
        "https://user:word@hooks.example.test/", "https://hooks.example.test:22/", "https://2130706433/", "ftp://a/",
    )),
    ("POST", "webhooks", {**HOOK, "team": "green"}, 404),
    ("POST", "nodes/nowhere/drain", None, 404),
    ("POST", "nodes/nowhere/cordon", None, 404),
    ("POST", "nodes/%00/drain", None, 404),
    ("POST", "nodes/a/drain", {"force": True}, 400),
    ("POST", "policies", {"scheduling": {"max_victims": "all"}}, 422),
    ("POST", "policies", {"scheduling": {"no_such": 1}}, 422),
    ("POST", "policies", {"colour": {}}, 400),
    ("POST", "views", {"name": "", "query": ""}, 400),
    ("POST", "login", {"username": "root", "password": "a" * 1025}, 400),
    ("POST", "login", json.dumps({"username": "root", "password": "a" * 2**20}).encode(), 413),
    ("GET", "reports/usage?from=2016-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", None, 400),
    ("GET", "reports/usage?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", None, 400),
    ("GET", "reports/usage?from=2026-01-01T00:00:00", None, 400),
    ("GET", "reports/usage?as=xml", None, 400),
    ("GET", "reports/slo?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", None, 400),
    ("GET", "reports/sla?month=2026-13", None, 400),
    ("GET", "reports/sla?month=2026-01-01", None, 400),
    ("GET", "reports/sla?month=9999-12", None, 400),
    ("GET", "reports/sla?team=%00", None, 400),
    ("GET", "usage?from=9999-12-31T23:59:59Z&to=9999-12-31T23:59:59Z", None, 400),
    ("GET", "audit-log?from=%00", None, 400),
    ("GET", "teams/%00", None, 404),
    ("GET", "nodes/%ED%A0%80", None, 404),
    ("GET", f"nodes/{'a' * 5000}", None, 404),
)  # fmt: skip


def test_no_wrong_value_of_the_platforms_things_is_taken(made: tenants.Tenants) -> None:
    admin = next(person for person in made.people if person.role == "platform admin")
    before, client = stored(), Client()
    for method, address, body, status in WRONG:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        headers = {"authorization": f"Bearer {admin.token}"}
        answer = client.generic(method, f"/api/v1/{address}", raw, content_type="application/json", headers=headers)
        check(answer, (method, address, str(body)[:80]), {status})  # type: ignore[arg-type]
        assert stored() == before, (method, address, str(body)[:80])
        canary(made)


# Who passes these on has looked at nothing: only the token says who asks, and only the connection from where.
CLAIMS = {
    "X-Remote-User": "root", "Remote-User": "root", "X-Forwarded-User": "root", "X-Auth-Request-User": "root",
    "Kubeflow-Userid": "root", "X-Forwarded-For": "10.9.9.9", "X-Real-Ip": "10.9.9.9", "Forwarded": "for=10.9.9.9",
    "X-Forwarded-Host": "evil.example", "X-Original-Url": "/api/v1/policies", "X-Rewrite-Url": "/api/v1/policies",
    "X-Http-Method-Override": "DELETE",
}  # fmt: skip


def test_headers_that_claim_who_asks_and_from_where_claim_nothing(made: tenants.Tenants) -> None:
    member = next(person for person in made.people if person.role == "member")
    given = {**CLAIMS, "Authorization": f"Bearer {member.token}"}
    assert member.user is not None
    assert Client().get("/api/v1/me", headers=given).json()["username"] == member.user.username
    assert Client().get("/api/v1/me", headers=CLAIMS).status_code == 401
    answer = Client().post("/api/v1/tokens", {"name": "ci"}, content_type="application/json", headers=given)
    assert answer.status_code == 201
    entry = AuditEntry.objects.get(kind="TokenCreated")
    assert (entry.actor, entry.address, entry.method) == (member.user.username, "127.0.0.1", "POST")
    assert "evil" not in Client().get("/", headers=CLAIMS)["Location"]


AUTHORIZATIONS = (
    "Bearer {}, Bearer {}", "Bearer {} {}", "bearer  {}", "Basic {}", "Token {}", "{}", "Bearer {}x", "Bearer",
    "Bearer\t{}", "Digest username={}",
)  # fmt: skip


@pytest.mark.parametrize("form", AUTHORIZATIONS)
def test_a_token_in_another_form_or_twice_signs_nobody_in(made: tenants.Tenants, form: str) -> None:
    member, before = next(person for person in made.people if person.role == "member"), stored()
    answer = Client().get("/api/v1/workloads", headers={"authorization": form.replace("{}", member.token)})
    check(answer, (form,), {401})  # type: ignore[arg-type]
    assert member.token.encode() not in answer.content
    assert stored() == before
    canary(made)
