"""Rules: which matters a user, or a team's webhook, is told of."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Max

from controlplane.models import Event, Matter, NotificationRule, Team, User, Webhook
from controlplane.outgoing import mail
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now

MAX_RULES = 100  # of one user
OWN_MATTERS = (Matter.ENDED, Matter.PREEMPTED, Matter.WAITS_LONG, Matter.SLO)  # a budget is a team's


@transaction.atomic
def save(*, user: User, matter: str, team: Team | None, by_mail: bool = False) -> NotificationRule:
    """Have a user told of a matter: of the user's own work, or with a team of all its work. Raises Refused.

    There is one rule for each of these; saving it again changes `by_mail`.
    """
    if matter not in Matter.values:
        raise Refused(422, "BadRule", "event_type", f"event_type is {matter}. Use {', '.join(Matter.values)}.")
    if team is None and matter not in OWN_MATTERS:
        raise Refused(422, "BadRule", "team", "A budget is a team's. Name the team.")
    if by_mail:
        _require_mail(user)
    mine = NotificationRule.objects.filter(user=User.objects.select_for_update(no_key=True).get(pk=user.pk))
    known = mine.filter(matter=matter, team=team).first()
    if known is not None:
        mine.filter(pk=known.pk).update(by_mail=by_mail)
        known.by_mail = by_mail
        return known
    if mine.count() >= MAX_RULES:
        raise Refused(409, "TooManyRules", "", f"You have {MAX_RULES} rules, which is the most. Delete one.")
    made = NotificationRule.objects.create(
        user=user, team=team, matter=matter, by_mail=by_mail, after_event=_newest(), created_at=database_now()
    )
    data = {"matter": matter, "by_mail": by_mail}
    events.record(kind="RuleCreated", actor=user.username, team=team.name if team else "", data=data)
    return made


@transaction.atomic
def remove(*, rule: NotificationRule, actor: str) -> None:
    """Take a user's rule back."""
    team = rule.team.name if rule.team else ""
    rule.delete()
    events.record(kind="RuleRemoved", actor=actor, team=team, data={"matter": rule.matter})


@transaction.atomic
def unsubscribe(*, rule: int) -> bool:
    """Send no more mails by this rule: for whoever has a mail's link; tell whether it sent any."""
    found = NotificationRule.objects.select_related("user", "team").filter(pk=rule, by_mail=True).first()
    if found is None or found.user is None:
        return False
    NotificationRule.objects.filter(pk=rule).update(by_mail=False)
    team = found.team.name if found.team else ""
    events.record(kind="Unsubscribed", actor=found.user.username, team=team, data={"matter": found.matter})
    return True


def of_webhook(*, webhook: Webhook, matters: Sequence[str]) -> bool:
    """Have a webhook told of exactly these; tell whether that is a change. In the caller's transaction."""
    mine = NotificationRule.objects.filter(webhook=webhook)
    before = set(mine.values_list("matter", flat=True))
    mine.filter(matter__in=before - set(matters)).delete()
    newest, now = _newest(), database_now()
    NotificationRule.objects.bulk_create(
        NotificationRule(webhook=webhook, team=webhook.team, matter=matter, after_event=newest, created_at=now)
        for matter in sorted(set(matters) - before)
    )
    return before != set(matters)


def _newest() -> int:
    return Event.objects.aggregate(last=Max("id"))["last"] or 0


def _require_mail(user: User) -> None:
    if not mail.is_configured():
        message = "This installation sends no mail. Ask its operator to set EMAIL_URL."
        raise Refused(422, "NoMail", "by_mail", message)
    if not user.email:
        raise Refused(422, "NoMail", "by_mail", "Your account has no e-mail address. Ask an admin to add it.")
