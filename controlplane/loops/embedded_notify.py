"""The loops that ask no cluster, in the embedded mode: a thread each, by real time.

They decide nothing, so they have no part in the driver's rounds; and a round of theirs, however long, holds none of
them up.
"""

import threading
from collections.abc import Callable, Mapping

import structlog
from django.db import close_old_connections, connection

from controlplane.loops import notify, prune, wiring
from controlplane.loops.threads import PERIODS
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake

MAX_BACKOFF_SECONDS = 60.0
LOOPS: Mapping[str, Callable[[Wiring], object]] = {"notify": notify.run_once, "prune": prune.run_once}

log = structlog.get_logger(__name__)


def start(stop: threading.Event) -> tuple[threading.Thread, ...]:
    """Start them; they run until `stop`, and end with the process at the latest."""
    threads = tuple(threading.Thread(target=run, args=(one, stop), name=f"loop-{one}", daemon=True) for one in LOOPS)
    for thread in threads:
        thread.start()
    return threads


def ring() -> None:
    """Have them look whether they are to stop."""
    for loop in LOOPS:
        wake.bells[loop].set()


def run(loop: str, stop: threading.Event) -> None:
    """Run rounds of a loop by its period, or when its bell rings. It never raises."""
    failures, bell = 0, wake.bells[loop]
    while not stop.is_set():
        bell.clear()
        try:
            LOOPS[loop](wiring.of(loop))
            failures = 0
        except Exception:
            failures += 1
            log.exception("loop failed", loop=loop, failures=failures)
            close_old_connections()
        bell.wait(min(PERIODS[loop] * (1 + failures), MAX_BACKOFF_SECONDS))
    connection.close()
