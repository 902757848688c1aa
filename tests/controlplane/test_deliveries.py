"""Webhooks on their way: to real receivers, tried again, once each."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.models.functions import Now

from controlplane.loops import notify
from controlplane.models import Delivery, DeliveryState, Event, Lease, NotificationRule, Team, Webhook
from controlplane.outgoing import signature
from controlplane.outgoing.https import SECONDS, Outcome
from controlplane.services.errors import Refused
from controlplane.services.notifications import deliveries, notices, webhooks
from controlplane.services.notifications.deliveries import BACKOFF_SECONDS, LOST_WEBHOOK_SECONDS, MAX_GIVEN_UP
from tests.controlplane.telling import SECRET, Told, another_worker, make_due, use
from tests.receivers import Receiver, receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def there(tmp_path: Path, settings: Any) -> Iterator[Receiver]:
    with receiver(tmp_path) as one:
        use(settings, one, folder=tmp_path)
        yield one


@pytest.fixture
def told(there: Receiver) -> Told:
    return Told()


def hand_over() -> None:
    """The lease runs out: its holder was killed, or sleeps."""
    Lease.objects.filter(name="notify").update(expires_at=Now() - timedelta(seconds=1))


# --- webhooks ---------------------------------------------------------------------------------


def test_what_happens_is_sent_signed_and_once(told: Told, there: Receiver) -> None:
    told.webhook(there)
    job = told.end("train")
    told.until_settled()
    told.until_settled()
    [(headers, body)] = there.requests
    said = json.loads(body)
    assert (said["event_type"], said["team"], said["title"]) == ("ended", "red", "train succeeded")
    assert said["matter"] == said["event_type"]  # both names until 0.2
    assert said["workload"] == {"uid": str(job.pk), "name": "train"}
    signed = signature.signed(SECRET, int(headers["Weft-Timestamp"]), body)
    assert headers["Weft-Signature"] == f"v1={signed}"
    one = Delivery.objects.get()
    assert (headers["Weft-Delivery"], headers["Weft-Event-Type"]) == (str(one.uid), "ended")
    assert (one.state, one.tries, one.log[0][1]) == ("delivered", 1, 200)


def test_slack_gets_a_message_in_which_names_cannot_make_links(told: Told, there: Receiver, settings: Any) -> None:
    settings.PUBLIC_URL = "https://weft.example.test"
    told.webhook(there, format_="slack")
    job = told.end("train")
    told.until_settled()
    [(_, body)] = there.requests
    said = json.loads(body)
    assert said["text"] == "train succeeded"
    assert said["blocks"][0]["text"] == {
        "type": "mrkdwn",
        "text": f"*<https://weft.example.test/workloads/{job.pk}/|train succeeded>*",
    }


def test_a_webhook_is_not_told_of_other_teams(told: Told, there: Receiver) -> None:
    told.webhook(there, team="blue")
    told.end("train", team="red")
    told.until_settled()
    assert there.requests == []


def test_a_failure_is_tried_again_with_growing_breaks_until_it_arrives(told: Told, there: Receiver) -> None:
    there.answers += [500, 503]
    told.webhook(there, "/next")
    told.end("train")
    waits = []
    for _ in range(2):
        told.until_settled()
        one = Delivery.objects.get()
        assert one.state == "waiting"
        waits.append((one.not_before - Delivery.objects.values_list(Now(), flat=True).get()).total_seconds())
        make_due()
    told.until_settled()
    one = Delivery.objects.get()
    assert (one.state, one.tries, [entry[1] for entry in one.log]) == ("delivered", 3, [500, 503, 200])
    assert len({headers["Weft-Delivery"] for headers, _ in there.requests}) == 1
    assert [round(wait, -1) for wait in waits] == [10, 30]


def test_after_the_last_try_it_is_given_up(told: Told, there: Receiver) -> None:
    told.webhook(there, "/500")
    told.end("train")
    for _ in range(len(BACKOFF_SECONDS) + 1):
        told.until_settled()
        make_due()
    told.until_settled()
    assert told.states() == [("given-up", len(BACKOFF_SECONDS) + 1)]
    assert Webhook.objects.get().given_up == 1
    assert len(there.requests) == len(BACKOFF_SECONDS) + 1


def test_a_receiver_that_never_answers_holds_up_neither_the_round_nor_the_others(told: Told, there: Receiver) -> None:
    told.webhook(there, "/slow")
    told.webhook(there, "/ok", name="quick")
    told.end("train")
    told.round()  # comes back at once: else the next line would find that the slow one was given its 5 s
    assert Delivery.objects.filter(state="waiting").count() == 2
    there.wait(2)
    assert len(told.world.wiring.kept["tries"]) >= 1
    told.until_settled()
    assert dict(Delivery.objects.values_list("webhook__name", "state")) == {
        "hook /slow": "waiting",
        "quick": "delivered",
    }


def test_a_long_queue_of_one_webhook_keeps_no_other_waiting(told: Told, there: Receiver) -> None:
    one, other = told.webhook(there), told.webhook(there, name="other")
    now = Now()
    Delivery.objects.bulk_create(
        Delivery(webhook=one, key=f"k{n}", body=str(n), not_before=now, created_at=now) for n in range(300)
    )
    Delivery.objects.create(webhook=other, key="k", body="other", not_before=now, created_at=now)
    lease = told.world.lease("notify")
    claimed = deliveries.claim(most=4, under_way=(), lease=lease)
    assert [each.body for each in claimed] == ["0", "other"]
    assert deliveries.claim(most=4, under_way=[each.uid for each in claimed], lease=lease) == ()


def test_after_so_many_given_up_in_a_row_a_webhook_is_switched_off(told: Told, there: Receiver) -> None:
    hook = told.webhook(there, "/410")
    for number in range(MAX_GIVEN_UP):
        told.end(f"train-{number}")
        told.until_settled()
    hook.refresh_from_db()
    assert (hook.is_active, hook.given_up) == (False, MAX_GIVEN_UP)
    assert Event.objects.filter(kind="WebhookSwitchedOff", team="red").count() == 1
    told.end("more")
    told.until_settled()
    assert len(there.requests) == MAX_GIVEN_UP


def test_what_was_delivered_can_be_sent_again_under_the_same_id(told: Told, there: Receiver) -> None:
    told.webhook(there)
    told.end("train")
    told.until_settled()
    one = Delivery.objects.get()
    deliveries.redeliver(delivery=one, actor="ann")
    with pytest.raises(Refused, match="on its way"):
        deliveries.redeliver(delivery=one, actor="ann")
    told.until_settled()
    first, second = there.requests
    assert (first[1], first[0]["Weft-Delivery"]) == (second[1], second[0]["Weft-Delivery"])


def test_a_test_is_sent_and_only_one_at_a_time(told: Told, there: Receiver) -> None:
    hook = told.webhook(there)
    deliveries.test(webhook=hook, actor="ann")
    with pytest.raises(Refused, match="already"):
        deliveries.test(webhook=hook, actor="ann")
    told.until_settled()
    [(headers, body)] = there.requests
    assert headers["Weft-Event-Type"] == headers["Weft-Matter"] == "test"  # both names until 0.2
    assert "ann asked for it." in body.decode()


def test_while_too_many_wait_the_rest_is_counted(told: Told, there: Receiver) -> None:
    hook = told.webhook(there)
    now = Now()
    Delivery.objects.bulk_create(
        Delivery(webhook=hook, key=f"k{n}", not_before=now + timedelta(hours=1), created_at=now)
        for n in range(notices.MAX_WAITING)
    )
    told.end("train")
    told.round()
    hook.refresh_from_db()
    assert hook.dropped == 1
    assert Delivery.objects.count() == notices.MAX_WAITING


def test_a_webhook_that_is_switched_off_is_sent_nothing_and_what_waited_is_given_up(
    told: Told, there: Receiver
) -> None:
    hook = told.webhook(there)
    told.end("train")
    deliveries.test(webhook=hook, actor="ann")
    webhooks.change(webhook=hook, actor="ann", is_active=False)
    told.until_settled()
    assert there.requests == []
    assert told.states() == [("given-up", 0)]


def test_a_secret_that_cannot_be_opened_is_said_in_the_log(told: Told, there: Receiver) -> None:
    hook = told.webhook(there)
    Webhook.objects.filter(pk=hook.pk).update(sealed_secret="sealed with another key")
    deliveries.test(webhook=hook, actor="ann")
    told.until_settled()
    assert "SECRET_KEY was changed" in Delivery.objects.get().log[0][3]


# --- two workers, and one that is killed ------------------------------------------------------


def test_a_worker_that_is_killed_while_sending_is_followed_by_one_that_sends_again(told: Told, there: Receiver) -> None:
    there.answers += [200]
    told.webhook(there, "/next")
    told.end("train")
    told.round()
    there.wait(1)
    first = told.world.wiring.kept["courier"]
    told.world.restart()  # what came of it was never noted
    hand_over()
    told.until_settled()
    assert told.states() == [("waiting", 1)]  # its claim still holds: it may be alive
    assert len(there.requests) == 1
    Delivery.objects.update(not_before=Now() - timedelta(seconds=1))  # LOST_WEBHOOK_SECONDS later
    told.until_settled()
    assert told.states() == [("delivered", 2)]
    assert len({headers["Weft-Delivery"] for headers, _ in there.requests}) == 1
    assert first is not told.world.wiring.kept["courier"]


def test_a_claim_lasts_longer_than_a_try(told: Told, there: Receiver) -> None:
    assert LOST_WEBHOOK_SECONDS > 2 * SECONDS


def test_an_outcome_that_comes_after_another_worker_took_over_is_not_noted(told: Told, there: Receiver) -> None:
    told.webhook(there)
    told.end("train")
    told.until_settled()
    Delivery.objects.update(state=DeliveryState.WAITING, tries=2, done_at=None, log=[])
    one = Delivery.objects.get()
    assert not deliveries.note(uid=one.uid, tries=1, outcome=Outcome(500, "", 0.1))
    assert deliveries.note(uid=one.uid, tries=2, outcome=Outcome(200, "", 0.1))
    assert told.states() == [("delivered", 2)]


@pytest.mark.django_db(transaction=True)
def test_two_workers_send_each_delivery_once(told: Told, there: Receiver) -> None:
    for number in range(4):
        told.webhook(there, f"/ok?{number}", name=f"hook {number}")
    for number in range(5):
        told.end(f"train-{number}")
    told.round()
    hand_over()
    stop = threading.Event()
    faults: list[BaseException] = []

    def work(holder: str) -> None:
        wired = another_worker(holder)
        try:
            while not stop.is_set():
                hand_over()  # nobody holds it for long: each takes it from the other
                notify.run_once(wired)
        except BaseException as error:
            faults.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    try:
        there.wait(20, seconds=60)
        told.world.wiring.kept.clear()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not faults
    sent = [headers["Weft-Delivery"] for headers, _ in there.requests]
    assert len(sent) == len(set(sent)) == 20


# --- what a team may set up -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("url", {"url": "http://hooks.example.test/"}),
        ("url", {"url": "https://169.254.169.254/"}),
        ("url", {"url": "https://10.0.0.1/"}),
        ("name", {"name": " "}),
        ("event_types", {"matters": []}),
        ("event_types", {"matters": ["nonsense"]}),
        ("format", {"format_": "xml"}),
        ("secret", {"secret": "x" * 15}),
        ("secret", {"secret": "x" * 129}),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_with_its_field(told: Told, field: str, given: dict[str, Any]) -> None:
    whole = {"name": "hook", "url": "https://hooks.example.test/", "matters": ["ended"], **given}
    with pytest.raises(Refused) as refused:
        webhooks.create(team=Team.objects.get(name="red"), actor="ann", **whole)
    assert refused.value.field == field
    assert not Webhook.objects.exists()
    assert not NotificationRule.objects.exists()


def test_a_team_may_have_so_many_webhooks(told: Told, there: Receiver) -> None:
    for number in range(webhooks.MAX_WEBHOOKS):
        told.webhook(there, name=f"hook {number}")
    with pytest.raises(Refused, match="20 webhooks"):
        told.webhook(there, name="one more")
    told.webhook(there, name="another team's", team="blue")


def test_the_secret_is_stored_sealed(told: Told, there: Receiver) -> None:
    hook = told.webhook(there)
    assert SECRET not in str(Webhook.objects.filter(pk=hook.pk).values().get())
    assert SECRET not in str(list(Event.objects.values()))
    issued = webhooks.change_secret(webhook=hook, actor="ann")
    told.end("train")
    told.until_settled()
    [(headers, body)] = there.requests
    signed = signature.signed(issued.secret, int(headers["Weft-Timestamp"]), body)
    assert headers["Weft-Signature"] == f"v1={signed}"


def test_whoever_saw_an_older_version_changes_nothing(told: Told, there: Receiver) -> None:
    hook = told.webhook(there)
    webhooks.change(webhook=hook, actor="ann", version=1, name="new name")
    with pytest.raises(Refused) as refused:
        webhooks.change(webhook=hook, actor="ben", version=1, name="another")
    assert refused.value.status == 412
    assert Webhook.objects.get().name == "new name"
