"""`after`: what must have happened before a workload may start."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from controlplane.models import Dependency, Team, Workload, bulk
from controlplane.services.errors import Refused
from scheduler.workload import ENDED, Kind, Phase


def dependents(uids: Iterable[UUID]) -> list[UUID]:
    """Who waits for these: `meet` will write them, so they have to be locked together with these."""
    return [workload for workload, _ in _links(uids)]


def _links(needed: Iterable[UUID]) -> Iterator[tuple[UUID, UUID]]:
    """(who waits, for whom) of all that wait for these."""
    for part in bulk.chunks(needed):
        keys = bulk.stored(Dependency, "needs_id", part)
        yield from bulk.select(Dependency, ("workload_id", "needs_id"), f'WHERE "needs_id" IN {bulk.marks(keys)}', keys)


def meet(met: Mapping[UUID, str]) -> list[UUID]:
    """Take these (uid, name) off what their dependents wait for; tell which dependents that changes.

    The dependents are locked; whoever calls this has done so already (Batch.lock, ahead).
    """
    names: dict[UUID, set[str]] = {}
    for workload, needs in _links(met):
        names.setdefault(workload, set()).add(met[needs])
    if not names:
        return []
    waiting = Workload.objects.filter(pk__in=sorted(names)).order_by("pk").select_for_update(no_key=True)
    rows = [
        ([name for name in unmet if name not in names[uid]], uid)
        for uid, unmet in waiting.values_list("pk", "unmet")
        if names[uid].intersection(unmet)
    ]
    bulk.update(Workload, ("unmet",), ("uid",), rows)
    return [uid for _, uid in rows]


def resolve(*, team: Team, names: Iterable[str]) -> dict[str, tuple[UUID, bool]]:
    """The newest workload of each name in the team, and whether it is met already.

    Refused where there is none, or where it ended without doing what is waited for.
    """
    wanted = list(names)
    found: dict[str, tuple[UUID, str, str]] = {}
    newest = dict(Workload.objects.filter(team=team, name__in=wanted).order_by("seq").values_list("name", "uid"))
    # Locked until the links are stored: what ends meanwhile would not know who waits for it.
    rows = Workload.objects.filter(pk__in=newest.values()).order_by("pk").select_for_update(no_key=True)
    for uid, name, kind, phase in rows.values_list("uid", "name", "kind", "phase"):
        found[name] = (uid, kind, phase)
    resolved = {}
    for name in wanted:
        if name not in found:
            raise Refused(
                422,
                "UnknownDependency",
                "after",
                f"after names {name}, which team {team} does not have. Submit it first.",
            )
        uid, kind, phase = found[name]
        is_met = _is_met(kind, Phase(phase))
        if not is_met and Phase(phase) in ENDED:
            raise Refused(
                422,
                "FailedDependency",
                "after",
                f"after names {name}, which ended as {phase}. Submit {name} again first.",
            )
        resolved[name] = (uid, is_met)
    return resolved


def _is_met(kind: str, phase: Phase) -> bool:
    if kind == Kind.TRAINING:
        return phase == Phase.SUCCEEDED
    if kind == Kind.NOTEBOOK:
        return phase in (Phase.SUCCEEDED, Phase.STOPPED)
    return phase == Phase.RUNNING
