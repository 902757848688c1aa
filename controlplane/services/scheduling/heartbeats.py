"""How the loops fare, kept in the database: any process can tell whether all of them make progress.

Raw SQL: a round is noted by one upsert that keeps the time of the last complete one.
"""

from controlplane.models import statements
from controlplane.services.scheduling.clock import database_sql

MESSAGE_LENGTH = 400


def beat(*, loop: str, holder: str, took: float, error: str = "") -> None:
    """Note a round of a loop: complete without `error`, else `at` stays where the last complete one put it."""
    at, kept_at = ("NULL", '"controlplane_heartbeat"."at"') if error else (database_sql(),) * 2
    statements.execute(
        'INSERT INTO "controlplane_heartbeat" ("loop", "at", "holder", "took_ms", "error")'  # noqa: S608 - constants
        f" VALUES (%s, {at}, %s, %s, %s)"
        f' ON CONFLICT ("loop") DO UPDATE SET "at" = {kept_at}, "holder" = excluded."holder",'
        ' "took_ms" = excluded."took_ms", "error" = excluded."error"',
        (loop, holder, round(took * 1000, 3), error[:MESSAGE_LENGTH]),
    )
