"""Strangers pay for what they ask, whatever they show and from how many addresses; people are looked at first."""

import json
import secrets
from typing import Any

import pytest
from django.contrib.auth import hashers
from django.test import Client
from django.utils import timezone

from controlplane.api import schema
from controlplane.guards.limiting import WRONG
from controlplane.models import SignInFailures, Token, User
from controlplane.security import known, limits
from controlplane.security.known import Lately
from controlplane.security.limits import Bucket
from controlplane.services.accounts import logins
from tests.controlplane.api.conftest import Caller, People, api, body_of, fields_of  # noqa: F401

PASSWORD = "a long password of mia's"


@pytest.fixture
def narrow(settings: Any) -> Any:
    """50 requests of an address without a password in a window; of strangers together two at once, and two sign-ins."""
    few = {"anonymous": 5.0, "strangers": 0.2, "sign_ins": 0.08}
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, **few}
    return settings


@pytest.fixture
def mia(db: None, settings: Any) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return User.objects.create_user("mia", password=PASSWORD)


def invented(address: str = "10.0.0.1") -> int:
    """The status of a request with a token that nobody has."""
    token = f"Bearer weft_{secrets.token_urlsafe(32)}"
    return Client(REMOTE_ADDR=address).get("/api/v1/queue", headers={"authorization": token}).status_code


def sign_in(name: str = "mia", password: str = "wrong", address: str = "10.0.0.1") -> Any:
    body = json.dumps({"username": name, "password": password})
    return Client(REMOTE_ADDR=address).post("/api/v1/login", body, content_type="application/json")


# --- tokens ---------------------------------------------------------------------------------------


def test_a_wrong_token_is_charged_to_its_address_whatever_it_is(db: None, settings: Any) -> None:
    settings.RATE_LIMITS = {
        **settings.RATE_LIMITS,
        "anonymous": 1.0,
    }  # ten in a window, of which a wrong one takes five
    assert [invented() for _ in range(4)] == [401, 401, 429, 429]
    assert 1 + WRONG == 5
    assert invented("10.0.0.2") == 401
    assert Client(REMOTE_ADDR="10.0.0.1").get("/login/").status_code == 429


def test_a_refused_token_costs_no_statement(db: None, narrow: Any, django_assert_num_queries: Any) -> None:
    while invented() != 429:
        pass
    with django_assert_num_queries(0):
        assert invented() == 429


def test_a_refusal_is_no_line_of_the_log(db: None, narrow: Any, caplog: pytest.LogCaptureFixture) -> None:
    while invented() != 429:
        pass
    caplog.clear()
    assert invented() == 429
    assert Client(REMOTE_ADDR="10.0.0.1").get("/no-such-address").status_code == 404
    assert [record.getMessage() for record in caplog.records] == ["Not Found: /no-such-address"]


def test_strangers_from_many_addresses_share_what_there_is_and_people_do_not_notice(api: People, narrow: Any) -> None:  # noqa: F811
    somebody = Caller(api.member.token, api.member.user, Client(REMOTE_ADDR="10.9.9.9"))
    body_of(somebody.get("/me"))
    statuses = [invented(f"10.1.0.{number}") for number in range(20)]
    assert statuses.count(401) in (2, 3)
    assert set(statuses) == {401, 429}
    for _ in range(20):
        body_of(somebody.get("/me"))


def test_where_somebody_is_signed_in_others_are_not_taken_for_strangers(api: People, narrow: Any) -> None:  # noqa: F811
    while invented("10.1.0.1") != 429:
        pass
    for number in range(2, 6):
        assert invented(f"10.1.0.{number}") == 429
    known.addresses.note("10.9.9.9")
    body_of(Caller(api.member.token, client=Client(REMOTE_ADDR="10.9.9.9")).get("/me"))


def test_a_token_that_is_right_pays_for_itself(api: People, narrow: Any) -> None:  # noqa: F811
    for who in (api.member, api.viewer, api.admin):
        caller = Caller(who.token, client=Client(REMOTE_ADDR="10.0.0.1"))
        for _ in range(20):
            body_of(caller.get("/me"))
    assert Client(REMOTE_ADDR="10.0.0.1").get("/login/").status_code == 200


def test_a_token_that_has_ended_is_known_no_longer(api: People, narrow: Any) -> None:  # noqa: F811
    who = api.member
    body_of(who.get("/me"))
    Token.objects.filter(user=who.user).delete()
    statuses = [who.get("/me").status_code for _ in range(12)]
    assert statuses[0] == 401
    assert statuses[-1] == 429


# --- sign-in --------------------------------------------------------------------------------------


def test_beyond_a_limit_no_password_is_looked_at_and_no_statement_made(
    mia: User, django_assert_num_queries: Any
) -> None:
    known.addresses.note("10.0.0.1")
    assert [sign_in().status_code for _ in range(logins.MAX_FAILURES + 1)] == [401] * logins.MAX_FAILURES + [429]
    with django_assert_num_queries(1):  # the audit log's row
        refused = sign_in()
    assert fields_of(refused, 429) == [""]
    assert 200 < int(refused["Retry-After"]) <= 301


def test_an_address_over_its_limit_is_sent_away_before_anything(mia: User, django_assert_num_queries: Any) -> None:
    known.addresses.note("10.0.0.1")
    until = timezone.now() + logins.WINDOW
    key = logins._key("address", "10.0.0.1")
    SignInFailures.objects.create(key=key, count=logins.MAX_OF_ADDRESS - 1, until=until)
    assert [sign_in(f"name-{number}").status_code for number in range(2)] == [401, 429]
    with django_assert_num_queries(0):
        assert sign_in("another").status_code == 429
    page = Client(REMOTE_ADDR="10.0.0.1")
    with django_assert_num_queries(0):
        assert page.post("/login/", {"username": "mia", "password": PASSWORD}).status_code == 429


def test_a_crowd_of_addresses_and_names_gets_few_passwords_looked_at(mia: User, narrow: Any) -> None:
    statuses = [sign_in(f"name-{n}", address=f"10.2.0.{n}").status_code for n in range(20)]
    assert statuses.count(401) in (2, 3)
    assert set(statuses) == {401, 429}


def test_while_a_crowd_tries_people_sign_in_where_somebody_is_signed_in(mia: User, narrow: Any) -> None:
    while sign_in("nobody", address="10.2.0.1").status_code != 429:
        pass
    assert Client(REMOTE_ADDR="10.2.0.2").get("/login/").status_code == 200
    assert sign_in(password=PASSWORD, address="10.2.0.2").status_code == 429
    known.addresses.note("10.2.0.3")
    assert sign_in(password=PASSWORD, address="10.2.0.3").status_code == 201


def test_passwords_that_are_right_take_nothing_from_strangers(mia: User, narrow: Any) -> None:
    assert [sign_in(password=PASSWORD).status_code for _ in range(6)] == [201] * 6


def test_a_password_is_looked_at_once(mia: User, settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{Counted.__module__}.Counted"]
    Counted.count = 0
    sign_in("nobody-here")
    assert Counted.count == 1
    mia.set_password(PASSWORD)
    mia.save()
    Counted.count = 0
    sign_in()
    assert Counted.count == 1


class Counted(hashers.MD5PasswordHasher):
    """Counts how often a password is made into a hash."""

    algorithm = "counted"
    count = 0

    def encode(self, password: str, salt: str) -> str:
        Counted.count += 1
        return super().encode(password, salt)


# --- the document ---------------------------------------------------------------------------------


def test_the_schema_is_built_once_and_open_to_anybody(db: None) -> None:
    kinds = ("application/vnd.oai.openapi", "application/vnd.oai.openapi+json", "application/json", "*/*")
    first = {kind: Client().get("/api/v1/schema", headers={"accept": kind}) for kind in kinds}
    assert {answer.status_code for answer in first.values()} == {200}
    built = dict(schema._written)
    for kind, answer in first.items():
        for query in ("", "?lang=de", "?version=2"):
            again = Client().get(f"/api/v1/schema{query}", headers={"accept": kind})
            assert again.content == answer.content
            assert again["Content-Type"] == answer["Content-Type"]
    assert {kind: id(text) for kind, text in schema._written.items()} == {
        kind: id(text) for kind, text in built.items()
    }
    assert json.loads(first["application/vnd.oai.openapi+json"].content)["openapi"] == "3.1.0"
    assert Client().get("/api/v1/schema", headers={"accept": "text/html"}).status_code == 406


# --- what counts ----------------------------------------------------------------------------------


def test_a_bucket_has_so_many_at_once_and_fills_again() -> None:
    bucket = Bucket(per_second=0.5, most=2)
    assert [bucket.take(now=1.0) for _ in range(3)] == [0, 0, 2]
    assert bucket.take(now=2.0) == 1
    assert bucket.take(now=3.0) == 0
    bucket.give()
    assert bucket.take(now=3.0) == 0
    assert [bucket.take(now=1000.0) for _ in range(3)] == [0, 0, 2]


def test_what_was_noted_is_known_for_a_time_and_the_oldest_goes_first() -> None:
    lately = Lately(most=2, seconds=10)
    for key, now in (("a", 0), ("b", 1), ("a", 2), ("c", 3)):
        lately.note(key, now=now)
    assert [round(lately.left(key, now=4)) for key in "abc"] == [8, 0, 9]
    assert lately.left("a", now=12) == 0.0
    lately.forget("c")
    assert lately.left("c", now=4) == 0.0


def test_what_is_put_back_may_be_taken_again() -> None:
    of, two = limits.Limits(), limits.Budget("test", 0.2)
    assert [of.take(two, "a", now=0.0) for _ in range(2)] == [0, 0]
    of.give(two, "a")
    assert [of.take(two, "a", now=0.0) == 0 for _ in range(2)] == [True, False]
