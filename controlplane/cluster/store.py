"""The simulated cluster's file: its rows in SQLite, so that it survives the end of every process, kill -9 included.

It is apart from the control plane's database on purpose: machines do not forget their pods when the control plane
restores a backup. Each change of the cluster is one transaction. Versions count transactions; a reader asks for the
rows after the version it knows.

Raw SQL: it is no database of Django's.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from controlplane.cluster.entities import Entity
from controlplane.cluster.port import ClusterUnreachable
from controlplane.cluster.simulated import Changed, Head
from controlplane.cluster.world import TABLES

WAIT_SECONDS = 30.0  # for another process to finish its change
# Deleted rows stay as marks for others to see; after so many versions they are dropped, and a reader that is further
# behind than that reads everything again.
KEEP_MARKS = 5000
KINDS: Mapping[str, type[Entity]] = {kind.TABLE: kind for kind in TABLES}
SCHEMA = """
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, purged INTEGER, body TEXT);
CREATE TABLE IF NOT EXISTS row (
    kind TEXT, name TEXT, version INTEGER, body TEXT, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS row_version ON row (version);
"""


class ClusterStore:
    """A simulated cluster's file. One instance belongs to one thread; a file may be open in any number of them.

    Raises ClusterUnreachable when the file is locked for too long or cannot be written.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        # isolation_level None: transactions are begun here, and nowhere else.
        self._file = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)
        with _reachable():
            # WAL with NORMAL: a crash of the process loses nothing; one of the machine at most the last moments.
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer of the file; on leaving, all or nothing is kept."""
        with _reachable():
            self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _reachable():
                self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def changes(self, after: int) -> Changed | None:
        """What was written after this version, of one moment; None for nothing."""
        with _reachable():
            newest = self._file.execute("SELECT version FROM head").fetchone()
            if newest is None or newest[0] == after:
                return None
            if self._file.in_transaction:
                return self._changes(after)
            self._file.execute("BEGIN")
            try:
                return self._changes(after)
            finally:
                self._file.execute("COMMIT")

    def write(self, head: Head, rows: Mapping[tuple[str, str], Entity | None]) -> int:
        """Keep these rows (None: delete); inside `writing`. Returns the new version."""
        with _reachable():
            known = self._file.execute("SELECT version, purged FROM head").fetchone()
            version, purged = (known[0] + 1, known[1]) if known else (1, 0)
            if version % KEEP_MARKS == 0:
                purged = version - KEEP_MARKS
                self._file.execute("DELETE FROM row WHERE body IS NULL AND version <= ?", [purged])
            self._file.executemany(
                "INSERT INTO row VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body",
                [(kind, name, version, None if row is None else row.body()) for (kind, name), row in rows.items()],
            )
            self._file.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?)", [version, purged, _text(head)])
        return int(version)

    def _changes(self, after: int) -> Changed:
        version, purged, body = self._file.execute("SELECT version, purged, body FROM head").fetchone()
        is_whole = after <= 0 or after < purged or after > version
        found = self._file.execute("SELECT kind, name, body FROM row WHERE version > ?", [0 if is_whole else after])
        rows: list[Entity] = []
        deleted: list[tuple[str, str]] = []
        for kind, name, text in found:
            if text is None:
                deleted.append((kind, name))
            else:
                rows.append(KINDS[kind].of(text))
        return Changed(version, Head(*json.loads(body)), tuple(rows), tuple(deleted), is_whole)


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ClusterUnreachable(f"The simulated cluster's file cannot be used: {error}.") from error


def _text(head: Head) -> str:
    return json.dumps(astuple(head))
