"""The policy in force: the newest of append-only versions."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from controlplane.domain.policy import Policy, PolicyError, difference, in_current_names, problems
from controlplane.models import PolicyVersion
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.cells import rearranging
from controlplane.services.errors import Refused
from controlplane.services.scheduling import inforce
from controlplane.services.scheduling.clock import database_now
from controlplane.services.scheduling.leases import keep_rounds_still

LONGEST_COMMENT = 200
ANY = -1  # whatever version is in force


def current() -> tuple[Policy, int | None]:
    """The policy in force and its version; the defaults have none."""
    found = inforce.now()
    return found.policy, found.version


def version(number: int | None) -> Policy:
    """One version of the policy; None for the defaults."""
    return Policy() if number is None else Policy.stored(PolicyVersion.objects.get(pk=number).data)


@transaction.atomic
def save(*, policy: Policy, author: str, comment: str = "", seen: int = ANY) -> int:
    """Put a policy in force from the next round on; tell its version.

    `seen` is the version that the caller saw in force (0: the defaults). Refused 412 if there is a newer one, 422 if a
    setting cannot be, or if nothing would change. Other cells end every round under way.
    """
    keep_rounds_still()
    before, number, cells_number = inforce.now()
    if seen not in (ANY, number or 0):
        raise Refused(412, "VersionMismatch", "version", _overtaken(number or 0, seen))
    data = policy.to_dict()
    try:
        Policy.from_dict(data, in_force=True)
    except PolicyError as wrong:
        field, message = next(iter(wrong.problems.items()))
        raise Refused(422, "BadPolicy", field, message) from None
    if len(comment) > LONGEST_COMMENT:
        message = f"The comment has {len(comment)} characters. Shorten it to at most {LONGEST_COMMENT}."
        raise Refused(422, "BadPolicy", "comment", message)
    changes = difference(before, policy)
    if not changes:
        name = "the defaults are" if number is None else f"version {number} is"
        raise Refused(422, "NothingChanged", "", f"These are the current settings already: {name} the same.")
    is_cut = policy.scheduling.cells != before.scheduling.cells
    row = PolicyVersion.objects.create(
        data=data, author=author, at=database_now(), comment=comment, cells_number=cells_number + is_cut
    )
    told = {change.field: [change.before, change.after] for change in changes}
    events.record(
        kind="PolicyChanged", actor=author, message=comment, data={"version": row.pk, "changes": told, **data}
    )
    if is_cut:
        rearranging.rearrange(policy.scheduling.cells)
    wake("schedule")
    return int(row.pk)


@transaction.atomic
def change(*, changes: Mapping[str, Any], author: str, comment: str = "", seen: int = ANY) -> int:
    """Save a version with some settings (`{"scheduling": {...}}`) changed and the others as in force. Refused 422."""
    keep_rounds_still()
    base = current()[0].to_dict()
    try:
        if faults := problems(changes, in_force=True):
            raise PolicyError(faults)
        now = in_current_names(changes)
        policy = Policy.from_dict({**base, **{part: {**base[part], **v} for part, v in now.items()}}, in_force=True)
    except PolicyError as wrong:
        field, message = next(iter(wrong.problems.items()))
        raise Refused(422, "BadPolicy", field, message) from None
    return save(policy=policy, author=author, comment=comment, seen=seen)


def restore(*, number: int, author: str, comment: str = "", seen: int = ANY) -> int:
    """Save a version equal to an old one (0: the defaults); tell its number. Refused 404 if there is none."""
    try:
        policy = version(number or None)
    except PolicyVersion.DoesNotExist:
        message = f"There is no version {number} of the policy. The list of versions names those there are."
        raise Refused(404, "NoSuchVersion", "version", message) from None
    said = comment or (f"As version {number}" if number else "As the defaults")
    return save(policy=policy, author=author, comment=said, seen=seen)


def _overtaken(number: int, seen: int) -> str:
    return f"The current version of the policy is {number}, not {seen}, which you saw. Read it and change it again."
