"""What has ended costs the requests of today nothing: neither statements nor work of the database."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Max
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from controlplane.models import Event, Workload
from scheduler.model.dependency import DEPENDENCY_FAILED
from scheduler.model.workload import ENDED, Phase
from tests.controlplane.api.conftest import People, body_of, job

STEP = 10  # instructions of SQLite's machine that one call of the handler stands for


def work_of(ask: Callable[[], HttpResponse], status: int) -> tuple[int, int]:
    """Statements of a request, and how much SQLite did for them; on Postgres 0."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    body_of(ask(), status)  # what is found out once is known after it
    handle = connection.connection.set_progress_handler if connection.vendor == "sqlite" else lambda *_: None
    handle(count, STEP)
    try:
        with CaptureQueriesContext(connection) as seen:
            body_of(ask(), status)
    finally:
        handle(None, STEP)
    return len(seen), steps


def remember(workload: Workload, count: int) -> None:
    """Have so many like it that ended, in each way that there is, with their events."""
    seq, phases = Workload.objects.aggregate(last=Max("seq"))["last"], sorted(phase.value for phase in ENDED)
    columns = {f.attname: getattr(workload, f.attname) for f in Workload._meta.concrete_fields}
    ended = []
    for number in range(count):
        phase = phases[number % len(phases)]
        reason = DEPENDENCY_FAILED if phase == Phase.STOPPED else ""
        own = {"uid": uuid4(), "seq": seq + 1 + number, "name": f"old-{seq + number}", "phase": phase, "reason": reason}
        ended.append(Workload(**columns | own))
    Workload.objects.bulk_create(ended)
    told = Event.objects.filter(workload=workload.pk).values().get()
    told.pop("id")
    Event.objects.bulk_create(Event(**told | {"workload": one.pk, "name": one.name}) for one in ended)


@pytest.mark.parametrize("kind", ["read", "list", "submit"])
def test_a_request_costs_the_same_however_much_has_ended(api: People, kind: str) -> None:
    made = Workload.objects.get(pk=body_of(api.member.post("/workloads", job()), 201)["uid"])
    names = iter(f"new-{number}" for number in range(100))
    ask, status = {
        "read": (lambda: api.member.get(f"/workloads/{made.pk}"), 200),
        "list": (lambda: api.platform.get("/workloads?page_size=1"), 200),
        "submit": (lambda: api.member.post("/workloads", job(next(names))), 201),
    }[kind]
    remember(made, 100)
    statements, steps = work_of(ask, status)
    remember(made, 3_000)
    more_statements, more_steps = work_of(ask, status)
    assert more_statements == statements
    assert more_steps <= steps * 1.2
