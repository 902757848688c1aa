"""The queue as the reference policies see it: one line for all teams, in order of submission."""

from collections.abc import Iterator

from scheduler.decision import Reason
from scheduler.fit import Refusal, flavors
from scheduler.gang import Goal, find_places
from scheduler.plan import Plan
from scheduler.reasons import gate, no_places, over_quota, permanent
from scheduler.settings import Settings
from scheduler.snapshot import NOW
from scheduler.workload import Workload, least


def in_line(plan: Plan) -> list[Workload]:
    """All that wait, the first submitted first."""
    return sorted(plan.waiting, key=lambda w: (w.seq, w.id))


def held_back(plan: Plan, workload: Workload) -> Refusal | None:
    """Why a workload is not looked at, whoever else waits: a gate, or that it could never start. None: it is."""
    return gate(plan, workload) or permanent(plan, workload)


def is_full(plan: Plan, settings: Settings) -> bool:
    """Whether a round has made as many changes as it may; who comes after is left to the next one."""
    return len(plan.log) >= max(1, settings.most_changes)


def looked_at(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, Refusal | None]]:
    """The line, with what holds each back; it ends when the round is full."""
    for workload in in_line(plan):
        if is_full(plan, settings):
            return
        yield workload, held_back(plan, workload)


def no_room(plan: Plan, workload: Workload) -> Refusal:
    """Why a workload that is looked at was not placed: a quota's limit, else room. Nobody's entitlement counts."""
    over = over_quota(plan, workload)
    if over is None or (over.reason is Reason.FAIR_SHARE_EXCEEDED and not _fits(plan, workload)):
        return no_places(plan, workload, flavors(plan, workload))
    return over


def _fits(plan: Plan, workload: Workload) -> bool:
    goal, free = Goal(least(workload), least(workload)), plan.free[NOW]
    places = (find_places(plan.inventory, workload, goal, free, flavor) for flavor in flavors(plan, workload))
    return any(found is not None for found in places)
