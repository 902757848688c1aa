"""The compose file's services as processes on loopback, where no container engine runs.

Commands and environment are the file's (and the Dockerfile's ENV); only hosts, ports, listen addresses and the mount
points of volumes and secrets are replaced. A service with replicas becomes worker-1, worker-2, ...
"""

import json
import os
import re
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import yaml

from controlplane.testbed import postgres
from controlplane.testbed.processes import ROOT, end, free_port, start, wait_for, wait_until
from controlplane.testbed.prometheus import find_prometheus
from controlplane.testbed.redis import find_redis

FILE = ROOT / "docker-compose.yml"
OURS = ("install", "web", "worker", "beat", "notebooks")
# For tests, in which processes are killed and not the machine: what was committed stays. Benchmarks have Postgres as it
# comes.
KILLED_ONLY = {"fsync": "off"}
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Part:
    """One process: what it runs, with what environment."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    user: str | None = None
    stop: signal.Signals = signal.SIGTERM


class Installation:
    """The running parts by name; each may be killed and started again."""

    def __init__(self, folder: Path, parts: Mapping[str, Part], url: str, database: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.url = url
        self.database = database  # URL as the services have it
        self.parts = parts
        self._running: dict[str, Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a part; do not wait until it answers."""
        part = self.parts[name]
        self._running[name] = start(part.command, log=self.log(name), env=part.env, user=part.user, stop=part.stop)

    def change(self, name: str, variables: Mapping[str, str]) -> None:
        """Have a part start with these variables from its next start on."""
        part = self.parts[name]
        self.parts = {**self.parts, name: replace(part, env={**part.env, **variables})}

    def run(self, name: str) -> None:
        """Run a part that ends by itself. Raises RuntimeError with its log."""
        self.start(name)
        if self._running.pop(name).wait(120) != 0:
            raise RuntimeError(f"{name} failed:\n{self.log(name).read_text()}")

    def kill(self, name: str) -> None:
        """End a part with all its processes at once, as a crash does."""
        os.killpg(self._running[name].pid, signal.SIGKILL)
        self._running.pop(name).wait()

    def stop(self, name: str) -> int:
        """Ask a part to end; its exit code."""
        return end(self._running.pop(name), self.parts[name].stop)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a part."""
        self._running[name].send_signal(number)

    @property
    def running(self) -> frozenset[str]:
        """The parts that were started and neither killed nor stopped since."""
        return frozenset(self._running)

    def process(self, name: str) -> "Popen[bytes]":
        """The process of a running part."""
        return self._running[name]

    def log(self, name: str) -> Path:
        """The file with a part's output."""
        return self.folder / f"{name}.log"

    def secret(self, name: str) -> str:
        """A secret as the services read it."""
        return (self.folder / "secrets" / name).read_text()

    def answers(self, path: str = "/readyz") -> bool:
        """Whether the web process says that all is well."""
        try:
            return httpx.get(self.url + path, timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def replicas(self, service: str) -> list[str]:
        """The parts of a service."""
        return [name for name in self.parts if name.partition("-")[0] == service]

    def end(self) -> None:
        """End all, servers last."""
        order = ("notebooks", "web", "beat", "worker", "prometheus", "redis", "postgres")
        for name in sorted(self._running, key=lambda name: order.index(name.partition("-")[0])):
            end(self._running[name], self.parts[name].stop)


@contextmanager
def prepared(
    folder: Path,
    variables: Mapping[str, str] = {},
    extra: Mapping[str, str] = {},
    database_options: Mapping[str, str] = {},
    profiles: Collection[str] = (),
) -> Iterator[Installation]:
    """The compose file's parts, servers running and `install` not yet run. Raises MissingError.

    variables: those of an .env file; extra: what an override file adds to the environment of our own services;
    database_options: Postgres' own that are not as they come; profiles: of services that are not always there.
    """
    find_redis(), find_prometheus()  # before anything starts
    with postgres.prepared(database_options) as server:
        ports = {name: free_port() for name in ("web", "redis", "prometheus", "worker-1", "worker-2", "notebooks")}
        database = f"{server.url.rpartition('/')[0]}/weft"
        _secrets(folder / "secrets", database, ports["redis"])
        parts = _parts(folder, ports, variables, profiles)
        for name, part in parts.items():
            if name.partition("-")[0] in OURS:
                parts[name] = replace(part, env={**part.env, **extra})
        parts["postgres"] = Part(
            "postgres", tuple(map(str, server.command)), dict(os.environ), server.user, signal.SIGINT
        )
        made = Installation(folder, parts, f"http://127.0.0.1:{ports['web']}", database)
        try:
            made.start("postgres")
            wait_for(made.process("postgres"), server.answers, "Postgres", made.log("postgres"))
            postgres.create_database(server.url, "weft")
            made.start("redis")
            yield made
        finally:
            made.end()


def up(
    made: Installation,
    *,
    prepare: Callable[[], None] = lambda: None,
    seconds: float = 90.0,
    without: Collection[str] = (),
) -> None:
    """Install, start web, workers, beats and Prometheus as the file says, and wait until all loops turn.

    without: parts that are not started.
    """
    made.run("install")
    prepare()
    for name in made.parts:
        if name not in ("install", "postgres", "redis", *without):
            made.start(name)
    wait_until(made.answers, "every loop", seconds)


def services(variables: Mapping[str, str] = {}) -> dict[str, Any]:
    """The compose file's services, with variables as an .env file would give them or as their defaults say."""
    text = _VARIABLE.sub(lambda found: variables.get(found[1], found[2]), FILE.read_text())
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def image_environment() -> dict[str, str]:
    """What the Dockerfile's last stage sets by ENV, PATH apart."""
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2].replace("\\\n", " ")
    pairs = (pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", last, re.M) for pair in shlex.split(line))
    return {name: value for name, value in pairs if name != "PATH"}


def _parts(
    folder: Path, ports: Mapping[str, int], variables: Mapping[str, str], profiles: Collection[str]
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for service, said in services(variables).items():
        if service == "postgres" or not set(said.get("profiles", profiles)) <= set(profiles):
            continue
        count = said.get("deploy", {}).get("replicas", 1)
        for number in range(1, count + 1):
            name = service if count == 1 else f"{service}-{number}"
            (folder / name).mkdir(parents=True)
            parts[name] = _part(name, said, folder, ports)
    return parts


def _part(name: str, said: Mapping[str, Any], folder: Path, ports: Mapping[str, int]) -> Part:
    here = _replacing(name, folder, ports)
    is_ours = "build" in said
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "KUBECONFIG", "WEFT_DATA") if key in os.environ}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    env["TMPDIR"] = str(folder / name)  # each container has a /tmp of its own
    image = image_environment() if is_ours else {}
    env |= {
        key: here("" if value is None else str(value))
        for key, value in {**image, **said.get("environment", {})}.items()
    }
    command = [here(word) for word in shlex.split(said["command"])]
    if name == "redis":
        command = [str(find_redis()), *command[1:], "--port", str(ports["redis"]), "--bind", "127.0.0.1"]
    if name == "prometheus":
        command = [str(find_prometheus()), *command]
        _scraping(folder, here, ports)
    return Part(name, tuple(command), env)


def _replacing(name: str, folder: Path, ports: Mapping[str, int]) -> Callable[[str], str]:
    """What stands for hosts, ports, listen addresses and mount points."""
    table = {
        "0.0.0.0:9090": f"127.0.0.1:{ports['prometheus']}",
        "web:8000": f"127.0.0.1:{ports['web']}",
        "0.0.0.0": "127.0.0.1",  # noqa: S104 - it is taken away here
        "/run/secrets/": f"{folder}/secrets/",
        "/var/lib/weft": f"{folder}/home",
        "/etc/prometheus/": f"{folder}/prometheus/",
    }
    whole = {
        "8000": str(ports["web"]),
        "8010": str(ports["notebooks"]),
        "9100": str(ports.get(name, 0)),
        "--storage.tsdb.path=/prometheus": "",
    }
    whole["--storage.tsdb.path=/prometheus"] = f"--storage.tsdb.path={folder}/prometheus/data"

    def here(text: str) -> str:
        if text in whole:
            return whole[text]
        for said, meant in table.items():
            text = text.replace(said, meant)
        return text

    return here


def _scraping(folder: Path, here: Callable[[str], str], ports: Mapping[str, int]) -> None:
    """Prometheus' configuration with our addresses in the place of the names that an engine would resolve."""
    said = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())
    for job in said["scrape_configs"]:
        if job.pop("dns_sd_configs", None):
            targets = [f"127.0.0.1:{port}" for name, port in ports.items() if name.startswith("worker-")]
            job["static_configs"] = [{"targets": targets}]
    (folder / "prometheus" / "prometheus.yml").write_text(here(json.dumps(said)))
    for rules in said["rule_files"]:
        (folder / "prometheus" / rules).write_text((ROOT / "deploy" / rules).read_text())


def _secrets(folder: Path, database: str, redis_port: int) -> None:
    folder.mkdir(parents=True)
    for name in ("secret_key", "postgres_password", "admin_password", "metrics_token", "oidc_client_secret"):
        (folder / name).write_text(secrets.token_hex(32))
    (folder / "database_url").write_text(database)
    password = secrets.token_hex(32)
    (folder / "redis_conf").write_text(f"requirepass {password}")
    (folder / "redis_url").write_text(f"redis://:{password}@127.0.0.1:{redis_port}/0")
    server = database.rpartition("@")[2]
    for part in ("web", "worker"):
        (folder / f"{part}_database_url").write_text(f"postgres://weft_{part}:{secrets.token_hex(32)}@{server}")
