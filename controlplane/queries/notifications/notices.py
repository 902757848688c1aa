"""Notices, rules and webhooks as pages and API show them: each user's own, and those of teams one manages."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from controlplane.models import (
    ACCOUNT_MATTER,
    Delivery,
    DeliveryState,
    Matter,
    Notice,
    NotificationRule,
    Webhook,
    WebhookFormat,
)
from controlplane.outgoing.payload import link
from controlplane.queries.accounts import access

MAX_COUNTED = 100  # unread notices: the bell says 99+ beyond
MATTERS: tuple[tuple[str, str], ...] = tuple((value, str(label)) for value, label in Matter.choices)
LABELS = {**dict(MATTERS), ACCOUNT_MATTER: "Credentials of your team end"}  # that one needs no rule, and has none
FORMATS: tuple[tuple[str, str], ...] = tuple((value, str(label)) for value, label in WebhookFormat.choices)
TESTED = "test"  # the matter of a test, as it is shown


def notices(user: access.Person, *, unread: bool | None = None) -> QuerySet[Notice]:
    """The user's own notices; by a token that is bound to a team only those about it and the teams below it."""
    found = Notice.objects.filter(user=user.pk)
    if (teams := access.bound_to(user)) is not None:
        found = found.filter(team__in=teams)
    return found if unread is None else found.filter(read_at__isnull=unread)


def unread_count(user: access.Person) -> int:
    """How many the user has not read, counted up to `MAX_COUNTED`. One query."""
    return notices(user, unread=True).order_by()[:MAX_COUNTED].count()


def notice_row(one: Notice) -> dict[str, Any]:
    """A notice as the API shows it."""
    return {
        "id": one.pk,
        "event_type": one.matter,
        "team": one.team,
        "workload": one.workload,
        "title": one.title,
        "message": one.message,
        "link": link(page_of(one)) or None,
        "at": one.at,
        "read_at": one.read_at,
    }


def page_of(one: Notice) -> str:
    """The path of the page that a notice is about."""
    if one.matter == ACCOUNT_MATTER:
        return f"/teams/{one.team}/people/"
    return f"/workloads/{one.workload}/" if one.workload else "/teams/"


def rules(user: access.Person) -> QuerySet[NotificationRule]:
    """The user's own rules; by a token that is bound to a team only those about it and the teams below it."""
    found = NotificationRule.objects.filter(user=user.pk).select_related("team")
    teams = access.bound_to(user)
    return found if teams is None else found.filter(team__name__in=teams)


def rule_row(one: NotificationRule) -> dict[str, Any]:
    """A rule as the API shows it."""
    return {
        "id": one.pk,
        "event_type": one.matter,
        "team": one.team.name if one.team else None,
        "by_mail": one.by_mail,
        "created_at": one.created_at,
    }


def webhooks(user: access.Person, team: str | None = None) -> QuerySet[Webhook]:
    """The webhooks of teams whose members the user manages: an address may be a secret."""
    managed = access.team_names(user, access.Verb.MANAGE)
    wanted = managed if team is None else [team] if team in managed else []
    return Webhook.objects.filter(team__name__in=wanted).select_related("team").prefetch_related("rules")


def webhook(user: access.Person, uid: UUID) -> Webhook | None:
    """One webhook of a team that the user can see; whether the user may do anything with it is asked next."""
    found = Webhook.objects.select_related("team").prefetch_related("rules").filter(pk=uid).first()
    return found if found is not None and access.can(user, access.Verb.READ, found.team) else None


def webhook_row(one: Webhook) -> dict[str, Any]:
    """A webhook as the API shows it; never its secret."""
    return {
        "id": one.pk,
        "team": one.team.name,
        "name": one.name,
        "url": one.url,
        "format": one.format,
        "event_types": sorted(rule.matter for rule in one.rules.all()),
        "is_active": one.is_active,
        "given_up": one.given_up,
        "dropped": one.dropped,
        "created_at": one.created_at,
        "version": one.version,
    }


def deliveries(of: Webhook, state: str | None = None) -> QuerySet[Delivery]:
    """What a webhook was sent, or is to be."""
    found = Delivery.objects.filter(webhook=of)
    return found if state is None else found.filter(state=state)


def delivery(of: Webhook, uid: UUID) -> Delivery | None:
    """One delivery of a webhook."""
    return deliveries(of).select_related("webhook__team").filter(uid=uid).first()


def delivery_row(one: Delivery) -> dict[str, Any]:
    """A delivery as the API shows it: what was sent, and each try. What a receiver answered is not kept."""
    return {
        "id": one.uid,
        "event_type": one.matter or TESTED,
        "state": one.state,
        "tries": one.tries,
        "created_at": one.created_at,
        "next_try_at": one.not_before if one.state == DeliveryState.WAITING else None,
        "done_at": one.done_at,
        "body": one.body,
        "log": [
            {"at": at, "status": status, "milliseconds": milliseconds, "error": error}
            for at, status, milliseconds, error in one.log
        ],
    }


def managed_teams(user: access.Person) -> list[str]:
    """The teams whose webhooks the user may set."""
    return access.team_names(user, access.Verb.MANAGE)
