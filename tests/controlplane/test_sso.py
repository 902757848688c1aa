"""Signing in by the identity provider: a real one, over its own HTTP, with groups that become roles."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from controlplane.loops import notify
from controlplane.loops.pace import Pace
from controlplane.loops.wiring import simulated
from controlplane.models import Event, Membership, ProviderGrant, Role, Source, Team, Token, User
from controlplane.services.accounts import groups, members, tokens
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now
from tests.identity import IdentityProvider, http

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(identity: IdentityProvider, settings: Any) -> IdentityProvider:
    identity.configure(settings)
    for name in ("red", "blue"):
        Team.objects.create(name=name)
    return identity


def team(name: str) -> Team:
    return Team.objects.get(name=name)


def mapped(group: str, name: str, role: Role) -> Any:
    return groups.save(group=group, team=team(name), role=role, actor="root")


def begin(client: Client, **form: str) -> str:
    """Ask to sign in; the address at which the provider sends the browser back."""
    there = client.post("/sso/sso/login/", form)
    assert there.status_code == 302, there.content.decode()
    back = http().get(there["Location"], follow_redirects=False)
    assert back.status_code == 302, back.text
    return back.headers["Location"].removeprefix("http://testserver")


def sign_in(client: Client | None = None, **form: str) -> tuple[Client, Any]:
    client = client or Client()
    return client, client.get(begin(client, **form))


def roles(name: str) -> dict[str, tuple[str, str]]:
    found = Membership.objects.filter(user__username=name).select_related("team")
    return {one.team.name: (one.role, one.source) for one in found}


def test_who_signs_in_first_gets_an_account_and_the_roles_of_the_groups(provider: IdentityProvider) -> None:
    mapped("ml-people", "red", Role.MEMBER)
    mapped("ml-leads", "red", Role.ADMIN)
    mapped("others", "blue", Role.VIEWER)
    provider.person("mia", "ml-people", "ml-leads", "canteen", given_name="Mia", family_name="Meyer")
    client, answer = sign_in(next="/queue/")
    assert (answer.status_code, answer["Location"]) == (302, "/queue/")
    assert client.get("/api/v1/me").json()["username"] == "mia"
    user = User.objects.get(username="mia")
    assert (user.email, user.first_name, user.is_superuser) == ("mia@example.com", "Mia", False)
    assert not user.has_usable_password()
    assert roles("mia") == {"red": ("admin", "groups")}


def test_the_request_has_pkce_state_and_nonce_and_comes_back_here(provider: IdentityProvider) -> None:
    provider.person("mia")
    sign_in()
    (asked,) = provider.asked()
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert len(asked["code_challenge"]) == 43
    assert asked["state"]
    assert len(asked["nonce"]) == 32
    assert asked["redirect_uri"] == "http://testserver/sso/sso/callback/"
    assert "groups" in asked["scope"].split()


def test_roles_follow_the_groups_at_each_sign_in_and_those_by_hand_stay(provider: IdentityProvider) -> None:
    mapped("ml", "red", Role.MEMBER)
    provider.person("mia", "ml")
    sign_in()
    user = User.objects.get(username="mia")
    members.save(team=team("blue"), user=user, role=Role.VIEWER, actor="root")
    provider.person("mia")
    sign_in()
    assert roles("mia") == {"blue": ("viewer", "hand")}
    mapped("ml", "blue", Role.ADMIN)
    provider.person("mia", "ml")
    sign_in()
    assert roles("mia") == {"red": ("member", "groups"), "blue": ("viewer", "hand")}
    kinds = Event.objects.filter(team="red", kind__startswith="Member").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["MemberAdded", "MemberRemoved", "MemberAdded"]


def test_a_mapping_that_ends_takes_the_role_at_once_unless_another_group_gives_one(provider: IdentityProvider) -> None:
    first, _ = mapped("ml", "red", Role.ADMIN), mapped("guests", "red", Role.VIEWER)
    provider.person("mia", "ml", "guests")
    sign_in()
    provider.person("bob", "ml")
    sign_in()
    groups.remove(mapping=first, actor="root")
    assert roles("mia") == {"red": ("viewer", "groups")}
    assert roles("bob") == {}


def test_a_mapping_that_gives_less_takes_the_rest_at_once_with_sessions_and_tokens(provider: IdentityProvider) -> None:
    first = mapped("ml", "red", Role.ADMIN)
    provider.person("mia", "ml")
    client, _ = sign_in()
    assert client.get("/api/v1/me").status_code == 200
    groups.save(group="ml", team=first.team, role=Role.VIEWER, actor="root", mapping=first)
    assert roles("mia") == {"red": ("viewer", "groups")}
    assert client.get("/api/v1/me").status_code == 401
    sign_in()
    groups.save(group="others", team=first.team, role=Role.VIEWER, actor="root", mapping=first)
    assert roles("mia") == {}


def test_one_group_gives_one_role_in_a_team(provider: IdentityProvider) -> None:
    mapped("ml", "red", Role.MEMBER)
    with pytest.raises(Refused, match="mapped to red already"):
        mapped("ml", "red", Role.ADMIN)


def test_a_group_of_platform_admins_makes_and_unmakes_them(provider: IdentityProvider, settings: Any) -> None:
    settings.OIDC_ADMIN_GROUP = "platform"
    provider.person("mia", "platform")
    sign_in()
    assert User.objects.get(username="mia").is_superuser
    provider.person("mia")
    sign_in()
    assert not User.objects.get(username="mia").is_superuser


def test_a_name_that_somebody_has_here_is_not_taken_over(provider: IdentityProvider) -> None:
    User.objects.create_user("Mia", email="mia@example.com", password="a long password", is_superuser=True)
    provider.person("mia")
    client, _ = sign_in()
    me = client.get("/api/v1/me").json()
    assert (me["username"], me["is_platform_admin"]) == ("mia2", False)
    sign_in()  # the same person again is the same account
    assert User.objects.count() == 2


@pytest.mark.parametrize("name", ["../../root", "red/ci", "a b<script>", "é" * 300])
def test_odd_names_become_names(provider: IdentityProvider, name: str) -> None:
    provider.person("odd", preferred_username=name)
    client, _ = sign_in()
    username = client.get("/api/v1/me").json()["username"]
    assert "/" not in username
    assert "<" not in username
    assert len(username) <= 150


@pytest.mark.parametrize(
    "fault",
    ["signature", "none", "hmac", "kid", "issuer", "audience", "expired", "nonce", "no nonce", "absent"],
)
def test_an_id_token_that_is_not_the_providers_for_us_now_lets_nobody_in(
    provider: IdentityProvider, fault: str
) -> None:
    provider.person("mia")
    provider.fault(fault)
    client, answer = sign_in()
    assert answer.status_code == 403
    assert "Single sign-on did not work" in answer.content.decode()
    assert client.get("/api/v1/me").status_code == 401
    assert not User.objects.exists()


def test_a_refusal_at_the_provider_a_stolen_answer_and_one_given_twice_let_nobody_in(
    provider: IdentityProvider,
) -> None:
    _, answer = sign_in()  # nobody is there: access_denied
    assert answer.status_code == 403
    provider.person("mia")
    client = Client()
    back = begin(client)
    assert Client().get(back).status_code == 403  # another browser: it has no such state
    assert client.get(back).status_code == 302
    assert Client().get(back).status_code == 403
    assert User.objects.count() == 1


def test_who_is_switched_off_stays_out(provider: IdentityProvider) -> None:
    provider.person("mia")
    sign_in()
    User.objects.update(is_active=False)
    client, answer = sign_in()
    assert answer.status_code == 403
    assert "switched off" in answer.content.decode()
    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("wanted", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_the_way_back_leads_nowhere_else(provider: IdentityProvider, wanted: str) -> None:
    provider.person("mia")
    _, answer = sign_in(next=wanted)
    assert answer["Location"] == "/"


def test_signing_in_begins_by_post_and_only_at_a_provider_that_is_configured(
    provider: IdentityProvider, settings: Any
) -> None:
    assert Client().get("/sso/sso/login/").status_code == 405
    assert Client().post("/sso/other/login/").status_code == 404
    page = Client().get("/login/").content.decode()
    assert "Sign in with Example" in page
    settings.OIDC_ISSUER, settings.SOCIALACCOUNT_PROVIDERS = "", {}
    assert "Sign in with" not in Client().get("/login/").content.decode()
    assert Client().post("/sso/sso/login/").status_code == 404


def test_a_provider_that_does_not_answer_is_told_and_no_error(provider: IdentityProvider, settings: Any) -> None:
    provider.issuer = "http://127.0.0.1:9"
    provider.configure(settings)
    answer = Client().post("/sso/sso/login/")
    assert answer.status_code == 403
    assert "Single sign-on did not work" in answer.content.decode()


def test_membership_by_groups_is_marked_so(provider: IdentityProvider) -> None:
    mapped("ml", "red", Role.MEMBER)
    provider.person("mia", "ml")
    sign_in()
    assert Membership.objects.get().source == Source.GROUPS


# --- the provider is asked daily ----------------------------------------------------------------


def look() -> None:
    """A round of the loop, at whose time it is to ask."""
    wired = simulated(in_memory=True)
    wired.kept["provider pace"] = Pace(0.0, 0.0)
    notify.run_once(wired)


def a_day_later(days: float = 1.01) -> None:
    """Have so much time passed for all that is asked about, and a round of the loop."""
    gone = timedelta(days=days)
    for grant in ProviderGrant.objects.all():
        grant.checked_at, grant.tried_at = grant.checked_at - gone, grant.tried_at - gone
        grant.save()
    look()


def test_sessions_and_tokens_end_when_the_provider_drops_the_account_and_not_before(provider: IdentityProvider) -> None:
    clients = {}
    for name in ("mia", "bob"):
        provider.person(name)
        clients[name] = sign_in()[0]
        tokens.create(user=User.objects.get(username=name), name="x")
    for _ in range(2):  # each refresh token is good once
        a_day_later()
        assert [client.get("/api/v1/me").status_code for client in clients.values()] == [200, 200]
    provider.drop("mia")
    look()  # asked today already
    assert clients["mia"].get("/api/v1/me").status_code == 200
    a_day_later()
    assert {name: client.get("/api/v1/me").status_code for name, client in clients.items()} == {"mia": 401, "bob": 200}
    assert list(Token.objects.values_list("user__username", flat=True)) == ["bob"]
    assert Event.objects.get(kind="CredentialsEnded").data["why"] == "the identity provider dropped the account"


def test_a_provider_that_is_away_ends_nothing_for_a_week_and_then_all(provider: IdentityProvider) -> None:
    provider.person("mia")
    client, _ = sign_in()
    provider.fault("down")
    a_day_later()
    assert client.get("/api/v1/me").status_code == 200
    asked_at = ProviderGrant.objects.get().tried_at
    assert database_now() - asked_at < timedelta(minutes=1)
    a_day_later(6.5)
    assert client.get("/api/v1/me").status_code == 401
    provider.fault("")
    provider.person("mia")
    assert sign_in()[0].get("/api/v1/me").status_code == 200


def test_a_provider_without_refresh_tokens_has_people_sign_in_once_a_week(
    provider: IdentityProvider, settings: Any
) -> None:
    provider.fault("no refresh")
    provider.person("mia")
    client, _ = sign_in()
    ProviderGrant.objects.update(sealed_token="")
    a_day_later(6.9)
    assert client.get("/api/v1/me").status_code == 200
    a_day_later(0.2)
    assert client.get("/api/v1/me").status_code == 401


def test_the_refresh_token_is_no_plain_text_in_the_database(provider: IdentityProvider) -> None:
    provider.person("mia")
    sign_in()
    (grant,) = ProviderGrant.objects.all()
    assert len(grant.sealed_token) > 60
    assert grant.sealed_token.startswith("gAAAA")  # Fernet
