"""Catch up: a team's first in line, overtaken for too long, takes the places of its team's work that came after it.

Smaller work of its team may start past a large gang, on what the team owns, for as long as there is such work; without
this the gang would never start (docs/promises.md, L3). What was queued after the claimant is not above it in class
or priority, and so stood behind it in line: it gives back a turn that it had early.
"""

import numpy as np

from scheduler.backfill.reservation import length_text
from scheduler.cycle.precedence import classes, order_keys
from scheduler.model.decision import EvictReason
from scheduler.model.mention import mention
from scheduler.model.workload import Workload
from scheduler.preemption.elastic import may_shrink_for
from scheduler.preemption.evictable import recent_preemptors
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.state.ledger import QUEUED, RUNS, STARTED, TEAM
from scheduler.state.session import Session


def waited_too_long(session: Session, claimant: Workload) -> bool:
    """Whether the claimant waits so long, and so much longer than its team's running work did, that it may catch up.

    Where all claimants wait for days, one that waits for days is not overtaken more than others. What runs already, and
    only wants more, is not overtaken.
    """
    plan, settings = session.plan, session.settings
    waited = plan.snapshot.at - claimant.queued_at
    if waited <= settings.overtaken_seconds or claimant.placement:
        return False
    ledger = plan.ledger
    of_team = ledger.ints[:, TEAM] == ledger.team_number.get(claimant.team, -1)
    theirs = ledger.times[of_team & ledger.flags[:, RUNS]]
    usual = float(np.median(theirs[:, STARTED] - theirs[:, QUEUED])) if len(theirs) else 0.0
    return waited > settings.overtaken_waits * usual


def catch_up(session: Session, claimant: Workload) -> bool:
    """Place a claimant by making work of its team leave that was queued after it; whether it could."""
    plan, settings, evictable = session.plan, session.settings, session.evictable
    at, theirs = plan.snapshot.at, evictable.of_team(claimant.team)
    is_later = evictable.queued[theirs] > claimant.queued_at
    numbers = theirs[is_later & (evictable.priority[theirs] <= claimant.priority)]
    if not numbers.size:
        return False

    def may_take(victim: Workload) -> bool:
        if recent_preemptors(victim, at, settings):
            return False  # it may leave so often within a day; that is for teams that take back what they own
        mine, its = classes(order_keys([claimant, victim]), at, settings).tolist()
        return bool(mine <= its)

    def message(_victim: Workload) -> str:
        waited = length_text(at - claimant.queued_at)
        return f"Makes room for {mention(claimant.id)}, which was queued before it and waits for {waited}."

    may_shrink, may_ask = may_shrink_for(claimant), claimant.team.__eq__
    conditions = Conditions(EvictReason.PREEMPTED, False, may_take, message, may_shrink, may_ask)
    return make_room(search(session, claimant, numbers, conditions))
