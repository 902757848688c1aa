"""Quotas, budgets, priority classes and node pools. GPUs are entered as GPUs."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest

from controlplane.admin.base import GpuField, Kept, ServiceAdmin, ServiceForm, gpus
from controlplane.models import Budget, NodePool, PriorityClass, Quota
from controlplane.queries.scheduling import quota_dry_run
from controlplane.queries.tenancy import shares, teams
from controlplane.services.scheduling import clock
from controlplane.services.tenancy import budgets, quotas
from gpushare.gpu import WHOLE


class QuotaForm(ServiceForm):
    """One team in one pool."""

    nominal = GpuField(
        label="Nominal, GPUs",
        help_text="The quota of the team. The team gets these GPUs back from teams that borrow them.",
    )
    borrowing_limit = GpuField(
        label="Borrowing limit, GPUs",
        required=False,
        empty="no limit",
        help_text="How much it may use beyond the nominal quota. Empty: no limit.",
    )
    lending_limit = GpuField(
        label="Lending limit, GPUs",
        required=False,
        empty="all of it",
        help_text="How much of it other teams may borrow. Empty: all of it.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    confirmed = forms.BooleanField(
        label="Save anyway", required=False, help_text="Needed only if the quota is unusual or affects other teams."
    )

    class Meta:
        model = Quota
        fields = ("team", "pool", "nominal", "borrowing_limit", "lending_limit", "weight", "version", "confirmed")

    def clean(self) -> dict[str, Any]:
        """What is unusual, and which teams are affected, is shown before the quota is saved."""
        cleaned = super().clean()
        if not self.errors and not cleaned.get("confirmed"):
            for field, sentence in self._doubts(cleaned):
                self.add_error(field, sentence)
        return cleaned

    def _doubts(self, given: dict[str, Any]) -> list[tuple[str, str]]:
        team = given.get("team") or self.instance.team
        pool = given.get("pool") or self.instance.pool
        names = ("nominal", "borrowing_limit", "lending_limit", "weight")
        if self.instance.pk is not None and all(given[name] == getattr(self.instance, name) for name in names):
            return []
        dry_run = quota_dry_run.dry_run(team=team.name, pool=pool.name, values={name: given[name] for name in names})
        told = [("nominal", warning) for warning in dry_run.warnings]
        losers = [one for one in dry_run.affected if one.reclaimable > 0]
        told += [
            (
                "confirmed",
                f"{one.team} has {one.held / WHOLE:g} GPUs allocated and would be entitled to "
                f"{one.after / WHOLE:g} instead of {one.before / WHOLE:g}: "
                f"{one.reclaimable / WHOLE:g} GPUs may be reclaimed.",
            )
            for one in losers
        ]
        return [*told, ("confirmed", "Tick to save it anyway, or change it.")] if told else []

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Set the quota, if it is still the one that was shown."""
        given = self.cleaned_data
        is_new = self.instance.pk is None
        return quotas.save(
            team=given.get("team") or self.instance.team,
            pool=given.get("pool") or self.instance.pool,
            nominal=given["nominal"],
            borrowing_limit=given["borrowing_limit"],
            lending_limit=given["lending_limit"],
            weight=given["weight"],
            actor=self.actor,
            version=0 if is_new else given["version"],
        )


@admin.register(Quota)
class QuotaAdmin(ServiceAdmin):
    """The quota of each team in each pool."""

    form = QuotaForm
    nominal_gpus = gpus("nominal", "Nominal")
    borrowing_gpus = gpus("borrowing_limit", "May borrow", "no limit")
    lending_gpus = gpus("lending_limit", "May lend", "all")
    list_display = ("team", "pool", "nominal_gpus", "borrowing_gpus", "lending_gpus", "weight", "balance")
    list_filter = ("pool", "team")
    list_select_related = ("team", "pool")
    ordering = ("team__name", "pool__name")

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> tuple[str, ...]:
        """A quota stays with its team and pool."""
        return ("team", "pool", "balance") if obj else ()

    def get_fields(self, request: HttpRequest, obj: Quota | None = None) -> list[Any]:
        """The balance of the pool is shown beside what changes it."""
        fields = ["team", "pool", "nominal", "borrowing_limit", "lending_limit", "weight", "version", "confirmed"]
        return [*fields, "balance"] if obj else fields

    def get_queryset(self, request: HttpRequest) -> Any:
        """Rows, with the pools' sums asked for once."""
        self._pools = {p.name: p for p in teams.pools()}
        return super().get_queryset(request)

    @admin.display(description="The pool")
    def balance(self, row: Quota) -> str:
        """What the pool has and what is promised of it."""
        pool = self._pools[row.pool.name]
        sentence = f"{pool.nominal / WHOLE:g} of {pool.capacity / WHOLE:g} GPUs in nominal quotas"
        if pool.promised_too_much:
            sentence += f": nominal quotas exceed the pool by {pool.promised_too_much / WHOLE:g} GPUs"
        return sentence

    def told_of(self, row: Quota) -> Q:
        """The events about this quota."""
        return Q(kind__in=("QuotaChanged", "QuotaRemoved"), team=row.team.name, name=row.pool.name)

    def delete_model(self, request: HttpRequest, obj: Quota) -> None:
        """Remove it, through the service."""
        quotas.remove(quota=obj, actor=request.user.get_username())


class BudgetForm(ServiceForm):
    """One team's GPU hours in each period."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    accept_used_up = forms.BooleanField(
        label="Save anyway", required=False, help_text="Needed only if that much is already used."
    )

    class Meta:
        model = Budget
        fields = ("team", "period", "gpu_hours", "is_hard", "version", "accept_used_up")
        help_texts = {"is_hard": "When the budget is used up, nothing new starts; otherwise there is only a notice."}

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Set the budget, if it is still the one that was shown."""
        given = self.cleaned_data
        team = given.get("team") or self.instance.team
        period = given.get("period") or self.instance.period
        row = budgets.save(
            team=team,
            period=period,
            gpu_hours=given["gpu_hours"],
            is_hard=given["is_hard"],
            actor=self.actor,
            version=0 if self.instance.pk is None else given["version"],
            used_hours=shares.used_hours(clock.now(), team, period),
            accept_used_up=given["accept_used_up"],
        )
        return row, ()


@admin.register(Budget)
class BudgetAdmin(ServiceAdmin):
    """The GPU hours of each team."""

    form = BudgetForm
    list_display = ("team", "period", "gpu_hours", "is_hard", "state")
    list_filter = ("period", "team")
    list_select_related = ("team",)
    ordering = ("team__name", "period")

    def get_readonly_fields(self, request: HttpRequest, obj: Budget | None = None) -> tuple[str, ...]:
        """A budget stays with its team and period."""
        return ("team", "period", "state") if obj else ()

    def get_queryset(self, request: HttpRequest) -> Any:
        """Rows, with what was used asked for once."""
        self._used = {row.pk: row for row in shares.budgets(clock.now())}
        return super().get_queryset(request)

    @admin.display(description="This period")
    def state(self, row: Budget) -> str:
        """What was used of it."""
        used = self._used[row.pk]
        return f"{used.used_hours:.1f} of {used.gpu_hours} GPU hours used" + (": used up" if used.is_used_up else "")

    def told_of(self, row: Budget) -> Q:
        """The events about this budget."""
        return Q(kind__startswith="Budget", team=row.team.name, name=row.period)

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        """Remove it, through the service."""
        budgets.remove(budget=obj, actor=request.user.get_username())


class PriorityForm(ServiceForm):
    """One class."""

    class Meta:
        model = PriorityClass
        fields = ("name", "value", "preemptible", "is_default")

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Create or change it; live workloads follow."""
        given = self.cleaned_data
        row = quotas.save_priority(
            name=given.get("name") or self.instance.name,
            value=given["value"],
            preemptible=given["preemptible"],
            is_default=given["is_default"],
            actor=self.actor,
        )
        return row, ()


@admin.register(PriorityClass)
class PriorityAdmin(Kept):
    """Named priorities."""

    form = PriorityForm
    list_display = ("name", "value", "preemptible", "is_default")
    ordering = ("value",)

    def told_of(self, row: PriorityClass) -> Q:
        """The events about this class."""
        return Q(kind="PriorityClassChanged", name=row.name)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Job files refer to the name."""
        return ("name",) if obj else ()


class PoolForm(ServiceForm):
    """One pool."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["takes"].required = False  # left out, it stays as it is
        self.fields["enforcer"].required = False

    class Meta:
        model = NodePool
        fields = ("name", "gpu_model", "price_per_gpu_hour", "takes", "enforcer")
        labels = {"price_per_gpu_hour": f"Price per GPU-hour, {settings.CURRENCY}"}

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Create or change it."""
        given = self.cleaned_data
        row = quotas.save_pool(
            name=given.get("name") or self.instance.name,
            gpu_model=given["gpu_model"],
            price_per_gpu_hour=given["price_per_gpu_hour"],
            actor=self.actor,
        )
        takes = given["takes"] or row.takes
        quotas.change_pool(pool=row, takes=takes, enforcer=given["enforcer"], actor=self.actor)
        return row, quotas.warnings(pool=row)


@admin.register(NodePool)
class PoolAdmin(Kept):
    """Nodes with one GPU model."""

    form = PoolForm
    list_display = ("name", "gpu_model", "price_per_gpu_hour", "takes", "enforcer")
    ordering = ("name",)

    def told_of(self, row: NodePool) -> Q:
        """The events about this pool."""
        return Q(kind="NodePoolChanged", name=row.name)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Nodes and quotas refer to the name."""
        return ("name",) if obj else ()
