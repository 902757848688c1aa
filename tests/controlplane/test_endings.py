"""When sessions and tokens of a person end: with the second step, the password, a role; and who ends them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.core.cache import cache
from django.test import Client

from controlplane.models import AuditEntry, Event, GroupMapping, Membership, Role, Source, Team, User
from controlplane.queries.accounts import accounts as queries
from controlplane.services.accounts import groups, members, people, service_accounts, tokens, two_factor
from tests.controlplane.signed import NEW_PASSWORD, PASSWORD, bearer, browser


@pytest.fixture(autouse=True)
def _quick_passwords_and_no_failures_yet(settings: Any) -> Iterator[None]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    yield
    cache.clear()


# --- when they end ----------------------------------------------------------------------------


def enrol(client: Client) -> None:
    asked = client.get("/two-steps/on/")
    if asked.status_code == 302:
        client.post(asked["Location"], {"password": PASSWORD})
    secret = client.get("/two-steps/on/").context["form"].secret
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    assert client.post("/two-steps/on/", {"code": code}).status_code == 302


def changed(user: User, **values: Any) -> None:
    given = {"email": "", "is_active": True, "is_platform_admin": user.is_superuser, **values}
    people.change(user=user, actor="root", **given)


def unmapped(user: User, red: Team) -> None:
    groups.remove(mapping=GroupMapping.objects.get(), actor="root")


Ending = Callable[[User, Team], Any]
ENDINGS: dict[str, Ending] = {
    "another password": lambda user, red: changed(user, password="another long one"),
    "switched off": lambda user, red: changed(user, is_active=False),
    "no platform admin any more": lambda user, red: changed(user, is_platform_admin=False),
    "the second step is taken away": lambda user, red: two_factor.take_away(user=user, actor="root"),
    "out of a team": lambda user, red: members.remove(team=red, user=user, actor="root"),
    "a lower role": lambda user, red: members.save(team=red, user=user, role=Role.VIEWER, actor="root"),
    "the group's mapping is gone": unmapped,
    "the provider's groups say no admin": lambda user, red: people.set_platform_admin(
        user=user, is_platform_admin=False
    ),
}


@pytest.fixture
def mia(db: None) -> User:
    """A platform admin with a second step and a role by each door, as far as these go together."""
    user = User.objects.create_user("mia", password=PASSWORD, pk=1295)  # `zz`, as allauth writes it
    User.objects.create_user("root", is_superuser=True)
    return user


@pytest.mark.parametrize("ending", ENDINGS)
def test_sessions_and_personal_tokens_end_and_a_service_accounts_go_on(mia: User, ending: str) -> None:
    red = Team.objects.create(name="red")
    by_group = ending.startswith("the group")
    Membership.objects.create(user=mia, team=red, role=Role.MEMBER, source=Source.GROUPS if by_group else Source.HAND)
    if by_group:
        GroupMapping.objects.create(group="ml", team=red, role=Role.MEMBER)
        _of_provider(mia, "others")
    if "admin" in ending:
        User.objects.filter(pk=mia.pk).update(is_superuser=True, is_staff=True)
        mia.refresh_from_db()
    session = browser(mia)
    if "second step" in ending:
        TOTP.activate(mia, generate_totp_secret())
        RecoveryCodes.activate(mia)
    known = {"username": "mia", "password": PASSWORD, **_code(mia)}
    by_login = Client().post("/api/v1/login", known, content_type="application/json")
    token = Client(headers={"Authorization": f"Bearer {by_login.json()['token']}"})
    account = service_accounts.create(team=red, name="ci", role=Role.MEMBER, actor="root")
    robot = bearer(tokens.create(user=account, name="ci", issuer=mia))
    assert [client.get("/api/v1/me").status_code for client in (session, token, robot)] == [200, 200, 200]
    ENDINGS[ending](mia, red)
    assert [client.get("/api/v1/me").status_code for client in (session, token, robot)] == [401, 401, 200]


def _code(user: User) -> dict[str, str]:
    found = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).first()
    return {"code": RecoveryCodes(found).generate_codes()[0]} if found else {}


def _of_provider(user: User, *names: str) -> None:
    from allauth.socialaccount.models import SocialAccount

    SocialAccount.objects.create(user=user, provider="sso", uid="1", extra_data={"id_token": {"groups": list(names)}})


def test_setting_up_the_second_step_ends_all_but_the_session_that_did_it(
    mia: User, django_capture_on_commit_callbacks: Any
) -> None:
    here, there, token = browser(mia), browser(mia), bearer(tokens.create(user=mia, name="x"))
    with django_capture_on_commit_callbacks(execute=True):
        enrol(here)
    assert [client.get("/api/v1/me").status_code for client in (here, there, token)] == [200, 401, 401]
    assert set(Event.objects.values_list("kind", flat=True)) >= {"TwoStepsOn", "CredentialsEnded"}


@pytest.mark.parametrize("ending", ["another password", "a lower role", "switched off"])
def test_a_sign_in_that_waits_for_its_second_step_ends_as_a_session_does(mia: User, ending: str) -> None:
    """Whoever had typed the old password could else have gone on for a quarter of an hour."""
    red = Team.objects.create(name="red")
    Membership.objects.create(user=mia, team=red, role=Role.MEMBER)
    secret = generate_totp_secret()
    TOTP.activate(mia, secret)
    waiting = Client()
    assert waiting.post("/login/", {"username": "mia", "password": PASSWORD})["Location"] == "/two-steps/"
    assert queries.sessions(mia) == []  # nobody is signed in by it
    assert waiting.get("/two-steps/").status_code == 200
    ENDINGS[ending](mia, red)
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    assert waiting.post("/two-steps/", {"code": code})["Location"].startswith(("/accounts/login/", "/login/"))
    assert waiting.get("/api/v1/me").status_code == 401


# --- own password -----------------------------------------------------------------------------


def test_a_person_changes_the_own_password_and_all_else_ends(mia: User) -> None:
    here, there, token = browser(mia), browser(mia), bearer(tokens.create(user=mia, name="x"))
    answer = here.post("/settings/password", NEW_PASSWORD)
    assert answer.status_code == 302, answer.content.decode()
    assert [client.get("/api/v1/me").status_code for client in (here, there, token)] == [200, 401, 401]
    assert mia.username == here.get("/api/v1/me").json()["username"]
    assert Client().post("/login/", {"username": "mia", "password": "another long one"}).status_code == 302


@pytest.mark.parametrize(
    ("given", "field_", "said"),
    [
        ({"present": "wrong"}, "present", "not your present password"),
        ({"again": "other"}, "again", "Type the new password twice"),
        ({"password": "short", "again": "short"}, "password", "too short"),
        ({"password": PASSWORD, "again": PASSWORD}, "password", "Choose another one"),
    ],
)
def test_a_password_that_cannot_be_is_refused_at_its_field(
    mia: User, given: dict[str, str], field_: str, said: str
) -> None:
    client = browser(mia)
    answer = client.post("/settings/password", {**NEW_PASSWORD, **given})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert f'id="p-h-{field_}"' in answer.content.decode()
    assert Client().post("/login/", {"username": "mia", "password": PASSWORD}).status_code == 302


def test_the_present_password_cannot_be_guessed_by_who_found_an_open_browser(mia: User) -> None:
    client = browser(mia)
    answers = [
        client.post("/settings/password", {**NEW_PASSWORD, "present": f"guess {n}"}).status_code for n in range(11)
    ]
    assert answers == [422] * 10 + [429]
    assert client.post("/settings/password", NEW_PASSWORD).status_code == 429
    refused = AuditEntry.objects.filter(route="settings/password", kind="LoginFailed")
    assert set(refused.values_list("actor", "outcome")) == {("mia", "denied")}


def test_platform_admins_end_all_tokens_of_one_person(mia: User) -> None:
    root = User.objects.get(username="root")
    User.objects.filter(pk=root.pk).update(is_staff=True)
    theirs, own = bearer(tokens.create(user=mia, name="x")), bearer(tokens.create(user=root, name="x"))
    assert theirs.delete("/api/v1/users/mia/tokens").status_code == 403
    assert own.delete("/api/v1/users/nobody/tokens").status_code == 404
    answer = own.delete("/api/v1/users/mia/tokens")
    assert (answer.status_code, answer.json()) == (200, {"ended": 1})
    assert theirs.get("/api/v1/me").status_code == 401
    assert own.get("/api/v1/me").status_code == 200
