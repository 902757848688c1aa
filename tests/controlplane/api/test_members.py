"""Members, service accounts and what their tokens allow, over REST."""

from typing import Any

import pytest

from controlplane.models import Event, Membership, Role, Source, Team, Token, User
from controlplane.services.accounts import people, service_accounts, tokens
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job

MIA, ADA = "/teams/red/members/mia", "/teams/red/members/ada"


def members(who: Caller, team: str = "red") -> dict[str, str]:
    return {row["username"]: row["role"] for row in body_of(who.get(f"/teams/{team}/members"))["results"]}


def limited(who: Caller, scope: str, **more: Any) -> Caller:
    """The same person, by a token of a scope."""
    made = body_of(who.post("/tokens", {"name": "limited", "scope": scope, **more}), 201)
    return Caller(made["token"], who.user)


def robot(who: Caller, **fields: Any) -> tuple[Caller, dict[str, Any]]:
    """A service account of team red with a token."""
    made = body_of(who.post("/service-accounts", {"team": "red", "name": "ci", **fields}), 201)
    token = body_of(who.post(f"/service-accounts/{made['id']}/tokens", {"name": "actions"}), 201)
    return Caller(token["token"]), made


# --- members ----------------------------------------------------------------------------------


def test_a_team_admin_lets_people_in_changes_their_role_and_takes_them_out(api: People) -> None:
    otto = "/teams/red/members/otto"
    body_of(api.admin.send("PUT", otto, {"role": "viewer"}))
    assert members(api.outsider) == {"ada": "admin", "mia": "member", "otto": "viewer", "vera": "viewer"}
    fields_of(api.outsider.post("/workloads", job()), 403)
    body_of(api.admin.send("PUT", otto, {"role": "member"}))
    body_of(api.outsider.post("/workloads", job()), 201)
    body_of(api.admin.send("DELETE", otto), 204)
    fields_of(api.outsider.get("/me"), 401)  # the token was of somebody in red
    kinds = Event.objects.filter(team="red", actor="ada", kind__startswith="Member").order_by("id")
    assert list(kinds.values_list("kind", flat=True)) == ["MemberAdded", "MemberChanged", "MemberRemoved"]


def test_the_last_admin_of_a_team_cannot_go_by_accident(api: People) -> None:
    for method, body in (("DELETE", None), ("PUT", {"role": "member"})):
        answer = api.platform.send(method, ADA, body)
        assert fields_of(answer, 409) == ["username"]
        assert "the last admin of red" in answer.content.decode()
    body_of(api.admin.send("PUT", MIA, {"role": "admin"}))
    body_of(api.member.send("DELETE", ADA), 204)
    assert fields_of(api.member.send("DELETE", MIA), 409) == ["username"]


def test_neither_a_disabled_admin_nor_a_service_account_counts_as_another_admin(api: People) -> None:
    robot(api.admin, role="admin")
    body_of(api.admin.send("PUT", MIA, {"role": "admin"}))
    User.objects.filter(username="mia").update(is_active=False)
    assert fields_of(api.admin.send("DELETE", ADA), 409) == ["username"]
    body_of(api.admin.send("DELETE", MIA), 204)  # a disabled admin may go


def test_only_people_who_are_known_become_members(api: People) -> None:
    answer = api.admin.send("PUT", "/teams/red/members/nobody-yet", {"role": "member"})
    assert fields_of(answer, 422) == ["username"]
    assert fields_of(api.admin.send("PUT", MIA, {"role": "owner"})) == ["role"]
    fields_of(api.admin.send("DELETE", "/teams/red/members/otto"), 404)


def test_a_membership_from_a_group_is_not_ended_by_hand_but_may_be_taken_over(api: People) -> None:
    Membership.objects.filter(user=api.member.user).update(source=Source.GROUPS)
    answer = api.admin.send("DELETE", MIA)
    assert body_of(answer, 409)["code"] == "FromGroups"
    body_of(api.admin.send("PUT", MIA, {"role": "viewer"}))
    assert Membership.objects.get(user=api.member.user).source == Source.HAND


def test_a_role_that_ends_takes_the_persons_tokens_along(api: People) -> None:
    bound, free = limited(api.member, "submit", team="red"), limited(api.member, "submit")
    body_of(api.admin.send("DELETE", MIA), 204)
    fields_of(bound.get("/me"), 401)
    fields_of(free.get("/me"), 401)


# --- what a token allows ----------------------------------------------------------------------


def test_a_token_of_scope_read_looks_and_changes_nothing(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job("live")), 201)["uid"]
    reader = limited(api.member, "read")
    body_of(reader.get(f"/workloads/{uid}"))
    assert body_of(reader.get("/me"))["teams"] == [{"team": "red", "role": "viewer"}]
    for method, path, body in (
        ("POST", "/workloads", job()),
        ("DELETE", f"/workloads/{uid}", None),
        ("POST", "/tokens", {"name": "more"}),
        ("POST", f"/workloads/{uid}/stop", None),
    ):
        answer = reader.send(method, path, body)
        assert "scope is read" in body_of(answer, 403)["detail"], path


def test_a_token_of_scope_submit_works_with_workloads_and_manages_nothing(api: People) -> None:
    submitter = limited(api.admin, "submit")
    uid = body_of(submitter.post("/workloads", job("mine")), 201)["uid"]
    body_of(submitter.send("PATCH", f"/workloads/{uid}", {"labels": {"a": "b"}}))
    body_of(submitter.post(f"/workloads/{uid}/stop"))
    fields_of(submitter.send("PUT", MIA, {"role": "admin"}), 403)
    fields_of(submitter.post("/service-accounts", {"team": "red", "name": "ci"}), 403)


def test_a_token_of_one_team_is_of_use_there_and_below_only(api: People) -> None:
    assert api.member.user is not None
    blue, below = Team.objects.get(name="blue"), Team.objects.create(name="below", parent=Team.objects.get(name="red"))
    Membership.objects.create(user=api.member.user, team=blue, role=Role.ADMIN)
    bound = limited(api.member, "submit", team="red")
    body_of(bound.post("/workloads", job("here")), 201)
    body_of(bound.post("/workloads", job("deeper", below.name)), 201)
    fields_of(bound.post("/workloads", job("there", "blue")), 404)
    fields_of(bound.get("/teams/blue"), 404)
    assert [row["name"] for row in body_of(bound.get("/teams"))["results"]] == ["below", "red"]


@pytest.mark.parametrize("limit", [{"scope": "read"}, {"scope": "submit"}, {"scope": "admin", "team": "red"}])
def test_a_limited_token_of_a_platform_admin_is_no_platform_admin_and_makes_no_token(
    api: People, limit: dict[str, str]
) -> None:
    caller = limited(api.platform, **limit)
    assert body_of(caller.get("/me"))["is_platform_admin"] is False
    fields_of(caller.post("/nodes/a/cordon"), 403)
    fields_of(caller.get("/group-mappings"), 403)
    fields_of(caller.post("/tokens", {"name": "more"}), 403)


def test_a_limited_token_ends_itself_and_no_other(api: People) -> None:
    caller = limited(api.member, "submit")
    own = body_of(caller.get("/me"))["token"]["id"]
    other = Token.objects.get(user=api.member.user, name="test").pk
    fields_of(caller.send("DELETE", f"/tokens/{other}"), 403)
    body_of(caller.send("DELETE", f"/tokens/{own}"), 204)
    fields_of(caller.get("/me"), 401)


def test_a_token_is_bound_to_a_team_of_ones_own_only(api: People) -> None:
    for team in ("blue", "no-such-team"):
        answer = api.member.post("/tokens", {"name": "x", "team": team})
        assert fields_of(answer) == ["team"]
        assert f"You are in no team {team}." in answer.content.decode()


# --- service accounts -------------------------------------------------------------------------


def test_ci_submits_as_a_service_account_of_its_team(api: People) -> None:
    ci, made = robot(api.admin)
    assert (made["username"], made["team"], made["role"]) == ("red/ci", "red", "member")
    who = body_of(ci.get("/me"))
    assert (who["username"], who["service_account_of"], who["token"]["scope"]) == ("red/ci", "red", "submit")
    body_of(ci.post("/workloads", job("built")), 201)
    assert (
        Event.objects.filter(kind="Submitted", actor="red/ci").exists() or Event.objects.filter(actor="red/ci").exists()
    )
    fields_of(ci.post("/workloads", job("there", "blue")), 404)
    fields_of(ci.post("/tokens", {"name": "more"}), 403)


def test_a_service_account_cannot_sign_in_and_makes_no_tokens_even_as_an_admin(api: People) -> None:
    _, made = robot(api.admin, role="admin")
    account = User.objects.get(pk=made["id"])
    assert not account.has_usable_password()
    assert Caller().post("/login", {"username": "red/ci", "password": ""}).status_code in (400, 401)
    whole = Caller(tokens.create(user=account, name="whole").secret)
    fields_of(whole.post("/tokens", {"name": "more"}), 403)
    fields_of(whole.post(f"/service-accounts/{account.pk}/tokens", {"name": "more"}), 403)


def test_an_ended_service_account_is_out_at_once_and_its_work_stays(api: People) -> None:
    ci, made = robot(api.admin)
    uid = body_of(ci.post("/workloads", job("built")), 201)["uid"]
    body_of(api.admin.send("DELETE", f"/service-accounts/{made['id']}"), 204)
    fields_of(ci.get("/me"), 401)
    assert body_of(api.admin.get(f"/workloads/{uid}"))["name"] == "built"
    again = body_of(api.admin.post("/service-accounts", {"team": "red", "name": "ci"}), 201)
    assert again["id"] == made["id"]
    assert not Token.objects.filter(user_id=made["id"]).exists()


def test_service_accounts_have_names_of_their_own(api: People) -> None:
    robot(api.admin)
    assert fields_of(api.admin.post("/service-accounts", {"team": "red", "name": "ci"}), 409) == ["name"]
    assert fields_of(api.admin.post("/service-accounts", {"team": "red", "name": "../x"})) == ["name"]
    body_of(api.blue_admin.post("/service-accounts", {"team": "blue", "name": "ci"}), 201)
    fields_of(api.admin.post("/service-accounts", {"team": "blue", "name": "other"}), 404)


def test_the_role_of_a_service_account_can_change(api: People) -> None:
    ci, made = robot(api.admin)
    body_of(api.admin.send("PATCH", f"/service-accounts/{made['id']}", {"role": "viewer"}))
    fields_of(ci.post("/workloads", job()), 403)
    assert members(api.viewer)["red/ci"] == "viewer"


def test_a_service_account_becomes_no_member_of_another_team(api: People) -> None:
    robot(api.admin)
    answer = api.blue_admin.send("PUT", "/teams/blue/members/red%2Fci", {"role": "admin"})
    assert answer.status_code in (404, 422)


# --- switching off ----------------------------------------------------------------------------


def test_who_is_switched_off_and_on_again_has_to_sign_in_and_make_tokens_anew(api: People) -> None:
    user = api.member.user
    assert user is not None
    for is_active in (False, True):
        people.change(user=user, email="", is_active=is_active, is_platform_admin=False, actor="root")
        fields_of(api.member.get("/me"), 401)
    assert not Token.objects.filter(user=user).exists()


def test_a_service_account_gets_no_password_and_is_no_platform_admin(api: People) -> None:
    account = service_accounts.create(team=Team.objects.get(name="red"), name="ci", role=Role.MEMBER, actor="ada")
    for more in ({"password": "a long password"}, {"is_platform_admin": True}):
        given: dict[str, Any] = {"is_platform_admin": False, **more}
        with pytest.raises(people.Refused, match="is a service account"):
            people.change(user=account, email="", is_active=True, actor="root", **given)
