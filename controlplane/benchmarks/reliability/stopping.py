"""The worker that `fencing` stops: the production loops, with leases of two seconds, stopping itself in mid-round.

A round that has read and decided stops its own process (SIGSTOP) before it commits, as a paused machine would; who
started it lets it go on once another process holds the lease.
"""

import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from django.db.backends.signals import connection_created

from controlplane.cluster.port import Cluster, Observation, PodSpec
from controlplane.loops import wiring
from controlplane.loops.keeper import Fence, SnapshotKeeper, Taken
from controlplane.loops.lease import Lease
from controlplane.loops.threads import LOOPS, Loops
from controlplane.loops.wiring import Wiring

TTL_SECONDS = 2.0
SELF_STOP = 0.15  # of the rounds that have something to commit


@dataclass
class Pausing:
    """The cluster as it is, but what was read from it, and what was just done in it, may be followed by a pause."""

    real: Any

    def __getattr__(self, name: str) -> Any:
        """All the rest."""
        return getattr(self.real, name)

    def observe(self, cursor: str | None) -> Observation:
        """Read; perhaps stop between that and the commit."""
        seen: Observation = self.real.observe(cursor)
        if seen.pods:
            maybe_stop("observe")
        return seen

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Do; perhaps stop between that and the commit."""
        maybe_stop("actuate")
        self.real.start(pods)
        maybe_stop("actuate")


class Reader(SnapshotKeeper):
    """The scheduler's reader; perhaps stops between what it read and what will be committed."""

    def take(self, lease: Fence, at: float | None = None) -> Taken:
        """Read."""
        taken = super().take(lease, at)
        if taken.changed.changed:
            maybe_stop("schedule")
        return taken


class Kept(dict[str, Any]):
    """What a loop keeps between rounds; a new snapshot keeper is always one that pauses."""

    def pop(self, key: str, default: Any = None) -> Any:
        """As a dictionary's."""
        found = super().pop(key, default)
        return Reader() if key == "keeper" and found is None else found


OVER = "WEFT_FENCING_OVER"  # the name of a file; once it is there, no more pauses
_guard = threading.Lock()


def maybe_stop(loop: str) -> None:
    """Stop this whole process now and then, and say so first."""
    with _guard:
        # A file, not a signal: the next pause would come before the main thread had its turn to note one.
        if random.random() < SELF_STOP and not os.path.exists(os.environ[OVER]):  # noqa: S311 - chance, not secrecy
            print(f"stopped {loop}", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)


def run() -> NoReturn:
    """Run the loops until SIGTERM."""
    holder = f"{socket.gethostname()}:{os.getpid()}"

    def name_session(connection: Any, **_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('application_name', %s, false)", [holder])

    connection_created.connect(name_session, weak=False)
    kept = {f"lease:{name}": name for name in LOOPS}

    def build() -> Wiring:
        found = wiring.configured()
        cluster: Cluster = Pausing(found.cluster)
        leases = {key: Lease(name, holder, TTL_SECONDS) for key, name in kept.items()}
        return Wiring(cluster, found.metrics, holder, Kept(leases))

    wiring.use(build)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    loops = Loops(renew_seconds=TTL_SECONDS / 4)
    loops.start()
    ended.wait()
    loops.stop()
    sys.exit(0 if loops.join(20.0) else 1)
