"""Every route x method x role: the table below is written by hand, the routes come from the URLconf."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, get_resolver

from controlplane.api import urls
from controlplane.models import Delivery, Membership, Role, Team, User, Workload
from controlplane.queries.accounts import access
from controlplane.services.accounts import groups, service_accounts, tokens
from controlplane.services.notifications import subscriptions, webhooks
from controlplane.services.scheduling.clock import database_now
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job

ROLES = ("nobody", "outsider", "blue_member", "blue_admin", "viewer", "member", "admin", "platform")
OPEN = dict.fromkeys(ROLES, 200)
SIGNED_IN = OPEN | {"nobody": 401}
OF_TEAM_RED = SIGNED_IN | dict.fromkeys(("outsider", "blue_member", "blue_admin"), 404)
MEMBERS = OF_TEAM_RED | {"viewer": 403}
SUBMITTER_OR_ADMIN = MEMBERS  # the workload is the member's own; others are tried below
PLATFORM = dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 200}


def created(expected: dict[str, int], status: int = 201) -> dict[str, int]:
    return {role: status if code == 200 else code for role, code in expected.items()}


NOT_OF_THIS_TYPE = dict.fromkeys(ROLES, 404) | {"nobody": 401}
DETAILS = ("decisions", "eta", "metrics", "pods", "allocations", "cost")
NOTEBOOK = {"name": "new", "team": "red", "resources": {"gpus": 1}}
ADMINS = MEMBERS | {"member": 403}
NOTHING_TO_TAKE_BACK = {role: 409 if status == 200 else status for role, status in MEMBERS.items()}
HIDDEN = ADMINS | {"viewer": 404, "member": 404}  # what only those who manage the team know of
WEBHOOK = {"team": "red", "name": "new", "url": "https://hooks.example.test/", "event_types": ["ended"]}
QUOTA = {"nominal_milli": 4000}
BUDGET = {"gpu_hours": 100, "is_hard": True}
TEMPLATE: dict[str, Any] = {"name": "small", "team": "red", "job": {"type": "training", "resources": {"gpus": 1}}}
NOT_THERE = dict.fromkeys(ROLES, 404) | {"nobody": 401}  # who sees which template: test_personal.py
# (method, route) -> (what to send, who gets what). UID is a workload of team red, submitted by its member.
MATRIX: dict[tuple[str, str], tuple[Any, dict[str, int]]] = {
    ("POST", "login"): ({"username": "none", "password": "wrong"}, dict.fromkeys(ROLES, 401)),
    ("GET", "me"): (None, SIGNED_IN),
    ("GET", "tokens"): (None, SIGNED_IN),
    ("POST", "tokens"): ({"name": "ci"}, created(SIGNED_IN)),
    ("DELETE", "tokens/TOKEN"): (None, dict.fromkeys(ROLES, 404) | {"nobody": 401, "member": 204}),
    ("GET", "teams/red/members"): (None, OF_TEAM_RED),
    ("PUT", "teams/red/members/mia"): ({"role": "viewer"}, ADMINS),
    ("DELETE", "teams/red/members/mia"): (None, created(ADMINS, 204)),
    ("GET", "service-accounts"): (None, SIGNED_IN),
    ("POST", "service-accounts"): ({"team": "red", "name": "ci"}, created(ADMINS)),
    ("GET", "service-accounts/ACCOUNT"): (None, HIDDEN),
    ("PATCH", "service-accounts/ACCOUNT"): ({"role": "viewer"}, HIDDEN),
    ("DELETE", "service-accounts/ACCOUNT"): (None, created(HIDDEN, 204)),
    ("GET", "service-accounts/ACCOUNT/tokens"): (None, HIDDEN),
    ("POST", "service-accounts/ACCOUNT/tokens"): ({"name": "ci"}, created(HIDDEN)),
    ("DELETE", "service-accounts/ACCOUNT/tokens/KEY"): (None, created(HIDDEN, 204)),
    ("DELETE", "users/mia/tokens"): (None, PLATFORM),
    ("GET", "group-mappings"): (None, PLATFORM),
    ("POST", "group-mappings"): ({"group": "new", "team": "red"}, created(PLATFORM)),
    ("PATCH", "group-mappings/MAPPING"): ({"role": "viewer"}, PLATFORM),
    ("DELETE", "group-mappings/MAPPING"): (None, created(PLATFORM, 204)),
    ("GET", "workloads"): (None, SIGNED_IN),
    ("POST", "workloads"): (job("new"), created(MEMBERS)),
    ("POST", "workloads:batch"): ([job("new")], created(MEMBERS)),
    # Who may act on which is said of each: test_actions.py
    ("POST", "workloads:act"): ({"verb": "stop", "uids": ["00000000-0000-4000-8000-000000000000"]}, SIGNED_IN),
    ("POST", "workloads:apply"): (job("new"), MEMBERS),
    ("POST", "workloads:diff"): (job("new"), OF_TEAM_RED),
    ("POST", "workloads:preview"): (job("new"), MEMBERS),
    ("GET", "workloads/UID"): (None, OF_TEAM_RED),
    ("PATCH", "workloads/UID"): ({"labels": {"a": "b"}}, SUBMITTER_OR_ADMIN),
    ("DELETE", "workloads/UID"): (None, MEMBERS),
    ("POST", "workloads/UID/suspend"): (None, MEMBERS),
    ("POST", "workloads/UID/resume"): (None, MEMBERS),
    ("POST", "workloads/UID/stop"): (None, MEMBERS),
    ("POST", "workloads/UID/requeue"): (None, MEMBERS),
    **dict.fromkeys(
        (("POST", "workloads/UID/suggestion"), ("POST", "workloads/UID/remedy")),
        (
            {"kind": "cpu", "after": 500},  # it starts as it is, which is said to those who might
            {role: 409 if code == 200 else code for role, code in SUBMITTER_OR_ADMIN.items()},
        ),
    ),
    ("GET", "workloads/UID/events"): (None, OF_TEAM_RED),
    ("GET", "workloads/UID/explanation"): (None, OF_TEAM_RED),
    ("GET", "workloads/UID/logs"): (None, OF_TEAM_RED),
    ("GET", "workloads/UID/placement"): (None, OF_TEAM_RED),
    **{("GET", f"workloads/UID/{name}"): (None, OF_TEAM_RED) for name in DETAILS},
    ("POST", "workloads/UID/scale"): ({"count": 2}, SUBMITTER_OR_ADMIN),
    ("POST", "workloads/UID/priority"): ({"priority_class": "high"}, SUBMITTER_OR_ADMIN),
    ("GET", "workloads/watch"): (None, SIGNED_IN),
    ("GET", "workloads/UID/watch"): (None, OF_TEAM_RED),
    ("GET", "trainings"): (None, SIGNED_IN),
    ("POST", "trainings"): (job("new"), created(MEMBERS)),
    ("GET", "trainings/UID"): (None, OF_TEAM_RED),
    ("GET", "trainings/UID/diagnosis"): (None, OF_TEAM_RED),
    ("GET", "trainings/UID/experiments"): (None, OF_TEAM_RED),
    ("PATCH", "trainings/UID"): ({"labels": {"a": "b"}}, SUBMITTER_OR_ADMIN),
    ("DELETE", "trainings/UID"): (None, MEMBERS),
    ("GET", "notebooks"): (None, SIGNED_IN),
    ("POST", "notebooks"): (NOTEBOOK, created(MEMBERS)),
    ("GET", "inferences"): (None, SIGNED_IN),
    ("POST", "inferences"): (job("new", type="inference"), created(MEMBERS)),
    # UID is a training
    **{
        (method, f"{kind}/UID"): ({} if method == "PATCH" else None, NOT_OF_THIS_TYPE)
        for kind in ("notebooks", "inferences")
        for method in ("GET", "PATCH", "DELETE")
    },
    **{
        ("GET", path): (None, NOT_OF_THIS_TYPE)
        for path in (
            "inferences/UID/slo",
            "inferences/UID/slo/price",
            "inferences/UID/autoscaling",
            "inferences/UID/revisions",
            "notebooks/UID/connect",
            "notebooks/UID/activity",
        )
    },
    ("POST", "inferences/UID/rollback"): (None, NOT_OF_THIS_TYPE),  # who may roll one back: test_revising.py
    ("POST", "notebooks/UID/extend"): (None, NOT_OF_THIS_TYPE),  # who may extend one: test_details.py
    ("GET", "gpus"): (None, SIGNED_IN),
    ("GET", "gpu-profiles"): (None, SIGNED_IN),
    ("GET", "topologies"): (None, SIGNED_IN),
    ("GET", "queue"): (None, SIGNED_IN),
    ("GET", "teams"): (None, SIGNED_IN),
    ("GET", "teams/red"): (None, OF_TEAM_RED),
    ("PATCH", "teams/red"): ({"shares_with_others": True}, ADMINS),
    ("POST", "trainings/UID/experiments/take-back"): (None, NOTHING_TO_TAKE_BACK),
    ("GET", "teams/red/quotas"): (None, OF_TEAM_RED),
    ("GET", "teams/red/quotas/main"): (None, OF_TEAM_RED),
    ("PUT", "teams/red/quotas/main"): (QUOTA, PLATFORM),
    ("PATCH", "teams/red/quotas/main"): (QUOTA, PLATFORM),
    ("GET", "teams/red/budgets"): (None, OF_TEAM_RED),
    ("GET", "teams/red/budgets/month"): (None, OF_TEAM_RED),
    ("PUT", "teams/red/budgets/month"): (BUDGET, PLATFORM),
    ("DELETE", "teams/red/budgets/month"): (None, created(PLATFORM, 204)),
    ("GET", "quotas"): (None, SIGNED_IN),
    ("GET", "shares"): (None, SIGNED_IN),
    ("GET", "priority-classes"): (None, SIGNED_IN),
    ("GET", "node-pools"): (None, SIGNED_IN),
    ("GET", "node-pools/main"): (None, SIGNED_IN),
    ("PATCH", "node-pools/main"): ({"takes": "shares"}, PLATFORM),
    ("GET", "nodes"): (None, SIGNED_IN),
    ("GET", "nodes/a"): (None, SIGNED_IN),
    ("GET", "nodes/a/slow-workers"): (None, SIGNED_IN),
    ("POST", "nodes/a/cordon"): (None, PLATFORM),
    ("POST", "nodes/a/uncordon"): (None, PLATFORM),
    ("POST", "nodes/a/drain"): (None, PLATFORM),
    ("GET", "usage"): (None, SIGNED_IN),
    ("GET", "reports/usage"): (None, SIGNED_IN),
    ("GET", "reports/slo"): (None, SIGNED_IN),
    ("GET", "reports/sla"): (None, SIGNED_IN),
    ("GET", "policies"): (None, SIGNED_IN),
    ("POST", "policies"): ({"scheduling": {"restart_seconds": 90}}, created(PLATFORM)),
    ("GET", "policies/0"): (None, SIGNED_IN),
    ("POST", "policies/0/restore"): (None, dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 422}),
    ("GET", "simulations"): (None, PLATFORM),
    ("POST", "simulations"): ({"policy": {"scheduling": {"policy": "fifo"}}}, created(PLATFORM)),
    ("GET", "simulations/0"): (None, dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 404}),
    ("DELETE", "simulations/0"): (None, dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 404}),
    ("GET", "simulations/0/results"): (None, dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 404}),
    ("POST", "simulations/0/apply"): (None, dict.fromkeys(ROLES, 403) | {"nobody": 401, "platform": 404}),
    ("GET", "audit-log"): (
        None,
        dict.fromkeys(ROLES, 403) | {"nobody": 401, "blue_admin": 200, "admin": 200, "platform": 200},
    ),
    ("GET", "templates"): (None, SIGNED_IN),
    ("POST", "templates"): (TEMPLATE, created(MEMBERS)),
    ("GET", "templates/0"): (None, NOT_THERE),
    ("PUT", "templates/0"): ({"job": TEMPLATE["job"]}, NOT_THERE),
    ("DELETE", "templates/0"): (None, NOT_THERE),
    ("GET", "views"): (None, SIGNED_IN),
    ("POST", "views"): ({"name": "mine", "query": "phase=waiting"}, created(SIGNED_IN)),
    ("DELETE", "views/0"): (None, NOT_THERE),
    ("GET", "search"): (None, SIGNED_IN),
    ("GET", "notices"): (None, SIGNED_IN),
    ("POST", "notices:read"): ({}, SIGNED_IN),
    ("GET", "notification-subscriptions"): (None, SIGNED_IN),
    ("POST", "notification-subscriptions"): ({"event_type": "ended", "team": "red"}, created(OF_TEAM_RED)),
    ("DELETE", "notification-subscriptions/RULE"): (None, dict.fromkeys(ROLES, 404) | {"nobody": 401, "member": 204}),
    ("GET", "notification-rules"): (None, SIGNED_IN),
    ("POST", "notification-rules"): ({"matter": "ended", "team": "red"}, created(OF_TEAM_RED)),
    ("DELETE", "notification-rules/RULE"): (None, dict.fromkeys(ROLES, 404) | {"nobody": 401, "member": 204}),
    ("GET", "webhooks"): (None, SIGNED_IN),
    ("POST", "webhooks"): (WEBHOOK, created(ADMINS)),
    ("GET", "webhooks/HOOK"): (None, ADMINS),
    ("PATCH", "webhooks/HOOK"): ({"name": "newer"}, ADMINS),
    ("DELETE", "webhooks/HOOK"): (None, created(ADMINS, 204)),
    ("POST", "webhooks/HOOK:secret"): ({}, ADMINS),
    ("POST", "webhooks/HOOK:test"): (None, created(ADMINS, 202)),
    ("GET", "webhooks/HOOK/deliveries"): (None, ADMINS),
    ("POST", "webhooks/HOOK/deliveries/DELIVERY:redeliver"): (None, created(ADMINS, 202)),
    ("GET", "cells"): (None, SIGNED_IN),
    ("GET", "cluster"): (None, SIGNED_IN),
}
EXAMPLES = {
    "<uuid:uid>": "UID",
    "service-accounts/<int:pk>/tokens/<int:number>": "service-accounts/ACCOUNT/tokens/KEY",
    "service-accounts/<int:pk>": "service-accounts/ACCOUNT",
    "group-mappings/<int:pk>": "group-mappings/MAPPING",
    "members/<str:username>": "members/mia",
    "users/<str:username>": "users/mia",
    "<int:number>": "0",
    "<int:pk>": "TOKEN",
    "<int:subscription>": "RULE",
    "<uuid:webhook>": "HOOK",
    "<uuid:delivery>": "DELIVERY",
    "<slug:pool>": "main",
    "<slug:period>": "month",
    "<slug:team>": "red",
}


def routes() -> Iterator[tuple[str, str]]:
    """Each method of each route of the URLconf, with an example for its parameters."""
    for pattern in urls.v1:
        route = str(pattern.pattern).replace("teams/<slug:name>", "teams/red").replace("nodes/<str:name>", "nodes/a")
        route = route.replace("node-pools/<slug:name>", "node-pools/main")
        for parameter, example in EXAMPLES.items():
            route = route.replace(parameter, example)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if hasattr(pattern.callback.view_class, method.lower()):
                yield method, route


def test_the_matrix_has_every_route_and_method_and_no_other() -> None:
    assert set(routes()) == set(MATRIX)


def test_every_address_under_api_is_a_route_of_the_matrix_or_open_to_all() -> None:
    def flat(patterns: Any, prefix: str = "") -> Iterator[str]:
        for one in patterns:
            if isinstance(one, URLPattern):
                yield prefix + str(one.pattern)
            else:
                yield from flat(one.url_patterns, prefix + str(one.pattern))

    under = {route for route in flat(get_resolver().url_patterns) if route.startswith("api/")}
    known = {f"api/v1/{pattern.pattern}" for pattern in urls.v1}
    assert under - known == {"api/v1/schema", "api/docs", r"api/^(?P<rest>[\s\S]*)$"}


@pytest.mark.parametrize(("method", "route"), MATRIX)
def test_each_role_gets_what_the_matrix_says(api: People, method: str, route: str) -> None:
    body, expected = MATRIX[method, route]
    uid = body_of(api.member.post("/workloads", job("live")), 201)["uid"]
    if route.endswith("resume"):
        body_of(api.member.post(f"/workloads/{uid}/suspend"))
    assert api.member.user is not None
    red = Team.objects.get(name="red")
    account = service_accounts.create(team=red, name="robot", role=Role.MEMBER, actor="ada")
    made: dict[str, Any] = {
        "UID": uid,
        "TOKEN": tokens.create(user=api.member.user, name="other").token.pk,
        "ACCOUNT": account.pk,
        "KEY": tokens.create(user=account, name="key").token.pk,
        "MAPPING": groups.save(group="people", team=red, role=Role.MEMBER, actor="root").pk,
        **(told(api) if route.startswith(("notification", "webhooks")) else {}),
    }
    path = f"/{route}"
    for word, value in made.items():
        path = path.replace(word, str(value))
    before = Workload.objects.values_list("phase", "version").get()
    for role in ROLES:
        with transaction.atomic():
            answer = getattr(api, role).send(method, path, body)
            assert (role, answer.status_code) == (role, expected[role]), answer.content.decode()
            if expected[role] >= 400:
                fields_of(answer, expected[role])
                assert Workload.objects.values_list("phase", "version").get() == before
            if role in ("nobody", "outsider", "blue_member", "blue_admin"):
                content = b"".join(answer)  # a stream has no `content`
                assert uid.encode() not in content
                assert b'"live"' not in content
            transaction.set_rollback(True)


def told(api: People) -> dict[str, str]:
    """A rule of the member's, a webhook of team red and one of its deliveries."""
    assert api.member.user is not None
    team, now = Team.objects.get(name="red"), database_now()
    rule = subscriptions.save(user=api.member.user, matter="slo", team=None)
    hook = webhooks.create(team=team, name="hook", url=WEBHOOK["url"], matters=["ended"], actor="ada").webhook  # type: ignore[arg-type]
    sent = Delivery.objects.create(webhook=hook, key="k", state="delivered", not_before=now, created_at=now)
    return {"RULE": str(rule.pk), "HOOK": str(hook.pk), "DELIVERY": str(sent.uid)}


def test_a_member_changes_own_workloads_and_an_admin_all_of_the_team(api: People) -> None:
    other = body_of(api.admin.post("/workloads", job("other")), 201)["uid"]
    change = {"labels": {"a": "b"}}
    fields_of(api.member.send("PATCH", f"/workloads/{other}", change), 403)
    body_of(api.member.post(f"/workloads/{other}/suspend"))
    mine = body_of(api.member.post("/workloads", job("mine")), 201)["uid"]
    body_of(api.admin.send("PATCH", f"/workloads/{mine}", change))
    body_of(api.platform.send("PATCH", f"/workloads/{mine}", change))


def test_who_submitted_and_left_the_team_sees_nothing_any_more(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job()), 201)["uid"]
    Membership.objects.filter(user=api.member.user).delete()
    fields_of(api.member.get(f"/workloads/{uid}"), 404)
    fields_of(api.member.send("PATCH", f"/workloads/{uid}", {"labels": {}}), 404)
    fields_of(api.member.post("/workloads", job("again")), 404)


def test_who_submitted_and_is_now_a_viewer_changes_nothing(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job()), 201)["uid"]
    Membership.objects.filter(user=api.member.user).update(role="viewer")
    fields_of(api.member.send("PATCH", f"/workloads/{uid}", {"labels": {}}), 403)


def test_a_role_holds_in_the_teams_below(api: People) -> None:
    Team.objects.create(name="red-below", parent=Team.objects.get(name="red"))
    uid = body_of(api.member.post("/workloads", job("deep", "red-below")), 201)["uid"]
    body_of(api.viewer.get(f"/workloads/{uid}"))
    fields_of(api.viewer.post(f"/workloads/{uid}/stop"), 403)
    fields_of(api.blue_admin.get(f"/workloads/{uid}"), 404)


def test_the_higher_of_two_roles_counts(db: None) -> None:
    above = Team.objects.create(name="above")
    below = Team.objects.create(name="below", parent=above)
    user = User.objects.create(username="mia")
    Membership.objects.create(user=user, team=above, role="admin")
    Membership.objects.create(user=user, team=below, role="viewer")
    assert access.roles(user) == {"above": "admin", "below": "admin"}
    Membership.objects.filter(team=above).update(role="viewer")
    Membership.objects.filter(team=below).update(role="member")
    assert access.roles(user) == {"above": "viewer", "below": "member"}
    assert access.can(user, "submit", "below")
    assert not access.can(user, "submit", "above")
    user.is_active = False
    assert not access.roles(user)


def test_teams_and_usage_show_only_what_is_yours(api: People) -> None:
    def names(who: Caller) -> list[str]:
        return [row["name"] for row in body_of(who.get("/teams"))["results"]]

    assert (names(api.viewer), names(api.blue_member), names(api.outsider)) == (["red"], ["blue"], [])
    assert names(api.platform) == ["blue", "red"]
    assert {row["team"] for row in body_of(api.viewer.get("/quotas"))["results"]} == {"red"}


def test_tenants_of_other_teams_stay_nameless_on_machines(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job("secret")), 201)["uid"]
    api.world.run(Workload.objects.get(pk=uid), "a")

    def tenant(who: Caller) -> Any:
        (found,) = (gpu["tenants"] for gpu in body_of(who.get("/nodes/a"))["gpus"] if gpu["tenants"])
        return found

    assert tenant(api.viewer) == [{"team": "red", "workload": uid, "name": "secret", "milli": 1000}]
    assert tenant(api.blue_admin) == [{"team": "red", "workload": None, "name": None, "milli": 1000}]
