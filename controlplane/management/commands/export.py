"""`manage.py export`: what exporters would say of the simulated cluster, for a Prometheus to scrape."""

import signal
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.loops import wiring
from controlplane.management import exporting

PORT = 9400  # the DCGM exporter's


class Command(BaseCommand):
    """Serve the metrics of the simulated cluster until SIGTERM."""

    help = (
        "Serve what DCGM, cAdvisor, Istio and the programs would report of the simulated cluster. See docs/metrics.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=PORT, help=f"0 = any ({PORT})")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        host = options["host"]
        try:
            exporting.serve(_cluster, host, options["port"], stop, lambda port: self._ready(host, port))
        except OSError as error:
            self.stderr.write(
                f"Port {options['port']} on {host} cannot be used ({error.strerror}). Choose another: --port."
            )
            sys.exit(2)

    def _ready(self, host: str, port: int) -> None:
        self.stdout.write(f"Metrics of the simulated cluster are at http://{host}:{port}/metrics")


def _cluster() -> SimulatedCluster:
    cluster = wiring.simulated().cluster
    if not isinstance(cluster, SimulatedCluster):
        raise TypeError("wiring.simulated gives a simulated cluster")
    return cluster
