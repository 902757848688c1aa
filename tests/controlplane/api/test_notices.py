"""Notices, rules and webhooks over REST."""

from typing import Any

import pytest

from controlplane.models import Delivery, Event, Notice, NotificationRule, Team, Webhook
from controlplane.services.scheduling.clock import database_now
from tests.controlplane.api.conftest import People, body_of, fields_of

HOOK = {"team": "red", "name": "on-call", "url": "https://hooks.example.test/weft", "event_types": ["ended", "budget"]}


def hook(api: People, **fields: Any) -> Any:
    return body_of(api.admin.post("/webhooks", {**HOOK, **fields}), 201)


def delivered(uid: str, **columns: Any) -> Delivery:
    now = database_now()
    given = {
        "key": "k",
        "matter": "ended",
        "body": "{}",
        "state": "delivered",
        "not_before": now,
        "created_at": now,
    }
    return Delivery.objects.create(webhook_id=uid, **{**given, **columns})


def test_a_webhook_shows_its_secret_once(api: People) -> None:
    made = hook(api)
    assert len(made["secret"]) >= 40
    assert (made["event_types"], made["is_active"], made["format"]) == (["budget", "ended"], True, "weft")
    for path in (f"/webhooks/{made['id']}", "/webhooks", f"/webhooks/{made['id']}/deliveries"):
        assert made["secret"] not in api.admin.get(path).content.decode()
    changed = body_of(api.admin.post(f"/webhooks/{made['id']}:secret", {}))
    assert changed["secret"] != made["secret"]


def test_a_secret_of_ones_own_is_taken_if_it_is_long_enough(api: People) -> None:
    assert hook(api, secret="sixteen or more!")["secret"] == "sixteen or more!"
    assert fields_of(api.admin.post("/webhooks", {**HOOK, "name": "b", "secret": "fifteen chars.."}), 422) == ["secret"]


@pytest.mark.parametrize(
    ("field", "status", "given"),
    [
        ("url", 422, {"url": "https://127.0.0.1/"}),
        ("url", 422, {"url": "http://hooks.example.test/"}),
        ("url", 400, {"url": ""}),
        ("event_types", 422, {"event_types": []}),
        ("event_types.0", 400, {"event_types": ["nonsense"]}),
        ("event_types", 400, {"event_types": ["ended", "ended"]}),
        ("format", 400, {"format": "xml"}),
        ("name", 400, {"name": "two\nlines"}),
    ],
)
def test_what_cannot_be_a_webhook_is_refused_with_its_field(
    api: People, field: str, status: int, given: dict[str, Any]
) -> None:
    assert fields_of(api.admin.post("/webhooks", {**HOOK, **given}), status) == [field]
    assert not Webhook.objects.exists()


def test_a_webhook_is_changed_under_the_version_that_was_seen(api: People) -> None:
    made = hook(api)
    path = f"/webhooks/{made['id']}"
    etag = api.admin.get(path)["ETag"]
    changed = body_of(api.admin.send("PATCH", path, {"event_types": ["slo"], "is_active": False}, if_match=etag))
    assert (changed["event_types"], changed["is_active"], changed["url"]) == (["slo"], False, HOOK["url"])
    assert api.admin.send("PATCH", path, {"name": "x"}, if_match=etag).status_code == 412
    assert api.admin.send("PATCH", path, {"url": "https://10.0.0.1/"}).status_code == 422
    assert api.admin.post(f"{path}:test").status_code == 409
    assert api.admin.send("DELETE", path).status_code == 204
    assert not NotificationRule.objects.exists()


def test_the_log_is_listed_with_each_try_and_sent_again_from(api: People) -> None:
    made = hook(api)
    entry = ["2026-01-01T00:00:00Z", 500, 12, "Answered 500"]
    one = delivered(made["id"], state="given-up", tries=8, log=[entry])
    [row] = body_of(api.admin.get(f"/webhooks/{made['id']}/deliveries?state=given-up"))["results"]
    assert row["log"] == [{"at": entry[0], "status": 500, "milliseconds": 12, "error": "Answered 500"}]
    again = body_of(api.admin.post(f"/webhooks/{made['id']}/deliveries/{one.uid}:redeliver"), 202)
    assert (again["state"], again["tries"]) == ("waiting", 0)
    assert api.admin.post(f"/webhooks/{made['id']}/deliveries/{one.uid}:redeliver").status_code == 409
    assert body_of(api.admin.get(f"/webhooks/{made['id']}/deliveries?state=given-up"))["results"] == []


def test_a_delivery_is_reached_by_its_own_webhook_only(api: People) -> None:
    one, other = hook(api), hook(api, name="other")
    sent = delivered(one["id"])
    assert api.admin.post(f"/webhooks/{other['id']}/deliveries/{sent.uid}:redeliver").status_code == 404


def test_an_admin_sees_the_webhooks_of_the_own_teams_only(api: People) -> None:
    hook(api)
    assert [row["name"] for row in body_of(api.admin.get("/webhooks"))["results"]] == ["on-call"]
    assert body_of(api.member.get("/webhooks"))["results"] == []
    assert body_of(api.blue_admin.get("/webhooks?team=red"))["results"] == []


def test_who_did_what_to_a_webhook_is_in_the_events_and_its_address_is_not(api: People) -> None:
    made = hook(api, url="https://hooks.example.test/secret-path")
    api.admin.send("PATCH", f"/webhooks/{made['id']}", {"url": "https://hooks.example.test/other-secret"})
    api.admin.post(f"/webhooks/{made['id']}:test")
    api.admin.send("DELETE", f"/webhooks/{made['id']}")
    events = list(Event.objects.filter(kind__startswith="Webhook").order_by("id"))
    assert [event.kind for event in events] == ["WebhookCreated", "WebhookChanged", "WebhookTested", "WebhookRemoved"]
    assert "secret" not in str([(event.message, event.data) for event in events])


def test_a_rule_is_saved_listed_and_taken_back(api: People) -> None:
    made = body_of(api.member.post("/notification-subscriptions", {"event_type": "ended"}), 201)
    assert (made["event_type"], made["team"], made["by_mail"]) == ("ended", None, False)
    again = body_of(api.member.post("/notification-subscriptions", {"event_type": "ended"}), 201)
    assert again["id"] == made["id"]
    team = body_of(api.member.post("/notification-subscriptions", {"event_type": "budget", "team": "red"}), 201)
    assert [row["id"] for row in body_of(api.member.get("/notification-subscriptions"))["results"]] == [
        made["id"],
        team["id"],
    ]
    assert body_of(api.viewer.get("/notification-subscriptions"))["results"] == []
    assert api.viewer.send("DELETE", f"/notification-subscriptions/{made['id']}").status_code == 404
    assert api.member.send("DELETE", f"/notification-subscriptions/{made['id']}").status_code == 204
    assert fields_of(api.member.post("/notification-subscriptions", {"event_type": "budget"}), 422) == ["team"]
    assert fields_of(api.member.post("/notification-subscriptions", {"event_type": "ended", "team": "blue"}), 404) == [
        ""
    ]


def test_notices_are_ones_own_and_marked_as_read(api: People) -> None:
    now = database_now()
    for caller in (api.member, api.viewer):
        for n in range(3):
            Notice.objects.create(
                user=caller.user, key=f"k{n}", matter="ended", team="red", title=f"job-{n} failed", cluster_at=0, at=now
            )
    rows = body_of(api.member.get("/notices?unread=true"))["results"]
    assert [row["title"] for row in rows] == ["job-2 failed", "job-1 failed", "job-0 failed"]
    others = list(Notice.objects.filter(user=api.viewer.user).values_list("pk", flat=True))
    assert body_of(api.member.post("/notices:read", {"ids": others})) == {"marked": 0}
    assert body_of(api.member.post("/notices:read", {"ids": [rows[0]["id"]]})) == {"marked": 1}
    assert body_of(api.member.post("/notices:read", {})) == {"marked": 2}
    assert body_of(api.member.get("/notices?unread=true"))["results"] == []
    assert Notice.objects.filter(user=api.viewer.user, read_at__isnull=True).count() == 3


def test_lists_go_by_pages(api: People) -> None:
    made = hook(api)
    for n in range(5):
        delivered(made["id"], key=f"k{n}")
    first = body_of(api.admin.get(f"/webhooks/{made['id']}/deliveries?page_size=3"))
    rest = body_of(api.admin.get(first["next"].partition("/api/v1")[2]))
    assert (len(first["results"]), len(rest["results"]), rest["next"]) == (3, 2, None)
    assert Team.objects.filter(name="red").exists()
