import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from controlplane.models import Event, SignInFailures, Token, User
from controlplane.services.accounts import logins, tokens
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job

PASSWORD = "a long password"


def login(password: str, username: str = "mia", **headers: str) -> tuple[int, dict[str, object]]:
    answer = Caller().post("/login", {"username": username, "password": password, "name": "laptop"}, **headers)
    return answer.status_code, body_of(answer, answer.status_code)


@pytest.fixture
def mia(db: None, settings: Any) -> User:
    """Of the limits on passwords those of a name and an address; that of a crowd is tried in test_strangers.py."""
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, "sign_ins": 1000.0}
    return User.objects.create_user("mia", password=PASSWORD)


def test_a_password_is_exchanged_for_a_token_that_works(mia: User) -> None:
    status, made = login(PASSWORD)
    assert status == 201
    secret = str(made["token"])
    assert secret.startswith("weft_")
    assert len(secret) > 43
    who = body_of(Caller(secret).get("/me"))
    assert (who["username"], who["is_platform_admin"], who["teams"]) == ("mia", False, [])
    assert (who["token"]["name"], who["token"]["prefix"]) == ("laptop", secret[:10])
    lifetime = Token.objects.get().expires_at - Token.objects.get().created_at
    assert lifetime == timedelta(days=90)


def test_only_a_digest_of_a_token_is_kept(mia: User) -> None:
    secret = str(login(PASSWORD)[1]["token"])
    kept = [str(value) for value in Token.objects.values_list().get()] + [str(Event.objects.values_list().last())]
    assert not any(secret in value or secret[12:] in value for value in kept)


def test_wrong_password_unknown_and_disabled_user_are_answered_alike(mia: User) -> None:
    wrong = login("wrong")
    assert wrong[0] == 401
    assert login("wrong", "nobody") == wrong
    User.objects.update(is_active=False)
    assert login(PASSWORD) == wrong
    assert not Token.objects.exists()


def test_guessing_is_stopped_for_unknown_users_too_and_for_nobody_else(mia: User) -> None:
    for username in ("mia", "nobody"):
        assert [login("wrong", username)[0] for _ in range(10)] == [401] * 10
        answer = Caller().post("/login", {"username": username, "password": PASSWORD})
        assert fields_of(answer, 429) == [""]
        assert int(answer["Retry-After"]) > 0
    User.objects.create_user("ann", password=PASSWORD)
    assert login(PASSWORD, "ann")[0] == 201


def test_neither_a_crowd_nor_a_spray_goes_on_for_long(mia: User) -> None:
    def status(username: str, address: str) -> int:
        body = json.dumps({"username": username, "password": "wrong"})
        return Client(REMOTE_ADDR=address).post("/api/v1/login", body, content_type="application/json").status_code

    crowd = [status("mia", f"10.0.0.{n}") for n in range(logins.MAX_OF_NAME + 1)]
    assert crowd == [401] * logins.MAX_OF_NAME + [429]
    spray = [status(f"user-{n}", "10.9.9.9") for n in range(logins.MAX_OF_ADDRESS + 1)]
    assert spray == [401] * logins.MAX_OF_ADDRESS + [429]
    assert status("somebody", "10.8.8.8") == 401


def test_who_signs_in_rightly_is_not_kept_out_by_own_earlier_mistakes(mia: User) -> None:
    for _ in range(3):
        assert [login("wrong")[0] for _ in range(3)] == [401] * 3
        assert login(PASSWORD)[0] == 201
    SignInFailures.objects.update(until=database_now() - timedelta(seconds=1))
    assert [login("wrong")[0] for _ in range(logins.MAX_FAILURES + 1)] == [401] * logins.MAX_FAILURES + [429]
    SignInFailures.objects.update(until=database_now() - timedelta(seconds=1))
    logins.prune()
    assert not SignInFailures.objects.exists()
    assert login(PASSWORD)[0] == 201


def test_no_typed_password_or_name_stands_among_the_failures(mia: User) -> None:
    login("my real password", "my real password")
    assert "real" not in str(list(SignInFailures.objects.values_list()))


def test_a_stale_token_is_not_in_the_way_of_a_login(mia: User) -> None:
    assert login(PASSWORD, authorization="Bearer weft_old")[0] == 201


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer weft_unknown",
        "Bearer weft_" + "a" * 10_000,
        "Bearer Bearer weft_a",
        "Bearer weft_\u00e9",
        "Basic bWlhOng=",
        "weft_x",
    ],
)
def test_what_is_no_live_token_is_401(api: People, header: str) -> None:
    answer = Caller().get("/workloads", authorization=header)
    assert fields_of(answer, 401) == [""]
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_token_ends_by_expiry_by_revocation_and_with_its_user(api: People) -> None:
    user = api.member.user
    assert user is not None
    expired, revoked = (tokens.create(user=user, name=name) for name in ("expired", "revoked"))
    Token.objects.filter(pk=expired.token.pk).update(expires_at=database_now() - timedelta(seconds=1))
    fields_of(Caller(expired.secret).get("/me"), 401)
    body_of(Caller(revoked.secret).get("/me"))
    body_of(api.member.send("DELETE", f"/tokens/{revoked.token.pk}"), 204)
    fields_of(Caller(revoked.secret).get("/me"), 401)
    User.objects.filter(pk=user.pk).update(is_active=False)
    fields_of(api.member.get("/me"), 401)


def test_tokens_are_made_listed_and_limited(api: People) -> None:
    made = body_of(api.member.post("/tokens", {"name": "ci", "expires_in": "7d"}), 201)
    listed = body_of(api.member.get("/tokens"))["results"]
    assert [row["name"] for row in listed] == ["ci", "test"]
    assert "token" not in listed[0]
    assert made["prefix"] == listed[0]["prefix"]
    assert fields_of(api.member.post("/tokens", {"name": "x", "expires_in": "366d"})) == ["expires_in"]
    assert fields_of(api.member.post("/tokens", {"name": "x", "scope": "all"})) == ["scope"]
    assert api.member.user is not None
    with pytest.raises(Refused, match="50 live tokens"):
        for _ in range(50):
            tokens.create(user=api.member.user, name="more")
    fields_of(api.blue_member.send("DELETE", f"/tokens/{made['id']}"), 404)
    assert Token.objects.filter(pk=made["id"]).exists()


def test_use_of_a_token_is_noted_at_most_once_a_minute(api: People) -> None:
    body_of(api.member.get("/me"))
    first = Token.objects.get(user=api.member.user).last_used_at
    assert first is not None
    body_of(api.member.get("/me"))
    assert Token.objects.get(user=api.member.user).last_used_at == first
    Token.objects.update(last_used_at=first - timedelta(minutes=2))
    body_of(api.member.get("/me"))
    assert Token.objects.get(user=api.member.user).last_used_at > first - timedelta(minutes=1)


def test_a_session_needs_the_csrf_token_to_change_something(api: People) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert api.member.user is not None
    browser.force_login(api.member.user)
    assert browser.get("/api/v1/me").json()["username"] == "mia"
    assert browser.get("/api/v1/me").json()["token"] is None
    refused = browser.post("/api/v1/workloads", job(), content_type="application/json")
    assert refused.status_code == 403
    browser.get("/login/")
    browser.cookies["csrftoken"] = "a" * 32
    made = browser.post("/api/v1/workloads", job(), content_type="application/json", headers={"X-CSRFToken": "a" * 32})
    assert made.status_code == 201, made.content
