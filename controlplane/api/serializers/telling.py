"""Request bodies about notices, subscriptions and webhooks; `requests.read` reads them."""

from collections.abc import Callable

from rest_framework import serializers as s

from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import REQUIRED, Choice, Field, Flag, Items, Record, Schema, Text, Whole
from controlplane.queries.notifications.notices import FORMATS, MATTERS

ONE_LINE = r"[^\x00-\x1f\x7f]+"
_EVENT_TYPE = Choice(tuple(value for value, _ in MATTERS))
_NAME = Text(80, ONE_LINE)
_URL = Text(2000, ONE_LINE)
_SENT = Items(_EVENT_TYPE, len(MATTERS), is_unique=True)
_FORMAT = Choice(tuple(value for value, _ in FORMATS))
_SECRET = Field("secret", Text(128), "At least 16 characters; one is made if absent.")
_WHERE = "Where to send to: https, port 443 or 8443, no redirects."

READ_NOTICES = Record((Field("ids", Items(Whole(0, 2**62), 200), "Of these notices; all if absent."),))
SUBSCRIPTION = Record(
    (
        Field("event_type", _EVENT_TYPE, "The event type.", REQUIRED, was="matter"),
        Field("team", jobfile.TEAM, "All work of this team and those below it; your own work if absent."),
        Field("by_mail", Flag(), "By mail as well as on the pages.", False),
    )
)
WEBHOOK = Record(
    (
        Field(
            "team",
            jobfile.TEAM,
            "The team that owns it: what happens in it and in the teams below it is sent.",
            REQUIRED,
        ),
        Field("name", _NAME, "Its name.", REQUIRED),
        Field("url", _URL, _WHERE, REQUIRED),
        Field("event_types", _SENT, "The event types that are sent.", REQUIRED, was="matters"),
        Field("format", _FORMAT, "How the body is written.", "weft"),
        _SECRET,
    )
)
WEBHOOK_CHANGES = Record(
    (
        Field("name", _NAME, "Its name."),
        Field("url", _URL, _WHERE),
        Field("event_types", _SENT, "The event types that are sent.", was="matters"),
        Field("format", _FORMAT, "How the body is written."),
        Field("is_active", Flag(), "Whether it sends; when it is switched off, waiting deliveries are given up."),
    )
)
SECRET = Record((_SECRET,))


class ReadNoticesRequest(s.Serializer[object]):
    """Which notices were read."""


class SubscriptionRequest(s.Serializer[object]):
    """The event type."""


class WebhookRequest(s.Serializer[object]):
    """A webhook to be made."""


class WebhookChanges(s.Serializer[object]):
    """Parts of a webhook."""


class SecretRequest(s.Serializer[object]):
    """Another secret."""


SCHEMAS: dict[type, Callable[[], Schema]] = {
    ReadNoticesRequest: READ_NOTICES.schema,
    SubscriptionRequest: SUBSCRIPTION.schema,
    SecretRequest: SECRET.schema,
    WebhookChanges: WEBHOOK_CHANGES.schema,
    WebhookRequest: WEBHOOK.schema,
}
