"""Plain SQL for what the loops do in every round: the ORM spends ten times longer on composing than on running.

Values go through the fields' own preparation and conversion, so that JSON, UUIDs and booleans are stored and read as
the ORM does on either database.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, models

from controlplane.models.among import column_type, condition
from controlplane.models.lookups import NOTHING, PLAIN, Where, composed, for_update

Convert = Callable[[Any], Any]
Added = tuple[tuple[str, ...], tuple[str, ...]]  # the columns that find a row, and those that are added to
DEADLOCK, LOCK_TIMEOUT = "40P01", "55P03"  # SQLSTATE
CHUNK = 10_000  # values or rows in one statement, so that each ends long before its time-out of 10 s


def insert(
    model: type[models.Model],
    names: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    *,
    ignore: bool = False,
    added: Added | None = None,
    **sql: str,
) -> None:
    """Insert rows of values for `names`; `sql` gives columns that get an SQL expression instead.

    ignore: leave out the rows that are there. added: of a row that is there, add to these columns.
    """
    if not rows:
        return
    conflict = "ON CONFLICT DO NOTHING" if ignore else _adding(model, *added) if added else ""
    # A conflict clause may meet the same row twice, which one statement may not.
    if _is_postgres() and len(rows) > 1 and not conflict:
        for part in chunks(rows):
            _insert_together(model, names, part, sql)
    else:
        _execute(f"{_insertion(model, names, sql)} {conflict}", _fields(model, names), rows)


def insert_columns(model: type[models.Model], columns: Mapping[str, Sequence[Any]]) -> None:
    """Insert rows given as columns, under the columns' own names, of values as the database stores them."""
    names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        statement = f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES ({marks})'  # noqa: S608
        cursor.executemany(statement, list(zip(*columns.values(), strict=True)))


def insert_one(model: type[models.Model], names: tuple[str, ...], row: Sequence[Any], **sql: str) -> int:
    """Insert one row and tell its number."""
    fields = _fields(model, names)
    values = [field.get_db_prep_save(value, connection) for field, value in zip(fields, row, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(f'{_insertion(model, names, sql)} RETURNING "id"', values)
        return int(cursor.fetchone()[0])


def _insertion(model: type[models.Model], names: tuple[str, ...], sql: Mapping[str, str]) -> str:
    fields = _fields(model, names)
    columns = ", ".join([f'"{field.column}"' for field in fields] + [f'"{name}"' for name in sql])
    values = ", ".join(["%s"] * len(fields) + list(sql.values()))
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({values})'  # noqa: S608


def _adding(model: type[models.Model], keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    found = ", ".join(f'"{field.column}"' for field in _fields(model, keys))
    columns = [f'"{field.column}"' for field in _fields(model, names)]
    sums = ", ".join(f'{column} = "{model._meta.db_table}".{column} + excluded.{column}' for column in columns)
    return f"ON CONFLICT ({found}) DO UPDATE SET {sums}"


def update(
    model: type[models.Model],
    names: tuple[str, ...],
    keys: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    *,
    in_order: bool = False,
) -> int:
    """Set `names` in the row that `keys` find, for each row of (names' values, keys' values); tell how many matched.

    No two rows may have the same keys. in_order: lock the rows by their keys first, for tables that several
    transactions write at once; without it a statement takes them in any order, and two of them may wait for each other.
    """
    if not rows:
        return 0
    if _is_postgres() and len(rows) > 1:
        return sum(_update_together(model, names, keys, part, in_order) for part in chunks(rows))
    fields = _fields(model, names + keys)
    assigned = ", ".join(f'"{field.column}" = %s' for field in fields[: len(names)])
    found = " AND ".join(f'"{field.column}" = %s' for field in fields[len(names) :])
    return _execute(f'UPDATE "{model._meta.db_table}" SET {assigned} WHERE {found}', fields, rows)  # noqa: S608


def delete(model: type[models.Model], key: str, values: Sequence[Any]) -> None:
    """Delete the rows with these keys; nothing that refers to them is looked for."""
    if _is_postgres():
        for part in chunks(values):
            with connection.cursor() as cursor:
                (field,) = _fields(model, (key,))
                where, among_these = condition(f'"{field.column}"', field, part, _database())
                cursor.execute(f'DELETE FROM "{model._meta.db_table}" WHERE {where}', among_these)  # noqa: S608
    elif values:
        (field,) = _fields(model, (key,))
        statement = f'DELETE FROM "{model._meta.db_table}" WHERE "{field.column}" = %s'  # noqa: S608
        _execute(statement, (field,), [(value,) for value in values])


# --- many rows in one statement, as one JSON parameter: both sides read it faster than ten thousand marks ----


def _database() -> Any:
    """The thread's connection itself: `connection` looks for it at each use."""
    return connections[DEFAULT_DB_ALIAS]


def _is_postgres() -> bool:
    return connection.vendor == "postgresql"


def _insert_together(
    model: type[models.Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]], sql: Mapping[str, str]
) -> None:
    fields = _fields(model, names)
    columns = ", ".join([f'"{field.column}"' for field in fields] + [f'"{name}"' for name in sql])
    values = ", ".join([f'"v"."v{number}"' for number in range(len(fields))] + list(sql.values()))
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{model._meta.db_table}" ({columns}) SELECT {values} FROM {_table(fields)}',  # noqa: S608
            (_as_json(fields, rows),),
        )


def _update_together(
    model: type[models.Model],
    names: tuple[str, ...],
    keys: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    in_order: bool,
) -> int:
    fields, table = _fields(model, names + keys), model._meta.db_table
    assigned = ", ".join(f'"{field.column}" = "v"."v{i}"' for i, field in enumerate(fields[: len(names)]))
    columns = [field.column for field in _fields(model, keys)]
    found = " AND ".join(f'"t"."{column}" = "v"."v{i}"' for i, column in enumerate(columns, len(names)))
    values = _table(fields)
    if in_order:
        by = ", ".join(f'"t"."{column}"' for column in columns)
        locked = f'SELECT "v".* FROM "{table}" "t", {values} WHERE {found} ORDER BY {by}'  # noqa: S608
        values = f'({locked} {for_update()} OF "t") AS "v"'
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{table}" "t" SET {assigned} FROM {values} WHERE {found}',  # noqa: S608
            (_as_json(fields, rows),),
        )
        return int(cursor.rowcount)


@lru_cache(maxsize=256)
def _table(fields: tuple[Any, ...]) -> str:
    """The rows of `_as_json` as a table "v" with columns "v0", "v1", ..."""
    columns = ", ".join(f'"v{number}" {column_type(field, connection)}' for number, field in enumerate(fields))
    return f'json_to_recordset(%s::json) AS "v" ({columns})'


def _as_json(fields: tuple[Any, ...], rows: Sequence[Sequence[Any]]) -> str:
    preparing = [(i, prepare) for i, prepare in _preparing(fields) if not isinstance(fields[i], models.JSONField)]
    names = [f"v{number}" for number in range(len(fields))]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    for index, prepare in preparing:
        name = names[index]
        for record in records:
            record[name] = _as_text(prepare(record[name], connection))
    return json.dumps(records)


def _as_text(value: Any) -> str | None:
    """A value that JSON has no word for (UUID, time, decimal, bytes) as Postgres reads it."""
    if value is None or isinstance(value, str):
        return value
    return f"\\x{bytes(value).hex()}" if isinstance(value, bytes | memoryview) else str(value)


def select(
    model: type[models.Model],
    names: tuple[str, ...],
    where: Where = NOTHING,
    *,
    order: tuple[str, ...] = (),
    limit: int | None = None,
    locks: bool = False,
    extra: tuple[str, ...] = (),
) -> list[Any]:
    """Read columns of the rows that meet all of `where` (lookups.py), as lists. `team__name` is a column of `team`.

    locks: keep others from writing these rows until the transaction ends. extra: SQL expressions after the columns.
    """
    columns, converters = reading(model, names)
    listed = ", ".join((*columns, *extra))
    end, values = composed(model, where, order, limit, locks=locks)
    with _database().cursor() as cursor:
        cursor.execute(f'SELECT {listed} FROM "{model._meta.db_table}" {end}', values)  # noqa: S608
        rows = cursor.fetchall()
    return [converted(row, converters) for row in rows] if converters else rows


def count(model: type[models.Model], by: tuple[str, ...] = (), where: Where = NOTHING) -> list[Any]:
    """How many rows meet all of `where`: for each set of values of the columns `by`, these and the number."""
    columns, converters = reading(model, by)
    end, values = composed(model, where)
    listed, grouped = ", ".join((*columns, "COUNT(*)")), f"GROUP BY {', '.join(columns)}" if by else ""
    with _database().cursor() as cursor:
        cursor.execute(f'SELECT {listed} FROM "{model._meta.db_table}" {end} {grouped}', values)  # noqa: S608
        return [converted(row, converters) for row in cursor.fetchall()]


def stored(model: type[models.Model], name: str, values: Iterable[Any]) -> list[Any]:
    """Values of a column as the database stores them."""
    prepare, database = _fields(model, (name,))[0].get_db_prep_save, _database()
    return [prepare(value, database) for value in values]


def is_lost_to_others(error: OperationalError) -> bool:
    """Whether Postgres ended this transaction because others hold rows it waits for, in a circle or too long: again."""
    return getattr(error.__cause__, "sqlstate", "") in (DEADLOCK, LOCK_TIMEOUT)


def chunks(values: Iterable[Any], most: int = CHUNK) -> Iterator[list[Any]]:
    """The values in lists short enough for one statement."""
    every = list(values)
    for start in range(0, len(every), most):
        yield every[start : start + most]


@lru_cache(maxsize=256)
def _fields(model: type[models.Model], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(model._meta.get_field(name) for name in names)


@lru_cache(maxsize=256)
def reading(
    model: type[models.Model], names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[int, Convert], ...]]:
    """Column names, and what converts the values of those that are not stored as they are."""
    fields = tuple(_named(model, name) for name in names)
    converters = ((index, _converter(field.model, field)) for index, (field, _) in enumerate(fields))
    return tuple(column for _, column in fields), tuple((i, c) for i, c in converters if c is not None)


def _named(model: type[models.Model], name: str) -> tuple[Any, str]:
    """A column of the table, or with "__" one of the row that a foreign key points to: its field, and as SQL."""
    through, _, own = name.rpartition("__")
    if not through:
        field: Any = model._meta.get_field(name)
        return field, f'"{field.column}"'
    link: Any = model._meta.get_field(through)
    of = link.related_model
    field = of._meta.get_field(own)
    here = f'"{model._meta.db_table}"."{link.column}"'
    found = f'SELECT "r"."{field.column}" FROM "{of._meta.db_table}" "r" WHERE "r"."{of._meta.pk.column}" = {here}'  # noqa: S608
    return field, f"({found})"


def _converter(model: type[models.Model], field: Any) -> Convert | None:
    column = field.get_col(model._meta.db_table)  # of a foreign key: with the type of what it points to
    if isinstance(column.output_field, models.JSONField):
        return _from_json
    found = (*connection.ops.get_db_converters(column), *column.output_field.get_db_converters(connection))
    if not found:
        return None
    if isinstance(column.output_field, models.UUIDField):
        return _from_hex

    def convert(value: Any) -> Any:
        for step in found:
            value = step(value, column, connection)
        return value

    return convert


def _from_json(value: str | None) -> Any:
    return [] if value == "[]" else None if value is None else json.loads(value)


def _from_hex(value: str | None) -> Any:
    return None if value is None else UUID(value)


def converted(row: Sequence[Any], converters: tuple[tuple[int, Convert], ...]) -> list[Any]:
    """The values of a row as Python has them."""
    values = list(row)
    for index, convert in converters:
        values[index] = convert(values[index])
    return values


@lru_cache(maxsize=256)
def _preparing(fields: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    """Which values have to be prepared: numbers, texts and truth values go as they are."""
    return tuple((i, f.get_db_prep_save) for i, f in enumerate(fields) if not isinstance(_target(f), PLAIN))


def _target(field: Any) -> Any:
    return field.target_field if field.is_relation else field


def _prepared(fields: tuple[Any, ...], rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    preparing = _preparing(fields)
    if not preparing:
        return list(rows)
    prepared: list[Sequence[Any]] = []
    database = _database()
    for row in rows:
        values = list(row)
        for index, prepare in preparing:
            values[index] = prepare(values[index], database)
        prepared.append(values)
    return prepared


def _execute(statement: str, fields: tuple[Any, ...], rows: Sequence[Sequence[Any]]) -> int:
    values = _prepared(fields, rows)
    with _database().cursor() as cursor:
        if len(values) == 1:
            cursor.execute(statement, values[0])
        else:
            cursor.executemany(statement, values)
        return int(cursor.rowcount)
