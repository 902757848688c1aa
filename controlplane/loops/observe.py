"""Ask the cluster what changed, and write it down."""

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.services import clusters, observations, policy
from controlplane.services.leases import HeldLease

SWEEP_SECONDS = 30.0  # cluster clock; what time alone brings about is seen this late at most
FULL_SECONDS = 600.0  # cluster clock; how long a missed change or an orphan may go unnoticed
TICK_SECONDS = 5.0  # cluster clock; how far the stored clock may lag while nothing happens


def run_once(wiring: Wiring) -> Report:
    """One round of the observe loop."""
    return rounds.run("observe", wiring, _observe)


def _observe(wiring: Wiring, lease: HeldLease) -> int:
    kept = wiring.kept
    seen = clusters.seen()
    now = wiring.cluster.now()
    is_full = not seen.cursor or now - kept.get("full_at", now - FULL_SECONDS) >= FULL_SECONDS
    observation = wiring.cluster.observe(None if is_full else seen.cursor)
    is_sweep = observation.is_full or now - kept.get("sweep_at", 0.0) >= SWEEP_SECONDS
    is_quiet = not (observation.pods or observation.nodes or observation.gone_nodes or is_sweep)
    if is_quiet and observation.at - seen.now < TICK_SECONDS and not seen.is_first:
        return 0
    applied = observations.apply(
        observation,
        lease=lease,
        sweep=is_sweep,
        gang_timeout_seconds=policy.current()[0].scheduling.gang_timeout_seconds if is_sweep else 0.0,
    )
    if is_sweep:
        kept["sweep_at"] = now
    if observation.is_full:
        kept["full_at"] = now
    return applied.pods
