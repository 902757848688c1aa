"""Rows that are written unless they are there, and otherwise by a condition on what is there: in one statement.

Raw SQL: the ORM's upserts set columns to the values of the new row, under no condition. Two transactions that write the
same row wait for each other here, and the second sees what the first wrote.
"""

from datetime import datetime

from controlplane.models import IdempotencyKey, SignInFailures, bulk, statements


def count_failure(key: str, *, now: datetime, until: datetime) -> None:
    """Count one more sign-in that failed; the count begins again when its window is over."""
    table = SignInFailures._meta.db_table
    ends, moment = bulk.stored(SignInFailures, "until", (until, now))
    statements.execute(
        f'INSERT INTO "{table}" ("key", "count", "until") VALUES (%s, 1, %s) '  # noqa: S608
        'ON CONFLICT ("key") DO UPDATE SET '
        f'"count" = CASE WHEN "{table}"."until" <= %s THEN 1 ELSE "{table}"."count" + 1 END, '
        f'"until" = CASE WHEN "{table}"."until" <= %s THEN excluded."until" ELSE "{table}"."until" END',
        (key, ends, moment, moment),
    )


def claim_key(user: int, key: str, digest: str, *, now: datetime, until: datetime) -> bool:
    """Take an idempotency key of this user: False if it is there and has not expired."""
    table = IdempotencyKey._meta.db_table
    made = statements.rows(
        f'INSERT INTO "{table}" ("user_id", "key", "digest", "body", "headers", "expires_at") '  # noqa: S608
        "VALUES (%s, %s, %s, '', '{}', %s) ON CONFLICT (\"user_id\", \"key\") DO UPDATE SET "
        '"digest" = excluded."digest", "status" = NULL, "expires_at" = excluded."expires_at" '
        f'WHERE "{table}"."expires_at" <= %s RETURNING "id"',
        (user, key, digest, *bulk.stored(IdempotencyKey, "expires_at", (until, now))),
    )
    return bool(made)
