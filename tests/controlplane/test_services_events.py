"""The log is append-only, by the database itself."""

from importlib import import_module

import pytest
from django.db import DatabaseError, connection, transaction

from controlplane.models import Event
from controlplane.services.audit import events

pytestmark = pytest.mark.django_db
migration = import_module("controlplane.migrations.0022_retention")


@pytest.fixture
def written() -> Event:
    if connection.vendor == "sqlite":  # tests/conftest.py takes it off, since Django empties tables by deleting
        with connection.cursor() as cursor:
            cursor.execute(migration.SQLITE["event_keeps_rows"])
    events.record(kind="QuotaChanged", actor="alice", at=5.0, team="red", data={"nominal": [1, 2]})
    return Event.objects.get()


def test_an_event_carries_both_clocks_and_its_data(written):
    assert (written.cluster_at, written.actor, written.team, written.data) == (5.0, "alice", "red", {"nominal": [1, 2]})
    assert written.at.tzinfo is not None


def test_an_event_cannot_be_changed(written):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.update(actor="mallory")
    assert Event.objects.get().actor == "alice"


def test_an_event_cannot_be_deleted(written):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.all().delete()
    assert Event.objects.count() == 1


def test_a_message_that_is_too_long_is_cut():
    events.record(kind="Note", actor="alice", at=0.0, message="x" * 1000)
    assert len(Event.objects.get().message) == events.MESSAGE_LENGTH
