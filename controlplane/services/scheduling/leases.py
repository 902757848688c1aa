"""Which process may run a loop: a row with a holder, an epoch and an expiry by the database's clock.

A lock is not a fence (docs/promises.md, S7): a holder that was paused does not know that it lost its lease. So every
transaction of a loop checks its epoch first, in the same transaction, and the row stays locked until that ends.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from controlplane.domain.deciders import is_decider
from controlplane.models import Lease, bulk, statements
from controlplane.services.scheduling import inforce

TTL_SECONDS = 10.0
_STILL_LOCK = 7_360_282  # any constant: rounds share it while they commit; one that holds it alone keeps them waiting


class LeaseLost(Exception):  # noqa: N818  (what happened, not a mistake)
    """Another process holds the lease by now; nothing was written."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as it was taken. `check` is the fence.

    cells_number: of the cells that a round of the scheduler goes by; its commit fails once there are others. They are
    put in force by a web process, which may not write a lease: so they are a fence of their own beside the epoch.
    """

    name: str
    holder: str
    epoch: int
    cells_number: int | None = None

    def check(self) -> None:
        """Raise LeaseLost unless this epoch is the current one; it then stays so until the transaction ends."""
        if is_decider(self.name):
            statements.take_turns(_STILL_LOCK, shared=True)
            if self.cells_number not in (None, inforce.cells_number()):
                raise LeaseLost(f"{self.name}: the cells that {self.holder} went by are not in force any more")
        mine = {"name": self.name, "holder": self.holder, "epoch": self.epoch}
        if not bulk.select(Lease, ("epoch",), mine, locks=True):
            raise LeaseLost(f"{self.name}: epoch {self.epoch} of {self.holder} is over")


def keep_rounds_still() -> None:
    """Have the next commit of a round wait until this transaction ends: what it commits on stays as it is read here.

    Not by the lease's row: a web process may read it only (services/audit/grants.py), and what may lock may write.
    """
    statements.take_turns(_STILL_LOCK)


@transaction.atomic
def acquire(*, name: str, holder: str, ttl: float = TTL_SECONDS) -> HeldLease | None:
    """Take the lease if it is free, expired or under our own name; always with a new epoch. None if another has it.

    Under our own name, because a process that was killed and started again must not wait for itself.
    """
    free = Q(expires_at__lte=Now()) | Q(holder=holder) | Q(holder="")
    taken = Lease.objects.filter(free, name=name).update(
        holder=holder, epoch=F("epoch") + 1, expires_at=Now() + timedelta(seconds=ttl)
    )
    if not taken and not _created(name, holder, ttl):
        return None
    return HeldLease(name, holder, Lease.objects.values_list("epoch", flat=True).get(name=name))


def renew(*, lease: HeldLease, ttl: float = TTL_SECONDS) -> bool:
    """Put the expiry off; False if the lease is another's by now."""
    mine = Lease.objects.filter(name=lease.name, holder=lease.holder, epoch=lease.epoch)
    return bool(mine.update(expires_at=Now() + timedelta(seconds=ttl)))


def release(*, lease: HeldLease) -> None:
    """Let others take it at once."""
    mine = Lease.objects.filter(name=lease.name, holder=lease.holder, epoch=lease.epoch)
    mine.update(expires_at=Now(), holder="")


def _created(name: str, holder: str, ttl: float) -> bool:
    if Lease.objects.filter(name=name).exists():
        return False
    try:
        with transaction.atomic():
            Lease.objects.create(name=name, holder=holder, epoch=1, expires_at=Now() + timedelta(seconds=ttl))
    except IntegrityError:  # another was quicker
        return False
    return True
