"""Heartbeats: what a round leaves in the database, and what others read from it."""

from datetime import timedelta

import pytest
from django.db.models import F

from controlplane.models import Heartbeat
from controlplane.queries.reports import health
from controlplane.services.scheduling import heartbeats

pytestmark = pytest.mark.django_db


def loop(name: str = "observe") -> health.Loop:
    return next(one for one in health.loops() if one.name == name)


def age(seconds: float, name: str = "observe") -> None:
    Heartbeat.objects.filter(loop=name).update(at=F("at") - timedelta(seconds=seconds))


def test_a_loop_that_never_came_round_is_stalled():
    assert loop().age_seconds is None
    assert loop().is_stalled


def test_a_complete_round_is_progress():
    heartbeats.beat(loop="observe", holder="one", took=0.1234)
    seen = loop()
    assert (seen.holder, seen.took_ms, seen.error, seen.is_stalled) == ("one", 123.4, "", False)
    assert seen.age_seconds is not None
    assert seen.age_seconds < 20


def test_a_failure_keeps_the_time_of_the_last_complete_round():
    heartbeats.beat(loop="observe", holder="one", took=0.1)
    age(25)
    heartbeats.beat(loop="observe", holder="two", took=0.2, error="ClusterUnreachable: no route")
    seen = loop()
    assert seen.age_seconds is not None
    assert seen.age_seconds >= 25
    assert (seen.holder, seen.error) == ("two", "ClusterUnreachable: no route")


def test_a_first_round_that_fails_is_no_progress():
    heartbeats.beat(loop="observe", holder="one", took=0.1, error="broken")
    assert loop().age_seconds is None
    assert loop().error == "broken"


def test_the_next_complete_round_clears_the_error_and_the_age():
    heartbeats.beat(loop="observe", holder="one", took=0.1)
    age(100)
    assert loop().is_stalled
    heartbeats.beat(loop="observe", holder="one", took=0.1, error="broken")
    heartbeats.beat(loop="observe", holder="one", took=0.1)
    assert (loop().error, loop().is_stalled) == ("", False)
    assert Heartbeat.objects.count() == 1


def test_a_long_error_is_cut_to_what_the_row_holds():
    heartbeats.beat(loop="observe", holder="one", took=0.1, error="x" * 1000)
    assert loop().error == "x" * heartbeats.MESSAGE_LENGTH


@pytest.mark.parametrize("name", health.PATIENCE_SECONDS)
def test_a_loop_is_stalled_when_its_patience_is_over(name):
    heartbeats.beat(loop=name, holder="one", took=0.1)
    age(health.PATIENCE_SECONDS[name] - 20, name)
    assert not loop(name).is_stalled
    age(21, name)
    assert loop(name).is_stalled
