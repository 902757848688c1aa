"""The loop that tells people, in the embedded mode: a thread of its own, by real time.

It decides nothing, so it has no part in the driver's rounds; and a round of it, however long, holds none of them up.
"""

import threading

import structlog
from django.db import close_old_connections, connection

from controlplane import wake
from controlplane.loops import notify, wiring
from controlplane.loops.threads import PERIODS

MOST_BACKOFF_SECONDS = 60.0

log = structlog.get_logger(__name__)


def start(stop: threading.Event) -> threading.Thread:
    """Start it; it runs until `stop`, and ends with the process at the latest."""
    thread = threading.Thread(target=run, args=(stop,), name="loop-notify", daemon=True)
    thread.start()
    return thread


def run(stop: threading.Event) -> None:
    """Run rounds by their period, or when the bell rings. It never raises."""
    failures, bell = 0, wake.bells["notify"]
    while not stop.is_set():
        bell.clear()
        try:
            notify.run_once(wiring.of("notify"))
            failures = 0
        except Exception:
            failures += 1
            log.exception("loop failed", loop="notify", failures=failures)
            close_old_connections()
        bell.wait(min(PERIODS["notify"] * (1 + failures), MOST_BACKOFF_SECONDS))
    connection.close()
