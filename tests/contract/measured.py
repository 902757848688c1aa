"""The adapters behind the port `Metrics`: the simulated cluster itself, and a real Prometheus that scrapes it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from controlplane.cluster.port import Metrics
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.management import exporting
from controlplane.simulator.worlds.profiles import PROFILES
from tests import servers
from tests.contract.drive import NODES, PATIENCE, Drive, SimulatedDrive
from tests.prometheus import Prometheus

SLICES = 4  # of a wait, each scraped: rates are taken over six scrapes, of now over four
WINDOW = 1.2


class Measured(Drive, Protocol):
    """A drive whose metrics may come later than what they are about."""

    metrics: Metrics

    def scraped(self) -> None:
        """Wait until what is now is what the metrics say."""


class AtOnce(SimulatedDrive):
    """The simulated cluster answers of itself."""

    def scraped(self) -> None:
        """Nothing to wait for."""


class Scraped(SimulatedDrive):
    """The simulated cluster, its exporter, and a Prometheus: all in a hurry, the clock faster than Prometheus'."""

    def __init__(self, cluster: SimulatedCluster, metrics: Metrics, scrapes: Callable[[], int]) -> None:
        super().__init__(cluster)
        self.metrics = metrics
        self._scrapes = scrapes

    def wait(self, seconds: float) -> float:
        for _ in range(SLICES):
            super().wait(seconds / SLICES)
            self.scraped()
        return seconds

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        super().until(condition, seconds)
        self.scraped()

    def scraped(self) -> None:
        # The second scrape from now began after now, and it is stored before the third begins.
        target = self._scrapes() + 3
        servers.wait_until(lambda: self._scrapes() >= target, "Prometheus' scrapes")


@contextmanager
def scraped(folder: Path, prometheus: Prometheus) -> Iterator[Scraped]:
    """One cluster in a file, read by an exporter of its own, read by a real Prometheus that knows no other."""
    path = folder / "cluster.sqlite3"
    store = ClusterStore(path)
    cluster = Timed(NODES, profiles=PROFILES, store=store)
    scrapes: list[float] = []

    def reading() -> SimulatedCluster:
        return _Counting(scrapes, store=ClusterStore(path), profiles=PROFILES)

    servers.wait_until(lambda: prometheus.has_forgotten(WINDOW), "an empty Prometheus")
    with exporter(reading, prometheus.port):
        metrics = PrometheusMetrics(Settings(prometheus.url, window_seconds=WINDOW), now=cluster.now)
        one = Scraped(cluster, metrics, lambda: len(scrapes))
        one.scraped()
        yield one
    store.close()


class Timed(SimulatedCluster):
    """Tells its time as the small worlds of tests/controlplane/state.py do."""

    @property
    def at(self) -> float:
        return self.now()


class _Counting(SimulatedCluster):
    """Counts how often it is collected from: each collection asks once for the devices."""

    def __init__(self, scrapes: list[float], **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._scrapes = scrapes

    def gpus(self) -> tuple:  # type: ignore[type-arg]
        self._scrapes.append(time.monotonic())
        return super().gpus()


@contextmanager
def exporter(make: Callable[[], SimulatedCluster], port: int) -> Iterator[None]:
    """Serve a cluster's exporters in a thread."""
    stop, is_ready = threading.Event(), threading.Event()
    thread = threading.Thread(target=exporting.serve, args=(make, "127.0.0.1", port, stop, lambda _: is_ready.set()))
    thread.start()
    try:
        assert is_ready.wait(30.0), "the exporter did not start"
        yield
    finally:
        stop.set()
        thread.join()
