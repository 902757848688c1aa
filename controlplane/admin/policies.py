"""The policy: each save is a new version, never a change of an old one."""

import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from controlplane.admin.base import ReadOnly, ServiceForm
from controlplane.domain.policy import Change, Policy, problems, shown
from controlplane.domain.policyfields import MAX, PARTS, Field, figure, known_fields
from controlplane.models import PolicyVersion
from controlplane.queries.scheduling import policies
from controlplane.services.scheduling import policy

BREAK = SafeString("<br>")
TITLES = {"scheduling": "Scheduling", "scaling": "Replicas of services"}


class NumberField(forms.FloatField):
    """A number as the cores hold it; bounds are checked with all the others, in one sentence each."""

    def __init__(self, about: Field) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"})
        super().__init__(label=label(about), help_text=about.about, widget=widget)
        self.about = about

    def clean(self, value: Any) -> Any:
        """A whole number stays one, so that a version equal to another is stored alike."""
        number = super().clean(value)
        return int(number) if self.about.kind is int and number is not None and number == int(number) else number


class CellsField(forms.CharField):
    """The cells as JSON; what is wrong with them is said with all other faults."""

    def __init__(self, about: Field) -> None:
        super().__init__(
            label=label(about),
            help_text=about.about,
            required=False,
            widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        )

    def clean(self, value: Any) -> Any:
        """The object of this text; a text that is none stays one, for the sentence about it."""
        text = super().clean(value) or "{}"
        try:
            return json.loads(text)
        except ValueError:
            return text


def field_name(field: Field) -> str:
    """The form's name for a setting."""
    return f"{field.part}__{field.name}"


def label(field: Field) -> str:
    """`Ageing, s (1 to 604800)`."""
    words = field.name.removesuffix("_seconds").replace("_", " ").capitalize()
    if not field.is_number or field.kind is bool:
        return words
    unit = f", {field.unit}" if field.unit else ""
    is_open = field.most >= MAX
    bounds = f"{figure(field.least)} or more" if is_open else f"{figure(field.least)} to {figure(field.most)}"
    return f"{words}{unit} ({bounds})"


def _form_field(field: Field) -> forms.Field:
    if field.kind is bool:
        return forms.BooleanField(
            label=label(field), help_text=field.about, required=False, widget=UnfoldBooleanSwitchWidget
        )
    if field.is_cells:
        return CellsField(field)
    if not field.is_word:
        return NumberField(field)
    words = [(word, word) for word in field.allowed(in_force=True)]
    return forms.ChoiceField(
        choices=words, label=label(field), help_text=field.about, widget=UnfoldAdminSelectWidget(choices=words)
    )


class PolicyForm(ServiceForm):
    """All settings of the next version; they start as those in force, or as those of `?from=VERSION`."""

    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = PolicyVersion
        fields = ("comment",)
        labels = {"comment": "Reason"}
        help_texts = {"comment": "One line for readers of the history."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound:
            return
        base, number = policy.current()
        self.initial["seen"] = number or 0
        source = str(self.initial.pop("from", ""))
        if source.isdigit() and (row := policies.row(int(source))) is not None:
            base = Policy.stored(row["settings"])
            self.initial["comment"] = f"As version {source}" if row["version"] else "The default settings"
        values = base.to_dict()
        for field in known_fields():
            value = values[field.part][field.name]
            text = json.dumps(value) if field.is_cells else shown(value)
            self.initial[field_name(field)] = value if field.kind is bool else text

    def clean(self) -> dict[str, Any]:
        """Every setting's fault at its field; then what the service says."""
        if not self.errors:
            for path, sentence in problems(self._settings(), in_force=True).items():
                self.add_error(self.field_of(path), sentence)
        return super().clean()

    def field_of(self, name: str) -> str:
        """`scheduling.ageing_seconds` -> `scheduling__ageing_seconds`."""
        return name.replace(".", "__")

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Save a new version, if the one in force is still the one that was shown."""
        number = policy.save(
            policy=Policy.stored(self._settings()),
            author=self.actor,
            comment=self.cleaned_data.get("comment") or "",
            seen=self.cleaned_data.get("seen") or 0,
        )
        return PolicyVersion.objects.get(pk=number), ()

    def _settings(self) -> dict[str, Any]:
        return {
            part: {f.name: self.cleaned_data[field_name(f)] for f in known_fields() if f.part == part} for part in PARTS
        }


Form = type("Form", (PolicyForm,), {field_name(field): _form_field(field) for field in known_fields()})


@admin.register(PolicyVersion)
class PolicyAdmin(ReadOnly):
    """The scheduling policy's versions; the newest is in force. A new one begins as the one in force."""

    empty_sentence = "The default settings are in use. The first change makes the first version."

    form = Form
    list_display = ("id", "at", "author", "comment", "changed")
    ordering = ("-id",)
    readonly_fields = ("at", "author", "changed", "against_the_one_in_force", "settings")
    actions_detail = ["start_from_this"]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A new version may be saved; an old one never changes."""
        return True

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The history's facts of a version; the settings of a new one."""
        if obj is not None:
            fields = ("at", "author", "comment", "changed", "against_the_one_in_force", "settings")
            return [(None, {"fields": fields})]
        parts = [
            (TITLES[part], {"fields": [field_name(f) for f in known_fields() if f.part == part]}) for part in PARTS
        ]
        return [(None, {"fields": ("comment", "seen")}), *parts]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, with the user as its actor."""
        made = super().get_form(request, obj, change, **kwargs)
        return type(made.__name__, (made,), {"actor": request.user.get_username()})

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save through the service."""
        saved, _ = form.carry_out()
        obj.__dict__.update(saved.__dict__)

    @admin.display(description="Changes from the version before")
    def changed(self, row: PolicyVersion) -> str:
        """The difference, a line each."""
        return _lines(policies.changes_of(row), "Nothing")

    @admin.display(description="Changes since, up to the current version")
    def against_the_one_in_force(self, row: PolicyVersion) -> str:
        """What is other now."""
        return _lines(policies.since(row), "Nothing: this is the current version")

    @admin.display(description="All settings")
    def settings(self, row: PolicyVersion) -> str:
        """Every value of the version."""
        values = Policy.stored(row.data).to_dict()
        lines = ((f"{f.path} = {shown(values[f.part][f.name])} {f.unit}",) for f in known_fields())
        return format_html_join(BREAK, "{}", lines)

    @action(description="New version from this one", url_path="start-from")  # type: ignore[untyped-decorator]
    def start_from_this(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Roll back: the form of a new version with this one's settings."""
        return redirect(reverse("admin:controlplane_policyversion_add") + f"?from={object_id}")


def _lines(changes: Sequence[Change], nothing: str) -> str:
    return format_html_join(BREAK, "{}", ((str(change),) for change in changes)) or nothing
