"""Strangers leave at most 60 rows a minute in the audit log, in all processes; the rest is one row."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from controlplane.models import AuditEntry
from controlplane.queries.audit import auditlog as queries
from controlplane.security.auditchain import FIRST
from controlplane.services.audit import auditlog, strangerrows
from tests.controlplane.api.conftest import People, api  # noqa: F401

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _afresh(settings: Any) -> None:
    strangerrows.forget()
    settings.RATE_LIMITS = {name: 100_000.0 for name in settings.RATE_LIMITS}


def ask(number: int) -> None:
    """A token that is none, from an address of its own."""
    answer = Client(REMOTE_ADDR=f"10.1.{number // 200}.{number % 200 + 1}").post(
        "/api/v1/workloads", b"{}", "application/json", HTTP_AUTHORIZATION=f"Bearer weft_{number:043}"
    )
    assert answer.status_code == 401


def a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minute is over: for the rows that are there, and for this process."""
    monkeypatch.setattr(auditlog, "MINUTE", timedelta(seconds=0))
    strangerrows._closed_until = 0.0


def test_strangers_from_many_addresses_leave_sixty_rows_a_minute_and_the_rest_is_summed(
    api: People,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, left = AuditEntry.objects.count(), 0
    for number in range(100):
        ask(number)
        if number == 80:  # another process, which knows nothing of this one
            left, strangerrows._left, strangerrows._closed_until = strangerrows._left, 0, 0.0
            auditlog._head.number, auditlog._head.digest = 0, FIRST
    strangerrows._left += left
    assert AuditEntry.objects.filter(actor="").count() == auditlog.MAX_OF_STRANGERS
    api.platform.send(
        "PUT", "/teams/red/quotas/main", {"nominal_milli": 4000}
    )  # people's rows are written all the same
    assert AuditEntry.objects.count() - before == auditlog.MAX_OF_STRANGERS + 1
    a_minute_later(monkeypatch)
    ask(100)
    summed, last = AuditEntry.objects.order_by("number")[before + auditlog.MAX_OF_STRANGERS + 1 :]
    assert (summed.kind, summed.outcome, last.status) == (auditlog.SUMMED, "denied", 401)
    assert json.loads(summed.changes)[0]["data"] == {"rows": 100 - auditlog.MAX_OF_STRANGERS}
    assert queries.check().fault == ""


def test_wrong_passwords_count_under_a_name_as_well_and_what_people_do_does_not(api: People) -> None:  # noqa: F811
    for number in range(auditlog.MAX_OF_STRANGERS - 1):
        ask(number)
    before = AuditEntry.objects.count()
    for address in ("10.0.0.1", "10.0.0.2"):
        Client(REMOTE_ADDR=address).post("/login/", {"username": "vic", "password": "wrong"})
    assert AuditEntry.objects.count() == before + 1
    api.viewer.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 1})
    assert AuditEntry.objects.count() == before + 2
