"""What the loop `intake` needs of a cluster: our custom resources as they are, and their status written. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controlplane.kubeobjects.names import ADOPT, AUTHOR


@dataclass(frozen=True, slots=True)
class Thing:
    """One custom resource, as the API server has it."""

    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Workload or Team."""
        return str(self.body["kind"])

    @property
    def uid(self) -> str:
        """Of this object: another one of its name has another."""
        return str(self.body["metadata"]["uid"])

    @property
    def name(self) -> str:
        """Within its namespace, if it has one."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Empty for a Team."""
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def generation(self) -> int:
        """It grows with each change of the spec."""
        return int(self.body["metadata"].get("generation", 0))

    @property
    def author(self) -> str:
        """The Kubernetes user that wrote the spec; empty if nothing says so."""
        return str((self.body["metadata"].get("annotations") or {}).get(AUTHOR, ""))

    @property
    def adopts(self) -> bool:
        """Whether a Team object is to take over a team of its name."""
        return (self.body["metadata"].get("annotations") or {}).get(ADOPT) == "true"

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in self.body["metadata"]

    @property
    def status(self) -> Mapping[str, Any]:
        """As it was written last."""
        found: Mapping[str, Any] = self.body.get("status") or {}
        return found


class Objects(Protocol):
    """Our custom resources in a cluster. Every call may raise ClusterUnreachable."""

    def are_there(self) -> bool:
        """Whether the cluster knows such objects at all."""

    def are_fenced(self) -> bool:
        """Whether the cluster sees to it that an object's author is who sent it."""

    def number(self) -> int:
        """It grows with each change of any of them; begins to watch."""

    def all(self) -> tuple[Thing, ...]:
        """Every one, as last heard."""

    def check(self) -> None:
        """From here on `all` lacks none that was there before this call, and has none that was gone."""

    def write(self, statuses: Sequence[tuple[Thing, Mapping[str, Any]]]) -> int:
        """Write these statuses, where the object has not changed since; how many were not written for that."""

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have this called after each change."""
