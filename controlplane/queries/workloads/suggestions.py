"""What would start a waiting workload now, which users may apply it, and whether a named change still does.

Each is a search or a dry run on a snapshot of now; nothing is written.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.suggestion import Verdict
from controlplane.models import PriorityClass, Role, Workload
from controlplane.queries.accounts import access
from controlplane.queries.cells import views
from controlplane.queries.rounds import decider
from controlplane.queries.scheduling import policies
from scheduler.explain.change import IN_QUOTA, Change, ChangeKind, Choice, PriorityOffer
from scheduler.explain.change_text import text_of
from scheduler.explain.explanation import explain
from scheduler.explain.suggestions import confirmed, untold
from scheduler.explain.suggestions import suggestions as search
from scheduler.model.snapshot import Snapshot
from scheduler.state.memo import Memo


def told(
    user: access.Person, world: Snapshot, uid: str, row: Workload | None = None, memo: Memo | None = None
) -> list[dict[str, Any]]:
    """The smallest changes that would start it now; of teams that the user cannot see, only which team it is.

    row: the workload, to say which of them the user may have applied; None if there is none yet.
    """
    roles, out = access.roles(user), []
    for suggestion in search(world, uid, policies.scheduling(), _offers(), memo=memo):
        change, text, target = suggestion.change, suggestion.text, suggestion.change.target
        if change.kind is ChangeKind.STOP and (team := world.workloads[target].team) not in roles:
            text, target = f"Stop a workload of team {team}.", ""
        out.append(
            {
                "kind": suggestion.kind.value,
                "text": text,
                "before": change.before,
                "after": change.after,
                "target": target,
                "pool": change.pool,
                "tested": suggestion.tested,
                "is_smallest": suggestion.is_smallest,
                "may_apply": row is not None and _may_apply(user, roles, row, change, world),
            }
        )
    return out


def verdict(user: access.Person, workload: Workload, choice: Choice) -> Verdict:
    """Whether this change, made now, starts the workload in the next round; else why not, and what would."""
    world, uid = decider.world(views.named(workload.cell)), str(workload.pk)
    asked = world.workloads.get(uid)
    if asked is None:
        return Verdict(
            None, f"{workload.name} has ended, so nothing would start it. Submit it again.", workload.version
        )
    settings, memo = policies.scheduling(), Memo()
    change = confirmed(world, uid, choice, settings, _offers(), memo)
    if change is not None:
        return Verdict(change, text_of(world, asked, change), asked.version)
    found = explain(world, uid, settings, memo)
    if found.place is not None:
        return Verdict(None, f"{workload.name} starts with the next round as it is. Leave it so.", asked.version)
    would = told(user, world, uid, memo=memo)
    same = [one for one in would if one["kind"] == choice.kind.value] or would
    instead = f"This would: {same[0]['text']}" if same else untold(settings, found.reason)
    return Verdict(None, f"The next round would not start {workload.name} with that. {instead}", asked.version)


def _offers() -> list[PriorityOffer]:
    classes = PriorityClass.objects.order_by("value", "name").values_list("name", "value", "preemptible")
    return [PriorityOffer(*row) for row in classes]


def _may_apply(user: access.Person, roles: Mapping[str, Role], row: Workload, change: Change, world: Snapshot) -> bool:
    """Whether the user may do by other means what the change does: there is no right of its own for it."""
    if access.is_platform_admin(user):
        return True
    if change.kind in IN_QUOTA:
        return False
    if change.kind is ChangeKind.STOP:
        return access.allows(roles.get(world.workloads[change.target].team), access.Verb.ACT)
    verb = access.Verb.ACT if row.created_by_id == user.pk else access.Verb.CHANGE
    return access.allows(roles.get(row.team.name), verb)
