"""The view of the newest full round, kept in the database to answer what waits, and why."""

from dataclasses import dataclass

from django.db import transaction

from controlplane.domain.roundview import pack_held, pack_lineup
from controlplane.models import RoundView
from controlplane.services.scheduling.leases import HeldLease
from scheduler.explain import roundview

_VALUES = ("cluster_at", "every", "lineup", "held")


@dataclass(frozen=True, slots=True)
class Packed:
    """A view as it is stored. every: seconds of the cluster's clock between two full rounds."""

    at: float
    every: float
    lineup: bytes
    held: bytes


def packed(view: roundview.RoundView | None, *, every: float) -> Packed | None:
    """A view as it is stored; None: a partial cycle has none."""
    return None if view is None else Packed(view.at, every, pack_lineup(view.lineup), pack_held(view))


def keep(view: Packed, *, lease: HeldLease) -> None:
    """Put it in the place of the one before of the same decider, within the transaction of the round."""
    row = RoundView(name=lease.name, cluster_at=view.at, every=view.every, lineup=view.lineup, held=view.held)
    RoundView.objects.bulk_create([row], update_conflicts=True, unique_fields=("name",), update_fields=_VALUES)


def keep_alone(view: Packed | None, *, lease: HeldLease) -> None:
    """The same of a round that decided nothing; None: it was a partial cycle. Raises LeaseLost."""
    if view is None:
        return
    with transaction.atomic():
        lease.check()
        keep(view, lease=lease)
