"""The threads that answer requests keep their database connections, but not dead ones."""

import sqlite3

import psycopg

from controlplane.asgi import has_hung_up
from controlplane.testbed.processes import wait_until


def test_a_connection_that_the_server_has_ended_is_seen_without_a_statement(postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as kept, psycopg.connect(postgres_database) as other:
        kept.execute("SELECT 1")
        assert not has_hung_up(kept)
        other.execute("SELECT pg_terminate_backend(%s)", [kept.info.backend_pid])
        wait_until(lambda: has_hung_up(kept), "the end of the connection", 10)


def test_a_closed_connection_has_hung_up_and_one_to_a_file_never_has(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as closed:
        pass
    assert has_hung_up(closed)
    assert not has_hung_up(sqlite3.connect(":memory:"))
