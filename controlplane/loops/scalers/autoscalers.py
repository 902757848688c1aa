"""Autoscalers of queued Deployments that ask for Kubernetes' own scaling: made, kept as asked, watched, taken away."""

from collections.abc import Mapping

from controlplane.adopted import native
from controlplane.adopted.kinds import DEPLOYMENT, Json
from controlplane.adopted.native import UnfitError
from controlplane.adopted.port import Look, Owner, Owners, Tell

UNFIT, TWO_OWNERS, STUCK = "NotScaled", "TwoOwnersOfReplicas", "AutoscalerStuck"


def keep(owners: Owners, look: Look, live: Mapping[str, object], tell: Tell) -> int:
    """Have each live Deployment's autoscaler be what its annotations say; tell how many were written."""
    did = 0
    if look.autoscalers is None:
        return did
    for owner in look.owners:
        if owner.kind is not DEPLOYMENT or owner.is_leaving or owner.uid not in live:
            continue
        found = look.autoscalers.get(owner.uid)
        try:
            scaling = native.asked(owner)
        except UnfitError as error:
            tell(owner, UNFIT, str(error))
            continue
        if scaling is None:
            did += found is not None and owners.unscale(owner)
            continue
        wanted = native.autoscaler(owner, scaling)
        if found is None or not native.is_as(found, wanted):
            did += _write(owners, owner, wanted, tell)
        else:
            _watch(owner, found, tell)
    return did


def _write(owners: Owners, owner: Owner, wanted: Json, tell: Tell) -> bool:
    refused = owners.scale(owner, wanted)
    tell(owner, UNFIT, refused)
    return not refused


def _watch(owner: Owner, found: Json, tell: Tell) -> None:
    reason, message = native.trouble(found)
    if reason:
        tell(owner, STUCK, f"{native.KIND} {owner.name}: {reason}: {message}")
    if other := native.other_owner(owner, found):
        tell(
            owner,
            TWO_OWNERS,
            f"{other} writes spec.replicas beside the autoscaler. Leave replicas out of what it applies.",
        )
