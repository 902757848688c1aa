"""Notifications, to read: only a team changes the address of its webhook."""

from typing import Any

from django.contrib import admin

from controlplane.admin.base import ReadOnly
from controlplane.models import Delivery, Notice, NotificationRule, Webhook


@admin.register(Webhook)
class WebhookAdmin(ReadOnly):
    """Teams' webhooks; never their secrets."""

    list_display = ("name", "team", "format", "is_active", "given_up", "dropped", "created_at")
    list_filter = ("is_active", "format")
    list_select_related = ("team",)
    search_fields = ("name", "team__name")
    fields = ("team", "name", "url", "format", "is_active", "given_up", "dropped", "created_at", "version")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    """What webhooks were sent and which mails went out, with each try."""

    list_display = ("key", "matter", "to", "state", "tries", "created_at", "done_at")
    list_filter = ("state", "matter")
    list_select_related = ("webhook__team", "notice__user")
    ordering = ("-id",)
    fields = ("uid", "webhook", "notice", "key", "matter", "body", "state", "tries", "not_before", "created_at", "log")

    @admin.display(description="To")
    def to(self, row: Any) -> str:
        """The webhook, or the user that gets the mail."""
        return str(row.webhook or row.notice.user)


@admin.register(NotificationRule)
class RuleAdmin(ReadOnly):
    """The event types that users and webhooks are notified of."""

    list_display = ("matter", "user", "team", "webhook", "by_mail", "created_at")
    list_filter = ("matter", "by_mail")
    list_select_related = ("user", "team", "webhook__team")
    fields = (*list_display, "after_event")


@admin.register(Notice)
class NoticeAdmin(ReadOnly):
    """The notices of users."""

    list_display = ("title", "user", "matter", "team", "at", "read_at")
    list_filter = ("matter",)
    list_select_related = ("user",)
    search_fields = ("user__username",)
    ordering = ("-id",)
    fields = ("user", "matter", "team", "workload", "title", "message", "cluster_at", "at", "read_at", "key")
