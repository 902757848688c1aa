"""Half a year for `storage`: the rows that a day wrote, again and again, each time a little later.

The day's rows are put aside (schema `day`). A copy of the day has workloads of its own, which have all ended, and
what else they wrote: placements, usage, dependencies, events, rounds, samples, and a row of the audit log for each
submission, as by REST. Everything lies as much earlier as the copy says; the day itself is the last.
"""

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from django.db import connection

from controlplane.security.auditchain import COLUMNS, FIRST, digest_of

DAYS, DAY = 180, 86_400
OLD = ("event", "cycle", "teamsample", "servicewindow", "workloadsample")  # which go by age, so their order counts
ASIDE = (*OLD, "workload", "placement", "usage", "dependency")
# Cluster-clock columns of a table.
TIMES = {
    "workload": (
        "reason_at", "submitted_at", "queued_at", "not_before", "started_at", "first_started_at", "idle_since",
        "ended_at", "deadline", "checkpointed_at", "scaled_at",
    ),
    "placement": ("bound_at", "released_at", "accounted_to"),
    "usage": ("hour",), "dependency": (), "event": ("cluster_at",), "cycle": ("cluster_at",), "teamsample": ("at",),
    "servicewindow": ("start",), "workloadsample": ("at",),
}  # fmt: skip
# The event that the audit log has of a submission.
SUBMITTED = {
    "kind": "Submitted", "workload": "00000000-0000-4000-8000-000000000000", "phase": "Queued",
    "data": {"kind": "training", "priority": 100},
}  # fmt: skip
OF_WORKLOADS = ("uid", "workload", "workload_id", "needs_id")


def run(statement: str) -> int:
    """Run a statement; how many rows it met."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(statement)
        return int(cursor.rowcount)


def one(statement: str) -> int:
    """The number that a query tells."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0] or 0)


def put_aside() -> None:
    """Have the day's rows in tables of their own, without those that go by age where they were."""
    run("CREATE SCHEMA day")
    for table in ASIDE:
        run(f"CREATE TABLE day.{table} AS SELECT * FROM controlplane_{table}")  # noqa: S608
    run("UPDATE day.cycle SET input = NULL, is_base = false")
    run("TRUNCATE " + ", ".join(f"controlplane_{table}" for table in OLD))


class Copies:
    """The copies of the day: how many, and when each was."""

    def __init__(self, workloads: int, end: float) -> None:
        self.each = one("SELECT count(*) FROM day.workload")
        self.count = max(2, math.ceil(workloads / self.each))
        self.workloads = self.count * self.each
        self._seqs = one("SELECT max(seq) FROM day.workload") + 1
        self._end, self._now = end, datetime.now(UTC)
        self._head = (0, FIRST)
        # The day itself is the last.
        run(f"UPDATE controlplane_workload SET seq = seq + {self._seqs * self.count}")  # noqa: S608 - a number

    def shift(self, copy: int) -> int:
        """Seconds by which a copy lies before the day, in whole hours."""
        return (self.count - 1 - copy) * DAYS * DAY // self.count // 3600 * 3600

    def slices(self, days: int) -> Iterator[range]:
        """The copies of so many days each, the oldest first."""
        step = max(1, self.count * days // DAYS)
        for first in range(0, self.count, step):
            yield range(first, min(first + step, self.count))

    def write(self, copies: Sequence[int]) -> None:
        """Write these copies."""
        for copy in copies:
            is_last = copy == self.count - 1  # the day itself, whose workloads are there
            days = (self.shift(copy) // DAY, self.shift(copy - 1) // DAY)
            for table in OLD if is_last else ("workload", *(t for t in ASIDE if t != "workload")):
                if table != "teamsample" or is_last or days[0] != days[1]:  # one row a team and minute, once a day
                    run(self._copying(table, copy, is_last))
            self._log(copy)

    def _copying(self, table: str, copy: int, is_last: bool) -> str:
        shift = self.shift(copy)
        names = self._columns(table)
        before = f"({self._now.timestamp() - self._end - shift})"  # of the database's clock when the cluster's was 0
        values = []
        for name in names:
            if name in TIMES[table]:
                values.append(f"{name} - {shift}")
            elif name in OF_WORKLOADS and not is_last:
                values.append(f"md5({name}::text || '{copy}')::uuid")
            elif name == "at":
                values.append(f"to_timestamp(cluster_at + {before})")
            elif name == "seq":
                values.append(f"seq + {self._seqs * copy}")
            else:
                values.append(self._ended(table, name, shift))
        listed = ", ".join(f'"{name}"' for name in names)
        order = "ORDER BY id" if table in OLD else ""
        return (
            f"INSERT INTO controlplane_{table} ({listed}) SELECT {', '.join(values)} "  # noqa: S608 - names of ours
            f"FROM day.{table} {order} ON CONFLICT DO NOTHING"
        )

    def _ended(self, table: str, name: str, shift: int) -> str:
        """All work of a copy has ended."""
        if table == "workload" and name == "phase":
            return "CASE WHEN ended_at IS NULL THEN 'Succeeded' ELSE phase END"
        if table == "placement":
            return {"state": "'Released'", "is_settled": "true"}.get(name, f'"{name}"')
        return f'"{name}"'

    def _columns(self, table: str) -> list[str]:
        with connection.cursor() as cursor:
            columns = connection.introspection.get_table_description(cursor, f"controlplane_{table}")
        return [column.name for column in columns if column.name != "id"]

    def _log(self, copy: int) -> None:
        """A row of the audit log for each workload of a copy."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT w.name, t.name, w.submitted_at FROM day.workload w "
                "JOIN controlplane_team t ON t.id = w.team_id ORDER BY seq"
            )
            made = cursor.fetchall()
            listed = ", ".join(f'"{name}"' for name in (*COLUMNS, "digest"))
            with cursor.copy(f"COPY controlplane_auditentry ({listed}) FROM STDIN") as out:
                number, digest = self._head
                for name, team, submitted in made:
                    number += 1
                    at = self._now - timedelta(seconds=self._end - submitted + self.shift(copy))
                    changes = json.dumps([{"team": team, "name": name, **SUBMITTED}])
                    row = (
                        number, at, "mel", "weft_abcde", "10.20.30.40", "POST", "api/v1/workloads", "/api/v1/workloads",
                        201, "done", "Submitted", team, name, changes,
                    )  # fmt: skip
                    digest = digest_of(digest, row)
                    out.write_row((*row, digest))
                self._head = number, digest


def sizes() -> dict[str, int]:
    """Bytes of each table with its indexes, the largest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 12"
        )
        return {str(name): int(size) for name, size in cursor.fetchall()}


def vacuum() -> None:
    """As autovacuum does it, now instead of some minutes later: space becomes free for new rows, files keep it."""
    run("VACUUM (ANALYZE)")
