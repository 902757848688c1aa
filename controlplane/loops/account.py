"""Add up what was used, and note how teams and services stand."""

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.services import actions, clusters, usage
from controlplane.services.leases import HeldLease


def run_once(wiring: Wiring) -> Report:
    """One round of the account loop."""
    return rounds.run("account", wiring, _account)


def _account(wiring: Wiring, lease: HeldLease) -> int:
    to = clusters.seen().now  # not the cluster's clock: a pod may have ended since, and what is billed stays billed
    services = wiring.metrics.services(usage.serving())
    clusters.measure(wiring.metrics.gpus())
    count = usage.account(to=to, lease=lease, services=services)
    actions.prune()
    return count
