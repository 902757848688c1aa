"""Tell people what they asked to be told of, and send what is due; receivers are waited for in other threads.

It reads what other loops wrote, so that their commits pay nothing. Without rules a round is two small queries.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings

from autoscaler.alarms import Alarm
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.pace import Pace
from controlplane.loops.wiring import Wiring
from controlplane.models import Matter
from controlplane.outgoing import configured, mail, provider, signature
from controlplane.outgoing.courier import Courier
from controlplane.outgoing.https import Outcome, Sender
from controlplane.outgoing.provider import Account
from controlplane.queries.audit import eventlog, naming
from controlplane.queries.audit.eventlog import Place
from controlplane.queries.notifications import event_types, subscriptions
from controlplane.queries.notifications.event_types import Found
from controlplane.queries.notifications.subscriptions import Rule
from controlplane.runtime import wake
from controlplane.services.accounts import endings
from controlplane.services.accounts import provider as people
from controlplane.services.notifications import deliveries, notices
from controlplane.services.notifications.deliveries import Claimed
from controlplane.services.notifications.notices import READER, ToUser, ToWebhook
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.leases import HeldLease

STANDING_SECONDS, REST = 15.0, 20  # how something stands is looked at so often, and for a twentieth of the time
PRUNE_SECONDS = 3600.0
ASK_SECONDS, ASKED_AT_ONCE = 60.0, 20  # people that the identity provider is asked about
NOTHING_TO_ASK_WITH = provider.Answer(Account.NO_ANSWER)

log = structlog.get_logger(__name__)


def run_once(wiring: Wiring) -> Report:
    """One round of the notify loop."""
    return rounds.run("notify", wiring, _notify)


def courier(wiring: Wiring) -> Courier:
    """The threads of this process that wait for receivers."""
    if "courier" not in wiring.kept:
        wiring.kept["courier"] = Courier(ring=wake.bells["notify"].set)
    found: Courier = wiring.kept["courier"]
    return found


def _notify(wiring: Wiring, lease: HeldLease) -> int:
    did = _note_outcomes(wiring)
    did += _tell(wiring, lease, subscriptions.active())
    did += _send(wiring, lease)
    _ask_provider(wiring, lease)
    _prune(wiring, lease)
    return did


# --- telling ----------------------------------------------------------------------------------


def _tell(wiring: Wiring, lease: HeldLease, active: tuple[Rule, ...]) -> int:
    """Read on from where this reader is, or from the oldest rule's beginning, and notify the subscribers."""
    if not active:
        if wiring.kept.pop("notify reads", True) and eventlog.place(READER) is not None:
            notices.forget_place(lease=lease)
        wiring.kept["notify reads"] = False
        return 0
    wiring.kept["notify reads"] = True
    before = eventlog.place(READER)
    begin = before or Place(min(rule.after_event for rule in active))
    happened, place = event_types.happened(begin, now=clock.database_now().timestamp())
    standing, alarms = _standing(wiring, active)
    found = [*happened, *standing]
    addressed = subscriptions.addressed(found, active) if found else ()
    if not addressed and not alarms and place == before:
        return 0
    return notices.tell(
        users=[
            ToUser(one.rule.user, one.said, one.rule.pk, one.rule.by_mail)
            for one in addressed
            if one.rule.user is not None
        ],
        webhooks=[
            ToWebhook(one.rule.webhook, one.said, one.rule.pk, one.rule.format)
            for one in addressed
            if one.rule.webhook is not None
        ],
        read=None if place == before else (place.event, place.gaps),
        alarms=alarms,
        lease=lease,
    )


def _standing(wiring: Wiring, active: tuple[Rule, ...]) -> tuple[list[Found], Mapping[UUID, Alarm]]:
    """States that a subscription is about, looked for only where there is one; and the alarms that changed."""
    wanted = {rule.matter for rule in active}
    pace: Pace = wiring.kept.setdefault("notify pace", Pace(STANDING_SECONDS, REST))
    if not pace.is_due:
        return [], {}
    found: list[Found] = []
    alarms: Mapping[UUID, Alarm] = {}
    began, at = time.monotonic(), clock.now()
    try:
        if Matter.WAITS_LONG in wanted:
            found += event_types.waiting_long(at)
        if Matter.BUDGET in wanted:
            found += event_types.budgets_used(at)
        if Matter.SLO in wanted:
            burning, alarms = event_types.burning(at)
            found += burning
    finally:
        pace.spend(time.monotonic() - began)
    return found, alarms


# --- sending ----------------------------------------------------------------------------------


def _send(wiring: Wiring, lease: HeldLease) -> int:
    threads = courier(wiring)
    if not threads.free or not deliveries.due():
        return 0
    tries: dict[UUID, int] = wiring.kept.setdefault("tries", {})
    claimed = deliveries.claim(most=threads.free, under_way=tries.keys(), lease=lease)
    for one in as_read(claimed):
        if one.fault:
            deliveries.note(uid=one.uid, tries=one.tries, outcome=Outcome(None, one.fault, 0.0, is_final=True))
            continue
        tries[one.uid] = one.tries
        threads.send(one.uid, partial(_errand, one, _sender(wiring)))
    return len(claimed)


def as_read(claimed: Sequence[Claimed]) -> list[Claimed]:
    """The mails among them with the names that their readers may see now."""
    seen = subscriptions.seen_teams({one.reader for one in claimed if one.reader is not None})
    nothing: naming.Seen = ()
    texts = naming.each([(one.mail.message if one.mail else "", seen.get(one.reader or 0, nothing)) for one in claimed])
    return [
        replace(one, mail=replace(one.mail, message=text)) if one.mail else one
        for one, text in zip(claimed, texts, strict=True)
    ]


def _errand(one: Claimed, sender: Sender) -> Outcome:
    """Send one; in a thread of its own, which knows no database."""
    if one.mail is not None:
        return mail.send(one.mail)
    body = one.body.encode()
    signed = signature.headers(one.secret, str(one.uid), one.matter, int(time.time()), body)
    return sender.post(one.url, body, signed)


def _note_outcomes(wiring: Wiring) -> int:
    tries: dict[UUID, int] = wiring.kept.setdefault("tries", {})
    count = 0
    for name, outcome in courier(wiring).outcomes():
        uid = UUID(str(name))
        count += deliveries.note(uid=uid, tries=tries.pop(uid), outcome=outcome)
        if not outcome.is_success:
            log.debug("not delivered", delivery=str(uid), status=outcome.status, error=outcome.error)
    return count


def _sender(wiring: Wiring) -> Sender:
    if "sender" not in wiring.kept:
        wiring.kept["sender"] = configured.sender()
    found: Sender = wiring.kept["sender"]
    return found


# --- accounts that still exist --------------------------------------------------------------------


def _ask_provider(wiring: Wiring, lease: HeldLease) -> None:
    """Ask the identity provider about those it was not asked about for a day; whom it has dropped is signed out."""
    pace: Pace = wiring.kept.setdefault("provider pace", Pace(ASK_SECONDS, REST))
    if not settings.OIDC_ISSUER or not pace.is_due:
        return
    began = time.monotonic()
    try:
        for one in people.due(ASKED_AT_ONCE):
            answer = provider.ask(one.token) if one.token else NOTHING_TO_ASK_WITH
            lease.check()
            if answer.account == Account.KNOWN:
                people.known(one=one, token=answer.token)
            elif answer.account == Account.DROPPED:
                people.dropped(one=one)
                log.warning("the identity provider dropped an account", user=one.user, error=answer.error)
            elif not people.not_heard_of(one=one) and one.token:
                log.warning("the identity provider was not heard of", user=one.user, error=answer.error)
                break  # it would not answer about the others either
    finally:
        pace.spend(time.monotonic() - began)


def _prune(wiring: Wiring, lease: HeldLease) -> None:
    pace: Pace = wiring.kept.setdefault("notify prunes", Pace(PRUNE_SECONDS, REST))
    if pace.is_due:
        notices.prune(lease=lease)
        endings.of_makers(actor="system")  # what a change of roles by hand has left
        pace.spend(0.0)
