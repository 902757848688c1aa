"""What is on its way: claimed by one process at a time, tried again with back-off, and what came of each try.

At least once: what a killed process had sent but not noted is sent again, under the same id. A claim is a conditional
UPDATE that counts the try, so two processes never send the same at once, and an outcome that is noted late is dropped.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Min, Q, QuerySet

from controlplane.jobspec.quantities import iso
from controlplane.models import Delivery, DeliveryState, Webhook
from controlplane.outgoing import payload, sealing
from controlplane.outgoing.https import Outcome
from controlplane.outgoing.mail import Mail
from controlplane.outgoing.payload import Said
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.clock import database_now
from controlplane.services.scheduling.leases import HeldLease

# After each try that failed; then it is given up: 11 hours later.
BACKOFF_SECONDS = (10, 30, 120, 600, 1_800, 7_200, 28_800)
# A claim without an outcome is taken for lost: longer than a try may last.
LOST_WEBHOOK_SECONDS, LOST_MAIL_SECONDS = 60, 300
MAX_GIVEN_UP = 10  # deliveries in a row; then the webhook is switched off
MAX_LOGGED = 20  # tries kept of one delivery
MAILS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this process is to send now: to a webhook, or as a mail."""

    uid: UUID
    tries: int  # with this one
    matter: str = ""
    url: str = ""
    secret: str = ""
    body: str = ""
    mail: Mail | None = None
    reader: int | None = None  # the user whom the mail is for
    fault: str = ""  # why it cannot be sent at all


def due() -> bool:
    """Whether anything may have to be sent now. One query."""
    return _due(database_now()).exists()


@transaction.atomic
def claim(*, most: int, under_way: Collection[UUID], lease: HeldLease) -> tuple[Claimed, ...]:
    """Take deliveries that are due, the oldest first, one of each webhook at a time. Raises LeaseLost."""
    lease.check()
    now = database_now()
    claimed = []
    for row in _next(now, most, under_way):
        seconds = LOST_MAIL_SECONDS if row.webhook_id is None else LOST_WEBHOOK_SECONDS
        mine = Delivery.objects.filter(pk=row.pk, state=DeliveryState.WAITING, tries=row.tries)
        if mine.update(tries=row.tries + 1, not_before=now + timedelta(seconds=seconds)):
            claimed.append(_claimed(row))
    return tuple(claimed)


@transaction.atomic
def note(*, uid: UUID, tries: int, outcome: Outcome) -> bool:
    """Note what came of a try; tell whether it was still ours."""
    webhook = Delivery.objects.filter(uid=uid, webhook__isnull=False).values_list("webhook_id", flat=True).first()
    if webhook is not None:  # before its deliveries, in the order in which it is switched off
        list(Webhook.objects.select_for_update(no_key=True).filter(pk=webhook))
    row = Delivery.objects.select_for_update(no_key=True).filter(uid=uid).first()
    if row is None or row.state != DeliveryState.WAITING or row.tries != tries:
        return False
    now = database_now()
    entry = [iso(now.timestamp()), outcome.status, round(outcome.seconds * 1000), outcome.error[:200]]
    row.log = [*row.log, entry][-MAX_LOGGED:]
    if outcome.is_success:
        row.state, row.done_at = DeliveryState.DELIVERED, now
    elif outcome.is_final or tries > len(BACKOFF_SECONDS):
        row.state, row.done_at = DeliveryState.GIVEN_UP, now
    else:
        row.not_before = now + timedelta(seconds=BACKOFF_SECONDS[tries - 1])
    row.save(update_fields=["log", "state", "done_at", "not_before"])
    if row.webhook_id is not None and row.done_at is not None:
        _count(row.webhook_id, outcome, now)
    return True


@transaction.atomic
def test(*, webhook: Webhook, actor: str) -> Delivery:
    """Queue a test; Refused if one waits already, or the webhook is off."""
    _require_active(webhook)
    if Delivery.objects.filter(webhook=webhook, matter="", state=DeliveryState.WAITING).exists():
        raise Refused(409, "TestWaits", "", "A test is on its way already. Look at the delivery log.")
    uid, now = uuid4(), database_now()
    said = Said(
        key=f"test:{uid}",
        matter="test",
        team=webhook.team.name,
        title=f"A test of the webhook {webhook.name}",
        message=f"{actor} asked for it.",
        cluster_at=clock.now(),
        page=f"/settings/webhooks/{webhook.pk}/",
    )
    body = payload.body(webhook.format, said)
    made = Delivery.objects.create(uid=uid, webhook=webhook, key=said.key, body=body, not_before=now, created_at=now)
    _tell("WebhookTested", webhook, actor)
    wake("notify")
    return made


@transaction.atomic
def redeliver(*, delivery: Delivery, actor: str) -> Delivery:
    """Send a delivery again, as it was and under the same id; Refused while it waits, or the webhook is off."""
    webhook = delivery.webhook
    if webhook is None:
        raise Refused(409, "NoWebhook", "", "This was a mail. Only what webhooks were sent can be sent again.")
    _require_active(webhook)
    over = Delivery.objects.filter(pk=delivery.pk).exclude(state=DeliveryState.WAITING)
    if not over.update(state=DeliveryState.WAITING, tries=0, not_before=database_now(), done_at=None):
        raise Refused(409, "Waits", "", "It is on its way already. Look at it again later.")
    _tell("WebhookRedelivered", webhook, actor, delivery=str(delivery.uid))
    wake("notify")
    delivery.refresh_from_db()
    return delivery


def give_up_waiting(webhooks: Iterable[UUID], now: datetime) -> None:
    """Webhooks are switched off: what waits for them is not sent any more."""
    waiting = Delivery.objects.filter(webhook__in=list(webhooks), state=DeliveryState.WAITING)
    waiting.update(state=DeliveryState.GIVEN_UP, done_at=now)


def _next(now: datetime, most: int, under_way: Collection[UUID]) -> QuerySet[Delivery]:
    """The first that is due of each webhook that is sent nothing now, and some mails: a long queue delays no other."""
    sending = Delivery.objects.filter(uid__among=under_way)
    busy = sending.filter(webhook__isnull=False).values_list("webhook_id", flat=True)
    due = _due(now).exclude(uid__among=under_way)
    heads = due.filter(webhook__isnull=False).exclude(webhook__in=list(busy)).order_by().values("webhook")
    firsts = heads.annotate(first=Min("pk")).order_by("first").values_list("first", flat=True)[:most]
    free = max(0, MAILS_AT_ONCE - sending.filter(webhook__isnull=True).count())
    mails = due.filter(webhook__isnull=True).order_by("pk").values_list("pk", flat=True)[:free]
    found = Delivery.objects.filter(pk__among=[*firsts, *mails]).select_related("webhook", "notice__user")
    return found.order_by("pk")[:most]


def _due(now: datetime) -> QuerySet[Delivery]:
    is_on = Q(webhook__isnull=True) | Q(webhook__is_active=True)
    return Delivery.objects.filter(is_on, state=DeliveryState.WAITING, not_before__lte=now)


def _claimed(row: Delivery) -> Claimed:
    if row.webhook is not None:
        try:
            secret = sealing.opened(row.webhook.sealed_secret)
        except sealing.SealBrokenError:
            fault = "The secret cannot be read: SECRET_KEY was changed. Give the webhook a new secret."
            return Claimed(row.uid, row.tries + 1, fault=fault)
        return Claimed(row.uid, row.tries + 1, row.matter or "test", row.webhook.url, secret, row.body)
    notice = row.notice
    assert notice is not None  # noqa: S101 - a constraint of the table
    page = f"/workloads/{notice.workload}/" if notice.workload else "/notices/"
    to = notice.user.email if notice.user.is_active else ""
    made = Mail(str(row.uid), to, notice.title, notice.message, page, row.rule_id)
    fault = "" if to else "There is no address to send it to."
    return Claimed(row.uid, row.tries + 1, mail=made, reader=notice.user_id, fault=fault)


def _count(webhook: UUID, outcome: Outcome, now: datetime) -> None:
    """Count what a webhook did not take in a row; after too many it is switched off."""
    row = Webhook.objects.select_related("team").get(pk=webhook)
    given_up = 0 if outcome.is_success else row.given_up + 1
    is_off = given_up >= MAX_GIVEN_UP and row.is_active
    Webhook.objects.filter(pk=webhook).update(
        given_up=given_up, is_active=row.is_active and not is_off, version=row.version + is_off
    )
    if is_off:
        give_up_waiting([webhook], now)
        message = f"{row.name}: {given_up} deliveries in a row were given up."
        events.record(kind="WebhookSwitchedOff", actor="loop:notify", team=row.team.name, message=message)


def _require_active(webhook: Webhook) -> None:
    if not webhook.is_active:
        raise Refused(409, "WebhookOff", "is_active", "The webhook is switched off. Switch it on first.")


def _tell(kind: str, webhook: Webhook, actor: str, **data: str) -> None:
    events.record(
        kind=kind, actor=actor, team=webhook.team.name, message=webhook.name, data={"webhook": str(webhook.pk), **data}
    )
