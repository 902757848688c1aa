"""A real Prometheus server on loopback: the machine's own, else one that is built with Go and kept in the cache.

`promtool`, which judges its rules, comes with it from the same module. `python -m controlplane.testbed.prometheus`
builds both if the machine has none.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from controlplane.testbed import golang
from controlplane.testbed.processes import HOW, MissingError, free_port, running, wait_for

NAME = "Prometheus"
SOURCE = "github.com/prometheus/prometheus/cmd"
PACKAGES = {"prometheus": {"prometheus": f"{SOURCE}/prometheus", "promtool": f"{SOURCE}/promtool"}}
# Clouds' lists of machines to scrape are half of what would be compiled; ours stand in the configuration.
FLAGS = ("-tags", "remove_all_sd,netgo", "-ldflags", "-s -w")


def find_prometheus() -> Path:
    """Return the `prometheus` to use. Raises MissingError."""
    return _found("prometheus")


def find_promtool() -> Path:
    """Return the `promtool` to use. Raises MissingError."""
    return _found("promtool")


def build(say: golang.Say) -> None:
    """Build it into the cache. Raises MissingError."""
    golang.built(_programs(), say)


def version() -> str:
    """The version that go.mod pins, as its releases are called: v3.13.5 is the module's v0.313.5."""
    minor, patch = golang.pinned("prometheus", r"github\.com/prometheus/prometheus v0\.(\d+\.\d+)").split(".")
    return f"v{minor[0]}.{int(minor[1:])}.{patch}"


def _programs() -> golang.Programs:
    return golang.Programs(NAME, PACKAGES, version(), FLAGS, minutes="2 to 3")


def _found(program: str) -> Path:
    on_path = shutil.which(program)
    if on_path is not None:
        return Path(on_path)
    built = _programs().folder / program
    if built.exists():
        return built
    raise MissingError(NAME, HOW)


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


if __name__ == "__main__":
    try:
        build(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
