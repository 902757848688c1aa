"""The policy's versions with what each changed."""

from collections.abc import Sequence
from typing import Any

from autoscaler.settings import Settings as ScalingSettings
from controlplane.domain.policy import Change, Policy, difference
from controlplane.domain.policyfields import known_fields
from controlplane.models import PolicyVersion
from scheduler.model.settings import Settings


def versions() -> Any:
    """All versions; order them by -pk for the newest first."""
    return PolicyVersion.objects.all()


def in_force() -> int:
    """The number of the version in force; 0 for the defaults."""
    return int(PolicyVersion.objects.order_by("-pk").values_list("pk", flat=True).first() or 0)


def scheduling() -> Settings:
    """How the scheduler decides by the version in force."""
    return _current().scheduling


def scaling() -> ScalingSettings:
    """How the autoscaler does."""
    return _current().scaling


def rows(found: Sequence[PolicyVersion]) -> list[dict[str, Any]]:
    """Versions, newest first, each with its difference to the one before."""
    if not found:
        return []
    newest = in_force()
    older = PolicyVersion.objects.filter(pk__lt=min(v.pk for v in found)).order_by("-pk").first()
    line = [*sorted(found, key=lambda v: -v.pk), older]
    return [_row(line[i], line[i + 1], newest) for i in range(len(found))]  # type: ignore[arg-type]


def row(number: int) -> dict[str, Any] | None:
    """One version with all its settings; 0 is the defaults. None if there is none."""
    if number == 0:
        return {
            "version": 0, "at": None, "author": "", "comment": "The defaults", "in_force": in_force() == 0,
            "changes": [], "settings": Policy().to_dict(),
        }  # fmt: skip
    found = PolicyVersion.objects.filter(pk=number).first()
    return None if found is None else {**rows([found])[0], "settings": Policy.stored(found.data).to_dict()}


def changes_of(version: PolicyVersion) -> tuple[Change, ...]:
    """What a version changed against the one before it."""
    return _changes(version, PolicyVersion.objects.filter(pk__lt=version.pk).order_by("-pk").first())


def since(version: PolicyVersion) -> tuple[Change, ...]:
    """What has changed from a version to the one in force."""
    newest = PolicyVersion.objects.order_by("-pk").first()
    return difference(Policy.stored(version.data), Policy.stored(newest.data) if newest else Policy())


def described() -> list[dict[str, Any]]:
    """Each setting: its unit, bounds, words and what it does."""
    return [
        {
            "field": f.path,
            "default": {} if f.is_cells else f.default,
            "unit": f.unit,
            "min": f.least if f.is_number else None,
            "max": f.most if f.is_number else None,
            "choices": list(f.allowed(in_force=True)),
            "about": f.about,
        }
        for f in known_fields()
    ]


def _current() -> Policy:
    data = PolicyVersion.objects.order_by("-pk").values_list("data", flat=True).first()
    return Policy() if data is None else Policy.stored(data)


def _row(version: PolicyVersion, before: PolicyVersion | None, newest: int) -> dict[str, Any]:
    return {
        "version": version.pk,
        "at": version.at.isoformat().replace("+00:00", "Z"),
        "author": version.author,
        "comment": version.comment,
        "in_force": version.pk == newest,
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in _changes(version, before)],
    }


def _changes(version: PolicyVersion, before: PolicyVersion | None) -> tuple[Change, ...]:
    return difference(Policy.stored(before.data) if before else Policy(), Policy.stored(version.data))
