"""Notices: each user is told once of a matter, and a webhook is; both in one transaction with how far was read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now

from autoscaler.alarms import Alarm
from controlplane.models import Delivery, DeliveryState, EventCursor, Notice, ServiceAlarm, Webhook, bulk
from controlplane.outgoing import mail, payload
from controlplane.outgoing.payload import Said
from controlplane.services.scheduling.clock import database_now
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.mention import clipped

READER = "notify"
MAX_WAITING = 1_000  # deliveries of one webhook: what comes while so many wait is counted, not sent
MAX_MAILS = 60  # to one user in an hour: what comes beyond is told on the pages only
KEEP_DAYS = 90


@dataclass(frozen=True, slots=True)
class ToUser:
    """A matter for one user; `rule` is the one that asked, `by_mail` whether it also asked for a mail."""

    user: int
    said: Said
    rule: int
    by_mail: bool


@dataclass(frozen=True, slots=True)
class ToWebhook:
    """A matter for one webhook, in its format."""

    webhook: UUID
    said: Said
    rule: int
    format: str


@transaction.atomic
def tell(
    *,
    users: Sequence[ToUser],
    webhooks: Sequence[ToWebhook],
    read: tuple[int, Sequence[Sequence[float]]] | None,
    lease: HeldLease,
    alarms: Mapping[UUID, Alarm] | None = None,
) -> int:
    """Tell of these what was not told before; how many were. `read`: how far the events were read. Raises LeaseLost.

    alarms: how services stand as people know it from now on, those that changed.
    """
    lease.check()
    if read is not None:
        event, missing = read
        EventCursor.objects.update_or_create(
            reader=READER, defaults={"event": event, "missing": [list(gap) for gap in missing]}
        )
    for uid, alarm in (alarms or {}).items():
        better = {"better": alarm.better or "", "better_since": alarm.better_since}
        stands = {"standing": alarm.standing.value, "since": alarm.since, **better}
        ServiceAlarm.objects.update_or_create(workload=uid, defaults=stands)
    now = database_now()
    return _tell_users(users, now) + _tell_webhooks(webhooks, now)


@transaction.atomic
def forget_place(*, lease: HeldLease) -> None:
    """There is no subscription: the next one begins with what happens then. Raises LeaseLost."""
    lease.check()
    EventCursor.objects.filter(reader=READER).delete()


def mark_read(*, user: int, pks: Iterable[int] | None = None, teams: Sequence[str] | None = None) -> int:
    """Mark a user's own notices as read (None: all, of all teams); how many were not."""
    return unread(user, pks, teams).update(read_at=Now())


def unread(user: int, pks: Iterable[int] | None = None, teams: Sequence[str] | None = None) -> QuerySet[Notice]:
    """The user's own notices that are not read yet."""
    found = Notice.objects.filter(user_id=user, read_at__isnull=True)
    found = found if teams is None else found.filter(team__among=list(teams))
    return found if pks is None else found.filter(pk__among=list(pks))


@transaction.atomic
def prune(*, lease: HeldLease) -> int:
    """Delete what is older than `KEEP_DAYS`; how many rows. Raises LeaseLost."""
    lease.check()
    before = database_now() - timedelta(days=KEEP_DAYS)
    old = list(Notice.objects.filter(at__lt=before).values_list("pk", flat=True))
    deliveries, _ = Delivery.objects.filter(Q(created_at__lt=before) | Q(notice__at__lt=before)).delete()
    bulk.delete(Notice, "id", old)
    return deliveries + len(old)


def _tell_users(users: Sequence[ToUser], now: datetime) -> int:
    wanted: dict[tuple[int, str], ToUser] = {}
    for one in users:
        before = wanted.get((one.user, one.said.key))
        if before is None or (one.by_mail and not before.by_mail):
            wanted[one.user, one.said.key] = one
    for part in bulk.chunks(sorted({key for _, key in wanted})):
        for known in Notice.objects.filter(key__among=part).values_list("user_id", "key"):
            wanted.pop(known, None)
    bulk.insert(Notice, _NOTICE, [_notice(one, now) for one in wanted.values()])
    _queue_mails(list(wanted.values()), now)
    return len(wanted)


_NOTICE = ("user_id", "key", "matter", "team", "workload", "title", "message", "cluster_at", "at")


def _notice(one: ToUser, now: datetime) -> tuple[Any, ...]:
    said = one.said
    what = (
        said.key,
        said.matter,
        said.team,
        said.workload,
        said.title[:160],
        clipped(said.message, 400),
        said.cluster_at,
    )
    return (one.user, *what, now)


def _queue_mails(told: Sequence[ToUser], now: datetime) -> None:
    by_mail = {(one.user, one.said.key): one for one in told if one.by_mail} if mail.is_configured() else {}
    wanted: list[tuple[ToUser, int]] = []
    for part in bulk.chunks(sorted({key for _, key in by_mail})):
        made = Notice.objects.filter(key__among=part).order_by("pk")
        wanted += [
            (by_mail[user, key], pk)
            for pk, user, key in made.values_list("pk", "user_id", "key")
            if (user, key) in by_mail
        ]
    if not wanted:
        return
    mails = Delivery.objects.filter(notice__user__in={one.user for one, _ in wanted}, notice__isnull=False)
    recent = mails.filter(created_at__gte=now - timedelta(hours=1)).order_by().values_list("notice__user")
    sent = dict(recent.annotate(n=Count("pk")))
    rows = []
    for one, notice in wanted:
        sent[one.user] = sent.get(one.user, 0) + 1
        if sent[one.user] <= MAX_MAILS:
            rows.append(_delivery(one, now, notice=notice))
    bulk.insert(Delivery, _DELIVERY, rows)


_DELIVERY = (
    "uid", "webhook_id", "notice_id", "rule_id", "key", "matter", "body", "state", "tries", "not_before", "created_at",
    "log",
)  # fmt: skip


def _delivery(
    one: ToUser | ToWebhook, now: datetime, *, webhook: UUID | None = None, notice: int | None = None, body: str = ""
) -> tuple[Any, ...]:
    what = (one.rule, one.said.key, one.said.matter, body)
    return (uuid4(), webhook, notice, *what, DeliveryState.WAITING.value, 0, now, now, [])


def _tell_webhooks(webhooks: Sequence[ToWebhook], now: datetime) -> int:
    wanted = {(one.webhook, one.said.key): one for one in webhooks}
    for part in bulk.chunks(sorted({key for _, key in wanted})):
        for known in Delivery.objects.filter(key__among=part, webhook__isnull=False).values_list("webhook_id", "key"):
            wanted.pop(known, None)
    if not wanted:
        return 0
    mine = Delivery.objects.filter(webhook__in={uid for uid, _ in wanted}, state=DeliveryState.WAITING)
    waiting: dict[UUID, int] = dict(mine.order_by().values_list("webhook").annotate(n=Count("pk")))
    dropped: dict[UUID, int] = {}
    rows = []
    for (uid, _), one in wanted.items():
        if waiting.get(uid, 0) >= MAX_WAITING:
            dropped[uid] = dropped.get(uid, 0) + 1
            continue
        waiting[uid] = waiting.get(uid, 0) + 1
        rows.append(_delivery(one, now, webhook=uid, body=payload.body(one.format, one.said)))
    bulk.insert(Delivery, _DELIVERY, rows)
    for uid, count in dropped.items():
        Webhook.objects.filter(pk=uid).update(dropped=F("dropped") + count)
    return len(rows)
