"""A real Prometheus on a loopback port, scraping what a test serves."""

import contextlib
import json
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from controlplane.testbed.prometheus import prometheus as running
from controlplane.testbed.prometheus import scrape
from tests import servers


@dataclass(frozen=True)
class Prometheus:
    """Its address, and the loopback port that it scrapes."""

    url: str
    port: int

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of an instant query, as they come."""
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{urlencode({'query': query})}", timeout=10) as answer:
            rows: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return rows

    def has_forgotten(self, seconds: float) -> bool:
        """Whether no series but its own has a sample in the last seconds."""
        return not self.ask(
            f'count(last_over_time({{job="weft",__name__!~"up|scrape_.*"}}[{round(seconds * 1000)}ms]))'
        )


@contextlib.contextmanager
def prometheus(seconds: float = 0.2) -> Iterator[Prometheus]:
    """Run one that scrapes one port of this machine so often. Raises MissingError."""
    port = servers.free_port()
    configuration = scrape({"weft": f"127.0.0.1:{port}"}, seconds)
    for job in configuration["scrape_configs"]:
        job["honor_labels"] = True  # the page speaks for many pods
    with tempfile.TemporaryDirectory(prefix="weft-prometheus-") as name, running(Path(name), configuration) as url:
        one = Prometheus(url, port)
        # Targets are looked at every 5 s only: the first scrape is the end of the start.
        servers.wait_until(lambda: bool(one.ask('up{job="weft"}')), "Prometheus")
        yield one
