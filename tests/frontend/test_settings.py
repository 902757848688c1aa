"""Settings, the people of a team, and service accounts, on the pages: the same rules as REST's."""

import pytest
from django.test import Client

from controlplane.models import Event, Membership, Token, User
from controlplane.services.accounts import tokens
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

TOKEN = {"name": "laptop", "scope": "submit", "expires_in": "30", "team": ""}


def test_a_token_is_made_shown_once_and_revoked(bare: World, visit: Visit) -> None:
    client = visit("mel")
    page = client.post("/settings/tokens", TOKEN)
    assert page.status_code == 200
    secret = page.context["issued"].secret
    assert secret in page.content.decode()
    assert page["Cache-Control"] == "no-store"
    assert secret not in client.get("/settings/").content.decode()
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/me", headers=bearer).json()["token"]["scope"] == "submit"
    token = Token.objects.get()
    asked = client.get(f"/settings/tokens/{token.pk}/revoke").content.decode()
    assert "Revoke laptop?" in asked
    assert Token.objects.exists()
    client.post(f"/settings/tokens/{token.pk}/revoke")
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401


@pytest.mark.parametrize(
    ("field", "typed"),
    [("name", ""), ("name", "x" * 81), ("scope", "all"), ("expires_in", "9999"), ("team", "search"), ("team", "zz")],
)
def test_a_token_that_cannot_be_is_told_at_its_field(bare: World, visit: Visit, field: str, typed: str) -> None:
    answer = visit("mel").post("/settings/tokens", TOKEN | {field: typed})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Token.objects.exists()


def test_nobody_sees_or_revokes_anothers_token(bare: World, visit: Visit) -> None:
    other = tokens.create(user=bare.people["ada"], name="adas").token
    assert "adas" not in visit("mel").get("/settings/").content.decode()
    for method in ("get", "post"):
        assert getattr(visit("mel"), method)(f"/settings/tokens/{other.pk}/revoke").status_code == 404
    assert Token.objects.filter(pk=other.pk).exists()


def test_an_admin_of_the_team_lets_people_in_and_out(bare: World, visit: Visit) -> None:
    client, out = visit("ada"), bare.people["out"]
    assert "Add a person" in client.get("/teams/nlp/people/").content.decode()
    client.post("/teams/nlp/people/save", {"username": "out", "role": "member"})
    assert Membership.objects.get(user=out, team__name="nlp").role == "member"
    assert "Remove out from nlp?" in client.get("/teams/nlp/people/out/remove").content.decode()
    client.post("/teams/nlp/people/out/remove")
    assert not Membership.objects.filter(user=out, team__name="nlp").exists()
    told = Event.objects.filter(team="nlp", kind__startswith="Member").order_by("id").values_list("kind", "actor")
    assert list(told) == [("MemberAdded", "ada"), ("MemberRemoved", "ada")]


@pytest.mark.parametrize(
    ("username", "role", "said"),
    [
        ("nobody", "member", "There is no user nobody."),
        ("mel", "owner", "Choose a role."),
        ("ada", "viewer", "last admin"),
    ],
)
def test_what_cannot_be_is_said_on_the_page(bare: World, visit: Visit, username: str, role: str, said: str) -> None:
    answer = visit("ada").post("/teams/nlp/people/save", {"username": username, "role": role})
    assert answer.status_code in (409, 422)
    assert said in answer.content.decode()
    assert Membership.objects.get(user=bare.people["ada"]).role == "admin"


@pytest.mark.parametrize(("who", "status"), [("mel", 403), ("vic", 403), ("out", 404)])
def test_who_may_not_change_the_team_looks_at_most(bare: World, visit: Visit, who: str, status: int) -> None:
    client, account = visit(who), "/teams/nlp/service-accounts/"
    assert client.get("/teams/nlp/people/").status_code == (200 if status == 403 else 404)
    assert client.post("/teams/nlp/people/save", {"username": "out", "role": "admin"}).status_code == status
    assert client.post("/teams/nlp/people/vic/remove").status_code == status
    assert client.post(account, {"name": "ci", "role": "admin"}).status_code == status
    made = User.objects.create(username="nlp/ci", service_of=bare.teams["nlp"])
    for path in (f"{account}{made.pk}/", f"{account}{made.pk}/end"):
        assert client.get(path).status_code == status
        assert client.post(path, TOKEN).status_code == status
    assert User.objects.get(pk=made.pk).is_active


def test_a_service_account_is_made_gets_a_token_and_ends(bare: World, visit: Visit) -> None:
    client = visit("ada")
    there = client.post("/teams/nlp/service-accounts/", {"name": "ci", "role": "member"})["Location"]
    page = client.post(there, TOKEN)
    bearer = {"Authorization": f"Bearer {page.context['issued'].secret}"}
    assert Client().get("/api/v1/me", headers=bearer).json()["username"] == "nlp/ci"
    assert "nlp/ci" in client.get("/teams/nlp/people/").content.decode()
    token = Token.objects.get(name="laptop")
    client.post(f"{there}tokens/{token.pk}/revoke")
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401
    client.post(f"{there}end")
    assert "Closed nlp/ci." in client.get("/teams/nlp/people/").content.decode()
    assert client.get(there).status_code == 404
    assert "nlp/ci" not in client.get("/teams/nlp/people/").content.decode()


def test_a_service_account_of_another_team_is_not_found_under_ones_own(bare: World, visit: Visit) -> None:
    other = User.objects.create(username="search/ci", service_of=bare.teams["search"])
    assert visit("ada").get(f"/teams/nlp/service-accounts/{other.pk}/").status_code == 404


def test_odd_names_are_text_and_nothing_else(bare: World, visit: Visit) -> None:
    User.objects.create(username="<script>alert(1)</script>")
    for username in ("<script>alert(1)</script>", "a\x00b", "x" * 10_000, "é"):
        answer = visit("ada").post("/teams/nlp/people/save", {"username": username, "role": "member"})
        assert answer.status_code in (302, 422)
        assert "<script>alert" not in visit("ada").get("/teams/nlp/people/").content.decode()
