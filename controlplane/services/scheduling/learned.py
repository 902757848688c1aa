"""What the autoscaler remembers of each service, written after its look; the newest look wins.

Fenced like decisions. It is written before what the look decides: a round that ends in between has learned, and the
next look decides.
"""

from collections.abc import Mapping
from uuid import UUID

from django.db import transaction

from autoscaler.law import State
from controlplane.domain import lawstate
from controlplane.models import ServiceState, bulk
from controlplane.services.scheduling.leases import HeldLease

_COLUMNS = ("workload", "at", "state")


def keep(states: Mapping[str, State], *, at: float, lease: HeldLease) -> None:
    """Write these states, by workload id. Raises LeaseLost, with nothing written, if the lease is another's by now."""
    if not states:
        return
    rows = {UUID(uid): (UUID(uid), at, lawstate.plain(state)) for uid, state in states.items()}
    with transaction.atomic():
        lease.check()
        known = {uid for (uid,) in bulk.select(ServiceState, ("workload",), {"workload__among": list(rows)})}
        changed = [(at, state, uid) for uid, at, state in rows.values() if uid in known]
        bulk.update(ServiceState, ("at", "state"), ("workload",), changed)
        bulk.insert(ServiceState, _COLUMNS, [row for uid, row in rows.items() if uid not in known])
