"""What reads one moment of the database neither keeps others from writing nor writes."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

from controlplane.models import Workload
from controlplane.queries.audit import audit
from controlplane.queries.scheduling import snapshot
from controlplane.queries.scheduling.moment import one_moment
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db(transaction=True)


def impatiently(write: Callable[[], object]) -> None:
    """Write in another thread, and fail at once where a lock is in the way."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with connection.cursor() as cursor:
                is_postgres = connection.vendor == "postgresql"
                cursor.execute("SET lock_timeout = '100ms'" if is_postgres else "PRAGMA busy_timeout = 0")
            write()
        except DatabaseError as error:
            failed.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failed == []


@pytest.mark.parametrize("read", [snapshot.full, audit.state], ids=["snapshot", "audit"])
def test_what_reads_everything_lets_others_write_and_does_not_see_it(read: Callable[[], Any]) -> None:
    world = World()
    early = world.submit("early")
    written: list[Workload] = []

    def meanwhile(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("SELECT") and connection.in_atomic_block and not written:
            impatiently(lambda: written.append(world.submit("late")))
        return result

    with connection.execute_wrapper(meanwhile), one_moment():
        found = read()
    workloads = getattr(found, "snapshot", found).workloads
    assert [workload.name for workload in written] == ["late"]
    assert set(workloads) == {str(early.pk)}
    assert set(snapshot.full().workloads) == {str(early.pk), str(written[0].pk)}


def test_the_audit_and_a_snapshot_ask_for_no_lock() -> None:
    World().submit("one")
    seen: list[tuple[str, bool]] = []

    def look(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT") and connection.in_atomic_block:
            impatiently(lambda: seen.append((sql, bool(Workload.objects.update(name="other")))))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        snapshot.full()
        audit.violations()
    assert len(seen) > 10
    assert all(was_written for _, was_written in seen)


def test_nothing_is_written_in_a_moment_and_writing_goes_on_after_it() -> None:
    world = World()
    one = world.submit("one")
    for _ in range(2):
        with pytest.raises(DatabaseError), one_moment():
            Workload.objects.filter(pk=one.pk).update(name="two")
        with one_moment():
            assert Workload.objects.get(pk=one.pk).name == "one"
        with transaction.atomic():
            Workload.objects.filter(pk=one.pk).update(name="one")
