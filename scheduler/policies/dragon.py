"""DRAGON and Enhanced DRAGON: first come, first served, and elastic trainings give workers to waiting work.

One round is one pass of the operator's `reconcile` (release 0.9, the one of the experiments):

1. One request has high priority: the first waiting service (edragon only), else the first notebook or share of
   priority `dragon_high_priority` or more, else the first training in line once it waits `dragon_wait_seconds`, with
   its least workers. Running trainings, in the order in which they started, give up workers for it down to their
   minimum: those on other nodes than worker 0 first ("lonely replicas"), the newest first. No training is killed.
2. If it has no such request, or room was made, the first training that fits starts: all workers or as many as fit, at
   least its minimum. One a pass; those that do not fit are skipped.
3. `dragon_settle_seconds` after the last action, running trainings grow to their maximum, node by node.

In edragon a service with room (made or there) is bound, and nothing else happens in that pass; one without room keeps
new trainings from starting.

Where we differ: worker 0 stands for the parameter server, also where a gang has one as a role, and is never removed.
What leaves is counted as room, so that nothing shrinks twice for one request. A service that has no room holds the
trainings back for `dragon_hold_seconds` at most, and never if it could not start at all. When the last action was is
read from the snapshot: the newest start, shrink or growth of an attempt, or now while workers start or leave. A gang
that must be within one NVLink domain does not grow. In dragon, services and notebooks are bound when they fit, as
kube-scheduler does; in both, notebooks and shares go where they fit best, as in KubeShare.
Source: Lin, Yeh, Chou: DRAGON, CLOSER'19; Chiang, Chou: DynamoML, CLOSER'21; the released operator's rules.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.fit.capacity import Refusal, per_node
from scheduler.fit.claim import claim, fits, quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.model.decision import Reason
from scheduler.model.mention import mention
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Bools
from scheduler.model.workload import ACTIVE, Kind, Level, Phase, Workload
from scheduler.policies.line import looked_at, no_room
from scheduler.state.plan import Plan
from scheduler.state.session import Session

Outcome = tuple[Workload, Refusal | None]


def dragon(session: Session) -> Iterator[Outcome]:
    """One pass of DRAGON."""
    return _pass(session, serves_first=False)


def edragon(session: Session) -> Iterator[Outcome]:
    """One pass of Enhanced DRAGON, with the serving queue."""
    return _pass(session, serves_first=True)


def _pass(session: Session, serves_first: bool) -> Iterator[Outcome]:
    plan, settings = session.plan, session.settings
    line: list[Workload] = []
    for workload, held in looked_at(session):
        if held is None:
            line.append(workload)
        else:
            yield workload, held
    jobs = [w for w in line if w.kind is Kind.TRAINING]
    services = [w for w in line if serves_first and w.kind is Kind.INFERENCE]
    others = [w for w in line if w.kind is not Kind.TRAINING and w not in services]
    if services:
        served, is_done = _serve(session, services)
        yield from served
        if is_done:
            return
    urgent = _urgent(session, others, jobs) if not services else None
    has_room = urgent is None or shrink_for(session, urgent)
    for workload in others:
        yield workload, None if claim(session, workload, IDLE) else no_room(session, workload)
    if not has_room and urgent is not None:
        yield from ((job, no_room(session, job) if job is urgent else _held_for(urgent)) for job in jobs)
        return
    yield from _start_one(session, jobs)
    if not session.is_full and plan.snapshot.at - last_action(plan) >= settings.dragon_settle_seconds:
        grow(session)


def _serve(session: Session, services: list[Workload]) -> tuple[list[Outcome], bool]:
    """Serve the first of the queue that can be; what was decided, and whether the pass ends with it."""
    plan, settings = session.plan, session.settings
    outcomes: list[Outcome] = []
    for service in services:
        if shrink_for(session, service):
            is_bound = claim(session, service, IDLE)
            return [*outcomes, (service, None if is_bound else no_room(session, service))], True
        outcomes.append((service, no_room(session, service)))
        if plan.snapshot.at - service.queued_at < settings.dragon_hold_seconds and service.phase is Phase.QUEUED:
            return outcomes, True
    return outcomes, False


def _urgent(session: Session, others: list[Workload], jobs: list[Workload]) -> Workload | None:
    plan, settings = session.plan, session.settings
    for workload in others:
        if workload.priority >= settings.dragon_high_priority:
            return workload
    if jobs and plan.snapshot.at - jobs[0].queued_at >= settings.dragon_wait_seconds:
        return jobs[0]
    return None


def _start_one(session: Session, jobs: list[Workload]) -> Iterator[Outcome]:
    for job in jobs:
        if claim(session, job, IDLE):
            yield job, None
            return
        yield job, no_room(session, job)


def _held_for(urgent: Workload) -> Refusal:
    name = mention(urgent.id)
    return Refusal(
        Reason.BEHIND_HIGHER_PRIORITY,
        f"Behind {name}, which has high priority and does not fit yet.",
        (("behind", name),),
    )


# --- giving workers away ----------------------------------------------------------------------


def shrink_for(session: Session, claimant: Workload) -> bool:
    """Take workers from elastic trainings until the claimant's least fits once they have left; whether it does.

    The plan is as it was if it does not. Nothing is taken if the room is there or about to be.
    """
    plan = session.plan
    if fits(session, claimant, FUTURE_IDLE):
        return True
    mark = plan.mark()
    for victim in _running(plan):
        ranks = spare_ranks(victim)
        for count in range(1, len(ranks) + 1):
            before = plan.mark()
            plan.shrink(victim, ranks[:count], claimant.id, f"Gives workers to {mention(claimant.id)}.")
            if fits(session, claimant, FUTURE_IDLE):
                return True
            if count < len(ranks):
                plan.rollback(before)
    plan.rollback(mark)
    return False


def spare_ranks(job: Workload) -> tuple[int, ...]:
    """The workers a training can do without, the first to go first: never worker 0, never below its minimum."""
    staying = [a for a in job.placement if not a.leaving and a.rank >= job.role_members]
    if not staying:
        return ()
    home = min(staying, key=lambda a: a.rank)
    order = sorted(staying, key=lambda a: (a.node == home.node, -a.rank))  # worker 0 is the last
    return tuple(a.rank for a in order[: max(0, len(staying) - job.gang.min)])


def _running(plan: Plan) -> list[Workload]:
    """Running trainings in the order in which they started."""
    found = [w for w in plan.holding if w.kind is Kind.TRAINING and w.phase is Phase.RUNNING]
    found = [plan.workload(w.id) for w in found if not any(a.reserved for a in w.placement)]
    return sorted(found, key=lambda w: (w.started_at or 0.0, w.seq))


# --- growing ----------------------------------------------------------------------------------


def last_action(plan: Plan) -> float:
    """When something last started, shrank or grew, as far as the snapshot tells; cluster clock."""
    at, newest = plan.snapshot.at, 0.0
    if plan.log or plan.leaving:
        return at
    for workload in plan.holding:
        if workload.kind is Kind.TRAINING and workload.phase in ACTIVE:
            is_settled = workload.phase is Phase.RUNNING
            newest = max(newest, workload.started_at or at, workload.scaled_at or 0.0) if is_settled else at
    return newest


def grow(session: Session) -> None:
    """Give idle room to running trainings, up to their maximum: node by node, in the order in which they started."""
    plan = session.plan
    inventory, free = plan.inventory, plan.free[IDLE]
    jobs = [w for w in _running(plan) if all(a.node in inventory.index for a in w.placement)]
    jobs = [w for w in jobs if len(w.placement) - w.role_members < w.gang.max and not w.finishing]
    jobs = [w for w in jobs if w.topology.require is not Level.NVLINK]
    for node in range(len(inventory.nodes)) if jobs else ():
        alone = np.zeros(len(inventory.nodes), dtype=np.bool_)
        alone[node] = True
        if not inventory.usable[node]:
            continue
        for job in jobs:
            seen = plan.workload(job.id)
            most = seen.gang.max - len(seen.placement) + seen.role_members
            if most > 0 and per_node(inventory, seen.ask, free, alone).any():
                _add_workers(session, seen, most, alone & _near(plan, seen))


def _add_workers(session: Session, job: Workload, most: int, within: Bools) -> None:
    plan = session.plan
    model = plan.inventory.nodes[plan.inventory.index[_home(job)]].model
    for flavor in session.flavors.of(job):
        if flavor is None or flavor.model != model:
            continue
        room = quota_room(session, job, flavor, IDLE)
        free = plan.open_to(job, plan.free[IDLE], IDLE)
        places = find_places(plan.inventory, job, Goal(1, min(most, room)), free, flavor, within)
        if room > 0 and places is not None:
            plan.place(job, places)
            return


def _home(job: Workload) -> str:
    """The node of its first worker."""
    return next((a.node for a in job.placement if a.rank >= job.role_members), job.placement[0].node)


def _near(plan: Plan, job: Workload) -> Bools:
    """The nodes where more of its workers may be: those of the domain that it is in. Shape [N]."""
    level = job.topology.require
    if level is None:
        return np.ones(len(plan.inventory.nodes), dtype=np.bool_)
    index, number = plan.inventory.index, domain_of_node(plan.inventory, max(level, Level.NODE))
    same: Bools = np.equal(number, number[index[_home(job)]])
    return same
