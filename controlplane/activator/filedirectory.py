"""The port `Directory` over a file: for a machine without Kubernetes, and for tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from autoscaler.lanes import Bounds
from controlplane.activator.directory import DirectoryError, Service, Split

KNOWN = ("workload", "port", "slots", "late_after", "waiting", "patience", "replicas", "direct", "split")
WAITING, PATIENCE_SECONDS = 100, 60.0


class FileDirectory:
    """Services as a YAML or JSON file has them; it is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._services: tuple[Service, ...] = ()
        self._error: DirectoryError | None = None

    def services(self) -> tuple[Service, ...]:
        """All of them. Raises DirectoryError."""
        try:
            stat = self._path.stat()
            if (seen := (stat.st_mtime_ns, stat.st_ino)) != self._seen:
                self._services, self._error = read(self._path.read_text()), None
                self._seen = seen
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise DirectoryError(f"{self._path} cannot be read: {why}. Write the services there.") from error
        except DirectoryError as error:
            raise DirectoryError(f"{self._path}: {error}") from error
        return self._services

    def may_ask(self, service: Service, peer: str) -> bool:
        """A file says nothing of teams: whoever reaches the port may."""
        return True

    def on_news(self, tell: Callable[[], None]) -> None:
        """It is looked at each half second in any case."""

    def close(self) -> None:
        """Nothing is open."""


def read(text: str) -> tuple[Service, ...]:
    """The services of such a file. Raises DirectoryError."""
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DirectoryError(f"It is no YAML: {error}") from error
    rows = given.get("services") if isinstance(given, Mapping) else None
    if not isinstance(rows, list):
        raise DirectoryError("It has no list. Begin it with services: and write one entry a service.")
    found = tuple(_service(row, f"services[{number}]") for number, row in enumerate(rows))
    for name in ("workload", "port"):
        values = [getattr(service, name) for service in found]
        if double := next((value for value in values if values.count(value) > 1), None):
            raise DirectoryError(f"Two services have the {name} {double}. Give each its own.")
    return found


def _service(row: Any, place: str) -> Service:
    if not isinstance(row, Mapping):
        raise DirectoryError(f"{place} is no mapping. Write workload, port, slots and replicas.")
    if unknown := next((name for name in row if name not in KNOWN), None):
        raise DirectoryError(f"{place}.{unknown} is not known. Known are {', '.join(KNOWN)}.")
    workload = row.get("workload")
    if not isinstance(workload, str) or not workload:
        raise DirectoryError(f"{place}.workload is missing. Write the workload's uid.")
    replicas = row.get("replicas", [])
    if not isinstance(replicas, list) or not all(_is_address(one) for one in replicas):
        raise DirectoryError(f'{place}.replicas is no list of addresses. Write ["10.0.0.7:8000"].')
    bounds = Bounds(
        slots=int(number(row, place, "slots", 1, 100_000)),
        late_after=number(row, place, "late_after", 0, 86_400, 1.0),
        waiting=int(number(row, place, "waiting", 0, 1_000_000, WAITING)),
        patience=number(row, place, "patience", 0, 86_400, PATIENCE_SECONDS),
    )
    port = int(number(row, place, "port", 1, 65_535))
    split = _split(row.get("split"), tuple(replicas), place)
    return Service(workload, port, bounds, tuple(replicas), is_direct=row.get("direct") is True, split=split)


def _split(given: Any, replicas: tuple[str, ...], place: str) -> Split | None:
    """Which of the replicas get a part of the requests of their own; a file has no revisions, so they are 1 and 2."""
    if given is None:
        return None
    chosen = given.get("replicas") if isinstance(given, Mapping) else None
    if not isinstance(chosen, list) or not set(map(str, chosen)) <= set(replicas):
        raise DirectoryError(f"{place}.split is to have a percent, and replicas of the list above.")
    percent = int(number(given, f"{place}.split", "percent", 0, 100))
    return Split(2, percent, tuple((replica, 2 if replica in chosen else 1) for replica in replicas))


def number(
    row: Mapping[str, Any], place: str, name: str, least: float, most: float, default: float | None = None
) -> float:
    """A number of a row within its bounds. Raises DirectoryError."""
    value = row.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DirectoryError(f"{place}.{name} is to be a number from {least:g} to {most:g}.")
    return value


def _is_address(text: Any) -> bool:
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    return bool(host) and port.isdigit() and 0 < int(port) < 65_536
