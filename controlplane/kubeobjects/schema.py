"""The structural schema of a shape of the job file's table: what the API server refuses by itself. Pure.

Where a shape takes several types ("500m" or 8; a name or an object) Kubernetes' schemas have no word for it: such a
value is let through as it is, and what is wrong with it is said by the webhook or, without one, by a condition.
Quantities are texts here, as their own faults name the fix and a pattern names none.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.domain.quotavalues import MilliGpus
from controlplane.jobspec.named import Named
from controlplane.jobspec.shapes import (
    REQUIRED,
    Choice,
    Field,
    Flag,
    Items,
    Pairs,
    Quantity,
    Record,
    Shape,
    Text,
    Whole,
    WholeOrWord,
)
from controlplane.kubeobjects import rules
from controlplane.kubeobjects.names import camel

Json = dict[str, Any]
ANYTHING: Json = {"x-kubernetes-preserve-unknown-fields": True}


def of(shape: Shape) -> Json:
    """The schema of one value."""
    make = _MAKE.get(type(shape))
    if make is None:
        raise TypeError(f"There is no structural schema of a {type(shape).__name__} yet.")
    return make(shape)


def record(shape: Record) -> Json:
    """An object with known fields, and the rules between them."""
    found: Json = {"type": "object", "properties": {camel(f.name): field(f) for f in shape.fields}}
    needed = [camel(f.name) for f in shape.fields if f.default is REQUIRED]
    checks = rules.between({f.name for f in shape.fields})
    return {
        **found,
        **({"required": needed} if needed else {}),
        **({"x-kubernetes-validations": checks} if checks else {}),
    }


def field(one: Field) -> Json:
    """A field's schema with its sentence, which `kubectl explain` shows."""
    return {**of(one.shape), "description": one.about}


def _text(shape: Text) -> Json:
    found: Json = {"type": "string", "maxLength": shape.most}
    if not shape.may_be_empty:
        found["minLength"] = 1
    if shape.pattern:
        pattern = json.dumps(f"^(?:{shape.pattern})$")  # a text of CEL is written as one of JSON
        found["x-kubernetes-validations"] = [{"rule": f"self.matches({pattern})", "message": shape.rule}]
    return found


def _quantity(shape: Quantity) -> Json:
    if not shape.takes_numbers:
        return {"type": "string", "minLength": 1, "maxLength": 32}
    if shape.takes_text:
        return dict(ANYTHING)
    return {"type": "number", "minimum": float(shape.limits[0]), "maximum": float(shape.limits[1])}


def _items(shape: Items) -> Json:
    if shape.takes_one:
        return dict(ANYTHING)
    found: Json = {"type": "array", "items": of(shape.each), "maxItems": shape.most}
    is_set = shape.is_unique and isinstance(shape.each, Text | Whole | Choice)
    return {**found, "x-kubernetes-list-type": "set"} if is_set else found


def _choice(shape: Choice) -> Json:
    return {"type": "string", "enum": list(shape.words)}


def _whole(shape: Whole) -> Json:
    return {"type": "integer", "format": "int64", "minimum": shape.least, "maximum": shape.most}


def _pairs(shape: Pairs) -> Json:
    return {"type": "object", "additionalProperties": of(shape.each), "maxProperties": shape.most}


_MAKE: Mapping[type, Callable[[Any], Json]] = {
    Text: _text,
    Choice: _choice,
    Flag: lambda shape: {"type": "boolean"},
    Whole: _whole,
    WholeOrWord: lambda shape: {"x-kubernetes-int-or-string": True},
    MilliGpus: _whole,
    Quantity: _quantity,
    Items: _items,
    Pairs: _pairs,
    Record: record,
    Named: lambda shape: dict(ANYTHING),
}
