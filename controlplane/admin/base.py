"""Forms that save through a service, and tables that can only be read.

A form is checked by doing what it asks and taking it back: what the service refuses stands at its field, as in REST.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from controlplane.queries.audit import changes
from controlplane.services.errors import Refused
from gpushare.gpu import WHOLE

HISTORY = 100  # newest changes that a row's history shows


if TYPE_CHECKING:
    _Form = forms.ModelForm[Any]
else:
    _Form = forms.ModelForm


class ServiceForm(_Form):
    """A form whose last check is the service itself. `actor` is set by the admin."""

    actor = ""

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Save through the service; return the row and warnings."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        """Try it and take it back."""
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                with transaction.atomic():
                    self.carry_out()
                    transaction.set_rollback(True)
            except Refused as refused:
                name = self.field_of(refused.field)
                self.add_error(name if name in self.fields else None, refused.message)
        return cleaned

    def field_of(self, name: str) -> str:
        """The form's field for the service's one."""
        return name

    def _post_clean(self) -> None:
        """Leave the instance alone: the service decides what is valid, and writes."""

    def save(self, commit: bool = True) -> Any:
        """Hand the instance on; `save_model` writes."""
        self.save_m2m = _nothing  # type: ignore[method-assign]
        return self.instance


def _nothing() -> None:
    """There is nothing many-to-many to save."""


class GpuField(forms.DecimalField):
    """GPUs with three decimals, kept as milli-GPU."""

    def __init__(self, empty: str = "", **kwargs: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal", "placeholder": empty})
        super().__init__(min_value=Decimal(0), decimal_places=3, max_digits=12, widget=widget, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """milli-GPU from the row as GPUs; what the user typed as typed."""
        return f"{Decimal(value) / WHOLE:f}".rstrip("0").rstrip(".") if isinstance(value, int) and value else value

    def clean(self, value: Any) -> int | None:
        """GPUs to milli-GPU."""
        given = super().clean(value)
        return None if given is None else int(given * WHOLE)


class ServiceAdmin(ModelAdmin):
    """Rows that a service writes. The form says how."""

    form: type[ServiceForm] = ServiceForm
    compressed_fields = True
    list_fullwidth = True
    actions = None

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, with the user as its actor."""
        made = super().get_form(request, obj, change, **kwargs)
        return type(made.__name__, (made,), {"actor": request.user.get_username()})

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save through the service. Between check and save another may have been faster: then nothing is written."""
        saved, warnings = form.carry_out()
        obj.__dict__.update(saved.__dict__)
        for warning in warnings:
            messages.warning(request, warning)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Delete, or say why the service does not."""
        try:
            answer: HttpResponse = super().delete_view(request, object_id, extra_context)
            return answer
        except Refused as refused:
            messages.error(request, refused.message)
            return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", object_id)

    def told_of(self, row: Any) -> Q | None:
        """Which events are about a row; None: the console's own history, which knows no values."""
        return None

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Each change with its user, by the console, pages or REST, and each value before and after."""
        row = self.get_object(request, unquote(object_id))
        about = None if row is None or not self.has_view_permission(request, row) else self.told_of(row)
        if about is None:
            usual: HttpResponse = super().history_view(request, object_id, extra_context)
            return usual
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {row}",
            "opts": self.opts,
            "object": row,
            "changes": changes.told(about, HISTORY),
        }
        return TemplateResponse(request, "admin/weft_history.html", context)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """One by one, as the service does it."""
        for row in queryset:
            self.delete_model(request, row)


class Kept(ServiceAdmin):
    """Rows that stay, because accounts refer to them."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No user may."""
        return False


class ReadOnly(ModelAdmin):
    """A log: rows to look at."""

    list_fullwidth = True
    actions = None
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The loops and services write it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No user may."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No user may."""
        return False


def gpus(name: str, label: str, empty: str = "–") -> Callable[[Any, Any], str]:
    """A column of milli-GPU, shown in GPUs."""

    def column(admin: Any, row: Any) -> str:
        value = getattr(row, name)
        return empty if value is None else f"{value / WHOLE:g}"

    column.short_description = label  # type: ignore[attr-defined]
    column.admin_order_field = name  # type: ignore[attr-defined]
    return column
