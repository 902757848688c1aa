"""The port to Kubernetes' own objects that are workloads. The simulated cluster has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.adopted.kinds import PRIORITY, USER, Json, OwnerKind, at, made_for
from controlplane.domain import addresses


@dataclass(frozen=True, slots=True)
class Owner:
    """One object with the label weft.dev/queue in the namespace of a team."""

    kind: OwnerKind
    team: str
    manifest: Json

    @property
    def uid(self) -> str:
        """Of the workload that it is: its own, or that of the service which Weft made it for."""
        return self.made_for or self.object_uid

    @property
    def object_uid(self) -> str:
        """Of the object itself."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def made_for(self) -> str:
        """The service that Weft made it for; empty: people made it."""
        return made_for(self.kind, self.manifest)

    @property
    def name(self) -> str:
        """Within its namespace."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The team's."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return str(self.manifest["metadata"].get("resourceVersion", ""))

    @property
    def label(self) -> str:
        """As people write it: Job/train."""
        return f"{self.kind.kind}/{self.name}"

    @property
    def author(self) -> str:
        """The Kubernetes user that made it, as the admission server saw it; empty if it did not."""
        return str(at(self.manifest, "metadata", "annotations", USER) or "")

    @property
    def priority_class(self) -> str:
        """Asked for by a label; empty: the platform's default."""
        return str(at(self.manifest, "metadata", "labels", PRIORITY) or "")

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.manifest["metadata"].get("deletionTimestamp"))


@dataclass(frozen=True, slots=True)
class Service:
    """A service whose Deployment Weft makes, with what its pods are made of. spec: the stored job file."""

    uid: str
    team: str
    name: str
    spec: Mapping[str, object]
    cpu_milli: int
    memory: int  # MiB

    @property
    def deployment(self) -> str:
        """What its Deployment, its autoscaler and its Service are called."""
        return addresses.service(self.uid, self.name)


@dataclass(frozen=True, slots=True)
class Look:
    """All that are queued in namespaces of teams, and the uids of those whose namespace is no team's any more.

    others: the pods there that are no workloads, and their whole GPUs. They are counted and never touched.
    """

    owners: tuple[Owner, ...]
    left: frozenset[str] = frozenset()
    others: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by team
    autoscalers: Mapping[str, Json] | None = None  # that Weft made, by the uid of what they scale; None: it makes none


class Tell(Protocol):
    """Says something about an object, on it, once."""

    def __call__(self, owner: Owner, reason: str, message: str) -> None:
        """Say it; an empty message says nothing."""


class Owners(Protocol):
    """Read them, hold them back, and tell them."""

    def seen(self) -> Look:
        """Everything there is now. Raises ClusterUnreachable."""

    def pods(self, owner: Owner) -> int:
        """How many pods it has that have not ended and are to stay, with a place or without."""

    def hold(self, owner: Owner) -> None:
        """Have it give its pods up and make none, unless it was changed since it was seen."""

    def scale(self, owner: Owner, autoscaler: Json) -> str:
        """Let this autoscaler of it be there; why not, if so: its name is another one's."""

    def unscale(self, owner: Owner) -> bool:
        """Take its autoscaler away; whether there was one."""

    def make(self, service: Service, found: Owner | None) -> str:
        """Let its Deployment be as its job file says; `found` is that of the last look. Why it is not, if so."""

    def hand_over(self, owner: Owner, replicas: int) -> None:
        """Own its number of replicas as it is, so that who writes it next is noted; unless it was changed meanwhile."""

    def unmake(self, owner: Owner) -> None:
        """Take a Deployment that Weft made away, with its autoscaler and its pods."""

    def tell(self, owner: Owner, reason: str, message: str, *, is_warning: bool) -> None:
        """Show this as an event on the object. Best effort."""
