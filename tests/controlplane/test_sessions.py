"""Sessions: whose they are, when they run out, and how they end."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from controlplane.models import Membership, ProviderGrant, Role, Session, Team, User
from controlplane.outgoing import sealing
from controlplane.queries.accounts import viewers
from controlplane.security import sessions
from controlplane.security.sessions import BY_ITSELF
from controlplane.services.accounts import people, provider, tokens
from controlplane.services.errors import Refused
from controlplane.services.tenancy import teams

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def mia() -> User:
    return User.objects.create_user("mia", password=PASSWORD)


def signed_in(**headers: str) -> Client:
    client = Client(headers=headers)
    answer = client.post("/login/", {"username": "mia", "password": PASSWORD})
    assert answer.status_code == 302, answer.content.decode()
    return client


def is_in(client: Client) -> bool:
    return client.get("/api/v1/me").status_code == 200


def later(seconds: float) -> None:
    """Let so much time have passed for all sessions."""
    for one in Session.objects.all():
        gone = timedelta(seconds=seconds)
        one.seen_at, one.created_at, one.expire_date = one.seen_at - gone, one.created_at - gone, one.expire_date - gone
        one.save()


def test_a_session_knows_its_person_browser_and_address(mia: User) -> None:
    signed_in(user_agent="Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    session = Session.objects.get()
    assert (session.user, session.address) == (mia, "127.0.0.1")
    assert "Firefox" in session.agent


def test_the_key_is_another_after_signing_in_so_that_none_can_be_foisted(mia: User) -> None:
    client = Client()
    client.session["seen"] = True
    store = client.session
    store["seen"] = True
    store.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = store.session_key
    client.post("/login/", {"username": "mia", "password": PASSWORD})
    assert is_in(client)
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != store.session_key
    assert not Session.objects.filter(pk=store.session_key).exists()


def test_who_does_nothing_for_two_hours_is_signed_out(mia: User) -> None:
    client = signed_in()
    later(settings.SESSION_IDLE_SECONDS - 60)
    assert is_in(client)  # and that counts as doing something
    later(settings.SESSION_IDLE_SECONDS - 60)
    assert is_in(client)
    later(settings.SESSION_IDLE_SECONDS + 1)
    assert not is_in(client)


def test_what_an_open_page_fetches_by_itself_keeps_nobody_signed_in(mia: User) -> None:
    client = signed_in()
    later(settings.SESSION_IDLE_SECONDS - 60)
    assert client.get("/parts/waiting-count", headers={BY_ITSELF: "1"}).status_code == 200
    later(61)
    assert not is_in(client)


def test_nobody_stays_signed_in_longer_than_half_a_day_whatever_they_do(mia: User) -> None:
    client = signed_in()
    for _ in range(settings.SESSION_COOKIE_AGE // 3600 - 1):
        later(3600)
        assert is_in(client)
    session = client.session  # saving it does not lengthen it
    session["more"] = 1
    session.save()
    later(3601)
    assert not is_in(client)


def test_sessions_that_have_run_out_are_forgotten(mia: User) -> None:
    signed_in()
    signed_in()
    Session.objects.update(seen_at=timezone.now() - timedelta(seconds=settings.SESSION_IDLE_SECONDS + 1))
    live = signed_in()
    sessions.prune()
    assert Session.objects.count() == 1
    assert is_in(live)


def test_somebody_signs_out_everywhere_else(mia: User) -> None:
    here, there = signed_in(), signed_in()
    assert here.post("/settings/sessions/end").status_code == 302
    assert is_in(here)
    assert not is_in(there)


def test_who_is_switched_off_loses_sessions_and_tokens_for_good(mia: User) -> None:
    client, token = signed_in(), tokens.create(user=mia, name="x")
    for is_active in (False, True):
        people.change(user=mia, email="", is_active=is_active, is_platform_admin=False, actor="root")
        assert not is_in(client)
        assert tokens.owner(token.secret) is None


class Request:
    """As much of a request as tells who watches."""

    def __init__(self, client: Client, user: User) -> None:
        self.session, self.user = client.session, user


def test_a_viewer_is_gone_when_session_account_or_role_ends(mia: User) -> None:
    red = Team.objects.create(name="red")
    membership = Membership.objects.create(user=mia, team=red, role=Role.MEMBER)
    client = signed_in()
    one = viewers.viewer(Request(client, mia))
    assert viewers.gone([one]) == set()
    Membership.objects.filter(pk=membership.pk).update(role=Role.VIEWER)
    assert viewers.gone([one]) == {one}
    Membership.objects.filter(pk=membership.pk).update(role=Role.MEMBER)
    User.objects.update(is_active=False)
    assert viewers.gone([one]) == {one}
    User.objects.update(is_active=True)
    assert viewers.gone([one]) == set()
    later(settings.SESSION_IDLE_SECONDS + 1)
    assert viewers.gone([one]) == {one}
    Session.objects.all().delete()
    assert viewers.gone([one]) == {one}


def test_a_viewer_is_gone_when_a_team_moves_into_or_out_of_what_the_roles_reach(mia: User) -> None:
    top, red, blue = (Team.objects.create(name=name) for name in ("top", "red", "blue"))
    teams.move(team=red, parent=top, actor="root")
    Membership.objects.create(user=mia, team=top, role=Role.VIEWER)
    client = signed_in()
    one = viewers.viewer(Request(client, mia))
    mia.via = tokens.create(user=mia, name="x", team=red).token
    bound = viewers.viewer(Request(client, mia))
    teams.move(team=blue, parent=None, actor="root")
    assert viewers.gone([one, bound]) == set()
    teams.move(team=red, parent=None, actor="root")
    assert viewers.gone([one]) == {one}
    teams.move(team=red, parent=top, actor="root")
    assert viewers.gone([one]) == set()
    teams.move(team=blue, parent=red, actor="root")
    assert viewers.gone([one, bound]) == {one, bound}


def test_a_viewer_by_token_is_gone_with_the_token(mia: User) -> None:
    issued = tokens.create(user=mia, name="x")
    mia.via = issued.token
    one = viewers.viewer(Request(Client(), mia))
    assert viewers.gone([one]) == set()
    tokens.revoke(user=mia, pk=issued.token.pk)
    assert viewers.gone([one]) == {one}


def test_looking_who_may_still_watch_takes_five_statements_however_many_there_are(
    mia: User, django_assert_num_queries: Any
) -> None:
    watching = [viewers.viewer(Request(signed_in(), mia)) for _ in range(3)]
    mia.via = tokens.create(user=mia, name="x").token
    watching.append(viewers.viewer(Request(Client(), mia)))
    with django_assert_num_queries(5):
        assert viewers.gone(watching) == set()


def test_the_provider_is_asked_by_its_newest_token_and_by_the_old_one_where_it_gave_none(mia: User) -> None:
    provider.signed_in(user=mia, token="one")
    grant = ProviderGrant.objects.get()
    long_ago = grant.checked_at - timedelta(hours=25)
    for given, kept in (("", "one"), ("two", "two"), ("", "two")):
        ProviderGrant.objects.update(checked_at=long_ago, tried_at=long_ago)
        (one,) = provider.due(9)
        assert not list(provider.due(9))  # it is claimed
        provider.known(one=one, token=given)
        grant.refresh_from_db()
        assert (sealing.opened(grant.sealed_token), grant.checked_at > long_ago) == (kept, True)


def test_a_token_lives_longer_than_no_time_and_no_longer_than_it_may(mia: User) -> None:
    for lifetime in (timedelta(0), tokens.MAX_LIFETIME + timedelta(seconds=1)):
        with pytest.raises(Refused, match="expires_in must be from 1m"):
            tokens.create(user=mia, name="ci", lifetime=lifetime)
    made = tokens.create(user=mia, name="ci", lifetime=tokens.MAX_LIFETIME).token
    assert made.expires_at - made.created_at == tokens.MAX_LIFETIME
