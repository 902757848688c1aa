"""Show in the cluster what waits and why: `kubectl describe pod` then says what the pages say.

It changes no decision. Pods that exist before they are placed are also quicker to start: placing one is one write.
"""

from django.conf import settings

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.scheduling import telling
from controlplane.services.scheduling.leases import HeldLease


def run_once(wiring: Wiring) -> Report:
    """One round of the tell loop."""
    return rounds.run("tell", wiring, _tell)


def _tell(wiring: Wiring, lease: HeldLease) -> int:
    kept = wiring.kept
    upcoming: telling.Upcoming = kept.setdefault("upcoming", telling.Upcoming())
    pods = telling.waiting(wiring.cluster.now(), settings.PREPARED_WORKLOADS, upcoming)
    wiring.cluster.prepare(pods, starting=telling.starting())
    if "told" not in kept:
        kept["told"] = telling.last()  # what was decided before this process came is not told again
    kept["told"], notes = telling.notes(kept["told"], telling.pace())
    if notes:
        wiring.cluster.tell(notes)
    return len(notes)
