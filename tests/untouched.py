"""What is stored, table by table: a refused request must leave it as it was."""

import hashlib
import re

from django.apps import apps
from django.db import connection
from django.db.models import CharField, TextField

# What asking alone may write: the row of the audit log, the session, failures to sign in, keys of answers.
OF_ASKING = ("auditentry", "session", "signinfailures", "idempotencykey")
NOTED = {"token": ("last_used_at",), "user": ("last_login",)}  # columns that asking with them writes


def stored() -> dict[str, str]:
    """A digest of all rows of each table but those that asking writes."""
    return {
        model.__name__: _digest(model._meta.db_table, [f.column for f in model._meta.concrete_fields if not _noted(f)])
        for model in apps.get_models()
        if model._meta.managed and model._meta.model_name not in OF_ASKING
    }


def _noted(field: object) -> bool:
    model = field.model._meta.model_name  # type: ignore[attr-defined]
    return field.name in NOTED.get(model, ())  # type: ignore[attr-defined]


def _digest(table: str, columns: list[str]) -> str:
    named = ", ".join(connection.ops.quote_name(column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {named} FROM {connection.ops.quote_name(table)} ORDER BY 1")
        return hashlib.sha256(repr(cursor.fetchall()).encode("utf-8", "surrogatepass")).hexdigest()


def columns_with(pattern: re.Pattern[str]) -> list[str]:
    """The text columns in which a value matches, as Model.column: value."""
    found = []
    for model in apps.get_app_config("controlplane").get_models():
        names = [field.name for field in model._meta.concrete_fields if isinstance(field, CharField | TextField)]
        for row in model._default_manager.values(*names) if names else ():
            found += [
                f"{model.__name__}.{name}: {text!r}" for name, text in row.items() if text and pattern.search(text)
            ]
    return found
