"""Retention of the audit log: its oldest rows go, and an anchor says where the chain of the others begins.

What goes is checked first, row by row: a log that was changed or cut is never pruned, so that the traces stay.
The anchor is written in the transaction that deletes, and to the process's log as well; kept elsewhere, it shows
whether the table's own was forged.
"""

from datetime import timedelta

import structlog
from django.db import transaction

from controlplane.domain import retention
from controlplane.models import AuditAnchor, AuditEntry
from controlplane.models.statements import without_waiting
from controlplane.security.auditchain import COLUMNS, FIRST, anchor_chain, fault
from controlplane.services.audit.retention import days
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.leases import HeldLease

BATCH = 250  # rows; each is hashed
FEW = timedelta(days=1)  # between two anchors for less than a batch, so that there are few

log = structlog.get_logger(__name__)


class BrokenChain(Exception):  # noqa: N818 - reads as the fact it is
    """The audit log is not what was written; nothing was deleted."""


def prune(*, lease: HeldLease, most: int = BATCH) -> int:
    """Delete at most so many of the oldest rows; tell how many. Raises BrokenChain and LeaseLost."""
    with transaction.atomic():
        lease.check()
        without_waiting()
        anchor = _prune(most)
    if anchor is None:
        return 0
    log.info("audit log anchor", number=anchor.number, digest=anchor.digest, rows=anchor.rows, chain=anchor.chain)
    return anchor.rows


def _prune(most: int) -> AuditAnchor | None:
    now = clock.database_now()
    oldest = now - timedelta(days=days(retention.AUDIT_LOG))
    last = AuditAnchor.objects.order_by("-number").first()
    number, digest, chain = (last.number, last.digest, last.chain) if last else (0, FIRST, FIRST)
    begin = number
    following = AuditEntry.objects.filter(number__gt=number).order_by("number")
    first = following.values_list("at", flat=True).first()
    if first is None or first >= oldest:
        return None  # by far the most looks; a batch of rows takes longer to read than a round may wait
    rows = following.values_list(*COLUMNS, "digest")[: most + 1]
    for row in list(rows)[:-1]:  # the newest always stays: new rows follow it
        if row[1] >= oldest:
            break
        if wrong := fault(row, number, digest):
            raise BrokenChain(f"The audit log is not pruned: {wrong}.")
        number, digest = row[0], row[-1]
    is_few = number - begin < most
    if number == begin or (is_few and last is not None and now - last.at < FEW):
        return None
    count = number - begin
    anchor = AuditAnchor(number=number, digest=digest, rows=count, at=now)
    anchor.chain = anchor_chain(chain, number, digest, count, now)
    anchor.save(force_insert=True)
    AuditEntry.objects.filter(number__lte=number).delete()  # in one statement: no row refers to these
    return anchor
