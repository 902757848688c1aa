"""A team's webhooks: their addresses, secrets and what they are told of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from controlplane.models import Matter, NotificationRule, Team, Webhook, WebhookFormat
from controlplane.outgoing import configured, sealing, signature
from controlplane.outgoing.target import TargetError, parse
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.notifications import deliveries, subscriptions
from controlplane.services.scheduling.clock import database_now

MAX_WEBHOOKS = 20  # of one team
MAX_NAME = 80


@dataclass(frozen=True, slots=True)
class Issued:
    """A webhook and its secret, which is shown this once."""

    webhook: Webhook
    secret: str


@transaction.atomic
def create(
    *,
    team: Team,
    name: str,
    url: str,
    matters: Sequence[str],
    actor: str,
    format_: str = WebhookFormat.WEFT.value,
    secret: str | None = None,
) -> Issued:
    """Add a webhook; without a `secret` one is made. Raises Refused, naming the field."""
    _check(name=name, url=url, format_=format_, matters=matters)
    shown = _checked(secret) if secret is not None else signature.new_secret()
    locked = Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    if Webhook.objects.filter(team=locked).count() >= MAX_WEBHOOKS:
        message = f"Team {team} has {MAX_WEBHOOKS} webhooks, which is the most. Delete one that is not used."
        raise Refused(409, "TooManyWebhooks", "", message)
    _require_free(team, name)
    made = Webhook.objects.create(
        team=team,
        name=name,
        url=url,
        format=format_,
        sealed_secret=sealing.seal(shown),
        created_at=database_now(),
    )
    subscriptions.of_webhook(webhook=made, matters=matters)
    _tell("WebhookCreated", made, actor, matters=sorted(matters))
    return Issued(made, shown)


@transaction.atomic
def change(
    *, webhook: Webhook, actor: str, version: int | None = None, matters: Sequence[str] | None = None, **values: Any
) -> Webhook:
    """Change `name`, `url`, `format_`, `is_active` or what it is told of; Refused 412 if another was faster."""
    row = _locked(webhook)
    if version is not None and version != row.version:
        raise Refused(412, "VersionMismatch", "version", "The webhook was changed meanwhile. Read it again.")
    is_active = values.pop("is_active", row.is_active)
    new = {"name": row.name, "url": row.url, "format_": row.format, **values}
    _check(**new, matters=matters or (), is_known=matters is None)
    if new["name"] != row.name:
        _require_free(row.team, new["name"])
    names = {"name": new["name"], "url": new["url"], "format": new["format_"], "is_active": is_active}
    changed = sorted(name for name, value in names.items() if getattr(row, name) != value)
    if matters is not None and subscriptions.of_webhook(webhook=row, matters=matters):
        changed.append("matters")
    if not changed:
        return row
    again = {"given_up": 0} if is_active and not row.is_active else {}
    Webhook.objects.filter(pk=row.pk).update(version=row.version + 1, **names, **again)
    if row.is_active and not is_active:
        deliveries.give_up_waiting([row.pk], database_now())
    _tell("WebhookChanged", row, actor, changed=changed)  # names only: an address may be a secret
    return Webhook.objects.select_related("team").get(pk=row.pk)


@transaction.atomic
def change_secret(*, webhook: Webhook, actor: str, secret: str | None = None) -> Issued:
    """Sign with another secret from now on; without one given it is made."""
    shown = _checked(secret) if secret is not None else signature.new_secret()
    row = _locked(webhook)
    Webhook.objects.filter(pk=row.pk).update(sealed_secret=sealing.seal(shown), version=row.version + 1)
    _tell("WebhookSecretChanged", row, actor)
    row.refresh_from_db()
    return Issued(row, shown)


@transaction.atomic
def remove(*, webhook: Webhook, actor: str) -> None:
    """Delete a webhook with its log."""
    _tell("WebhookRemoved", webhook, actor)
    NotificationRule.objects.filter(webhook=webhook).delete()
    webhook.delete()


def _locked(webhook: Webhook) -> Webhook:
    rows = Webhook.objects.select_related("team").select_for_update(no_key=True, of=("self",))
    return rows.get(pk=webhook.pk)


def _check(*, name: str, url: str, format_: str, matters: Sequence[str], is_known: bool = False) -> None:
    if not 1 <= len(name.strip()) <= MAX_NAME or not name.isprintable():
        raise Refused(422, "BadWebhook", "name", f"name: give 1 to {MAX_NAME} characters on one line.")
    if format_ not in WebhookFormat.values:
        raise Refused(422, "BadWebhook", "format", f"format is {format_}. Use {' or '.join(WebhookFormat.values)}.")
    try:
        parse(url, configured.policy())
    except TargetError as error:
        raise Refused(422, "BadWebhook", "url", f"url: {error}.") from error
    if not is_known and (not matters or not set(matters) <= set(Matter.values)):
        raise Refused(
            422, "BadWebhook", "event_types", f"event_types: choose one or more of {', '.join(Matter.values)}."
        )


def _checked(secret: str) -> str:
    least, most = signature.MIN_SECRET, signature.MAX_SECRET
    if not least <= len(secret) <= most or not secret.isascii() or not secret.isprintable():
        message = f"secret: give {least} to {most} printable ASCII characters, or leave it out to have one made."
        raise Refused(422, "BadWebhook", "secret", message)
    return secret


def _require_free(team: Team, name: str) -> None:
    if Webhook.objects.filter(team=team, name=name).exists():
        raise Refused(409, "NameTaken", "name", f"Team {team} has a webhook {name} already. Choose another name.")


def _tell(kind: str, webhook: Webhook, actor: str, **data: object) -> None:
    told = {"webhook": str(webhook.pk), **data}
    events.record(kind=kind, actor=actor, team=webhook.team.name, message=webhook.name, data=told)
