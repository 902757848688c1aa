"""What a worker process runs beside Celery's consumer: the loops' threads, and its own metrics."""

import structlog
from django.conf import settings
from prometheus_client import Counter, Histogram, start_http_server

from controlplane.loops.threads import Loops, of_settings
from controlplane.runtime import liveness, wake

# Rounds of this process; what is in the database is told by the web's /metrics (controlplane/api/metrics.py).
ROUNDS = Counter("weft_loop_rounds", "Rounds of this process by what came of them", ["loop", "result"])
SECONDS = Histogram(
    "weft_loop_round_seconds",
    "How long rounds of this process took",
    ["loop"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)

log = structlog.get_logger(__name__)
_loops: Loops | None = None


def start() -> None:
    """Start the loops, once a process."""
    global _loops
    if _loops is not None:
        return
    if settings.WORKER_METRICS_PORT:
        start_http_server(settings.WORKER_METRICS_PORT, settings.WORKER_METRICS_ADDRESS)
    every = of_settings()
    chosen = {name: run for name, run in every.items() if name in (settings.LOOPS or every)}
    _loops = Loops(tell=tell, alive=lambda: liveness.touch("worker"), loops=chosen)
    _loops.start()
    log.info("loops started", loops=[thread.name for thread in _loops.threads])


def stop() -> None:
    """Ask the loops to end after their rounds; do not wait."""
    wake.stopping.set()
    if _loops is not None:
        _loops.stop()


def join(seconds: float) -> None:
    """Wait until the loops have given their leases back."""
    if _loops is not None:
        log.info("loops ended", in_time=_loops.join(seconds))


def tell(loop: str, result: str, seconds: float) -> None:
    """Count a round."""
    ROUNDS.labels(loop, result).inc()
    if result != "standby":
        SECONDS.labels(loop).observe(seconds)
