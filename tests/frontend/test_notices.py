"""The bell, the notices, what one is told of, and a team's webhooks with their log."""

import re
from typing import Any

import pytest

from controlplane.models import Delivery, Notice, NotificationRule, User, Webhook
from controlplane.outgoing import mail
from controlplane.services.notifications import subscriptions
from controlplane.services.scheduling.clock import database_now
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

pytestmark = pytest.mark.django_db
HOOK = {"name": "on-call", "url": "https://hooks.example.test/weft", "team": "nlp", "format": "weft", "secret": ""}


def notice(who: str, title: str, n: int = 0) -> Notice:
    user, now = User.objects.get(username=who), database_now()
    return Notice.objects.create(
        user=user, key=f"{title}{n}", matter="ended", team="nlp", title=title, cluster_at=0, at=now
    )


def added(visit: Visit, who: str = "ada", **given: Any) -> Webhook:
    answer = visit(who).post("/settings/webhooks/", {**HOOK, "event_types": ["ended"], **given})
    assert answer.status_code == 200, answer.content.decode()
    return Webhook.objects.get(name=given.get("name", "on-call"))


def bell(page: bytes) -> str:
    found = re.search(r'id="bell".*?</a>', page.decode(), re.S)
    assert found
    return re.sub(r"<[^>]+>", " ", found[0].partition(">")[2]).strip()


def test_the_bell_counts_what_the_viewer_has_not_read(bare: World, visit: Visit) -> None:
    for n in range(3):
        notice("mel", "job failed", n)
    notice("vic", "job failed")
    assert "3 unread" in bell(visit("mel").get("/").content)
    assert "unread" not in bell(visit("ada").get("/").content)
    assert "3 unread" in visit("mel").get("/notices/bell").content.decode()
    for n in range(200):
        notice("mel", "again", n)
    assert "99+ unread" in bell(visit("mel").get("/").content)


def test_notices_are_marked_as_read_one_or_all_and_only_ones_own(bare: World, visit: Visit) -> None:
    mine, other, vics = notice("mel", "first"), notice("mel", "second"), notice("vic", "third")
    mel = visit("mel")
    page = mel.get("/notices/").content.decode()
    assert page.index("second") < page.index("first")
    assert "third" not in page
    mel.post("/notices/read", {"notice": str(vics.pk)})
    mel.post("/notices/read", {"notice": str(mine.pk)})
    assert list(Notice.objects.filter(read_at__isnull=True).order_by("pk")) == [other, vics]
    assert "first" not in mel.get("/notices/?show=unread").content.decode()
    mel.post("/notices/read")
    assert list(Notice.objects.filter(read_at__isnull=True)) == [vics]


def test_a_long_list_goes_by_pages(bare: World, visit: Visit) -> None:
    for n in range(60):
        notice("mel", f"job-{n:02}.")
    page = visit("mel").get("/notices/").content.decode()
    assert "job-10." in page
    assert "job-09." not in page
    older = re.search(r"\?before=\d+", page)
    assert older
    assert "job-09." in visit("mel").get(f"/notices/{older[0]}").content.decode()


def test_whoever_is_told_of_nothing_yet_can_ask_for_the_usual(bare: World, visit: Visit) -> None:
    assert b"You have not chosen any notifications yet" in visit("mel").get("/notices/").content
    visit("mel").post("/notices/usual")
    found = set(NotificationRule.objects.filter(user__username="mel", team=None).values_list("matter", flat=True))
    assert found == {"ended", "preempted", "waits-long", "slo"}
    assert b"You have not chosen any notifications yet" not in visit("mel").get("/notices/").content


def test_rules_for_ones_own_work_are_changed_in_one_form(bare: World, visit: Visit) -> None:
    mel, address = visit("mel"), "/settings/notifications/"
    mel.post(address, {"ended": "pages", "slo": "pages"})
    assert set(NotificationRule.objects.values_list("matter", flat=True)) == {"ended", "slo"}
    mel.post(address, {"ended": "off", "slo": "pages"})
    assert set(NotificationRule.objects.values_list("matter", flat=True)) == {"slo"}
    assert b'<option value="pages" selected>' in mel.get(address).content


@pytest.mark.parametrize("key", ["event_type", "matter"])  # the second until 0.2
def test_a_team_is_added_and_removed_and_must_be_ones_own(bare: World, visit: Visit, key: str) -> None:
    mel, address = visit("mel"), "/settings/notifications/"
    mel.post(address, {"team": "nlp", key: "budget", "how": "pages"})
    one = NotificationRule.objects.get()
    assert (str(one.team), one.matter) == ("nlp", "budget")
    assert mel.post(address, {"team": "speech", "event_type": "budget"}).status_code == 422
    assert visit("vic").post(address, {"remove": str(one.pk)}).status_code == 404
    mel.post(address, {"remove": str(one.pk)})
    assert not NotificationRule.objects.exists()


def test_mail_is_offered_where_there_is_a_server_and_needs_an_address(bare: World, visit: Visit, settings: Any) -> None:
    mel, address = visit("mel"), "/settings/notifications/"
    assert b"by mail" not in mel.get(address).content
    settings.EMAIL_CONFIGURED = True
    assert b"by mail" in mel.get(address).content
    refused = mel.post(address, {"ended": "mail"})
    assert refused.status_code == 422
    assert b"no e-mail address" in refused.content
    User.objects.filter(username="mel").update(email="mel@example.test")
    mel.post(address, {"ended": "mail"})
    assert NotificationRule.objects.get().by_mail


def test_the_link_of_a_mail_stops_its_rule_without_signing_in(bare: World, visit: Visit, settings: Any) -> None:
    settings.EMAIL_CONFIGURED = True
    User.objects.filter(username="mel").update(email="mel@example.test")
    mel = User.objects.get(username="mel")
    one, other = (subscriptions.save(user=mel, matter=m, team=None, by_mail=True) for m in ("ended", "slo"))
    link = mail.unsubscription(one.pk)
    nobody = visit("")
    assert b"Unsubscribe" in nobody.get(link).content
    assert NotificationRule.objects.filter(by_mail=True).count() == 2  # programs that look at links stop nothing
    assert b"no more mails" in nobody.post(link, {"List-Unsubscribe": "One-Click"}).content
    assert NotificationRule.objects.get(by_mail=True) == other
    assert nobody.get(f"{link}x").status_code == 404
    assert NotificationRule.objects.count() == 2


@pytest.mark.parametrize("key", ["event_types", "matters"])  # the second until 0.2
def test_an_admin_of_a_team_adds_a_webhook_and_sees_its_secret_once(bare: World, visit: Visit, key: str) -> None:
    answer = visit("ada").post("/settings/webhooks/", {**HOOK, key: ["ended", "slo"]})
    found = re.search(r"whsec_[\w-]{40,}", answer.content.decode())
    assert found
    assert answer["Cache-Control"] == "no-store"
    one = Webhook.objects.get()
    assert set(one.rules.values_list("matter", flat=True)) == {"ended", "slo"}
    for page in ("/settings/webhooks/", f"/settings/webhooks/{one.pk}/"):
        content = visit("ada").get(page).content.decode()
        assert "on-call" in content
        assert found[0] not in content


def test_what_cannot_be_a_webhook_comes_back_with_the_fault_at_its_field(bare: World, visit: Visit) -> None:
    given = {**HOOK, "url": "https://127.0.0.1/", "event_types": ["ended"]}
    page = visit("ada").post("/settings/webhooks/", given)
    assert page.status_code == 422
    [field] = [f for f in page.context["fields"] if f.fault]
    assert (field.path, field.value) == ("url", "https://127.0.0.1/")
    assert b'value="ended" checked' in page.content
    assert not Webhook.objects.exists()


def test_webhooks_are_for_the_admins_of_their_team(bare: World, visit: Visit) -> None:
    one = added(visit)
    page = f"/settings/webhooks/{one.pk}/"
    seen = {who: visit(who).get(page).status_code for who in ("admin", "ada", "mel", "vic", "out")}
    assert seen == {"admin": 200, "ada": 200, "mel": 403, "vic": 403, "out": 404}
    acted = {who: visit(who).post(f"{page}delete").status_code for who in ("mel", "out")}
    assert acted == {"mel": 403, "out": 404}
    assert Webhook.objects.exists()
    assert b'href="/settings/webhooks/"' not in visit("mel").get("/notices/").content
    assert visit("mel").get("/settings/webhooks/").status_code == 403


def test_a_webhook_is_changed_tested_and_deleted_on_its_page(bare: World, visit: Visit) -> None:
    one, ada = added(visit), visit("ada")
    page = f"/settings/webhooks/{one.pk}/"
    given = {"version": "1", "name": "night", "url": HOOK["url"], "format": "slack", "event_types": ["slo"]}
    assert ada.post(page, {**given, "is_active": "on"}).status_code == 302
    one.refresh_from_db()
    assert (one.name, one.format, one.is_active) == ("night", "slack", True)
    assert ada.post(page, {**given, "name": "x"}).status_code == 412
    ada.post(f"{page}test")
    assert Delivery.objects.get().state == "waiting"
    assert b"hx-trigger" in ada.get(f"{page}log").content
    assert ada.post(f"{page}nonsense").status_code == 404
    asked = ada.get(f"{page}delete", headers={"HX-Request": "true"}).content
    assert b"Delete the webhook night?" in asked
    assert b"<html" not in asked
    assert ada.get(f"{page}test").status_code == 404
    ada.post(f"{page}delete")
    assert not Webhook.objects.exists()


def test_the_log_shows_each_try_and_sends_again(bare: World, visit: Visit) -> None:
    one, ada, now = added(visit), visit("ada"), database_now()
    sent = Delivery.objects.create(
        webhook=one, key="k", matter="ended", body='{"title":"<script>"}', state="given-up", tries=8,
        not_before=now, created_at=now, log=[["2026-01-01T00:00:00Z", 500, 12, "Answered 500"]],
    )  # fmt: skip
    page = f"/settings/webhooks/{one.pk}/"
    content = ada.get(page).content.decode()
    assert "Answered 500" in content
    assert "<script>&quot;" not in content
    ada.post(f"{page}redeliver", {"delivery": str(sent.uid)})
    sent.refresh_from_db()
    assert sent.state == "waiting"
    assert ada.post(f"{page}redeliver", {"delivery": "nonsense"}).status_code == 404


def test_the_admin_console_shows_all_of_it_and_no_secret(bare: World, visit: Visit) -> None:
    one = added(visit, secret="sixteen characters or more")
    for name in ("webhook", "delivery", "notificationrule", "notice"):
        page = visit("admin").get(f"/admin/controlplane/{name}/")
        assert page.status_code == 200, name
    page = visit("admin").get(f"/admin/controlplane/webhook/{one.pk}/change/").content.decode()
    assert "hooks.example.test" in page
    assert one.sealed_secret not in page
