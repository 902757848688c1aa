"""Kubernetes' own objects with the label weft.dev/queue: make them workloads, and have those follow their objects."""

from dataclasses import replace
from functools import partial

from controlplane.adopted import status
from controlplane.adopted.jobfiles import UnfitError
from controlplane.adopted.port import Look, Owner, Owners
from controlplane.jobspec.spec import SpecError
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.scalers import autoscalers, natives
from controlplane.loops.wiring import Wiring
from controlplane.queries.accounts import access, kubernetes_users
from controlplane.services.errors import Refused
from controlplane.services.intake import adopting
from controlplane.services.intake.adopting import Known
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.workload import ENDED, Phase

LOOP = "adopt"
REFUSED = "NotQueued"
WITHOUT_AUTHOR = (
    "Weft does not queue it: nothing says which user made it, as the admission server was not there. "
    "Delete it and create it again."
)


def run_once(wiring: Wiring) -> Report:
    """One round of the adopt loop. A cluster without such objects has none to look at."""
    return rounds.run(LOOP, wiring, _adopt)


def _adopt(wiring: Wiring, lease: HeldLease) -> int:
    owners = wiring.owners
    if owners is None:
        return 0
    whole = owners.seen()
    ours = tuple(owner for owner in whole.owners if owner.made_for)
    look = replace(whole, owners=tuple(owner for owner in whole.owners if not owner.made_for))
    rows = adopting.known(look)
    at = wiring.cluster.now()
    did = 0
    for owner in look.owners:
        if owner.uid not in rows and not owner.is_leaving and status.end_of(owner) is None:
            refused = _submit(owner, at, lease)
            did += not refused
            _tell(wiring, owners, owner, REFUSED, refused, is_warning=True)
    did += adopting.follow(look, rows, owners.pods, at=at, lease=lease)
    adopting.count_others(look, lease=lease)
    for owner in adopting.held_back(look, rows):
        owners.hold(owner)
    live = {uid: row for uid, row in rows.items() if row.phase not in ENDED}
    did += autoscalers.keep(owners, look, live, partial(_warn, wiring, owners))
    did += natives.keep(owners, replace(whole, owners=ours), partial(_warn, wiring, owners), now=at, lease=lease)
    _tell_reasons(wiring, owners, look, rows)
    return did


def _submit(owner: Owner, at: float, lease: HeldLease) -> str:
    """Queue an object; why not, if so."""
    if not owner.author:
        return WITHOUT_AUTHOR
    user = kubernetes_users.resolve(owner.author)
    if user is None:
        return kubernetes_users.unknown(owner.author)
    if not access.can(user, access.Verb.SUBMIT, owner.team):
        return f"Weft does not queue it: {user.get_username()} may not submit in team {owner.team}."
    try:
        adopting.submit(owner, adopting.spec_of(owner), user=user, at=at, lease=lease)
    except (UnfitError, SpecError) as error:
        return adopting.refusal(error)
    except Refused as error:
        return f"Weft does not queue it: {error}"
    return ""


def _tell_reasons(wiring: Wiring, owners: Owners, look: Look, rows: dict[str, Known]) -> None:
    """Why each waits, on the object itself, when that has changed: a suspended object has no pod to tell it on."""
    for owner in look.owners:
        row = rows.get(owner.uid)
        if row is not None and row.phase == Phase.QUEUED and row.message:
            _tell(wiring, owners, owner, row.reason or "Waiting", row.message, is_warning=False)


def _tell(wiring: Wiring, owners: Owners, owner: Owner, reason: str, message: str, *, is_warning: bool) -> None:
    told: dict[str, tuple[str, str]] = wiring.kept.setdefault("adopt_told", {})
    if message and told.get(owner.uid) != (reason, message):
        told[owner.uid] = (reason, message)
        owners.tell(owner, reason, message, is_warning=is_warning)


def _warn(wiring: Wiring, owners: Owners, owner: Owner, reason: str, message: str) -> None:
    """Say what is wrong with its scaling: several things may be, each is said when it is another one."""
    told: dict[tuple[str, str], str] = wiring.kept.setdefault("adopt_warned", {})
    if message and told.get((owner.uid, reason)) != message:
        told[owner.uid, reason] = message
        owners.tell(owner, reason, message, is_warning=True)
