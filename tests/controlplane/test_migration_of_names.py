"""What was written before workloads were told of by id: the names in it are gone after the migration."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from controlplane.models import Cycle, Event, Notice, User, Workload
from tests.controlplane.state import World

migration = import_module("controlplane.migrations.0019_mentions")

BEFORE_AND_AFTER = {
    "Is behind blue/big-1, which asks the same.": "Is behind another workload, which asks the same.",
    "Makes room for blue/a (priority 300, this one has 200).": (
        "Makes room for another workload (priority 300, this one has 200)."
    ),
    "Gives 1 GPU of borrowed quota back to team blue for train-2075.": (
        "Gives 1 GPU of borrowed quota back to team blue for another workload."
    ),
    "Gives 1 GPU to team blue for b.1: team red holds 4 in gpu and is entitled to 2.": (
        "Gives 1 GPU to team blue for another workload: team red holds 4 in gpu and is entitled to 2."
    ),
    "Would fit, but the room is kept for blue/a, red/b and 3 more.": (
        "Would fit, but the room is kept for other workloads."
    ),
    "Would fit, but the room is kept for blue/gang-12, planned to start at 04:03:20 cluster time.": (
        "Would fit, but the room is kept for another workload, planned to start at 04:03:20 cluster time."
    ),
    "Moves to another place, which is kept for it, so that blue/big gets its room in one piece.": (
        "Moves to another place, which is kept for it, so that another workload gets its room in one piece."
    ),
    "Gives 1 worker to blue/high and goes on with 2; its minimum is 1.": (
        "Gives 1 worker to another workload and goes on with 2; its minimum is 1."
    ),
    "exit code 1 of /usr/bin/python": "exit code 1 of /usr/bin/python",
    "Needs 2 GPUs; team red holds 1 of the 2 it may hold in a/b.": (
        "Needs 2 GPUs; team red holds 1 of the 2 it may hold in a/b."
    ),
}


@pytest.mark.parametrize(("before", "after"), BEFORE_AND_AFTER.items())
def test_a_sentence_loses_the_names_and_keeps_the_rest(before: str, after: str) -> None:
    assert migration.anonymous(before) == after
    assert migration.anonymous(after) == after


@pytest.mark.django_db
def test_rows_events_notices_and_rounds_lose_them_and_events_stay_append_only() -> None:
    world, message = World(), "Is behind blue/big-1, which asks the same."
    job = world.submit("train")
    Workload.objects.filter(pk=job.pk).update(message=message)
    now = Event.objects.latest("pk").at
    about: dict[str, Any] = {"cluster_at": 0.0, "actor": "loop:schedule", "kind": "Waiting", "at": now}
    told = Event.objects.create(workload=job.pk, message=message, data={"behind": "blue/big-1", "ahead": 3}, **about)
    round_ = Cycle.objects.create(
        loop="schedule", at=now, cluster_at=0.0, took_ms=1.0, epoch=1, digest="",
        decisions=[{"kind": "Wait", "message": message, "numbers": [["behind", "blue/big-1"], ["ahead", 3]]}],
    )  # fmt: skip
    user = User.objects.create(username="ann")
    notice = Notice.objects.create(user=user, key="k", matter="preempted", message=message, cluster_at=0.0, at=now)
    with connection.cursor() as cursor:
        migration.forward(apps, SimpleNamespace(connection=connection, execute=cursor.execute))
    for row in (job, told, round_, notice):
        row.refresh_from_db()
        assert "big-1" not in str(vars(row))
    assert told.data == {"ahead": 3}
    assert round_.decisions[0]["numbers"] == [["ahead", 3]]
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.filter(pk=told.pk).update(message="rewritten")
