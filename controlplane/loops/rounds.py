"""What every loop's round has in common: the lease, the time it took, and what does not answer."""

import time
from collections.abc import Callable

import structlog
from django.db import OperationalError

from controlplane.cluster.port import ClusterUnreachable
from controlplane.loops import lease as leases
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.models import bulk
from controlplane.services.scheduling.leases import HeldLease, LeaseLost
from controlplane.services.workloads.transitions import LostUpdateError

log = structlog.get_logger(__name__)


def run(loop: str, wiring: Wiring, work: Callable[[Wiring, HeldLease], int]) -> Report:
    """Run one round under the loop's lease. What is expected to go wrong is a report, not an exception."""
    started = time.monotonic()
    lease = leases.of(wiring, loop)
    held = lease.hold()
    if held is None:
        return Report(loop, skipped="another process holds the lease", is_standby=True)
    try:
        did = work(wiring, held)
    except LeaseLost:
        lease.lost()
        return Report(loop, took=time.monotonic() - started, skipped="the lease was lost")
    except ClusterUnreachable as error:
        log.warning("cluster unreachable", loop=loop, error=str(error))
        return Report(loop, took=time.monotonic() - started, skipped=f"cluster unreachable: {error}")
    except (LostUpdateError, OperationalError) as error:
        if isinstance(error, OperationalError) and not bulk.is_lost_to_others(error):
            raise
        log.warning("lost update", loop=loop, error=str(error).partition("\n")[0])
        return Report(loop, took=time.monotonic() - started, skipped="rows changed meanwhile")
    return Report(loop, did, time.monotonic() - started)
