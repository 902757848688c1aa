"""Whole rows as objects, by raw SQL that is composed once: the ORM composes a query for each request anew."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from django.db import connection, models

from controlplane.models.bulk import Convert, converted, reading
from controlplane.models.lookups import NOTHING, Where, composed

M = TypeVar("M", bound=models.Model)


def load(
    model: type[M], where: Where = NOTHING, *, order: tuple[str, ...] = (), related: tuple[str, ...] = ()
) -> list[M]:
    """Read the rows that meet all of `where` (lookups.py) as objects, with what the foreign keys `related` point to.

    What a query set would do, without composing it anew for each request: that takes several times as long as the
    database's answer.
    """
    statement, parts = _loading(model, related)
    end, values = composed(model, where, order, table="t")
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} {end}", values)
        rows = cursor.fetchall()
    known: dict[tuple[int, Any], Any] = {}
    return [_loaded(row, parts, known) for row in rows]


def _loaded(row: Sequence[Any], parts: Sequence["_Part"], known: dict[tuple[int, Any], Any]) -> Any:
    """One row's object; what several rows refer to is made once, by its part's place and its key."""
    made = None
    for part in parts:
        key = row[part.first + part.key]
        one = known.get((part.first, key)) if part.first else None
        if one is None and key is not None:
            values = converted(row[part.first : part.end], part.converters)
            one = known[part.first, key] = part.model.from_db(connection.alias, part.names, values)
        if made is None:
            made = one
        else:
            part.field.set_cached_value(made, one)
    return made


class _Part(NamedTuple):
    """One table's columns in a row of `load`."""

    model: type[models.Model]
    field: Any  # the foreign key that leads to it
    names: list[str]
    key: int  # which of them is the primary key
    first: int
    end: int
    converters: tuple[tuple[int, Convert], ...]


@lru_cache(maxsize=64)
def _loading(model: type[models.Model], related: tuple[str, ...]) -> tuple[str, tuple[_Part, ...]]:
    columns: list[str] = []
    parts: list[_Part] = []
    joins = ""
    for number, name in enumerate(("", *related)):
        field: Any = model._meta.get_field(name) if name else None
        of: Any = field.related_model if field else model
        alias = f"r{number}" if field else "t"
        fields = tuple(one.attname for one in of._meta.concrete_fields)
        names = tuple(one.name for one in of._meta.concrete_fields)
        first = len(columns)
        columns += [f'"{alias}"."{one.column}"' for one in of._meta.concrete_fields]
        if field:
            joins += (
                f' LEFT JOIN "{of._meta.db_table}" "{alias}" ON "{alias}"."{of._meta.pk.column}" = "t"."{field.column}"'
            )
        key = names.index(of._meta.pk.name)
        parts.append(_Part(of, field, list(fields), key, first, len(columns), reading(of, names)[1]))
    return f'SELECT {", ".join(columns)} FROM "{model._meta.db_table}" "t"{joins}', tuple(parts)  # noqa: S608
