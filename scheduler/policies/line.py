"""The queue as the reference policies see it: one line for all teams, in order of submission."""

from collections.abc import Iterator

from scheduler.explain.reasons import gate, no_places, over_quota, permanent
from scheduler.fit.capacity import Refusal
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Reason
from scheduler.model.snapshot import IDLE
from scheduler.model.workload import Workload, least
from scheduler.state.plan import Plan
from scheduler.state.session import Session


def in_line(plan: Plan) -> list[Workload]:
    """All that wait, the first submitted first."""
    return sorted(plan.waiting, key=lambda w: (w.seq, w.id))


def held_back(session: Session, workload: Workload) -> Refusal | None:
    """Why a workload is not tried, whatever else waits: a gate, or that it could never start. None: it is."""
    return gate(session, workload) or permanent(session, workload)


def looked_at(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """The line, with what holds each back; it ends when the round is full."""
    plan = session.plan
    for workload in in_line(plan):
        if session.is_full:
            return
        yield workload, held_back(session, workload)


def no_room(session: Session, workload: Workload) -> Refusal:
    """Why a workload that is looked at was not placed: a quota's limit, else room. Entitlements do not count."""
    over = over_quota(session, workload)
    if over is None or (over.reason is Reason.FAIR_SHARE_EXCEEDED and not _fits(session, workload)):
        return no_places(session, workload, session.flavors.of(workload))
    return over


def _fits(session: Session, workload: Workload) -> bool:
    plan = session.plan
    goal, free = Goal(least(workload), least(workload)), plan.open_to(workload, plan.free[IDLE], IDLE)
    places = (find_places(plan.inventory, workload, goal, free, flavor) for flavor in session.flavors.of(workload))
    return any(found is not None for found in places)
