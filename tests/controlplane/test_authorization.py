"""The written authorization matrix: whole, and what the server does."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.decorators import login_not_required
from django.core import checks as django_checks
from django.http import HttpRequest, HttpResponse
from django.urls import path

from controlplane.benchmarks.harness import tenants
from controlplane.benchmarks.reliability.authorization import ask_all, cells
from controlplane.models import User
from controlplane.queries.accounts import access
from controlplane.security import authorization
from controlplane.security.authorization import Rule
from controlplane.security.checks import open_among


def test_every_address_has_a_line_and_every_line_an_address() -> None:
    """A new address needs its line in security/authorization.txt: who may call it, and with which methods."""
    assert not authorization.without_a_line()
    assert not authorization.without_an_address()


def test_a_new_address_without_a_line_is_found() -> None:
    new = path("teams/<slug:name>/secrets", lambda request: HttpResponse())
    (route,) = authorization.routes([new], "api/v1/")
    assert not any(rule.is_about(route.address) for rule in authorization.rules())


@pytest.mark.parametrize("line", ["read team GET", "reads team GET a", "read it GET a", "read team FETCH a"])
def test_a_line_that_says_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="authorization.txt"):
        authorization.rules(line)


def test_nothing_is_open_by_forgetting() -> None:
    assert not [found for found in django_checks.run_checks() if found.id == "weft.E001"]

    @login_not_required
    def forgotten(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    routes = list(authorization.routes([path("forgotten", forgotten)]))
    (found,) = open_among(routes, authorization.rules())
    assert found.msg.startswith("forgotten is open without signing in")
    assert not open_among(routes, [Rule("anyone", "-", ("GET",), "forgotten")])


@pytest.fixture
def made(db: None, settings: Any) -> Iterator[tenants.Tenants]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    yield tenants.fill()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_address_method_and_role_is_answered_as_the_matrix_says(made: tenants.Tenants) -> None:
    found = ask_all(made)
    assert found["cells"] == sum(1 for _ in cells(made)) > 2000
    assert not found["leaks"]
    assert not found["wrong"]


def test_a_line_says_who_may_do_what_where() -> None:
    text = "# a comment\n\nadmins team GET,PUT api/v1/a\nsigned-in user POST b/*\n"
    assert authorization.rules(text) == (
        Rule("admins", "team", ("GET", "PUT"), "api/v1/a"),
        Rule("signed-in", "user", ("POST",), "b/*"),
    )


@pytest.mark.django_db
def test_on_the_platform_as_a_whole_each_signed_in_person_may_read_and_only_its_admins_do_more() -> None:
    mia, root = User.objects.create(username="mia"), User.objects.create(username="root", is_superuser=True)
    may = {verb: (access.can(mia, verb), access.can(root, verb)) for verb in access.Verb}
    assert may == dict.fromkeys(access.Verb, (False, True)) | {access.Verb.READ: (True, True)}
    mia.is_active = False
    assert not access.can(mia, access.Verb.READ)
