"""Signing in in two steps: a real authenticator's codes, recovery codes, and the rule for platform admins."""

import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.core.cache import cache
from django.test import Client

from controlplane.models import AuditEntry, Event, Token, User
from controlplane.services.accounts import tokens, two_factor

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"


@pytest.fixture(autouse=True)
def _quick_passwords_and_nothing_kept(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()


@pytest.fixture
def mia() -> User:
    return User.objects.create_user("mia", password=PASSWORD)


def code(secret: str, steps: int = 0) -> str:
    """What an authenticator app shows now, or some steps of 30 s later."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


def switched_on(user: User) -> tuple[str, list[str]]:
    """The app's secret and the recovery codes."""
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    return secret, RecoveryCodes.activate(user).generate_codes()


def password(client: Client, next_: str = "") -> Any:
    return client.post("/login/", {"username": "mia", "password": PASSWORD, "next": next_})


def is_in(client: Client) -> bool:
    return client.get("/api/v1/me").status_code == 200


def test_the_password_alone_lets_nobody_in_and_the_code_does(mia: User) -> None:
    secret, _ = switched_on(mia)
    client = Client()
    assert password(client, "/queue/")["Location"] == "/two-steps/"
    assert not is_in(client)
    assert client.get("/two-steps/").status_code == 200
    wrong = client.post("/two-steps/", {"code": "000000"})
    assert wrong.status_code == 200
    assert not is_in(client)
    assert client.post("/two-steps/", {"code": code(secret)})["Location"] == "/queue/"
    assert is_in(client)


def test_a_code_is_of_use_once(mia: User) -> None:
    secret, recovery = switched_on(mia)
    for one in (code(secret), recovery[0]):
        outcomes = []
        for _ in range(2):
            client = Client()
            password(client)
            client.post("/two-steps/", {"code": one})
            outcomes.append(is_in(client))
        assert outcomes == [True, False], one


def test_a_code_is_of_use_once_over_all_doors_and_processes(mia: User) -> None:
    secret, recovery = switched_on(mia)
    used = code(secret)

    def let_in(shown: str) -> list[bool]:
        """By a page and by REST, each in a process that remembers nothing, some of the 90 s later."""
        cache.clear()
        client = Client()
        password(client)
        client.post("/two-steps/", {"code": shown})
        cache.clear()
        body = {"username": "mia", "password": PASSWORD, "code": shown}
        return [is_in(client), Client().post("/api/v1/login", body, content_type="application/json").status_code == 201]

    assert let_in(used) == [True, False]
    assert let_in(f"{used[:3]} {used[3:]}") == [False, False]
    assert let_in(recovery[0]) == [True, False]


def test_the_code_that_set_it_up_is_of_no_use_again(mia: User) -> None:
    client = Client()
    password(client)
    client.post(client.get("/two-steps/on/")["Location"], {"password": PASSWORD})
    used = code(client.get("/two-steps/on/").context["form"].secret)
    assert client.post("/two-steps/on/", {"code": used}).status_code == 302
    body = {"username": "mia", "password": PASSWORD, "code": used}
    assert Client().post("/api/v1/login", body, content_type="application/json").json()["code"] == "CodeWrong"


def test_codes_cannot_be_guessed(mia: User) -> None:
    secret, _ = switched_on(mia)
    client = Client()
    password(client)
    for _ in range(12):
        client.post("/two-steps/", {"code": "000000"})
    client.post("/two-steps/", {"code": code(secret)})
    assert not is_in(client)


def test_tries_are_counted_over_all_doors_and_processes(mia: User) -> None:
    secret, _ = switched_on(mia)
    client = Client()
    password(client)
    for _ in range(4):
        client.post("/two-steps/", {"code": "000000"})
    cache.clear()  # another process knows nothing of what this one remembers
    for _ in range(4):
        client.post("/two-steps/", {"code": "000000"})
    cache.clear()
    body = {"username": "mia", "password": PASSWORD, "code": "000000"}
    tried = [Client().post("/api/v1/login", body, content_type="application/json").status_code for _ in range(3)]
    assert tried == [401, 401, 429]
    cache.clear()
    client.post("/two-steps/", {"code": code(secret)})
    assert not is_in(client)


def test_the_password_cannot_be_guessed_where_it_is_asked_for_again(mia: User) -> None:
    client = Client()
    password(client)
    for number in range(10):
        cache.clear()
        client.post("/again/?next=/settings/", {"password": f"guess {number}"})
    cache.clear()
    answer = client.post("/again/?next=/settings/", {"password": PASSWORD})
    assert answer.status_code == 200
    assert "Too many attempts" in answer.content.decode()


def test_the_apps_secret_is_no_plain_text_in_the_database(mia: User) -> None:
    secret, recovery = switched_on(mia)
    kept = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in kept
    assert recovery[0] not in kept


def test_rest_wants_the_code_too(mia: User) -> None:
    secret, _ = switched_on(mia)

    def login(**more: str) -> Any:
        body = {"username": "mia", "password": PASSWORD, **more}
        return Client().post("/api/v1/login", body, content_type="application/json")

    asked = login()
    assert (asked.status_code, asked.json()["code"], asked.json()["errors"][0]["field"]) == (401, "CodeNeeded", "code")
    assert login(code="000000").json()["code"] == "CodeWrong"
    wrong = login(code=code(secret), password="another one")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "NotSignedIn")
    assert login(code=code(secret)).status_code == 201
    assert login(code=code(secret)).json()["code"] == "CodeWrong"  # used up


def test_somebody_switches_it_on_after_giving_the_password_again_and_off(mia: User) -> None:
    client = Client()
    password(client)
    asked = client.get("/two-steps/on/")
    assert asked["Location"].startswith("/again/")
    client.post(asked["Location"], {"password": PASSWORD})
    page = client.get("/two-steps/on/")
    secret = page.context["form"].secret
    assert client.get("/two-steps/picture.svg")["Content-Type"] == "image/svg+xml"
    assert client.post("/two-steps/on/", {"code": code(secret)})["Location"] == "/two-steps/codes/"
    shown = client.get("/two-steps/codes/").content.decode()
    assert RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).generate_codes()[0] in shown
    assert two_factor.is_on(mia)
    assert ">on<" in client.get("/settings/").content.decode()
    client.post("/two-steps/off/")
    assert not two_factor.is_on(mia)


def test_the_key_is_shown_to_nobody_without_the_password_again(mia: User) -> None:
    client = Client()
    password(client)
    assert client.get("/two-steps/picture.svg").status_code == 302
    assert Client().get("/two-steps/picture.svg").status_code == 302


def test_platform_admins_set_it_up_first_where_that_is_the_rule(mia: User, settings: Any) -> None:
    settings.ADMINS_NEED_TWO_STEPS = True
    client, bearer = Client(), {"Authorization": f"Bearer {tokens.create(user=mia, name='x').secret}"}
    password(client)
    assert is_in(client)  # not an admin
    User.objects.update(is_superuser=True)
    assert client.get("/")["Location"] == "/two-steps/on/"
    assert client.get("/admin/").status_code == 302
    assert client.get("/api/v1/me").status_code == 403
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401
    assert client.get("/settings/")["Location"] == "/two-steps/on/"
    switched_on(mia)
    assert client.get("/").status_code == 200
    assert Client().get("/api/v1/me", headers=bearer).status_code == 200


def test_a_platform_admin_takes_it_away_from_who_has_lost_everything(mia: User) -> None:
    switched_on(mia)
    two_factor.take_away(user=mia, actor="root")
    client = Client()
    password(client)
    assert is_in(client)
    assert Event.objects.get(kind="TwoStepsRemoved").actor == "root"
    assert not Token.objects.exists()


def denied() -> list[tuple[str, str, str]]:
    """(who, kind, outcome) of the newest row of the audit log."""
    return list(AuditEntry.objects.order_by("-number").values_list("actor", "kind", "outcome")[:1])


def test_a_failed_second_step_stands_in_the_audit_log_with_the_name(mia: User) -> None:
    secret, _ = switched_on(mia)
    client = Client()
    password(client)
    client.post("/two-steps/", {"code": "000000"})
    assert denied() == [("mia", "SecondStepFailed", "denied")]
    body = {"username": "mia", "password": PASSWORD, "code": "000000"}
    Client().post("/api/v1/login", body, content_type="application/json")
    assert denied() == [("mia", "SecondStepFailed", "denied")]
    client.post("/two-steps/", {"code": code(secret)})
    assert is_in(client)
    client.session["account_authentication_methods"] = []
    client.post("/again/code/", {"code": "000000"})
    assert denied() == [("mia", "ReauthenticationFailed", "denied")]


def test_a_failed_re_authentication_stands_in_the_audit_log_with_the_name(mia: User) -> None:
    client = Client()
    password(client)
    assert client.post("/again/", {"password": "wrong"}).status_code == 200
    assert denied() == [("mia", "ReauthenticationFailed", "denied")]
    client.post("/again/", {"password": PASSWORD})
    assert AuditEntry.objects.latest("number").outcome == "done"


def test_a_new_password_is_not_kept_while_the_own_one_is_asked_for(settings: Any) -> None:
    settings.REAUTHENTICATE = True
    User.objects.create_superuser("mia", password=PASSWORD)
    client = Client()
    password(client)
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": 0.0}]  # long ago
    session.save()
    given = {"username": "eve", "new_password": "typed for eve", "email": "", "is_active": "on"}
    answer = client.post("/admin/controlplane/user/add/", given)
    assert answer["Location"] == "/again/?next=%2Fadmin%2Fcontrolplane%2Fuser%2Fadd%2F"
    assert "typed for eve" not in str(dict(client.session))
    client.post(answer["Location"], {"password": PASSWORD})
    assert client.post("/admin/controlplane/user/add/", given).status_code == 302
    assert User.objects.filter(username="eve").exists()
