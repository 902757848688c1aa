"""The audit log: a row for each request that changes something or tries to, and a chain that shows any change of it."""

import csv
import io
import json
from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from controlplane.guards.auditing import AuditLog
from controlplane.models import AuditEntry, Event
from controlplane.queries.audit import auditlog as queries
from controlplane.services.audit import auditlog, context, events
from controlplane.services.audit.auditlog import Asked
from tests.controlplane.api.conftest import Caller, People, api, body_of, fields_of, job  # noqa: F401

pytestmark = pytest.mark.django_db
migration = import_module("controlplane.migrations.0022_retention")


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def asked(path: str = "/api/v1/quotas", **fields: Any) -> Asked:
    given = {"actor": "ada", "token": "", "address": "10.0.0.1", "method": "PUT", "route": "r", "status": 200}
    return Asked(**(given | {"path": path} | fields))


def newest() -> AuditEntry:
    return AuditEntry.objects.order_by("-number")[0]


def rewrite(statement: str) -> None:
    """What only the table's owner can do: drop the trigger first."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER IF EXISTS auditentry_keeps_values")
        else:
            cursor.execute("ALTER TABLE controlplane_auditentry DISABLE TRIGGER auditentry_keeps_rows")
        cursor.execute(statement)


# --- what leaves a row ------------------------------------------------------------------------


def test_a_change_leaves_one_row_with_the_values_before_and_after(api: People) -> None:  # noqa: F811
    api.platform.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 4000})
    row = AuditEntry.objects.get()
    assert (row.actor, row.method, row.path) == ("root", "PUT", "/api/v1/teams/red/quotas/main")
    assert (row.route, row.status, row.outcome) == ("api/v1/teams/<slug:team>/quotas/<slug:pool>", 200, "done")
    assert (row.kind, row.team, row.name, row.address) == ("QuotaChanged", "red", "main", "127.0.0.1")
    assert row.token == api.platform.token[:10]
    (change,) = json.loads(row.changes)
    assert change["data"] == {"nominal": [8000, 4000]}


def test_what_was_done_to_some_stays_in_the_log_when_the_request_breaks_off_at_the_next() -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        try:
            for name in ("a", "b"):
                with context.part("red", name):
                    events.record(kind="Stopped", actor="ada", team="red", name=name)
                    if name == "b":
                        raise OperationalError("the database is gone")
        except OperationalError:
            return HttpResponse(status=503)
        raise AssertionError

    request = RequestFactory().post("/api/v1/workloads:act")
    request.user, request.resolver_match = AnonymousUser(), None  # type: ignore[assignment]
    AuditLog(answer)(request)
    rows = AuditEntry.objects.order_by("number").values_list("name", "team", "outcome", "kind")
    assert list(rows) == [("a", "red", "done", "Stopped"), ("b", "red", "failed", "")]


def test_what_is_denied_leaves_a_row_and_no_changes(api: People) -> None:  # noqa: F811
    fields_of(api.viewer.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 4000}), 403)
    row = newest()
    assert (row.actor, row.outcome, row.team, row.changes) == ("vera", "denied", "red", "[]")
    fields_of(api.viewer.get("/simulations"), 403)
    assert (newest().method, newest().outcome) == ("GET", "denied")
    Caller("weft_no-such-token").get("/me")
    assert (newest().actor, newest().token, newest().outcome) == ("", "weft_no-su", "denied")
    fields_of(api.blue_admin.post("/workloads", job()), 404)
    assert (newest().actor, newest().outcome) == ("bea", "refused")


def test_what_only_reads_leaves_none(api: People) -> None:  # noqa: F811
    body_of(api.member.get("/workloads"))
    body_of(api.member.post("/workloads:preview", job()))
    fields_of(api.nobody.get("/workloads"), 401)
    assert not AuditEntry.objects.exists()


def test_signing_in_and_out_leaves_rows_and_no_password(api: People) -> None:  # noqa: F811
    user = api.member.user
    assert user is not None
    user.set_password("correct horse battery")
    user.save()
    client = Client()
    client.post("/login/", {"username": "mia", "password": "wrong horse"})
    assert (newest().actor, newest().outcome, newest().kind) == ("mia", "denied", "LoginFailed")
    client.post("/login/", {"username": "mia", "password": "correct horse battery"})
    assert (newest().actor, newest().outcome) == ("mia", "done")
    client.post("/logout/")
    assert (newest().actor, newest().path) == ("mia", "/logout/")
    secret = body_of(
        api.nobody.post("/login", {"username": "mia", "password": "correct horse battery", "name": "laptop"}), 201
    )["token"]
    kept = json.dumps(list(AuditEntry.objects.values_list("changes", "path", "name")))
    assert "horse" not in kept
    assert secret not in kept


@pytest.mark.parametrize("door", ["page", "REST"])
def test_a_password_typed_as_a_user_name_is_kept_nowhere(api: People, door: str, caplog: Any) -> None:  # noqa: F811
    typed = {"username": "correct horse battery", "password": "mia"}
    if door == "page":
        Client().post("/login/", typed)
    else:
        body_of(api.nobody.post("/login", typed), 401)
    assert (newest().actor, newest().outcome, newest().kind) == ("", "denied", "LoginFailed")
    assert "horse" not in str(list(AuditEntry.objects.values_list()) + list(Event.objects.values_list()))
    assert "horse" not in caplog.text


def test_secrets_in_what_an_event_carries_are_hidden() -> None:
    data = {"name": "a", "new_password": True, "webhook_secret": "s3cret", "nested": [{"token": "t0ken", "n": 1}]}
    assert auditlog.redacted(data) == {
        "name": "a",
        "new_password": True,
        "webhook_secret": "[hidden]",
        "nested": [{"token": "[hidden]", "n": 1}],
    }


def test_a_row_costs_a_changing_request_one_statement(api: People) -> None:  # noqa: F811
    api.platform.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 4000})
    with CaptureQueriesContext(connection) as changing:
        api.platform.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 5000})
    assert sum("auditentry" in query["sql"] for query in changing) == 1
    with CaptureQueriesContext(connection) as reading:
        body_of(api.platform.get("/quotas"))
    assert not any("auditentry" in query["sql"] for query in reading)


def test_an_address_that_cannot_be_printed_is_kept_legible() -> None:
    auditlog.record(asked("/api/v1/a\x00b\nc\u202e"))
    assert newest().path == "/api/v1/a\ufffdb\ufffdc\ufffd"


# --- append-only, and chained -----------------------------------------------------------------


def test_a_row_cannot_be_changed_or_deleted() -> None:
    if connection.vendor == "sqlite":  # tests/conftest.py takes it off, since Django empties tables by deleting
        with connection.cursor() as cursor:
            cursor.execute(migration.SQLITE["auditentry_keeps_rows"])
    auditlog.record(asked())
    for change in (lambda rows: rows.update(actor="mallory"), lambda rows: rows.delete()):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change(AuditEntry.objects.all())
    assert newest().actor == "ada"


def test_the_chain_goes_on_after_rows_of_another_process(api: People) -> None:  # noqa: F811
    for number in range(1, 4):
        assert auditlog.record(asked()) == number
    auditlog._head.number, auditlog._head.digest = 1, AuditEntry.objects.get(number=1).digest  # as if others wrote 2, 3
    assert auditlog.record(asked()) == 4
    auditlog._head.number, auditlog._head.digest = 9, "f" * 64  # as if a backup had been restored
    assert auditlog.record(asked()) == 5
    assert queries.check().fault == ""


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE controlplane_auditentry SET actor = 'mallory' WHERE number = 3", "row 3: it is not what was written"),
        ("UPDATE controlplane_auditentry SET status = 201 WHERE number = 5", "row 5: it is not what was written"),
        ("DELETE FROM controlplane_auditentry WHERE number = 2", "row 2: it is missing"),
        ("UPDATE controlplane_auditentry SET number = 9 WHERE number = 5", "row 5: it is missing"),
        (
            "INSERT INTO controlplane_auditentry SELECT 6, at, actor, token, address, method, route, path, status, "
            "outcome, kind, team, name, changes, digest FROM controlplane_auditentry WHERE number = 5",
            "row 6: it is not what was written",
        ),
        (
            "UPDATE controlplane_auditentry SET number = CASE number WHEN 2 THEN -3 WHEN 3 THEN -2 ELSE number END; "
            "UPDATE controlplane_auditentry SET number = -number WHERE number < 0",
            "row 2: it is not what was written",
        ),
    ],
)
def test_whatever_is_done_to_a_row_is_found_and_named(statement: str, fault: str, capsys: Any) -> None:
    for number in range(5):
        auditlog.record(asked(f"/{number}"))
    call_command("audit", "log")
    assert capsys.readouterr().out.startswith("5 rows, each after the one before. Head: 5:")
    for one in statement.split("; "):
        rewrite(one)
    with pytest.raises(SystemExit, match="1"):
        call_command("audit", "log")
    assert capsys.readouterr().out.startswith(fault)


def test_a_head_kept_elsewhere_shows_that_the_end_was_cut_off_or_all_was_rewritten() -> None:
    for number in range(4):
        auditlog.record(asked(f"/{number}"))
    head = (4, newest().digest)
    assert queries.check([head]).fault == ""
    assert queries.check([(3, "0" * 64)]).fault.startswith("row 3: the log says")
    rewrite("DELETE FROM controlplane_auditentry WHERE number = 4")
    assert queries.check().fault == ""
    assert queries.check([head]).fault == "row 4: it is missing; the log ends with row 3"


# --- who reads it -----------------------------------------------------------------------------


def test_a_platform_admin_reads_all_and_a_team_admin_what_is_about_the_team(api: People) -> None:  # noqa: F811
    api.platform.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 4000})
    api.platform.send("PUT", "/teams/blue/quotas/main", {"nominal_milli": 4000})
    api.platform.post("/nodes/a/cordon")

    def teams(who: Caller, query: str = "") -> list[str]:
        return [row["team"] for row in body_of(who.get(f"/audit-log{query}"))["results"]]

    assert teams(api.platform) == ["", "blue", "red"]
    assert teams(api.admin) == ["red"]
    assert teams(api.blue_admin) == ["blue"]
    assert teams(api.blue_admin, "?team=red") == []
    for who in (api.viewer, api.member, api.outsider):
        fields_of(who.get("/audit-log"), 403)
    fields_of(api.nobody.get("/audit-log"), 401)


def test_filters_pages_and_csv(api: People) -> None:  # noqa: F811
    for nominal in (1000, 2000, 3000):
        api.platform.send("PUT", "/teams/red/quotas/main", {"nominal_milli": nominal})
    api.viewer.send("PUT", "/teams/red/quotas/main", {"nominal_milli": 1})

    def numbers(query: str) -> list[int]:
        return [row["number"] for row in body_of(api.platform.get(f"/audit-log?{query}"))["results"]]

    assert numbers("outcome=denied") == [4]
    assert numbers("actor=root") == [3, 2, 1]
    assert numbers("kind=QuotaChanged&team=red&from=2020-01-01T00:00:00Z") == [3, 2, 1]
    assert numbers("to=2020-01-01T00:00:00Z") == []
    first = body_of(api.platform.get("/audit-log?page_size=3"))
    assert [row["number"] for row in first["results"]] == [4, 3, 2]
    following = first["next"].partition("/api/v1")[2]
    assert [row["number"] for row in body_of(api.platform.get(following))["results"]] == [1]
    table = api.platform.get("/audit-log?format=csv")
    assert table["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.content.decode())))
    assert [row["actor"] for row in rows] == ["vera", "root", "root", "root"]
    assert fields_of(api.platform.get("/audit-log?format=csv&page_size=3")) == ["format"]
    assert fields_of(api.platform.get("/audit-log?as=csv")) == ["as"]


def test_a_cell_that_a_spreadsheet_would_compute_is_text() -> None:
    auditlog.record(asked(actor="=cmd()"))
    (row,) = csv.DictReader(io.StringIO(queries.as_csv(AuditEntry.objects.all())))
    assert row["actor"] == "'=cmd()"
