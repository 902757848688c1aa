"""Serves a simulated cluster's exporters over HTTP, for a Prometheus to scrape."""

from collections.abc import Callable
from threading import Event
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.simulator.exporter import Exporter

POLL_SECONDS = 0.1  # how soon an end is seen


def serve(
    make: Callable[[], SimulatedCluster], host: str, port: int, stop: Event, ready: Callable[[int], None]
) -> None:
    """Answer `GET /metrics` until `stop`; `ready` is told the port. Raises OSError when it is taken.

    The cluster is made and read in the calling thread only, as it wants it.
    """
    registry = CollectorRegistry()
    registry.register(Exporter(make()))
    # No threads: scrapes come one at a time, and counters grow with each.
    with make_server(host, port, make_wsgi_app(registry), WSGIServer, _Quiet) as server:
        server.timeout = POLL_SECONDS
        ready(server.server_port)
        while not stop.is_set():
            server.handle_request()


class _Quiet(WSGIRequestHandler):
    """Gives up on a client that connects and says nothing; writes no line for each scrape."""

    timeout = 5

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
