"""The threads that answer requests keep their database connections, but not dead ones."""

import asyncio
import sqlite3
from collections.abc import Iterator

import psycopg

from controlplane.asgi import PART, Handler, _together, has_hung_up
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


def test_a_file_is_read_as_it_is_taken() -> None:
    """Whoever asks for a large file and reads slowly would else hold all of it in our memory."""
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(10):
            read.append(number)
            yield b"a" * PART

    async def taken(count: int) -> list[int]:
        rest = pieces()
        parts = Handler()._parts(rest, _together(rest))
        sizes = [len(await anext(parts)) for _ in range(count)]
        await parts.aclose()
        return sizes

    assert asyncio.run(taken(2)) == [PART, PART]
    assert read == [0, 1]
