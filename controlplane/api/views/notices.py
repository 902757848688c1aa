"""What people are told: notices and the subscriptions behind them, a team's webhooks and what they were sent."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, VERSION, WHOLE, Parameter, View, endpoint, if_match, no_body, versioned
from controlplane.api.renamed import instead
from controlplane.api.serializers import notices as answers
from controlplane.api.serializers import requests, telling
from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import Choice, Flag
from controlplane.queries.accounts import access
from controlplane.queries.accounts.access import Verb
from controlplane.queries.notifications import notices as queries
from controlplane.services.notifications import deliveries, notices, subscriptions, webhooks

TAG = "notices"
STATES = Choice(("waiting", "delivered", "given-up"))


class Notices(View):
    """The asker's notices."""

    @endpoint(
        answer=answers.NoticeList,
        tag=TAG,
        operation="list_notices",
        parameters=(Parameter("unread", Flag(), "Only those that were not read, or only those that were."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List your notices, newest first."""
        found = queries.notices(self.caller, unread=self.given["unread"])
        return self.listed(found, "-id", queries.notice_row)


class ReadNotices(View):
    """Reading notices."""

    @endpoint(
        answer=answers.Marked,
        body=telling.ReadNoticesRequest,
        problems=(413, 415),
        tag=TAG,
        operation="mark_notices_read",
    )
    def post(self, request: Request) -> Response:
        """Mark your notices as read: these, or all."""
        given = requests.read_body(telling.READ_NOTICES, request.data)
        teams = access.bound_to(self.caller)
        return Response({"marked": notices.mark_read(user=self.caller.pk, pks=given["ids"], teams=teams)})


class Subscriptions(View):
    """The asker's subscriptions."""

    @endpoint(answer=answers.SubscriptionList, tag=TAG, operation="list_notification_subscriptions", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List what you are told of."""
        return self.listed(queries.rules(self.caller), "id", queries.rule_row)

    @endpoint(
        answer=answers.Subscription,
        body=telling.SubscriptionRequest,
        status=201,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="save_notification_subscription",
    )
    def post(self, request: Request) -> Response:
        """Subscribe to an event type, for your own work or a team's. Again: changes whether by mail."""
        given = requests.read_body(telling.SUBSCRIPTION, request.data)
        if given["team"] is None and access.bound_to(self.caller) is not None:
            raise PermissionDenied(
                "This token is bound to a team, and a subscription without a team covers all teams. Name the team."
            )
        team = self.team(Verb.READ, given["team"]) if given["team"] is not None else None
        made = subscriptions.save(user=self.caller, matter=given["event_type"], team=team, by_mail=given["by_mail"])
        return Response(queries.rule_row(made), status=201)


class Subscription(View):
    """One of the asker's subscriptions."""

    @endpoint(status=204, tag=TAG, operation="delete_notification_subscription")
    def delete(self, request: Request, subscription: int) -> Response:
        """Unsubscribe."""
        no_body(request)
        found = queries.rules(self.caller).filter(pk=subscription).first()
        if found is None:
            raise Http404
        subscriptions.remove(rule=found, actor=self.actor)
        return Response(status=204)


@instead("/api/v1/notification-subscriptions", get="list_notification_rules", post="save_notification_rule")
class Rules(Subscriptions):
    """The old address of subscriptions."""


@instead("/api/v1/notification-subscriptions/{subscription}", delete="delete_notification_rule")
class Rule(Subscription):
    """The old address of one."""


class _OfWebhook(View):
    """What is done with one webhook."""

    def managed(self, uid: UUID) -> Any:
        """The webhook: 404 if it is another team's, 403 if the role is too low."""
        found = queries.webhook(self.caller, uid)
        if found is None:
            raise Http404
        self.may(Verb.MANAGE, found.team.name)
        return found

    def answered(self, uid: UUID, secret: str | None = None, status: int = 200) -> Response:
        """The webhook as it stands, with a new secret if there is one."""
        row = queries.webhook_row(self.managed(uid))
        more = {} if secret is None else {"secret": secret}
        return versioned({**row, **more}, row["version"], status)


class Webhooks(_OfWebhook):
    """Webhooks of the teams that the asker manages."""

    @endpoint(
        answer=answers.WebhookList,
        tag=TAG,
        operation="list_webhooks",
        parameters=(Parameter("team", jobfile.TEAM, "Of this team."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List the webhooks of the teams of which you are an admin."""
        found = queries.webhooks(self.caller, self.given["team"])
        return self.paged([queries.webhook_row(one) for one in found], "team", "name")

    @endpoint(
        answer=answers.NewWebhook,
        body=telling.WebhookRequest,
        status=201,
        least=WHOLE,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="create_webhook",
    )
    def post(self, request: Request) -> Response:
        """Add a webhook to a team; its secret is shown this once."""
        given = requests.read_body(telling.WEBHOOK, request.data)
        team = self.team(Verb.MANAGE, given["team"])
        values = {name: given[name] for name in ("name", "url", "secret")} | {"matters": given["event_types"]}
        issued = webhooks.create(team=team, actor=self.actor, format_=given["format"], **values)
        return self.answered(issued.webhook.pk, issued.secret, 201)


class Webhook(_OfWebhook):
    """One webhook."""

    @endpoint(answer=answers.Webhook, tag=TAG, operation="read_webhook")
    def get(self, request: Request, webhook: UUID) -> Response:
        """Read a webhook."""
        return self.answered(webhook)

    @endpoint(
        answer=answers.Webhook,
        body=telling.WebhookChanges,
        headers=VERSION,
        least=WHOLE,
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="change_webhook",
    )
    def patch(self, request: Request, webhook: UUID) -> Response:
        """Change a webhook, or switch it off and on; what is left out stays."""
        found = self.managed(webhook)
        given = requests.read_body(telling.WEBHOOK_CHANGES, request.data)
        arguments = {"format": "format_", "event_types": "matters"}
        renamed = {arguments.get(name, name): value for name, value in given.items()}
        changes = {name: value for name, value in renamed.items() if value is not None}
        webhooks.change(webhook=found, actor=self.actor, version=if_match(request), **changes)
        return self.answered(webhook)

    @endpoint(status=204, tag=TAG, operation="delete_webhook")
    def delete(self, request: Request, webhook: UUID) -> Response:
        """Delete a webhook with its log."""
        no_body(request)
        webhooks.remove(webhook=self.managed(webhook), actor=self.actor)
        return Response(status=204)


class WebhookSecret(_OfWebhook):
    """The secret of a webhook."""

    @endpoint(
        answer=answers.NewWebhook,
        body=telling.SecretRequest,
        least=WHOLE,
        problems=(413, 415, 422),
        tag=TAG,
        operation="change_webhook_secret",
    )
    def post(self, request: Request, webhook: UUID) -> Response:
        """Sign with another secret from now on; it is shown this once."""
        found = self.managed(webhook)
        given = requests.read_body(telling.SECRET, request.data)
        issued = webhooks.change_secret(webhook=found, actor=self.actor, secret=given["secret"])
        return self.answered(webhook, issued.secret)


class TestWebhook(_OfWebhook):
    """A test of a webhook."""

    __test__ = False

    @endpoint(answer=answers.Delivery, status=202, problems=(409,), tag=TAG, operation="test_webhook")
    def post(self, request: Request, webhook: UUID) -> Response:
        """Queue a test; the delivery log says what came of it."""
        no_body(request)
        made = deliveries.test(webhook=self.managed(webhook), actor=self.actor)
        return Response(queries.delivery_row(made), status=202)


class Deliveries(_OfWebhook):
    """The delivery log of a webhook."""

    @endpoint(
        answer=answers.DeliveryList,
        tag=TAG,
        operation="list_deliveries",
        parameters=(Parameter("state", STATES, "Only those that stand so."), *PAGE),
    )
    def get(self, request: Request, webhook: UUID) -> Response:
        """List what a webhook was sent, newest first, with each try."""
        found = queries.deliveries(self.managed(webhook), self.given["state"])
        return self.listed(found, "-id", queries.delivery_row)


class Redeliver(_OfWebhook):
    """One delivery, again."""

    @endpoint(answer=answers.Delivery, status=202, problems=(409,), tag=TAG, operation="redeliver")
    def post(self, request: Request, webhook: UUID, delivery: UUID) -> Response:
        """Send it again, as it was and under the same id."""
        no_body(request)
        found = queries.delivery(self.managed(webhook), delivery)
        if found is None:
            raise Http404
        sent = deliveries.redeliver(delivery=found, actor=self.actor)
        return Response(queries.delivery_row(sent), status=202)
