"""Answers about notices, subscriptions, webhooks and deliveries, for the OpenAPI document; queries build them."""

from rest_framework import serializers as s

from controlplane.api.renamed import renamed
from controlplane.api.serializers.workloads import Answer, Page
from controlplane.queries.notifications.notices import FORMATS, LABELS, MATTERS

_EVENT_TYPES = [value for value, _ in MATTERS]


@renamed(matter="event_type")
class Notice(Answer):
    """One event that the asker was notified of."""

    id = s.IntegerField()
    event_type = s.ChoiceField(
        list(LABELS), help_text="account: credentials of your team end; it needs no subscription."
    )
    team = s.CharField()
    workload = s.UUIDField(allow_null=True)
    title = s.CharField()
    message = s.CharField(allow_blank=True)
    link = s.CharField(allow_null=True, help_text="Null where the installation does not know its own address.")
    at = s.DateTimeField()
    read_at = s.DateTimeField(allow_null=True)


class NoticeList(Page):
    """Notices."""

    results = Notice(many=True)


class Marked(Answer):
    """How many notices were marked."""

    marked = s.IntegerField()


@renamed(matter="event_type")
class Subscription(Answer):
    """What the asker is told of: of the own work, or with a team of all its work."""

    id = s.IntegerField()
    event_type = s.ChoiceField(_EVENT_TYPES)
    team = s.CharField(allow_null=True)
    by_mail = s.BooleanField()
    created_at = s.DateTimeField()


class SubscriptionList(Page):
    """Subscriptions."""

    results = Subscription(many=True)


@renamed(matters="event_types")
class Webhook(Answer):
    """A team's webhook; given_up counts deliveries in a row, dropped what came while too many waited."""

    id = s.UUIDField()
    team = s.CharField()
    name = s.CharField()
    url = s.CharField()
    format = s.ChoiceField([value for value, _ in FORMATS])
    event_types = s.ListField(child=s.ChoiceField(_EVENT_TYPES))
    is_active = s.BooleanField()
    given_up = s.IntegerField()
    dropped = s.IntegerField()
    created_at = s.DateTimeField()
    version = s.IntegerField()


class WebhookList(Page):
    """Webhooks."""

    results = Webhook(many=True)


class NewWebhook(Webhook):
    """A webhook with its secret, which is shown this once."""

    secret = s.CharField()


class Try(Answer):
    """One try to deliver; status null: there was no answer."""

    at = s.DateTimeField()
    status = s.IntegerField(allow_null=True)
    milliseconds = s.IntegerField()
    error = s.CharField(allow_blank=True)


@renamed(matter="event_type")
class Delivery(Answer):
    """What a webhook was sent, or is to be."""

    id = s.UUIDField()
    event_type = s.ChoiceField([*_EVENT_TYPES, "test"])
    state = s.ChoiceField(["waiting", "delivered", "given-up"])
    tries = s.IntegerField()
    created_at = s.DateTimeField()
    next_try_at = s.DateTimeField(allow_null=True)
    done_at = s.DateTimeField(allow_null=True)
    body = s.CharField()
    log = Try(many=True)


class DeliveryList(Page):
    """Deliveries."""

    results = Delivery(many=True)
