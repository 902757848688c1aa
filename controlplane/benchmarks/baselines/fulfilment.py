"""DRAGON's release of 2018 in the mix of E2: trainings are levelled by fulfilment, (workers - least) / (most - least).

One round: services and notebooks are bound where they fit. Each training that waits starts with its least workers, in
order of submission, where these fit; for the first that does not fit the most fulfilled one gives up a worker, then
again the most fulfilled one, until it will fit. Where none waits, each free GPU goes to the least fulfilled training,
of equal ones to that with fewer workers. Worker 0 stands for the parameter server and stays.

Places, quotas and elastic gangs are the scheduler's own, as for `scheduler/policies/dragon.py`.
Source: Lin, Yeh, Chou: DRAGON, the operator's rules of 2018.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.benchmarks.mix import draws
from controlplane.benchmarks.mix.policies import Decide, Policy
from scheduler.fit.claim import claim, fits, quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.model.decision import Decision
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Bools, Snapshot
from scheduler.model.workload import Kind, Level, Phase, Workload, least
from scheduler.policies.dragon import spare_ranks
from scheduler.policies.line import looked_at
from scheduler.state.memo import Memo
from scheduler.state.session import Session

NAME = "fulfilment"


@dataclass(frozen=True, slots=True)
class Fulfilling(Policy):
    """See above."""

    def decider(self, world: draws.World) -> Decide:
        """A new one, which remembers its own rounds only."""
        memo = Memo()

        def decide(seen: Snapshot) -> Sequence[Decision]:
            session = Session(seen, Settings(), memo)
            levelled(session)
            return session.plan.decisions

        return decide


FULFILMENT = Fulfilling(NAME, is_elastic=True, by_curve=True)


def levelled(session: Session) -> None:
    """One round, on the session's plan."""
    line = [workload for workload, held in looked_at(session) if held is None]
    for workload in line:
        if workload.kind is not Kind.TRAINING:
            claim(session, workload, IDLE)
    jobs = [workload for workload in line if workload.kind is Kind.TRAINING]
    short = [job for job in jobs if not _add(session, job, least(job))]
    if short:
        _make_room(session, short[0])
        return
    while wanting := [job for job in _running(session) if _workers(job) < job.gang.max]:
        for job in sorted(wanting, key=lambda one: (part(one), _workers(one), one.seq)):
            if _add(session, job, 1):
                break
        else:
            return


def part(job: Workload, fewer: int = 0) -> float:
    """How far it is fulfilled, with so many workers fewer than it has."""
    return (_workers(job) - fewer - job.gang.min) / max(1, job.gang.max - job.gang.min)


def _make_room(session: Session, claimant: Workload) -> None:
    """Nothing is taken if it would not help."""
    plan = session.plan
    mark = plan.mark()
    spare = {job.id: (job, spare_ranks(job)) for job in _running(session)}
    taken: Counter[str] = Counter()
    while not fits(session, claimant, FUTURE_IDLE):
        giving = [job for job, ranks in spare.values() if len(ranks) > taken[job.id]]
        plan.rollback(mark)
        if not giving:
            return
        taken[max(giving, key=lambda job: (part(job, taken[job.id]), -job.seq)).id] += 1
        for name, count in taken.items():
            job, ranks = spare[name]
            plan.shrink(job, ranks[:count], claimant.id, "Gives workers to one that is short of its least.")


def _running(session: Session) -> list[Workload]:
    plan = session.plan
    found = [w for w in plan.holding if w.kind is Kind.TRAINING and w.phase is Phase.RUNNING and not w.finishing]
    seen = [plan.workload(w.id) for w in found]
    return [w for w in seen if not any(a.reserved or a.leaving for a in w.placement)]


def _workers(job: Workload) -> int:
    return sum(not a.leaving for a in job.placement) - job.role_members


def _add(session: Session, job: Workload, workers: int) -> bool:
    """So many more for it; whether they fit."""
    plan = session.plan
    free = plan.open_to(job, plan.free[IDLE], IDLE)
    for flavor in session.flavors.of(job):
        if quota_room(session, job, flavor, IDLE) < workers:
            continue
        places = find_places(plan.inventory, job, Goal(workers, workers), free, flavor, _near(session, job))
        if places is not None:
            plan.place(job, places)
            return True
    return False


def _near(session: Session, job: Workload) -> Bools:
    """The nodes where more of its workers may be: those of the domain that it is in. Shape [N]."""
    inventory, level = session.plan.inventory, job.topology.require
    if level is None or not job.placement:
        return np.ones(len(inventory.nodes), dtype=np.bool_)
    number = domain_of_node(inventory, max(level, Level.NODE))
    same: Bools = np.equal(number, number[inventory.index[job.placement[0].node]])
    return same
