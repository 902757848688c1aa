"""A real Prometheus server, Debian's, on loopback."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from controlplane.testbed.processes import MissingError, free_port, running, wait_for


def find_prometheus() -> Path:
    """Return the `prometheus` to use. Raises MissingError."""
    found = shutil.which("prometheus")
    if found is None:
        raise MissingError("prometheus", "install it (Debian: apt-get install prometheus)")
    return Path(found)


def scrape(targets: Mapping[str, str], seconds: float = 1.0) -> dict[str, Any]:
    """A configuration that scrapes these jobs, each at one host:port."""
    every = f"{round(seconds * 1000)}ms"
    jobs = [{"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()]
    return {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": jobs}


@contextlib.contextmanager
def prometheus(folder: Path, configuration: Mapping[str, Any]) -> Iterator[str]:
    """Run a Prometheus with its files in `folder` and yield its URL. Raises MissingError."""
    binary = find_prometheus()
    settings = folder / "prometheus.yml"
    settings.write_text(json.dumps(configuration))
    address = f"127.0.0.1:{free_port()}"
    command: list[str | Path] = [binary, f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}", "--web.enable-lifecycle", "--log.level=warn"]
    log = folder / "prometheus.log"
    with running(command, log=log) as process:
        wait_for(process, lambda: _is_ready(f"http://{address}"), "Prometheus", log)
        yield f"http://{address}"


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
