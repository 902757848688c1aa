"""The admin console: quotas, priorities, pools, teams and people, all saved through the services.

What the loops own (workloads, events, cycles, leases, actions) is read-only here. GPUs are entered in GPUs;
the tables keep milli-GPU.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from controlplane.models import (
    Action,
    Cycle,
    Event,
    Lease,
    Membership,
    Node,
    NodePool,
    PolicyVersion,
    PriorityClass,
    Quota,
    Role,
    Team,
    User,
    Workload,
)
from controlplane.services import events, quotas, teams
from controlplane.services.errors import Refused
from gpushare.gpu import WHOLE

admin.site.site_header = admin.site.site_title = "Weft"
admin.site.unregister(Group)


class GpuField(forms.DecimalField):
    """GPUs as people count them (2.5), kept as milli-GPU."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=Decimal(0), max_digits=10, decimal_places=3, **options)

    def prepare_value(self, value: Any) -> Any:
        """Show a stored number of milli-GPU in GPUs; leave what was typed alone."""
        return f"{Decimal(value) / WHOLE:f}".rstrip("0").rstrip(".") or "0" if isinstance(value, int) else value

    def clean(self, value: Any) -> Any:
        """What was typed, in milli-GPU."""
        gpus = super().clean(value)
        return None if gpus is None else int(gpus * WHOLE)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether the GPUs differ, however they are written."""
        try:
            return bool(self.clean(data) != initial)
        except ValidationError:
            return True


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]
    """A quota in GPUs, with the version that the person saw."""

    nominal = GpuField(label="Nominal GPUs", help_text="What the team owns.")
    borrowing_limit = GpuField(label="May borrow", required=False, help_text="GPUs over nominal. Empty: no limit.")
    lending_limit = GpuField(label="Lends at most", required=False, help_text="GPUs. Empty: all it does not use.")
    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Quota
        fields = ("team", "pool", "nominal", "borrowing_limit", "lending_limit", "weight")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["seen"].initial = self.instance.version if self.instance.pk else None

    def clean(self) -> dict[str, Any]:
        """Refuse what the service would refuse, at the field it names."""
        given = super().clean() or {}
        lending, nominal = given.get("lending_limit"), given.get("nominal")
        if lending is not None and nominal is not None and lending > nominal:
            self.add_error("lending_limit", f"It lends at most what it owns. Set it to at most {nominal / WHOLE:g}.")
        if self.instance.pk:
            now = Quota.objects.filter(pk=self.instance.pk).values_list("version", flat=True).first()
            if given.get("seen") is not None and now != given["seen"]:
                self.add_error(None, "Somebody changed this quota meanwhile. Open it again and repeat your change.")
        return given


def actor_of(request: HttpRequest) -> str:
    """Who acts, as events name them."""
    return str(request.user.get_username())


class ServiceAdmin(ModelAdmin):
    """An admin page whose writes are services'; what they refuse is shown, never an error page."""

    def changeform_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        """The form; a refusal while saving becomes a message above it."""
        try:
            return super().changeform_view(request, *args, **options)
        except Refused as refused:
            self.message_user(request, refused.message, messages.ERROR)
            request.method = "GET"
            return super().changeform_view(request, *args, **options)


class ReadOnlyAdmin(ModelAdmin):
    """What the loops write and people read."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds these by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes these by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes these by hand."""
        return False


@admin.register(Quota)
class QuotaAdmin(ServiceAdmin):
    """What each team owns in each node pool."""

    form = QuotaForm
    list_display = ("team", "pool", "nominal_gpus", "borrowing", "lending", "weight")
    list_filter = ("pool", "team")
    list_select_related = ("team", "pool")
    ordering = ("team__name", "pool__name")

    @admin.display(description="nominal GPUs", ordering="nominal")
    def nominal_gpus(self, quota: Quota) -> str:
        """GPUs owned."""
        return f"{quota.nominal / WHOLE:g}"

    @admin.display(description="may borrow")
    def borrowing(self, quota: Quota) -> str:
        """GPUs over nominal."""
        return "no limit" if quota.borrowing_limit is None else f"{quota.borrowing_limit / WHOLE:g}"

    @admin.display(description="lends at most")
    def lending(self, quota: Quota) -> str:
        """GPUs lent."""
        return "all" if quota.lending_limit is None else f"{quota.lending_limit / WHOLE:g}"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """A quota stays with its team and pool."""
        return ("team", "pool") if obj else ()

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """Through the service, which tells what is odd about the pool now."""
        saved, warnings = quotas.save(
            team=obj.team,
            pool=obj.pool,
            nominal=obj.nominal,
            borrowing_limit=obj.borrowing_limit,
            lending_limit=obj.lending_limit,
            weight=obj.weight,
            actor=actor_of(request),
            version=form.cleaned_data.get("seen") if change else None,
        )
        obj.pk, obj.version = saved.pk, saved.version
        for warning in warnings:
            self.message_user(request, warning, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Quota) -> None:
        """Through the service."""
        quotas.remove(quota=obj, actor=actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Quota]) -> None:
        """Each through the service."""
        for quota in queryset.select_related("team", "pool"):
            quotas.remove(quota=quota, actor=actor_of(request))


@admin.register(PriorityClass)
class PriorityClassAdmin(ServiceAdmin):
    """Named priorities; live workloads follow a change."""

    list_display = ("name", "value", "preemptible", "is_default")
    ordering = ("-value",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """The name is what job files say, so it stays."""
        return ("name",) if obj else ()

    def save_model(self, request: HttpRequest, obj: PriorityClass, form: Any, change: bool) -> None:
        """Through the service."""
        saved = quotas.save_priority(
            name=obj.name,
            value=obj.value,
            preemptible=obj.preemptible,
            is_default=obj.is_default,
            actor=actor_of(request),
        )
        obj.pk = saved.pk

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Workloads of any age refer to it."""
        return False


@admin.register(NodePool)
class NodePoolAdmin(ServiceAdmin):
    """Nodes with one GPU model, and their price."""

    list_display = ("name", "gpu_model", "price_per_gpu_hour")
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """The name is in quotas and usage, so it stays."""
        return ("name",) if obj else ()

    def save_model(self, request: HttpRequest, obj: NodePool, form: Any, change: bool) -> None:
        """Through the service."""
        saved = quotas.save_pool(
            name=obj.name,
            gpu_model=obj.gpu_model,
            price_per_gpu_hour=obj.price_per_gpu_hour,
            actor=actor_of(request),
        )
        obj.pk = saved.pk

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Quotas and usage refer to it."""
        return False


@admin.register(Team)
class TeamAdmin(ServiceAdmin):
    """The tree of teams. Members are added on their own page."""

    list_display = ("name", "parent")
    fields = ("name", "parent")
    search_fields = ("name",)
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """The name is its namespace's, so it stays."""
        return ("name",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        """Through the service."""
        if change:
            teams.move(team=Team.objects.get(pk=obj.pk), parent=obj.parent, actor=actor_of(request))
            return
        saved = teams.create(name=obj.name, parent=obj.parent, actor=actor_of(request))
        obj.pk, obj.colour = saved.pk, saved.colour

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Its accounts stay."""
        return False


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """Who may do what in which team."""

    list_display = ("user", "team", "role")
    list_filter = ("team", "role")
    list_select_related = ("user", "team")
    ordering = ("team__name", "user__username")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """Only the role changes."""
        return ("user", "team") if obj else ()

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        """Through the service."""
        teams.add_member(team=obj.team, user=obj.user, role=Role(obj.role), actor=actor_of(request))
        obj.pk = Membership.objects.get(team=obj.team, user=obj.user).pk

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """Through the service."""
        teams.remove_member(team=obj.team, user=obj.user, actor=actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Membership]) -> None:
        """Each through the service."""
        for membership in queryset.select_related("team", "user"):
            self.delete_model(request, membership)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People and CI accounts. A superuser is a platform admin; teams are given under memberships."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("is_active", "is_superuser")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser")}),
    )
    filter_horizontal = ()

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """As Django does, with an event."""
        super().save_model(request, obj, form, change)
        kind, fields = ("UserChanged", list(form.changed_data)) if change else ("UserCreated", [])
        events.record(kind=kind, actor=actor_of(request), data={"user": obj.get_username(), "fields": fields})

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Accounts are switched off, so that what they did keeps its name."""
        return False


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    """Workloads as stored; act on them on their pages."""

    list_display = ("name", "team", "kind", "phase", "reason", "priority", "attempt")
    list_filter = ("phase", "kind", "team")
    list_select_related = ("team",)
    search_fields = ("name",)
    ordering = ("-seq",)
    show_full_result_count = False


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    """Machines as last observed."""

    list_display = ("name", "pool", "gpu_model", "gpu_count", "rack", "zone", "ready", "schedulable")
    list_filter = ("pool", "ready", "schedulable")
    list_select_related = ("pool",)
    search_fields = ("name",)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """Everything that happened; append-only."""

    list_display = ("at", "actor", "kind", "team", "name", "reason", "message")
    list_filter = ("kind", "team")
    search_fields = ("name",)
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(Cycle)
class CycleAdmin(ReadOnlyAdmin):
    """Rounds of the loops, with what they decided."""

    list_display = ("id", "loop", "at", "took_ms", "epoch", "digest")
    list_filter = ("loop",)
    exclude: ClassVar[Sequence[str]] = ("input",)
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Who runs which loop."""

    list_display = ("name", "holder", "epoch", "expires_at")


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    """What the cluster was told, or is still to be told."""

    list_display = ("id", "verb", "workload", "attempt", "tries", "error", "done_at")
    list_filter = ("verb",)
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """The scheduling policy's versions; the newest is in force."""

    list_display = ("id", "author", "at", "comment")
    ordering = ("-id",)
