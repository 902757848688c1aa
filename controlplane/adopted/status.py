"""What an object says of itself: whether it is held back, and how it ended."""

from dataclasses import dataclass

from controlplane.adopted.kinds import Json, OwnerKind, at
from controlplane.adopted.port import Owner


@dataclass(frozen=True, slots=True)
class End:
    """How an object ended, in its controller's words."""

    has_succeeded: bool
    reason: str
    message: str


def end_of(owner: Owner) -> End | None:
    """How it ended; None while it has not, and for what never ends."""
    return end_in(owner.kind, owner.manifest)


def end_in(kind: OwnerKind, manifest: Json) -> End | None:
    """The same of its manifest."""
    for condition in at(manifest, "status", "conditions") or ():
        name = condition.get("type")
        if name and condition.get("status") == "True" and name in (kind.succeeded, kind.failed):
            reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
            return End(name == kind.succeeded, reason or str(name), message)
    return None


def is_suspended(owner: Owner) -> bool:
    """Whether its controller makes no pods. A kind without such a field never is."""
    return bool(owner.kind.suspend) and bool(at(owner.manifest, *owner.kind.suspend))


def replicas(owner: Owner) -> int:
    """How many pods a Deployment wants."""
    found = at(owner.manifest, "spec", "replicas")
    return 1 if found is None else int(found)
