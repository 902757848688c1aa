"""How the loops fare, kept in the database: any process can tell whether all of them make progress."""

from django.db import connection

from controlplane.services.scheduling.clock import database_sql

MESSAGE_LENGTH = 400


def beat(*, loop: str, holder: str, took: float, error: str = "") -> None:
    """Note a round of a loop: complete without `error`, else `at` stays where the last complete one put it."""
    at, kept_at = ("NULL", '"controlplane_heartbeat"."at"') if error else (database_sql(),) * 2
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO "controlplane_heartbeat" ("loop", "at", "holder", "took_ms", "error")'  # noqa: S608 - constants
            f" VALUES (%s, {at}, %s, %s, %s)"
            f' ON CONFLICT ("loop") DO UPDATE SET "at" = {kept_at}, "holder" = excluded."holder",'
            ' "took_ms" = excluded."took_ms", "error" = excluded."error"',
            (loop, holder, round(took * 1000, 3), error[:MESSAGE_LENGTH]),
        )
