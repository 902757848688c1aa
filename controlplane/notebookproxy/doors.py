"""The port through which the proxy learns where a notebook's server listens, and a file in its place."""

import json
from pathlib import Path
from typing import Protocol

from controlplane.domain import addresses
from controlplane.queries.accounts.visiting import Seat

_FIX = "Write an object of host:port by notebook."


class DoorError(Exception):
    """Where the notebook's server is cannot be learned; the message says why."""


class Doors(Protocol):
    """Where notebooks' servers listen."""

    def address(self, seat: Seat) -> str | None:
        """`host:port`; None: its pod has no address yet. Asked from any thread. Raises DoorError."""

    def close(self) -> None:
        """Look no longer."""


class ServiceDoors:
    """By the name of the notebook's own Service in the cluster's DNS: nothing is asked of Kubernetes."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def address(self, seat: Seat) -> str | None:
        """Its Service's, whether anything answers there or not."""
        service = addresses.service(str(seat.notebook), seat.name)
        return f"{service}.{addresses.namespace(seat.team, self._prefix)}.svc:{seat.port}"

    def close(self) -> None:
        """Nothing is open."""


class FileDoors:
    """A JSON object of `host:port` by notebook, read again at each question: for one machine without Kubernetes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def address(self, seat: Seat) -> str | None:
        """As the file has it."""
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError) as error:
            raise DoorError(
                f"{self._path} cannot be read: {error}. Write an object of host:port by notebook."
            ) from error
        if not isinstance(found, dict):
            raise DoorError(f"{self._path} is no object. Write an object of host:port by notebook.")
        address = found.get(str(seat.notebook))
        return None if address is None else str(address)

    def close(self) -> None:
        """Nothing is open."""
