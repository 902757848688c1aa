"""Job files drawn from the job file's own table: every type, and every optional field in as many as are asked for.

A field that is new in `jobfile` is in these files, too, or `files` says that it has no values for it yet.
"""

import copy
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from controlplane.jobspec import jobfile
from controlplane.jobspec.named import Named
from controlplane.jobspec.shapes import REQUIRED, Choice, Field, Flag, Items, Record, Shape
from scheduler.model.workload import Kind
from tests.controlplane.kubernetes import values

File = dict[str, Any]


def optional(kind: Kind) -> list[str]:
    """The dotted names of a type's optional fields, those of records and lists of records included."""
    return list(_optional(jobfile.RECORDS[kind], ""))


def given(file: File) -> set[str]:
    """The dotted names of the fields that a file gives."""
    return set(_given(jobfile.RECORDS[Kind(file["type"])], file, ""))


def files(least: int, of_each: int, seed: int = 1) -> list[File]:
    """At least `least` files without fault, with each optional field of each type in at least `of_each` of them."""
    draw = random.Random(seed)  # noqa: S311 - nothing is secret here
    made: list[File] = []
    counts = {kind: Counter({name: 0 for name in optional(kind)}) for kind in Kind}
    while len(made) < least or min(min(count.values()) for count in counts.values()) < of_each:
        kind = min(Kind, key=lambda kind: min(counts[kind].values()))
        rarest = min(counts[kind], key=lambda name: counts[kind][name])
        file = _Maker(draw, len(made), rarest).file(kind)
        counts[kind].update(given(file) & counts[kind].keys())
        made.append(file)
        if len(made) > 10 * least:
            raise AssertionError(f"{kind} files hardly ever get {rarest}: its values or its rules forbid it.")
    return made


def _optional(record: Record, at: str) -> Iterator[str]:
    for field in record.fields:
        name = f"{at}{field.name}"
        if field.default is not REQUIRED:
            yield name
        if inner := _record(field.shape):
            yield from _optional(inner, f"{name}.")


def _given(record: Record, value: File, at: str) -> Iterator[str]:
    for field in record.fields:
        if field.name not in value:
            continue
        yield f"{at}{field.name}"
        if inner := _record(field.shape):
            mine = value[field.name]
            for one in mine if isinstance(mine, list) else [mine]:
                if isinstance(one, str):  # the short form of a record
                    continue
                yield from _given(inner, one, f"{at}{field.name}.")


def _record(shape: Shape) -> Record | None:
    """The record that a shape is, or is a list of."""
    shape = shape.each if isinstance(shape, Items) else shape
    shape = shape.record if isinstance(shape, Named) else shape
    return shape if isinstance(shape, Record) else None


class _Maker:
    """One file. wanted: the optional field that it gives in any case."""

    def __init__(self, draw: random.Random, number: int, wanted: str) -> None:
        self._draw = draw
        self._number = number
        self._wanted = wanted

    def file(self, kind: Kind) -> File:
        """A file without fault."""
        file = self._fields(jobfile.RECORDS[kind], "")
        for settle in values.SETTLED:
            settle(file, kind, self._number, self._draw, self._wanted)
        return file

    def _fields(self, record: Record, at: str) -> File:
        return {f.name: self._value(f.shape, f"{at}{f.name}") for f in record.fields if self._has(f, f"{at}{f.name}")}

    def _has(self, field: Field, name: str) -> bool:
        is_wanted = self._wanted == name or self._wanted.startswith(f"{name}.")
        return field.default is REQUIRED or is_wanted or self._draw.random() < 0.5

    def _value(self, shape: Shape, name: str) -> Any:
        parts = name.split(".")
        for first in range(len(parts)):
            if known := values.VALUES.get(".".join(parts[first:])):
                return copy.deepcopy(self._draw.choice(known))
        if isinstance(shape, Choice | Flag):
            return self._draw.choice(shape.words if isinstance(shape, Choice) else (True, False))
        if isinstance(shape, Record):
            return self._fields(shape, f"{name}.")
        if isinstance(shape, Items) and isinstance(shape.each, Record):
            return [self._fields(shape.each, f"{name}.") for _ in range(self._draw.choice((1, 1, 2)))]
        raise AssertionError(f"There are no values for the field {name}. Add some to values.VALUES.")
