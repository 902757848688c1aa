"""`schedule`: one round, from a frozen snapshot to decisions."""

from collections.abc import Iterator

from scheduler.actions.grow import grow
from scheduler.actions.lend import lend
from scheduler.actions.own_gpus import to_own_gpus
from scheduler.actions.reallocate import reallocate, trim
from scheduler.actions.start_on_lent import start_on_lent
from scheduler.cycle.round import Round, Turn
from scheduler.explain.reasons import awaiting
from scheduler.explain.refresh import is_news
from scheduler.explain.roundview import Note
from scheduler.model.decision import Decision, Wait
from scheduler.model.partial_cycle import Starts
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase
from scheduler.preemption.borrowed import take_back
from scheduler.preemption.growth import Growth
from scheduler.preemption.harvest import make_way
from scheduler.preemption.offload import bring_back
from scheduler.preemption.seats import Place
from scheduler.shortcuts import ALL, EACH_TURN, Shortcuts
from scheduler.state.memo import Memo
from scheduler.state.session import Session


def schedule(snapshot: Snapshot, settings: Settings, memo: Memo | None = None) -> tuple[Decision, ...]:
    """Decide which work runs where, which has to leave, and why the rest waits.

    A function of its input: the same snapshot gives the same decisions, byte for byte, and a snapshot in which nothing
    can change gives none. memo: what rounds before left; it saves time, and changes nothing.
    """
    return decide(snapshot, settings, memo)[0]


def decide(
    snapshot: Snapshot,
    settings: Settings,
    memo: Memo | None = None,
    shortcuts: Shortcuts = ALL,
    note: Note | None = None,
) -> tuple[tuple[Decision, ...], Starts]:
    """What `schedule` decides, and the planned starts of the heads that wait on. note: takes how it left the queue."""
    session = Session(snapshot, settings, memo, shortcuts=shortcuts)
    plan = session.plan
    reserved = sorted((w for w in plan.reserved.values() if w.phase is Phase.RESERVED), key=lambda w: w.seq)
    # 0. What was borrowed of a replica that has left is given back.
    take_back(session)
    # 1. Each claimant has its turn: it gets places on the plan, or a reason (round.py).
    turns = Round(session, shortcuts)
    refused = [(workload, refusal) for workload, refusal in turns.run() if refusal is not None]
    # 2. A reason is written if it is news; also of those that were told with others of their class, and of those
    #    that were given places earlier but cannot use them yet.
    told = [(workload, refusal) for workload, refusal in refused if is_news(workload, refusal, snapshot.at, settings)]
    told += turns.columns.news() if turns.columns else ()
    having = ((workload, awaiting(plan, workload)) for workload in reserved)
    told += [(workload, refusal) for workload, refusal in having if is_news(workload, refusal, snapshot.at, settings)]
    # 3. Room that nothing waits for lets trainings run where they asked to, and elastic gangs grow again.
    wanted: set[Place] | None = None
    if not session.is_full and snapshot.scope is None:
        make_way(session, refused)
        trim(session)
        growth = Growth(session, refused)
        reallocate(session, growth)
        to_own_gpus(session, growth)
        grow(session, growth)
        wanted = start_on_lent(session, growth)  # what found no place of its own, and can leave for a service
        lend(session, growth, wanted)  # what is left of their wishes: on what others lend
    bring_back(session, wanted)  # weights that waited elsewhere for a borrower
    # A service may be refused more replicas and then have to leave: that says enough.
    moved = {decision.workload for decision in plan.decisions}
    kept_for = (kept for kept in session.constraints.reservations if kept.workload.id not in moved)
    starts = tuple((kept.workload.id, kept.start) for kept in kept_for)
    if note is not None:
        note.take(session, refused, turns.columns)
    waits = (Wait(workload.id, workload.version, *refusal) for workload, refusal in told if workload.id not in moved)
    return (*plan.decisions, *waits), starts


def outcomes(session: Session) -> Iterator[Turn]:
    """Try each claimant in order on the session's plan, and say of each what it is told; None = it was placed.

    What comes after `max_changes` is left to the next round, which sees the same order.
    """
    return Round(session, EACH_TURN).run()
