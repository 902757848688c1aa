"""Publish the queue to the cluster: pods of what starts next, and why each workload waits, as events on its pods.

`kubectl describe pod` then says what the pages say. No decision depends on it. A pod that is created before it is
placed also starts sooner: placing it is one write.
"""

from django.conf import settings

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.scheduling import cluster_events, upcoming_pods
from controlplane.services.scheduling.leases import HeldLease

LOOP = (
    "tell"  # what rows of leases and heartbeats, tasks, metrics and WEFT_LOOPS have called it from the first version on
)


def run_once(wiring: Wiring) -> Report:
    """One round: pods first, as an event needs the pod that it is about."""
    return rounds.run(LOOP, wiring, _publish)


def _publish(wiring: Wiring, lease: HeldLease) -> int:
    _precreate_pods(wiring)
    return _publish_events(wiring)


def _precreate_pods(wiring: Wiring) -> None:
    kept: upcoming_pods.Upcoming = wiring.kept.setdefault("upcoming", upcoming_pods.Upcoming())
    pods = upcoming_pods.upcoming(wiring.cluster.now(), settings.PREPARED_WORKLOADS, kept)
    wiring.cluster.prepare(pods, starting=upcoming_pods.starting())


def _publish_events(wiring: Wiring) -> int:
    kept = wiring.kept
    if "published" not in kept:
        kept["published"] = cluster_events.last()  # what was decided before this process came is published already
    kept["published"], notes = cluster_events.notes(kept["published"], cluster_events.pace())
    if notes:
        wiring.cluster.publish(notes)
    return len(notes)
