"""Keys of REST that have another name now: answers and requests have both for one minor version.

A serializer of answers says `@renamed(old="new")`, and the view adds the old key beside the new one; a field of a
request's table says `was="old"` (jobspec/shapes.py). Both mark the old one deprecated in the OpenAPI document. An
address that has moved keeps its old route, whose view is declared with `instead`.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers as s

from controlplane.jobspec.oldnames import deprecation

Kind = TypeVar("Kind", bound=type[s.Serializer[Any]])
View = TypeVar("View", bound=type)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where an answer has renamed keys. old: new name by the old one; below: the plan of a key's value."""

    old: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, "Plan"] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.old or self.below)


def renamed(**old: str) -> Callable[[Kind], Kind]:
    """Say which keys of a serializer's answers had another name: `renamed(matter="event_type")`."""

    def declare(kind: Kind) -> Kind:
        fields: dict[str, Any] = kind._declared_fields
        for was, now in old.items():
            fields[was] = deepcopy(fields[now])
            fields[was]._kwargs["help_text"] = deprecation(now)  # of which the framework makes each copy of a field
        known = {**getattr(kind, "old_names", {}), **old}
        kind.old_names = known  # type: ignore[attr-defined]
        return extend_schema_serializer(deprecate_fields=[*known])(kind)

    return declare


class SettingsField(s.JSONField):
    """The settings of a policy by part, of which some had another name."""

    def __init__(self, *, old_names: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = Plan(below={part: Plan(old) for part, old in old_names.items() if old})


def with_old_names(answer: Any, data: Any) -> Any:
    """The data of an answer of this serializer (its class), each renamed key under both names."""
    plan = _plan(answer)
    return _both(plan, data) if plan else data


def old_names(answer: Any) -> tuple[str, ...]:
    """The old names of its keys: columns of a table, after the others."""
    return tuple(_plan(answer).old)


def instead(address: str, **operations: str) -> Callable[[View], View]:
    """Declare the view of an address that has moved. operations: the operation id of each of its methods."""

    def declare(view: View) -> View:
        for verb, operation in operations.items():
            method = getattr(view, verb)
            said = f"{method.__doc__}\n\n{deprecation(address)}"

            def moved(self: Any, *args: Any, _method: Any = method, **kwargs: Any) -> Any:
                return _method(self, *args, **kwargs)

            moved.__name__, moved.__dict__ = verb, {**method.__dict__, "kwargs": dict(method.kwargs)}
            setattr(view, verb, extend_schema(operation_id=operation, deprecated=True, description=said)(moved))
        return view

    return declare


@cache
def _plan(answer: Any) -> Plan:
    fields: Mapping[str, Any] = getattr(answer, "_declared_fields", {})
    old: Mapping[str, str] = getattr(answer, "old_names", {})
    below = {name: plan for name, one in fields.items() if name not in old and (plan := _of_field(one))}
    return Plan(old, below)


def _of_field(one: Any) -> Plan:
    inner = getattr(one, "child", one)
    if isinstance(inner, SettingsField):
        return inner.plan
    return _plan(type(inner)) if isinstance(inner, s.Serializer) else Plan()


def _both(plan: Plan, data: Any) -> Any:
    if isinstance(data, Mapping):
        out = {key: _both(plan.below[key], value) if key in plan.below else value for key, value in data.items()}
        out |= {now: out[was] for was, now in plan.old.items() if was in out and now not in out}  # stored before
        return {**out, **{was: out[now] for was, now in plan.old.items() if now in out}}
    return [_both(plan, one) for one in data] if isinstance(data, list | tuple) else data
