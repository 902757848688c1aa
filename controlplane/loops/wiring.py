"""The one place that chooses adapters: settings -> the cluster and the metrics that the loops use."""

import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from controlplane.cluster.port import Cluster, Metrics

EMBEDDED_HOLDER = "embedded"  # one process by its lock file, so it takes its own leases back at once after a crash


@dataclass(frozen=True)
class Wiring:
    """What a loop needs besides the database. `kept` is what this process's loops keep between rounds."""

    cluster: Cluster
    metrics: Metrics
    holder: str  # who we are in the Lease table
    kept: dict[str, Any] = field(default_factory=dict)  # leases and snapshot keepers, by loop


_lock = threading.Lock()
_wiring: Wiring | None = None


def get() -> Wiring:
    """The wiring of this process, built from settings on first use."""
    global _wiring
    with _lock:
        if _wiring is None:
            _wiring = _build()
        return _wiring


def holder() -> str:
    """The name under which this process takes leases."""
    return EMBEDDED_HOLDER if settings.EMBEDDED else f"{socket.gethostname()}:{os.getpid()}"
