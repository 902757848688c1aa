"""Which services are at risk of missing their objectives, for the scheduler: it may make more room for these."""

from collections.abc import Mapping
from uuid import UUID

from django.db import transaction

from autoscaler.sla import Standing
from controlplane.models import Workload
from controlplane.services.scheduling import changes
from controlplane.services.scheduling.leases import HeldLease

AT_RISK = (Standing.AT_RISK, Standing.VIOLATED)


@transaction.atomic
def note(*, standings: Mapping[UUID, Standing], lease: HeldLease) -> int:
    """Note how these services stand; of how many it has changed. Raises LeaseLost.

    One of which it is not known is not at risk: for it nothing is made to leave.
    """
    lease.check()
    late = {uid for uid, standing in standings.items() if standing in AT_RISK}
    known = dict(Workload.objects.filter(pk__among=list(standings)).values_list("pk", "at_risk"))
    changed = sorted(uid for uid, was in known.items() if was is not (uid in late))
    for is_late in (True, False):
        mine = [uid for uid in changed if (uid in late) is is_late]
        if mine:
            Workload.objects.filter(pk__among=mine).update(at_risk=is_late)
    if changed:
        changes.touch(changed)
    return len(changed)
