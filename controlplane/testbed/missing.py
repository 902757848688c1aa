"""Which outside programs the tests look for in vain: `python -m controlplane.testbed.missing` prints one a line.

How each is got stands in `scripts/get`, by these names.
"""

from collections.abc import Callable, Mapping
from functools import partial

from controlplane.testbed import binaries, chromium, postgres, programs, prometheus, redis
from controlplane.testbed.processes import MissingError

FINDERS: Mapping[str, Callable[[], object]] = {
    "Chromium": chromium.find,
    "Kubernetes": lambda: binaries.find(build=False),
    "Postgres": postgres.find_postgres,
    "Prometheus": prometheus.find_prometheus,
    "Redis": redis.find_redis,
    **{name: partial(programs.find, name) for name in programs.PROGRAMS},
}


def missing() -> list[str]:
    """The names of those that are not there."""
    return [name for name, find in FINDERS.items() if not _is_there(find)]


def _is_there(find: Callable[[], object]) -> bool:
    try:
        find()
    except MissingError:
        return False
    return True


if __name__ == "__main__":
    print("\n".join(missing()))
