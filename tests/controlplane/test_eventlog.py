"""Events are read at least once each, also those whose transaction commits after a later number was read."""

import pytest
from django.db.models import Q

from controlplane.models import Event, bulk
from controlplane.models.statements import database_clock
from controlplane.queries.audit import eventlog
from controlplane.queries.audit.eventlog import LATE_SECONDS, Place

pytestmark = pytest.mark.django_db
NAMES = ("id", "kind")


def put(*numbers: int, kind: str = "Wanted") -> None:
    """Events that become visible now, under these numbers."""
    names = ("id", "cluster_at", "actor", "kind", "team", "name", "phase", "reason", "message", "data")
    rows = [(number, 0.0, "test", kind, "", "", "", "", "", {}) for number in numbers]
    bulk.insert(Event, names, rows, at=database_clock())


def read(place: Place, now: float = 1000.0, most: int = 100) -> tuple[list[int], Place]:
    part = eventlog.after(place, NAMES, Q(kind="Wanted"), now=now, most=most)
    return [row[0] for row in part.rows], part.place


def test_what_is_new_is_read_in_order_and_once() -> None:
    put(1, 2)
    put(3, kind="Other")
    numbers, place = read(Place(0))
    assert (numbers, place) == ([1, 2], Place(3))
    assert read(place) == ([], place)
    put(4)
    assert read(place) == ([4], Place(4))


def test_a_number_that_appears_late_is_read_then() -> None:
    put(1, 5)
    numbers, place = read(Place(0), now=1000.0)
    assert numbers == [1, 5]
    put(3)
    numbers, place = read(place, now=1010.0)
    assert numbers == [3]
    put(2, 6)
    numbers, place = read(place, now=1020.0)
    assert numbers == [2, 6]
    assert [gap[:2] for gap in place.gaps] == [(4, 4)]
    assert read(place, now=1030.0) == ([], place)


def test_a_number_that_stays_away_was_rolled_back_and_is_forgotten() -> None:
    put(1, 3)
    _, place = read(Place(0), now=1000.0)
    _, place = read(place, now=1000.0 + LATE_SECONDS - 1)
    assert place.gaps
    _, place = read(place, now=1000.0 + LATE_SECONDS)
    assert place == Place(3)


def test_a_long_log_is_read_in_parts() -> None:
    put(*range(1, 11))
    numbers, place = read(Place(0), most=4)
    assert numbers == [1, 2, 3, 4]
    numbers, place = read(place, most=100)
    assert numbers == [5, 6, 7, 8, 9, 10]
