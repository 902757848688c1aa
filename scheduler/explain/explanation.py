"""Why a workload waits, in full, and what a new one would get: on demand, on a copy, never inside a round."""

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.explain.growth import growth_text, is_elastic
from scheduler.explain.places import length, numbered
from scheduler.explain.reasons import awaiting, no_places, over_quota
from scheduler.fit.capacity import Refusal
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Evict, Place, Reason, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot
from scheduler.model.workload import Kind, Phase, Workload, least
from scheduler.policies import outcomes
from scheduler.quota.tree import gpus_text
from scheduler.state.memo import Memo
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from scheduler.state.tenants import has_share


class Status(StrEnum):
    """The result of one check; unknown = not checked, because an earlier check decides."""

    OK = "ok"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One of Quota, Order, Placement, Preemption, with its sentence."""

    name: str
    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the next round does with a workload, and why. reason is None when it does not wait for capacity."""

    workload: str
    reason: Reason | None
    message: str
    numbers: tuple[tuple[str, int | str], ...] = ()
    checks: tuple[Check, ...] = ()
    place: Place | None = None
    victims: tuple[Evict | Shrink, ...] = ()  # what is evicted, or gives up workers
    position: int | None = None  # its place in the queue (scheduler/explain/places.py), from 1
    in_queue: int | None = None  # how many places there are; None where no round was tried


def explain(snapshot: Snapshot, workload_id: str, settings: Settings, memo: Memo | None = None) -> Explanation:
    """Explain one workload as the next round would see it. Raises KeyError if it is not in the snapshot."""
    asked = snapshot.workloads[workload_id]
    session, ahead, same_team = Session(snapshot, settings, memo), 0, 0
    plan = session.plan
    if (held := explain_held(session, asked)) is not None:
        return held
    in_queue, waiting = length(session), list[tuple[Workload, Refusal]]()
    for position, workload, refused in numbered(outcomes(session)):
        if workload.id == asked.id:
            order = f"{ahead} ahead of it in the queue, {same_team} of them of team {asked.team}."
            if refused is None:
                return replace(_placed(plan, asked, order), position=position, in_queue=in_queue)
            checks = _checks(session, asked, refused, order)
            return Explanation(asked.id, *refused, checks=checks, position=position, in_queue=in_queue)
        waiting += [(workload, refused)] if refused is not None else []
        ahead, same_team = position or ahead, same_team + (position is not None and workload.team == asked.team)
    if asked.phase is Phase.QUEUED:
        numbers = (("max_changes", settings.max_changes),)
        return Explanation(asked.id, Reason.PENDING_EVALUATION, _LATER, numbers, in_queue=in_queue)
    if is_elastic(asked):
        return Explanation(asked.id, None, growth_text(session, waiting, asked).rstrip())
    return Explanation(asked.id, None, asked.message or f"Is {asked.phase}.")


def explain_kept(
    session: Session, asked: Workload, refused: Refusal, place: tuple[int | None, int], before: tuple[int, int]
) -> Explanation:
    """Explain one that waits by what a full round told it, on what that round left (`roundview.reopened`).

    place: its place in the queue and how many there are. before: how many are ahead of it, and of these of its team.
    What the round's view does not say is not checked: which shares may lie side by side.
    """
    ahead, same_team = before
    order = f"{ahead} ahead of it in the queue, {same_team} of them of team {asked.team}."
    checks = _checks(session, asked, refused, order)
    if has_share(asked) and session.plan.tenants is not None:
        checks = tuple(_not_known_of_shares(check, refused) for check in checks)
    return Explanation(asked.id, *refused, checks=checks, position=place[0], in_queue=place[1])


def _not_known_of_shares(check: Check, refused: Refusal) -> Check:
    if check.name != "Placement":
        return check
    text = f"Told by the round: {refused.message}"
    return Check(check.name, Status.UNKNOWN, text)


def explain_held(session: Session, asked: Workload) -> Explanation | None:
    """Explain one that has its places and does not run yet; None: it is another."""
    if asked.phase in (Phase.ADMITTED, Phase.STARTING):
        return Explanation(asked.id, *_coming_up(asked))
    if asked.phase is Phase.RESERVED:
        refusal = awaiting(session.plan, asked)
        return Explanation(asked.id, *refusal, checks=(Check("Placement", Status.OK, refusal.message),))
    return None


_LATER = "The next round reaches its limit of changes before this workload; a later round decides."


def _coming_up(workload: Workload) -> Refusal:
    count = len(workload.placement)
    text = f"Has its {'place' if count == 1 else f'{count} places'}; waits until its pods run."
    return Refusal(Reason.WAITING_FOR_PODS_READY, text, (("workers", count),))


def submitted(snapshot: Snapshot, workload: Workload) -> Snapshot:
    """The world with this workload queued now, last in line: what a preview explains. Changes nothing."""
    seq = 1 + max((w.seq for w in snapshot.workloads.values()), default=0)
    asked = replace(workload, seq=seq, phase=Phase.QUEUED, placement=(), queued_at=snapshot.at, reason="", message="")
    return snapshot.replace(changed=(asked,))


def _placed(plan: Plan, workload: Workload, order: str) -> Explanation:
    place, victims = _place_of(plan, workload), _victims_of(plan, workload)
    where = ", ".join(sorted({a.node for a in place.workers}))
    message = f"Is placed on {where} in the next round."
    shrink = sum(isinstance(d, Shrink) for d in victims)
    made = _preempted(len(victims) - shrink, shrink)
    texts = {"Quota": "Its team's quota allows it.", "Order": order, "Placement": message, "Preemption": made}
    checks = tuple(Check(name, Status.OK, text) for name, text in texts.items())
    return Explanation(workload.id, None, message, checks=checks, place=place, victims=victims)


def _preempted(leave: int, shrink: int) -> str:
    """The workloads that a placement preempts, and the gangs that it shrinks, in words."""
    parts = []
    if leave or not shrink:
        parts.append(f"{_counted(leave, 'workload') if leave else 'No workload'} {_be(leave)} preempted.")
    if shrink:
        parts.append(f"{_counted(shrink, 'elastic gang')} {_be(shrink)} shrunk.")
    return " ".join(parts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _be(count: int) -> str:
    return "are" if count > 1 else "is"


def _place_of(plan: Plan, workload: Workload) -> Place:
    return next(d for d in plan.decisions if isinstance(d, Place) and d.workload == workload.id)


def _victims_of(plan: Plan, workload: Workload) -> tuple[Evict | Shrink, ...]:
    return tuple(d for d in plan.decisions if isinstance(d, Evict | Shrink) and d.by == workload.id)


def _checks(session: Session, workload: Workload, refused: Refusal, order: str) -> tuple[Check, ...]:
    """The four checks of a workload that waits, on the plan as it was when its turn came."""
    if list(Reason).index(refused.reason) < list(Reason).index(Reason.EXCEEDS_MAX_QUOTA):
        rest = ("Quota", "Order", "Preemption")
        unknown = tuple(Check(name, Status.UNKNOWN, "Not checked: it cannot start anyway.") for name in rest)
        return (unknown[0], unknown[1], Check("Placement", Status.FAILS, refused.message), unknown[2])
    behind = refused.reason is Reason.BEHIND_HIGHER_PRIORITY
    queue = Check("Order", Status.FAILS, refused.message) if behind else Check("Order", Status.OK, order)
    room = _placement(session, workload)
    return (_quota(session, workload, refused), queue, room, _preemption(session, workload))


def _quota(session: Session, workload: Workload, refused: Refusal) -> Check:
    plan = session.plan
    if refused.reason is Reason.EXCEEDS_MAX_QUOTA:
        return Check("Quota", Status.FAILS, refused.message)
    over = over_quota(session, workload)
    if over is not None:
        return Check("Quota", Status.FAILS, over.message)
    pools = sorted({f.pool for f in session.flavors.of(workload) if f is not None})
    total, tree, team = plan.usage.total[FUTURE_IDLE], plan.usage.tree, workload.team
    parts = [f"{gpus_text(total[team, p])} of {gpus_text(tree.quota_nodes[team, p].nominal)} in {p}" for p in pools]
    text = f"Team {team} has {', '.join(parts)} allocated; it may use more." if parts else "It needs no GPU quota."
    return Check("Quota", Status.OK, text)


def _placement(session: Session, workload: Workload) -> Check:
    plan = session.plan
    goal, free = Goal(least(workload), least(workload)), plan.open_to(workload, plan.free[IDLE], IDLE)
    for flavor in session.flavors.of(workload):
        places = find_places(plan.inventory, workload, goal, free, flavor)
        if places is not None:
            where = ", ".join(sorted({a.node for a in places}))
            return Check("Placement", Status.OK, f"There is room on {where}.")
    return Check("Placement", Status.FAILS, no_places(session, workload, session.flavors.of(workload)).message)


def _preemption(session: Session, workload: Workload) -> Check:
    plan = session.plan
    evictable, usage, need = session.evictable, plan.usage, workload.need_milli(least(workload))
    numbers = evictable.of_team(workload.team)
    lower = int((evictable.priority[numbers] < workload.priority).sum())
    if workload.at_risk:
        lower = sum(evictable.workloads[number].kind is Kind.TRAINING for number in numbers.tolist())
    pools = [f.pool for f in session.flavors.of(workload) if f is not None]
    owed = [p for p in pools if need <= usage.owed(workload.team, p)]
    lenders = [t for p in owed for t in usage.borrowers(p) if usage.spare(workload.team, t, p, need)]
    have = "has" if lower == 1 else "have"
    own = f"{_counted(lower, 'workload')} of its team {have} lower priority and may be preempted"
    if workload.at_risk:
        own = f"{_counted(lower, 'training')} of its team may be preempted, as it is at risk of missing its objective"
    if not owed:
        text = f"{own}; its team's nominal quota does not cover it, so nothing can be reclaimed."
    elif lenders:
        text = f"{own}; reclaiming what {', '.join(sorted(set(lenders)))} borrow does not make enough room."
    else:
        text = f"{own}; no team borrows from its team's quota."
    return Check("Preemption", Status.FAILS, text)
