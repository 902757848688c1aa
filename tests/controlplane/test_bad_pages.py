"""Every page and form asked wrongly: an answer that says what to do, nothing written, and others work on."""

import itertools
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client

from controlplane.benchmarks.harness import tenants
from controlplane.benchmarks.harness.tenants import BLUE, MARKS, RED
from controlplane.benchmarks.reliability.authorization import OWN, Cell, cells, path_of
from controlplane.jobspec.shapes import FORBIDDEN
from controlplane.security import limits
from tests.hostile.pages import FORMS
from tests.untouched import columns_with, stored

STREAM = "stream"  # it never ends
ANSWERS = {200, 204, 302, 400, 403, 404, 405, 409, 412, 413, 415, 422, 429}
# In the address; percent signs of what is no UTF-8 and of a lone surrogate included.
ODD = (
    "%00",
    "%ED%A0%80",
    "%FF",
    "-1",
    "0",
    "9" * 30,
    "%D9%A1",
    "NaN",
    "1e400",
    "%E2%80%AE",
    "a" * 3000,
    "%0d%0aX: 1",
    "",
)
PARAMETERS = (
    "q",
    "team",
    "phase",
    "type",
    "sort",
    "cursor",
    "before",
    "from",
    "to",
    "state",
    "tab",
    "user",
    "node",
    "next",
)
# In a field of a form, as bytes of a body.
TYPED = (b"%00", b"%ED%A0%80", b"%FF", b"-1", b"9" * 40, b"1e400", b"NaN", b"a" * 70_000, b"%E2%80%AE%1B%5B31m", b"")
RIGHT = {"type": "training", "name": "asked", "team": RED, "image": "example/app:1", "gpus": "1", "template_for": RED,
         "template_name": "asked", "template_about": "why", "verb": "stop", "query": "phase=waiting", "scope": "read",
         "expires_in": "30", "role": "member", "period": "month", "gpu_hours": "9", "version": "1", "is_hard": "soft",
         "url": "https://hooks.example.test/", "format": "weft", "event_types": "ended", "username": "root",
         "nominal": "1", "weight": "1", "source": "trace", "trace": "demo"}  # fmt: skip


@pytest.fixture
def made(db: None, settings: Any) -> tenants.Tenants:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return tenants.fill()


def pages_of(made: tenants.Tenants, method: str) -> Iterator[Cell]:
    """Each page with this method, by a platform admin, about team red."""
    for cell in cells(made):
        is_page = not cell.route.address.startswith(("api/", "admin/")) and cell.route.address != STREAM
        is_meant = cell.rule is not None and cell.method == method and cell.target == OWN
        if is_page and is_meant and cell.person.role == "platform admin":
            yield cell


def canary(made: tenants.Tenants) -> None:
    """Somebody of the other team, who looks at what is theirs."""
    blue = next(person for person in made.people if person.team == BLUE)
    assert MARKS[BLUE] in blue.client.get("/workloads/").content.decode()


def check(answer: HttpResponse, what: object) -> None:
    assert answer.status_code in ANSWERS, (what, answer.status_code)
    assert b"Traceback" not in (b"" if answer.streaming else answer.content), what
    if answer.status_code >= 400 and answer["Content-Type"].startswith("text/html"):
        text = answer.content.decode()
        # Either the page of the error, or the form again with what is wrong beside the field.
        assert "What you can do" in text or 'role="alert"' in text or "aria-invalid" in text or "fault" in text, what


@pytest.mark.slow
def test_no_odd_address_is_too_much_for_a_page(made: tenants.Tenants) -> None:
    admin = next(person.client for person in made.people if person.role == "platform admin")
    before, odd, count = stored(), itertools.cycle(ODD), 0
    for cell in pages_of(made, "GET"):
        path = path_of(cell, made)
        queries = ["&".join(f"{name}={next(odd)}" for name in PARAMETERS) for _ in range(2)]
        within = [path_with(cell, value) for value in ODD[:6] if "<str:" in cell.route.address]
        for address in [*(f"{path}?{query}" for query in queries), *within]:
            limits.of_process().forget()
            check(admin.get(address), address)
            count += 1
        canary(made)
    assert stored() == before
    assert count > 150


def path_with(cell: Cell, value: str) -> str:
    """The address with something odd in place of a name."""
    path = "/" + cell.route.address
    for parameter in ("<str:name>", "<str:team>", "<str:pool>", "<str:username>", "<str:token>"):
        path = path.replace(parameter, value)
    numbers = {"<slug:verb>": "drain", "<slug:team>": RED, "<int:pk>": "1", "<int:number>": "1"}
    for parameter, right in numbers.items():
        path = path.replace(parameter, right)
    return path


def test_no_form_is_taken_without_its_token(made: tenants.Tenants) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(next(person.user for person in made.people if person.role == "platform admin"))
    before, count = stored(), 0
    for cell in pages_of(made, "POST"):
        if cell.route.address in ("notices/unsubscribe/<str:token>", "login/"):  # a mail program asks; nobody is in yet
            continue
        answer = client.post(path_of(cell, made), RIGHT)
        assert (str(cell), answer.status_code) == (str(cell), 403)
        assert "What you can do" in answer.content.decode(), str(cell)
        canary(made)
        count += 1
    assert stored() == before
    assert count > 40


@pytest.mark.slow
def test_no_odd_value_in_a_form_is_too_much_or_gets_in(made: tenants.Tenants) -> None:
    admin = next(person.client for person in made.people if person.role == "platform admin")
    odd, before = itertools.cycle(TYPED), stored()
    for form, fields in FORMS.items():
        path = form.replace("/nlp/", f"/{RED}/").replace("/a100/", "/main/")
        for field, _ in itertools.product(fields, range(2)):
            value = next(odd)
            body = "&".join(f"{name}={RIGHT.get(name, '')}" for name in fields if name != field).encode()
            limits.of_process().forget()
            answer = admin.post(
                path, body + b"&" + field.encode() + b"=" + value, content_type="application/x-www-form-urlencoded"
            )
            check(answer, (path, field, value[:20]))
            after = stored()
            assert answer.status_code < 400 or after == before, (path, field, value[:20])
            before = after
        canary(made)
    assert not columns_with(FORBIDDEN)


def test_a_form_sent_twice_does_it_once(made: tenants.Tenants) -> None:
    admin = next(person.client for person in made.people if person.role == "platform admin")
    once = {
        "/submit/": (302, 409), "/templates/save": (302, 409), "/workloads/views": (302, 302),
        "/settings/webhooks/": (200, 409), f"/teams/{RED}/budgets/": (302, 412),
        f"/teams/{RED}/service-accounts/": (302, 409), f"/teams/{RED}/people/save": (302, 302),
    }  # fmt: skip
    for path, statuses in once.items():
        answers = [admin.post(path, {**RIGHT, "name": "doubled"}) for _ in range(2)]
        assert (path, tuple(one.status_code for one in answers)) == (path, statuses)
        check(answers[1], path)
        canary(made)


@pytest.mark.parametrize(
    "next_", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "%2f%2fevil.example",
              "///evil.example", "\t//evil.example", "http:///evil.example", "/%09/evil.example/../..//evil.example"]
)  # fmt: skip
def test_signing_in_leads_to_our_own_pages_only(made: tenants.Tenants, next_: str, settings: Any) -> None:
    person = next(person for person in made.people if person.role == "member")
    assert person.user is not None
    person.user.set_password("a long password")
    person.user.save()
    form = {"username": person.user.username, "password": "a long password", "next": next_}
    answer = Client().post("/login/", form)
    assert answer.status_code == 302
    # As a browser reads it: without tabs and line breaks, and with slashes of either kind.
    read = re.sub(r"[\t\r\n]", "", answer["Location"]).replace("\\", "/")
    assert urlsplit(urljoin("https://weft.example/login/", read))[:2] == ("https", "weft.example")
