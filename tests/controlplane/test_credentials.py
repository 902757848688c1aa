"""The table of ways to a credential: whole, and what the running application does."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache
from django.test import Client

from controlplane.models import (
    AuditEntry,
    Membership,
    Notice,
    Role,
    Session,
    Team,
    Token,
    User,
    Webhook,
)
from controlplane.security import authorization, credentials
from controlplane.security.credentials import WAYS
from controlplane.services.accounts import endings, members, service_accounts, tokens
from controlplane.services.notifications import webhooks
from controlplane.services.scheduling.clock import database_now
from controlplane.services.tenancy import teams
from tests.controlplane import doors
from tests.controlplane.signed import NEW_PASSWORD, PASSWORD, bearer, browser

DOCS = Path(__file__).parents[2] / "docs" / "security.md"
DOOR = {door.partition(" ")[2]: way for way in WAYS for door in way.doors if not door.startswith("manage.py")}
# Addresses of the sign-in that give nothing.
GIVE_NOTHING = {"two-steps/off/", "accounts/login/", "accounts/inactive/", "accounts/settings/"}
# Where a credential comes from a library's view, or from one of ours that shows what it made.
OF_LIBRARIES = ("allauth.", "controlplane.signin.two_steps.picture")


# --- the table is whole -----------------------------------------------------------------------


def test_the_documents_show_the_table() -> None:
    assert "\n".join(credentials.markdown()) in DOCS.read_text()


def test_every_function_that_makes_a_secret_or_takes_one_for_a_sign_in_is_in_the_table() -> None:
    named = {name for way in WAYS for name in way.made_in} | set(credentials.NO_CREDENTIALS)
    assert doors.makers() | doors.services_that_make() <= named
    functions = {f"{name}.{function}" for name, module in doors.modules().items() for function in module.calls}
    assert named <= functions, "the table names functions that there are not"


def test_every_address_that_leads_to_such_a_function_is_a_door_of_the_table() -> None:
    wanted = frozenset(name for way in WAYS for name in way.made_in)
    assert doors.leading_to(wanted) <= DOOR.keys()


def test_every_address_of_signing_in_is_a_door_or_known_to_give_nothing() -> None:
    ours = {
        route.address for route in authorization.routes() if route.view.__module__ == "controlplane.signin.addresses"
    }
    assert len(ours) > 8
    assert ours <= DOOR.keys() | GIVE_NOTHING


def test_every_door_is_an_address_that_leads_to_a_credential() -> None:
    wanted = frozenset(name for way in WAYS for name in way.made_in)
    led = doors.leading_to(wanted)
    by_address = {route.address: route.view for route in authorization.routes()}
    for address in DOOR:
        assert address in by_address, address
        of_library = str(by_address[address].__doc__).startswith(OF_LIBRARIES)
        assert address in led or of_library or address.startswith("notices/unsubscribe/"), address


def test_a_function_that_makes_a_secret_by_itself_is_found() -> None:
    source = "from secrets import token_hex as made\nclass Key:\n    def new(self):\n        return made(8)\n"
    planted = doors.Module(source, "controlplane.planted")
    assert planted.calls["Key.new"] & doors.MAKERS == {"secrets.token_hex"}


# --- who gets one -----------------------------------------------------------------------------

NOBODY, UNENROLLED, UNENROLLED_TOKEN = "nobody", "session of an admin without the second step", "such an admin's token"
READ, SUBMIT, BOUND, ROBOT = "token that reads", "token that submits", "token of one team", "service account's token"
WHOLE, SESSION, ENROLLED = "whole token", "session", "session of an admin with the second step"
CALLERS = (NOBODY, UNENROLLED, UNENROLLED_TOKEN, READ, SUBMIT, BOUND, ROBOT, WHOLE, SESSION, ENROLLED)
BY_SESSION, BY_BOTH = {SESSION, ENROLLED}, {SESSION, ENROLLED, WHOLE}


@dataclass
class World:
    """Team red with ada, its admin, and what each caller signs in by."""

    red: Team
    ada: User
    account: User
    webhook: Webhook
    clients: dict[str, Client] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def _quick_passwords_and_no_failures_yet(settings: Any) -> Iterator[None]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def world(db: None, settings: Any) -> World:
    settings.ADMINS_NEED_TWO_STEPS = True
    red = Team.objects.create(name="red")
    ada = User.objects.create_user("ada", password=PASSWORD)
    root, ann = (User.objects.create_superuser(name, password=PASSWORD) for name in ("root", "ann"))
    Membership.objects.create(user=ada, team=red, role=Role.ADMIN)
    account = service_accounts.create(team=red, name="ci", role=Role.ADMIN, actor="ada")
    hook = webhooks.create(team=red, name="on-call", url="https://hooks.example.com/a", matters=["ended"], actor="ada")
    made = World(red, ada, account, hook.webhook)
    made.clients = {
        NOBODY: Client(),
        UNENROLLED: browser(root),
        UNENROLLED_TOKEN: bearer(tokens.create(user=root, name="old")),
        READ: bearer(tokens.create(user=ada, name="r", scope="read")),
        SUBMIT: bearer(tokens.create(user=ada, name="s", scope="submit")),
        BOUND: bearer(tokens.create(user=ada, name="b", team=red)),
        ROBOT: bearer(tokens.create(user=account, name="ci", issuer=ada)),
        WHOLE: bearer(tokens.create(user=ada, name="w")),
        SESSION: browser(ada),
        ENROLLED: browser(ann),
    }
    TOTP.activate(ann, generate_totp_secret())
    return made


def kept() -> set[str]:
    """Everything by which somebody could sign in, or which was given to somebody to be known by."""
    columns: tuple[tuple[Any, str], ...] = (
        (Token, "digest"), (User, "password"), (Webhook, "sealed_secret"), (Authenticator, "data"), (Session, "pk"),
    )  # fmt: skip
    found = {str(value) for model, name in columns for value in model.objects.values_list(name, flat=True)}
    return found | {name for name in User.objects.filter(service_of__isnull=False).values_list("username", flat=True)}


TOKEN_FORM = {"name": "more", "scope": "read", "expires_in": "7"}
HOOK = {"team": "red", "name": "second", "url": "https://hooks.example.com/b", "matters": ["ended"], "format": "weft"}
NEW_OF_ADA = {"new_password": "another long one", "is_active": "on"}
# (door, body, who gets something): all others get nothing, and leave all as it was.
ASKED: tuple[tuple[str, dict[str, Any], set[str]], ...] = (
    ("POST api/v1/tokens", {"name": "more"}, BY_BOTH),
    ("POST settings/tokens", TOKEN_FORM, BY_SESSION),
    ("POST api/v1/service-accounts", {"team": "red", "name": "more"}, BY_BOTH),
    ("POST teams/<str:team>/service-accounts/", {"name": "more", "role": "member"}, BY_SESSION),
    ("POST api/v1/service-accounts/<int:pk>/tokens", {"name": "more"}, BY_BOTH),
    ("POST teams/<str:team>/service-accounts/<int:pk>/", TOKEN_FORM, BY_SESSION),
    ("POST api/v1/webhooks", HOOK, BY_BOTH | {ROBOT}),
    ("POST api/v1/webhooks/<uuid:webhook>:secret", {}, BY_BOTH | {ROBOT}),
    ("POST settings/webhooks/", HOOK, BY_SESSION),
    ("POST settings/webhooks/<uuid:uid>/<slug:verb>", {}, BY_SESSION),
    ("POST settings/password", NEW_PASSWORD, BY_SESSION),
    ("POST admin/controlplane/user/add/", {"username": "eve", "new_password": PASSWORD, "email": ""}, {ENROLLED}),
    ("POST admin/controlplane/user/<path:object_id>/change/", NEW_OF_ADA, {ENROLLED}),
    ("GET two-steps/on/", {}, set()),  # the password once more first; see below
    ("POST two-steps/on/", {"code": "000000"}, set()),
    ("GET two-steps/picture.svg", {}, set()),
    ("GET two-steps/codes/", {}, set()),
    ("POST two-steps/codes/new/", {}, set()),
)  # fmt: skip
# Ways whose least is what one knows, not what one is signed in by: each has a test of its own below.
BY_KNOWING = {
    "session, by password", "session, with two factors", "session, by single sign-on", "token, by REST login",
    "re-authentication", "link that ends a rule's mails", "provider's refresh token",
    "first admin, people of the demo, installation's key",
    "ticket and cookie of a notebook's host",  # nothing is kept of it; tests/notebookproxy
}  # fmt: skip


def test_every_door_is_asked() -> None:
    asked = {door for door, _, _ in ASKED}
    missing = {door for way in WAYS if way.name not in BY_KNOWING for door in way.doors} - asked
    assert not missing
    assert {DOOR[door.partition(" ")[2]].name for door in asked} | BY_KNOWING == {way.name for way in WAYS}


@pytest.mark.parametrize(("door", "body", "enough"), ASKED, ids=[door for door, _, _ in ASKED])
def test_a_door_gives_to_who_has_the_least_that_the_table_names_and_to_nobody_else(
    world: World, door: str, body: dict[str, Any], enough: set[str]
) -> None:
    method, _, address = door.partition(" ")
    path = "/" + (
        address.replace("service-accounts/<int:pk>", f"service-accounts/{world.account.pk}")
        .replace("<str:team>", "red")
        .replace("<uuid:webhook>", str(world.webhook.pk))
        .replace("<uuid:uid>", str(world.webhook.pk))
        .replace("<slug:verb>", "secret")
        .replace("<path:object_id>", str(world.ada.pk))
    )
    assert "<" not in path
    as_json = {"content_type": "application/json"} if path.startswith("/api/") and method == "POST" else {}
    for number, caller in enumerate(sorted(CALLERS, key=lambda one: one in enough)):
        client, before = world.clients[caller], kept()
        given = {**body, "name": f"more-{number}"} if "name" in body else body
        answer = client.get(path) if method == "GET" else client.post(path, given, **as_json)
        got = bool(kept() - before)
        assert got == (caller in enough), (caller, answer.status_code, answer.content[:300])
        if caller == UNENROLLED:
            again = "/again/" if address in ("two-steps/on/", "two-steps/picture.svg") else "/two-steps/on/"
            assert answer.status_code == 403 or answer["Location"].startswith(again), answer["Location"]


def test_nothing_but_setting_it_up_is_open_to_an_admin_without_the_second_step(world: World) -> None:
    client, opened = world.clients[UNENROLLED], set()
    for route in authorization.routes():
        if route.address == "logout/":  # open, and then nobody is signed in
            continue
        path = "/" + route.address.removeprefix("/").replace("<slug:provider_id>", "sso")
        path = path.replace("<int:pk>", "1").replace("<uuid:uid>", str(world.webhook.pk)).replace("<str:team>", "red")
        for method in ("GET", "POST"):
            answer = client.generic(method, path)
            is_refused = answer.status_code == 403 and "EnrolmentNeeded" in answer.content.decode()
            if not is_refused and answer.get("Location") != "/two-steps/on/":
                opened.add(route.address)
    assert opened == {
        "healthz", "readyz", "metrics", "login/", "two-steps/", "two-steps/on/", "two-steps/picture.svg", "again/",
    }  # fmt: skip


def test_rest_login_gives_an_admin_without_the_second_step_nothing(world: World) -> None:
    before = Token.objects.count()
    answer = Client().post("/api/v1/login", {"username": "root", "password": PASSWORD}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "EnrolmentNeeded")
    assert Token.objects.count() == before
    assert AuditEntry.objects.latest("number").actor == "root"


# --- what a token makes -----------------------------------------------------------------------


def test_what_a_token_makes_does_not_outlive_it(world: World) -> None:
    own = Token.objects.get(name="w")
    soon = database_now() + timedelta(hours=2)
    Token.objects.filter(pk=own.pk).update(expires_at=soon)
    client = world.clients[WHOLE]
    for path in ("/api/v1/tokens", f"/api/v1/service-accounts/{world.account.pk}/tokens"):
        refused = client.post(path, {"name": "long", "expires_in": "7d"}, content_type="application/json")
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (403, "expires_in"), refused.json()
        shorter = client.post(path, {"name": "short", "expires_in": "1h"}, content_type="application/json")
        assert shorter.status_code == 201
        usual = client.post(path, {"name": "usual"}, content_type="application/json")
        assert Token.objects.get(pk=usual.json()["id"]).expires_at == Token.objects.get(pk=own.pk).expires_at


def test_a_token_that_is_revoked_takes_those_along_that_were_made_with_it(world: World) -> None:
    own = Token.objects.get(name="w")
    made = world.clients[WHOLE].post("/api/v1/tokens", {"name": "second"}, content_type="application/json").json()
    second = Client(headers={"Authorization": f"Bearer {made['token']}"})
    third = second.post("/api/v1/tokens", {"name": "third"}, content_type="application/json").json()
    assert third["name"] == "third"
    tokens.revoke(user=world.ada, pk=own.pk)
    assert second.get("/api/v1/me").status_code == 401
    assert not Token.objects.filter(name__in=("second", "third")).exists()
    assert Token.objects.filter(name="b").exists()


# --- a service account's tokens end with their maker's role ------------------------------------


def test_a_service_accounts_token_ends_some_days_after_its_makers_role_and_the_admins_are_told(
    world: World, settings: Any
) -> None:
    bea, robot = User.objects.create(username="bea"), world.clients[ROBOT]
    members.save(team=world.red, user=bea, role=Role.ADMIN, actor="ada")
    members.save(team=world.red, user=world.ada, role=Role.MEMBER, actor="bea")
    assert robot.get("/api/v1/me").status_code == 200
    (told,) = Notice.objects.all()
    assert told.user == bea
    assert "ci (weft_" in told.message
    token = Token.objects.get(user=world.account)
    assert token.expires_at - database_now() <= settings.SERVICE_TOKEN_NOTICE
    assert token.expires_at - database_now() > settings.SERVICE_TOKEN_NOTICE - timedelta(minutes=5)
    endings.of_makers(actor="loop")  # told once, whoever looks again
    assert Notice.objects.count() == 1
    Token.objects.update(expires_at=database_now() - timedelta(seconds=1))
    assert robot.get("/api/v1/me").status_code == 401


def test_the_token_brings_its_maker_nothing_back_once_the_role_has_ended(world: World) -> None:
    bea, robot = User.objects.create(username="bea"), world.clients[ROBOT]
    members.save(team=world.red, user=bea, role=Role.ADMIN, actor="ada")
    members.save(team=world.red, user=world.ada, role=Role.VIEWER, actor="bea")
    as_json = {"content_type": "application/json"}
    hook = f"/api/v1/webhooks/{world.webhook.pk}"
    tried = (
        robot.put("/api/v1/teams/red/members/ada", {"role": "admin"}, **as_json),
        robot.delete("/api/v1/teams/red/members/bea"),
        robot.post("/api/v1/webhooks", HOOK, **as_json),
        robot.patch(hook, {"url": "https://hooks.example.com/mine"}, **as_json),
        robot.post(f"{hook}:secret", {}, **as_json),
    )
    assert [answer.status_code for answer in tried] == [403] * len(tried)
    assert Membership.objects.get(user=world.ada).role == Role.VIEWER
    assert Webhook.objects.get().url == world.webhook.url
    me = robot.get("/api/v1/me").json()
    assert me["teams"] == [{"team": "red", "role": "member"}]  # what CI needs goes on until the end


# Who gives a right that is there for good: nobody by a token that is limited, or a service account's.
GIVING: tuple[tuple[str, str, dict[str, Any], set[str]], ...] = (
    ("PUT", "api/v1/teams/red/members/eve", {"role": "admin"}, {SESSION, WHOLE}),
    ("PATCH", "api/v1/service-accounts/{account}", {"role": "admin"}, {SESSION, WHOLE}),
    ("PATCH", "api/v1/webhooks/{webhook}", {"url": "https://hooks.example.com/c"}, {SESSION, WHOLE, ROBOT}),
)


@pytest.mark.parametrize(("method", "address", "body", "enough"), GIVING, ids=[row[1] for row in GIVING])
def test_what_gives_for_good_takes_all_of_somebodys_rights(
    world: World, method: str, address: str, body: dict[str, Any], enough: set[str]
) -> None:
    User.objects.create(username="eve")
    path = "/" + address.format(account=world.account.pk, webhook=world.webhook.pk)
    for caller in (NOBODY, UNENROLLED_TOKEN, READ, SUBMIT, BOUND, ROBOT, WHOLE, SESSION):
        answer = world.clients[caller].generic(method, path, json.dumps(body), content_type="application/json")
        assert (answer.status_code == 200) == (caller in enough), (caller, answer.status_code)


def test_a_maker_who_is_admin_from_above_stays_one_and_a_team_that_moves_away_takes_the_role(world: World) -> None:
    above, other = Team.objects.create(name="above"), Team.objects.create(name="other")
    teams.move(team=world.red, parent=above, actor="root")
    Membership.objects.filter(user=world.ada).update(team=above)
    bound = bearer(tokens.create(user=world.ada, name="bound", team=world.red))
    members.save(team=other, user=world.ada, role=Role.VIEWER, actor="root")
    assert not Notice.objects.exists()
    teams.move(team=world.red, parent=other, actor="root")
    assert Token.objects.get(user=world.account).told_at is not None
    assert bound.get("/api/v1/me").status_code == 200  # a viewer from above, still
    teams.move(team=world.red, parent=None, actor="root")
    assert bound.get("/api/v1/me").status_code == 401
