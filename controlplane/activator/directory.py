"""The port through which the activator knows its services: where their replicas are, and what those may take."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autoscaler.lanes import Bounds
from autoscaler.latency import ANSWER


@dataclass(frozen=True, slots=True)
class Split:
    """The replicas of one revision get so many percent of the requests; the others get the rest.

    revisions: of each ready replica, where it is known; within: seconds in which a request is to be answered, or,
    by `of`, to have its first token.
    """

    revision: int
    percent: int
    revisions: tuple[tuple[str, int], ...] = ()
    within: float | None = None
    of: str = ANSWER

    @property
    def chosen(self) -> tuple[str, ...]:
        """The replicas of the revision."""
        return tuple(replica for replica, revision in self.revisions if revision == self.revision)


@dataclass(frozen=True, slots=True)
class Service:
    """One service: its workload's uid, our port for it, and its ready replicas as host:port.

    is_direct: its traffic goes to the replicas; what still comes here is served and its connection closed after that.
    """

    workload: str
    port: int
    bounds: Bounds
    replicas: tuple[str, ...] = ()
    is_direct: bool = False
    namespace: str = ""  # of the team it belongs to; empty where there are no namespaces
    split: Split | None = None


class Directory(Protocol):
    """Where services are looked up."""

    def services(self) -> tuple[Service, ...]:
        """All of them as last heard, one a workload and one a port. Raises DirectoryError before they are known."""

    def may_ask(self, service: Service, peer: str) -> bool:
        """Whether requests of this address may reach the service: pods of another team may not."""

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have this called, from any thread, when something has changed."""

    def close(self) -> None:
        """Look no longer."""


class DirectoryError(Exception):
    """The services cannot be read; the message names the field and the fix."""
