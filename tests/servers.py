"""Real servers for the tests: started on a loopback port by controlplane.testbed, ended with the test run.

The machine's own programs are used where there are any, else those that wheels of the `dev` requirements
carry or that `scripts/get` put into the cache; none needs root. What is absent raises MissingError, which
tests/conftest.py turns into a skip with its name, or under WEFT_REQUIRE_ALL=1 into a failure.
"""

import contextlib
import http.client
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.testbed import chromium
from controlplane.testbed.postgres import create_database, drop_database, find_postgres, postgres
from controlplane.testbed.processes import MissingError, end, free_port, running, wait_until
from controlplane.testbed.redis import find_redis, redis_server

__all__ = [
    "MissingError",
    "create_database",
    "drop_database",
    "end",
    "find_postgres",
    "find_redis",
    "free_port",
    "postgres",
    "redis_server",
    "running",
    "wait_until",
]

ROOT = Path(__file__).resolve().parent.parent
OUR_VARIABLES = (
    "CLUSTER",
    "DATABASE_URL",
    "PROMETHEUS_URL",
    "REDIS_URL",
    "REDIS_URL_FILE",
    "SECRET_KEY",
    "SECRET_KEY_FILE",
)
SECRET_KEY = "known to everyone, for tests only: " + "x" * 32

CHROMIUM_FLAGS = chromium.FLAGS
find_chromium = chromium.find


def answers(url: str, seconds: float = 30.0) -> bool:
    """Whether a server on loopback answers a GET with 200.

    For those who ask again and again: a client of httpx first reads all certificates, 20 ms of CPU for each look.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    with contextlib.closing(connection):
        try:
            connection.request("GET", parts.path or "/")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def must_have_all() -> bool:
    """Tell whether an absent server is a failure, as in CI."""
    return os.environ.get("WEFT_REQUIRE_ALL") == "1"


def lacking(error: BaseException | None) -> MissingError | None:
    """What an error says that the machine lacks, also where it only was the reason for another error."""
    while error is not None and not isinstance(error, MissingError):
        error = error.__cause__
    return error


# Django


def is_ours(variable: str) -> bool:
    """Tell whether an environment variable configures Weft, not the tests or the machine."""
    if variable in ("WEFT_REQUIRE_ALL", "WEFT_DATA", "WEFT_PICTURES"):
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
