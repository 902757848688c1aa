"""Services that Kubernetes' own autoscaler scales: their Deployments and autoscalers made, followed and taken away."""

from dataclasses import dataclass, field

from controlplane.adopted import native, status
from controlplane.adopted.kinds import Json, at
from controlplane.adopted.native import Scaling
from controlplane.adopted.port import Look, Owner, Owners, Tell
from controlplane.loops.scalers.autoscalers import STUCK
from controlplane.services.intake import natives
from controlplane.services.intake.natives import TWO_OWNERS, Native
from controlplane.services.scheduling import scalers
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.scheduling.scalers import Told

FIRST_TARGET = 1000  # milli-requests in flight, before a look at the service has said more
NOT_MADE = ("Made", "False", "NotMade")


@dataclass(slots=True)
class _Round:
    """What a round finds of them, by uid of the service."""

    told: dict[str, Told] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    did: int = 0


def keep(owners: Owners, look: Look, tell: Tell, *, now: float, lease: HeldLease) -> int:
    """Have each such service's Deployment and autoscaler be as its job file says, and its row follow them.

    look: of Deployments that Weft made only. Tells how much had to change.
    """
    wanted = natives.wanted() if look.autoscalers is not None else {}
    mine = [owner for owner in look.owners if _is_of(owner, wanted.get(owner.uid))]
    there = {owner.uid: owner for owner in mine}
    found = _Round()
    for owner in mine:
        if owner.uid not in wanted and not owner.is_leaving:
            owners.unmake(owner)
            found.did += 1
    for uid, one in wanted.items():
        _look_at(owners, one, there.get(uid), (look.autoscalers or {}).get(uid), found, tell)
    found.did += natives.follow(found.replicas, wanted, at=now, lease=lease)
    natives.tell_owners(found.others, wanted, at=now, lease=lease)
    scalers.keep(found.told, at=now, lease=lease)
    return found.did


def _is_of(owner: Owner, one: Native | None) -> bool:
    """Whether a Deployment is where that of its service is: a stamp from before the namespace was adopted may lie."""
    return one is None or (owner.team, owner.name) == (one.service.team, one.service.deployment)


def _look_at(
    owners: Owners, one: Native, owner: Owner | None, autoscaler: Json | None, found: _Round, tell: Tell
) -> None:
    uid = one.service.uid
    if owner is not None and owner.is_leaving:
        return
    refused = owners.make(one.service, owner)
    if refused or owner is None:  # what was made is there in the next look
        found.did += not refused
        if refused:
            found.told[uid] = Told(None, None, [[*NOT_MADE, refused]])
        return
    if not native.writers(owner):
        owners.hand_over(owner, status.replicas(owner))
    scaling = Scaling(one.least, one.most, one.target or FIRST_TARGET, native.IN_FLIGHT)
    body = native.autoscaler(owner, scaling)
    if autoscaler is None or not native.is_as(autoscaler, body):
        refused = owners.scale(owner, body)
        found.did += not refused
    found.replicas[uid] = _replicas(owner, owners.pods(owner))
    found.told[uid] = _told(owner, autoscaler or {}, refused)
    found.others[uid] = found.told[uid].other_owner
    _say(owner, found.told[uid], autoscaler or {}, tell)


def _replicas(owner: Owner, pods: int) -> int:
    """How many pods it is to have, one that is replaced while it runs included."""
    replicas = status.replicas(owner)
    return max(replicas, min(pods, 2 * replicas))


def _told(owner: Owner, found: Json, refused: str) -> Told:
    stuck = [one for one in _conditions(owner.manifest) if one[:2] == ["Progressing", "False"]]
    conditions = [*_conditions(found), *stuck]
    current, desired = (at(found, "status", name) for name in ("currentReplicas", "desiredReplicas"))
    return Told(current, desired, [[*NOT_MADE, refused]] if refused else conditions, native.other_owner(owner, found))


def _conditions(thing: Json) -> list[list[str]]:
    told = at(thing, "status", "conditions") or ()
    return [[str(one.get(name, "")) for name in ("type", "status", "reason", "message")] for one in told]


def _say(owner: Owner, told: Told, found: Json, tell: Tell) -> None:
    """What is wrong, as events on the Deployment."""
    reason, message = native.trouble(found)
    if reason:
        tell(owner, STUCK, f"{native.KIND} {owner.name}: {reason}: {message}")
    if told.other_owner:
        tell(owner, TWO_OWNERS, natives.two_owners(told.other_owner))
