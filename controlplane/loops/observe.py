"""Ask the cluster what changed, and write it down."""

import math

from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.reports import sla
from controlplane.queries.workloads import canary
from controlplane.services.scheduling import clusters, observations, policy, timeouts
from controlplane.services.scheduling.leases import HeldLease

TIMEOUTS_SECONDS = 30.0  # cluster clock; what time alone brings about is seen this late at most
TICK_SECONDS = 5.0  # cluster clock; how far the stored clock may lag while nothing happens


def run_once(wiring: Wiring) -> Report:
    """One round of the observe loop."""
    return rounds.run("observe", wiring, _observe)


def _observe(wiring: Wiring, lease: HeldLease) -> int:
    kept = wiring.kept
    seen = clusters.seen()
    now = wiring.cluster.now()
    observation = wiring.cluster.observe(seen.cursor if seen.cursor and not _is_full_due(wiring, now) else None)
    is_due = now - kept.get("timeouts_at", 0.0) >= TIMEOUTS_SECONDS
    gang_timeout = policy.current()[0].scheduling.gang_timeout_seconds if is_due else 0.0
    is_quiet = not (observation.pods or observation.nodes or observation.gone_nodes or observation.is_full)
    if is_quiet and not (
        is_due and timeouts.is_due(at=max(observation.at, seen.now), gang_timeout_seconds=gang_timeout)
    ):
        if observation.at - seen.now >= TICK_SECONDS or seen.is_first:
            observations.tick(observation, lease=lease)
    else:
        rolling = timeouts.rolling() if is_due else ()
        standings = {str(uid): one.value for uid, one in sla.standings(now, rolling).items()} if rolling else {}
        judged = canary.judged(canary.all_split(rolling), wiring.metrics) if rolling else {}
        observations.apply(
            observation,
            lease=lease,
            with_timeouts=is_due,
            gang_timeout_seconds=gang_timeout,
            standings=standings,
            judged=judged,
        )
    if is_due:
        kept["timeouts_at"] = now
    if observation.is_full:
        kept["full_at"] = now
    return len(observation.pods)


def _is_full_due(wiring: Wiring, now: float) -> bool:
    """Whether to ask for everything: that finds missed changes and orphans, and what running pods say of themselves."""
    return bool(now - wiring.kept.get("full_at", -math.inf) >= wiring.full_seconds)
