"""Retention: what is too old goes, from the beginning; what is left of the audit log verifies from an anchor."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import structlog.testing
from django.apps import apps
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from controlplane.domain import retention
from controlplane.loops import prune
from controlplane.models import AuditAnchor, AuditEntry, Cycle, Event, Lease, Pruned, Team, TeamSample, WorkloadSample
from controlplane.queries.audit import audit
from controlplane.queries.audit import auditlog as queries
from controlplane.security.auditchain import anchor_chain
from controlplane.services.audit import auditlog, auditpruning
from controlplane.services.audit import retention as services
from controlplane.services.audit.auditpruning import BrokenChain
from controlplane.services.audit.retention import DAY
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.leases import LeaseLost
from tests.controlplane.keeping import guard, happened, unguard, written
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _guarded() -> None:
    guard()


def run(world: World) -> None:
    report = prune.run_once(world.wiring)
    assert not report.skipped


def numbers(model: Any) -> list[int]:
    return list(model.objects.order_by("pk").values_list("pk", flat=True))


# --- what goes, and what stays ----------------------------------------------------------------


def test_what_is_older_than_its_setting_goes_and_all_else_stays() -> None:
    events, now = happened([40, 31, 29, 0]), timezone.now()
    world = World()
    rounds = [
        Cycle.objects.create(
            loop="schedule", at=now - timedelta(days=age), cluster_at=0, took_ms=1, epoch=1, input=kept
        )
        for age, kept in ((40, None), (31, None), (31, b"x"), (29, None), (0, None))
    ]
    team, ages = Team.objects.order_by("pk")[0], (31, 30.5, 29, 0)
    samples = [
        TeamSample.objects.create(team=team, at=clock.now() - age * DAY, nominal=1, held=1, computing=1) for age in ages
    ]
    uses = [WorkloadSample.objects.create(workload=uuid4(), at=clock.now() - age * DAY) for age in (2, 0.5, 0)]
    run(world)
    assert numbers(Event)[:2] == [one.pk for one in events[2:]]
    assert numbers(Cycle) == [one.pk for one in rounds[2:]]
    assert numbers(TeamSample) == [one.pk for one in samples[2:]]
    assert numbers(WorkloadSample) == [one.pk for one in uses[1:]]
    assert Pruned.objects.get(pk="controlplane_event").rows == 2
    run(world)
    assert Pruned.objects.get(pk="controlplane_event").rows == 2


def test_batches_go_on_until_nothing_is_too_old_and_the_newest_row_stays() -> None:
    world = World()
    unguard()
    Event.objects.all().delete()
    guard()
    happened([40] * 25)
    lease, kept = world.lease("prune"), services.KEPT["controlplane_event"]
    assert [services.prune(kept, lease=lease, most=10) for _ in range(4)] == [10, 10, 4, 0]
    assert Event.objects.count() == 1


def test_what_lost_its_lease_deletes_nothing() -> None:
    happened([40, 0])
    written([400, 0])
    lease = World().lease("prune")
    Lease.objects.filter(name="prune").update(epoch=99, holder="another")
    before = Event.objects.count()
    for work in (
        lambda: services.prune(services.KEPT["controlplane_event"], lease=lease),
        lambda: auditpruning.prune(lease=lease),
    ):
        with pytest.raises(LeaseLost):
            work()
    assert (Event.objects.count(), AuditEntry.objects.count()) == (before, 2)


def test_the_self_audit_misses_no_workload_whose_first_events_were_pruned() -> None:
    happened([40], kind="Submitted", phase="Queued", cluster_at=-1.0)
    world = World()
    old = world.submit("old").pk
    unguard()
    Event.objects.filter(workload=old).delete()  # as if it had been submitted long ago
    guard()
    run(world)
    assert str(old) in (audit.state().submitted or ())


def test_every_table_that_grows_has_a_retention_or_a_reason() -> None:
    """Each model is declared once; what is pruned by the loop is what the loop prunes."""
    names = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    assert names == set(retention.DECLARED), names ^ set(retention.DECLARED)
    by_loop = {name for name, said in retention.DECLARED.items() if said.startswith("pruned by the loop `prune`")}
    assert by_loop == {*services.KEPT, AuditEntry._meta.db_table}
    assert all(said.split(":")[0] in retention.KINDS for said in retention.DECLARED.values())


# --- the audit log ----------------------------------------------------------------------------


def test_the_rest_of_the_audit_log_verifies_from_the_anchor_which_is_logged(capsys: Any) -> None:
    rows = written([400, 390, 380, 1, 0])
    with structlog.testing.capture_logs() as said:
        run(World())
    assert [row.number for row in AuditEntry.objects.order_by("number")] == [4, 5]
    anchor = AuditAnchor.objects.get()
    assert (anchor.number, anchor.digest, anchor.rows) == (3, rows[2].digest, 3)
    (told,) = [one for one in said if one["event"] == "audit log anchor"]
    assert (told["number"], told["digest"]) == (3, rows[2].digest)
    call_command("audit", "log", head=[(3, rows[2].digest), (5, rows[4].digest)])
    text = capsys.readouterr().out
    assert text.startswith("2 rows, each after the one before, 2 of them as kept elsewhere. They follow row 3,")
    assert auditlog.record(asked()) == 6
    assert queries.check().fault == ""


def test_anchors_are_few_and_chained() -> None:
    lease = World().lease("prune")
    written([400, 399, 398])
    assert auditpruning.prune(lease=lease, most=2) == 2
    assert auditpruning.prune(lease=lease, most=2) == 0  # the newest row stays
    written([397, 396, 0])
    assert auditpruning.prune(lease=lease, most=20) == 0  # less than a batch, and an anchor of today is there
    assert auditpruning.prune(lease=lease, most=2) == 2
    assert queries.check().fault == ""
    assert [one.number for one in AuditAnchor.objects.order_by("number")] == [2, 4]


def test_a_log_that_somebody_changed_is_not_pruned() -> None:
    written([400, 390, 0])
    unguard()
    AuditEntry.objects.filter(number=2).update(actor="mallory")
    with pytest.raises(BrokenChain, match="row 2: it is not what was written"):
        run(World())
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("attack", "fault"),
    [
        ("DELETE FROM controlplane_auditentry WHERE number = 4", "row 4: it is missing"),
        ("DELETE FROM controlplane_auditentry WHERE number = 5", "row 5: it is missing"),
        ("DELETE FROM controlplane_auditentry", "row 4: it is missing; the newest row is never pruned"),
        ("UPDATE controlplane_auditentry SET actor = 'mallory' WHERE number = 4", "row 4: it is not what was written"),
        ("UPDATE controlplane_auditanchor SET digest = '" + "0" * 64 + "'", "anchor 3: it is not what was written"),
        ("UPDATE controlplane_auditanchor SET at = '2020-01-01'", "anchor 3: it is not what was written"),
        ("DELETE FROM controlplane_auditanchor", "row 1: it is missing; row 4 follows row 0"),
        (
            "INSERT INTO controlplane_auditentry SELECT 2, at, actor, token, address, method, route, path, status, "
            "outcome, kind, team, name, changes, digest FROM controlplane_auditentry WHERE number = 5",
            "row 2: it stands before the anchor 3",
        ),
    ],
)
def test_what_is_done_to_a_pruned_log_by_the_owner_of_the_tables_is_found(attack: str, fault: str) -> None:
    written([400, 390, 380, 2, 1, 0])
    run(World())
    assert queries.check().fault == ""
    unguard()
    with connection.cursor() as cursor:
        cursor.execute(attack)
    assert queries.check().fault.startswith(fault)


def test_a_cut_under_a_forged_anchor_is_found_by_what_was_kept_elsewhere() -> None:
    rows = written([400, 390, 380, 2, 1, 0])
    run(World())
    heads = [(row.number, row.digest) for row in rows]
    unguard()
    AuditEntry.objects.filter(number__lte=5).delete()  # rows that were too young, with an anchor as it has to be
    before = AuditAnchor.objects.get()
    forged = AuditAnchor(number=5, digest=rows[4].digest, rows=2, at=timezone.now())
    forged.chain = anchor_chain(before.chain, 5, forged.digest, 2, forged.at)
    forged.save(force_insert=True)
    assert queries.check().fault == ""
    assert queries.check([heads[3]]).fault.startswith("row 4: it was pruned with the rows up to 5")
    AuditAnchor.objects.filter(number=5).update(digest="f" * 64, chain="")
    forged.digest = "f" * 64
    chain = anchor_chain(before.chain, 5, forged.digest, 2, forged.at)
    AuditAnchor.objects.filter(number=5).update(chain=chain)
    assert queries.check([heads[4]]).fault.startswith("row 5: the log says ffff")
    assert queries.check([heads[5]]).fault.startswith("row 6: it is not what was written")


# --- what the triggers deny, whoever asks -----------------------------------------------------


def test_an_anchor_is_taken_only_where_all_rows_up_to_it_are_old() -> None:
    rows = written([400, 390, 10, 380, 0])
    for number in (3, 4, 5):  # too young; one before it too young; the newest
        anchor = AuditAnchor(number=number, digest=rows[number - 1].digest, rows=number, at=timezone.now())
        anchor.chain = anchor_chain("0" * 64, number, anchor.digest, number, anchor.at)
        with pytest.raises(DatabaseError, match="not pruned so"), transaction.atomic():
            anchor.save(force_insert=True)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditEntry.objects.filter(number=1).delete()
    run(World())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditAnchor.objects.update(rows=1)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditAnchor.objects.all().delete()


def test_events_are_let_go_only_where_all_before_are_old() -> None:
    first, second, third, last = happened([40, 3, 40, 0])
    for number in (second.pk, third.pk, last.pk + 5):
        with pytest.raises(DatabaseError, match="not pruned so"), transaction.atomic():
            Pruned.objects.create(name="controlplane_event", number=number, at=timezone.now())
    Pruned.objects.create(name="controlplane_event", number=first.pk, at=timezone.now())
    with pytest.raises(DatabaseError, match="not pruned so|not forgotten"), transaction.atomic():
        Pruned.objects.update(number=third.pk)
    with pytest.raises(DatabaseError), transaction.atomic():
        Pruned.objects.update(number=first.pk - 1)
    with pytest.raises(DatabaseError, match="not forgotten"), transaction.atomic():
        Pruned.objects.all().delete()
    for one in (second, third):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            Event.objects.filter(pk=one.pk).delete()


def asked() -> auditlog.Asked:
    return auditlog.Asked("ada", "", "10.0.0.1", "PUT", "r", "/x", 200)
