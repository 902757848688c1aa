"""Telling people: rules, notices, webhooks and what is on its way. Times named *_at are the database's clock."""

import uuid

from django.db import models
from django.db.models import Q

from controlplane.models.team import Team, User


class Matter(models.TextChoices):
    """What one can be told of."""

    ENDED = "ended", "A job ended"
    PREEMPTED = "preempted", "Work was preempted"
    WAITS_LONG = "waits-long", "Work waits longer than expected"
    BUDGET = "budget", "80 or 100 % of a budget are used"
    SLO = "slo", "A service burns its error budget"


ACCOUNT_MATTER = "account"  # of one's team's credentials: told to its admins whatever their rules say


class WebhookFormat(models.TextChoices):
    """How a webhook's body is written."""

    WEFT = "weft", "Weft (JSON with every field)"
    SLACK = "slack", "Slack (and what takes its messages)"


class Webhook(models.Model):
    """An address of a team's that is sent what happens. The secret is sealed with the installation's key."""

    uid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=80)
    url = models.CharField(max_length=2000)
    format = models.CharField(max_length=5, choices=WebhookFormat.choices, default=WebhookFormat.WEFT)
    sealed_secret = models.TextField()
    is_active = models.BooleanField(default=True)
    given_up = models.PositiveIntegerField(default=0, help_text="Deliveries in a row that were given up.")
    dropped = models.PositiveIntegerField(default=0, help_text="Not queued, as too many were waiting.")
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_webhook_per_name")]

    def __str__(self) -> str:
        return f"{self.team}/{self.name}"


class NotificationRule(models.Model):
    """A subscription, who gets which event: a user, on pages and perhaps by mail, or a team's webhook.

    A user's rule without a team is about what that user submitted; with one, about all of that team and those below it.
    """

    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="notification_rules")
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="notification_rules")
    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="rules")
    matter = models.CharField(max_length=10, choices=Matter.choices)
    by_mail = models.BooleanField(default=False)
    after_event = models.PositiveBigIntegerField(default=0, help_text="Only what happened after this event.")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, webhook__isnull=True)
                | Q(user__isnull=True, team__isnull=False, webhook__isnull=False, by_mail=False),
                name="rule_of_a_user_or_of_a_webhook",
            ),
            models.UniqueConstraint(
                fields=["user", "matter"], condition=Q(team__isnull=True), name="one_own_rule_per_matter"
            ),
            models.UniqueConstraint(
                fields=["user", "team", "matter"], condition=Q(user__isnull=False), name="one_team_rule_per_matter"
            ),
            models.UniqueConstraint(
                fields=["webhook", "matter"], condition=Q(webhook__isnull=False), name="one_webhook_rule_per_matter"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.matter} to {self.webhook_id or self.user_id}"


class Notice(models.Model):
    """One matter, told to one user. `key` names the matter, so that no user gets it twice."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notices")
    key = models.CharField(max_length=120)
    matter = models.CharField(max_length=10, choices=Matter.choices)
    team = models.CharField(max_length=40)
    workload = models.UUIDField(null=True)
    title = models.CharField(max_length=160)
    message = models.CharField(max_length=400, blank=True)
    cluster_at = models.FloatField(help_text="Cluster clock")
    at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_notice_per_matter")]
        indexes = [
            models.Index(fields=["user", "-id"]),
            models.Index(fields=["user"], condition=Q(read_at__isnull=True), name="notice_unread"),
        ]

    def __str__(self) -> str:
        return self.title


class DeliveryState(models.TextChoices):
    """How a delivery stands."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given-up", "Given up"


class Delivery(models.Model):
    """One matter on its way to one webhook, or one mail about a notice. `log` has an entry for each try."""

    uid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="deliveries")
    notice = models.OneToOneField(Notice, null=True, on_delete=models.CASCADE, related_name="mail")
    rule = models.ForeignKey(NotificationRule, null=True, on_delete=models.SET_NULL, related_name="deliveries")
    key = models.CharField(max_length=120)
    matter = models.CharField(max_length=10, blank=True, help_text="Empty: a test")
    body = models.TextField(blank=True, help_text="What a webhook is sent.")
    state = models.CharField(max_length=9, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    not_before = models.DateTimeField(help_text="Back-off; while it is being sent, when that is taken for lost.")
    created_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    log = models.JSONField(default=list, help_text="[when, status or null, milliseconds, error] of each try")

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["webhook", "key"], name="one_delivery_per_matter"),
            models.CheckConstraint(
                condition=Q(webhook__isnull=True) ^ Q(notice__isnull=True), name="delivery_to_a_webhook_or_by_mail"
            ),
        ]
        indexes = [
            models.Index(fields=["not_before"], condition=Q(state="waiting"), name="delivery_waiting"),
            models.Index(fields=["webhook", "-id"]),
            models.Index(fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.state}"


class EventCursor(models.Model):
    """How far a reader has read the events; `missing` are numbers before it that may still be committed.

    Postgres gives numbers before transactions commit, so a lower one may appear after a higher one was read.
    """

    reader = models.CharField(max_length=20, primary_key=True)
    event = models.PositiveBigIntegerField()
    missing = models.JSONField(default=list, help_text="[first, last, database seconds when first missed] each")

    def __str__(self) -> str:
        return f"{self.reader} at {self.event}"
