"""`after`: what must have happened before a workload may start, and what becomes of it when that cannot happen."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.jobspec.spec import Needed
from controlplane.lifecycle.following import GATED
from controlplane.models import Dependency, Team, Workload, bulk
from controlplane.services.errors import Refused
from scheduler.model.dependency import condition, verdict
from scheduler.model.workload import Phase

_LINK = ("workload_id", "needs_id", "when")


class Link(NamedTuple):
    """`workload` starts when `needs` is as `when` says; empty: what that means by the kind of `needs`."""

    workload: UUID
    needs: UUID
    when: str


def links(needed: Iterable[UUID]) -> Iterator[Link]:
    """The workloads that start after these."""
    for part in bulk.chunks(needed):
        yield from (Link(*row) for row in bulk.select(Dependency, _LINK, {"needs_id__among": part}, order=("id",)))


def dependents(uids: Iterable[UUID]) -> list[UUID]:
    """All that start after these, and after those: the end of one may end them all, so they are locked together."""
    found: dict[UUID, None] = {}
    look = list(uids)
    while look:
        look = [uid for uid in dict.fromkeys(link.workload for link in links(look)) if uid not in found]
        found |= dict.fromkeys(look)
    return list(found)


def resolve(*, team: Team, needed: Sequence[Needed]) -> dict[str, tuple[UUID, bool]]:
    """The newest workload of each name in the team, and whether it is as its rule asks already.

    Refused where there is none, or where it ended so that it can never be.
    """
    wanted = [one.name for one in needed]
    found: dict[str, tuple[UUID, str, str]] = {}
    newest = dict(Workload.objects.filter(team=team, name__among=wanted).order_by("seq").values_list("name", "uid"))
    # Locked until the links are stored: what ends meanwhile would not know what waits for it.
    rows = Workload.objects.filter(pk__among=newest.values()).order_by("pk").select_for_update(no_key=True)
    for uid, name, kind, phase in rows.values_list("uid", "name", "kind", "phase"):
        found[name] = (uid, kind, phase)
    return {one.name: _resolved(one, found.get(one.name), team) for one in needed}


def _resolved(one: Needed, found: tuple[UUID, str, Any] | None, team: Team) -> tuple[UUID, bool]:
    if found is None:
        message = f"after names {one.name}, which team {team} does not have. Submit it first."
        raise Refused(422, "UnknownDependency", "after", message)
    uid, kind, phase = found
    is_met = verdict(one.when, kind, Phase(phase))
    if is_met is False:
        message = f"after waits until {one.name} {condition(one.when, kind)}, but it ended as {phase}."
        raise Refused(422, "FailedDependency", "after", f"{message} Submit {one.name} again first.")
    return uid, bool(is_met)


def is_waiting(phase: Phase) -> bool:
    """Whether a workload in this phase may still be ended for what it starts after."""
    return phase in GATED
