"""The life cycle in memory: decisions, observations and users' commands become phases and places.

The database's interpreter is controlplane/services (decisions.py, outcomes.py, observations.py); this one means the
same on values, for runs without a database: the invariants' runner and what-if. Both walk the one table
`scheduler.workload.TRANSITIONS`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.invariants.state import Write
from controlplane.simulator.admission import admit
from controlplane.simulator.book import Action, Book
from scheduler.decision import Decision, Evict, Place, Shrink, Wait
from scheduler.snapshot import applied
from scheduler.workload import ACTIVE, ENDED, LEAVING, Assignment, Kind, Phase, Workload, may_move

NOT_THE_JOBS_FAULT = frozenset({"NodeLost", "NodeShutdown", "PeerFailed", "Evicted", "Preempted", "Disappeared"})
BACKOFF_SECONDS, BACKOFF_MOST_SECONDS = 10.0, 600.0
REQUEUE, FAIL = "requeue", "fail"
OVER = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE})


@dataclass(frozen=True, slots=True)
class Rescale:
    """Another number of replicas for a service: the autoscaler's decision, as the books take it."""

    workload: str
    version: int
    workers: int


@dataclass(frozen=True, slots=True)
class End:
    """A worker that has ended."""

    worker: Assignment
    pod: PodSeen

    @property
    def is_success(self) -> bool:
        """Whether it did all it had to do."""
        return self.pod.phase == PodPhase.SUCCEEDED

    @property
    def counts(self) -> bool:
        """Whether this failure uses up a retry."""
        return self.pod.phase == PodPhase.FAILED and self.pod.reason not in NOT_THE_JOBS_FAULT


# --- decisions --------------------------------------------------------------------------------


def commit(book: Book, decisions: Sequence[Decision | Rescale], epoch: int, loop: str = "schedule") -> tuple[int, ...]:
    """Apply the decisions that still hold; the positions of the stale ones. Nothing at all under an old epoch."""
    if epoch != book.epoch:
        return tuple(range(len(decisions)))
    stale = _stale(book, decisions)
    for i, decision in enumerate(decisions):
        if i not in stale:
            _apply(book, decision, f"loop:{loop}")
    admit(book, f"loop:{loop}")  # whom they wait for may have left since the round looked
    book.writes.append(Write(loop, epoch, book.epoch))
    return tuple(sorted(stale))


def _stale(book: Book, decisions: Sequence[Decision | Rescale]) -> set[int]:
    """Decisions that saw another version, and those that make no sense without them."""
    stale = {i for i, d in enumerate(decisions) if not _holds(book, d)}
    while True:
        bad = {d.workload for i, d in enumerate(decisions) if i in stale and isinstance(d, Evict | Shrink)}
        unplaced = {d.workload for i, d in enumerate(decisions) if i in stale and isinstance(d, Place)}
        more = set()
        for i, d in enumerate(decisions):
            if isinstance(d, Place) and bad.intersection(d.after):
                more.add(i)
            if isinstance(d, Evict | Shrink) and d.by in unplaced:
                more.add(i)
        if more <= stale:
            return stale
        stale |= more


def _holds(book: Book, decision: Decision | Rescale) -> bool:
    workload = book.get(decision.workload)
    if workload is None or workload.version != decision.version:
        return False
    phase, intent = workload.phase, book.records[workload.id].intent
    match decision:
        case Place():
            nodes = book.snapshot.inventory.index
            known = all(worker.node in nodes for worker in decision.workers)
            return known and (not intent if phase in ACTIVE else may_move(phase, Phase.RESERVED))
        case Evict():
            return phase == Phase.RESERVED or may_move(phase, Phase.CHECKPOINTING)
        case Wait():
            return phase not in LEAVING
        case Shrink():
            return phase in ACTIVE and not intent
        case _:
            return phase in ACTIVE and workload.kind == Kind.INFERENCE


def _apply(book: Book, decision: Decision | Rescale, actor: str) -> None:
    workload = book.get(decision.workload)
    if workload is None:
        return
    if isinstance(decision, Rescale):
        _rescale(book, workload, decision, actor)
        return
    after = applied(workload, decision, book.at)
    _record_step(book, workload, after, actor)
    book.put(after)
    match decision:
        case Place():
            _placed(book, after, decision)
        case Evict():
            book.excuse(after.id)
            _vacate(book, after, workload.placement)
            settle(book, after, (), actor)
        case Shrink(ranks=ranks):
            book.excuse(after.id)
            _vacate(book, after, [a for a in workload.placement if a.rank in ranks])
            settle(book, after, (), actor)
        case Wait():
            pass


def _record_step(book: Book, before: Workload, after: Workload, actor: str) -> None:
    """`applied` moves phases by itself: check the step and write its record."""
    if after.phase != before.phase:
        book.move(before, after.phase, actor)


def _placed(book: Book, after: Workload, decision: Place) -> None:
    record = book.records[after.id]
    given = {worker.rank for worker in decision.workers}
    workers = [a for a in after.placement if a.rank in given]
    if after.phase in (Phase.ADMITTED, Phase.RESERVED):
        record.seen, record.performed, record.intent = {}, {}, ""
    if decision.after:
        book.promise(after, workers, decision.after)
    else:
        book.hold(after, workers)
        book.outbox.append(Action("start", after.id, after.attempt, tuple(a.rank for a in workers)))


def _vacate(book: Book, workload: Workload, leavers: Iterable[Assignment]) -> None:
    """Stop the pods of workers that are leaving; places that were only reserved are given up when it settles."""
    ranks = tuple(a.rank for a in leavers if not a.leaving and not a.reserved)
    if ranks and workload.phase != Phase.QUEUED:
        book.outbox.append(Action("stop", workload.id, workload.attempt, ranks, workload.grace_seconds))


def leave(book: Book, workload: Workload, leavers: Sequence[Assignment]) -> Workload:
    """Mark workers as leaving and have their pods stopped."""
    ranks = {a.rank for a in leavers}
    placement = tuple(replace(a, leaving=True) if a.rank in ranks else a for a in workload.placement)
    after = book.put(replace(workload, placement=placement))
    _vacate(book, after, leavers)
    return after


def _rescale(book: Book, workload: Workload, decision: Rescale, actor: str) -> None:
    staying = sorted((a for a in workload.placement if not a.leaving), key=lambda a: a.rank)
    gang = replace(workload.gang, count=decision.workers)
    grows = decision.workers > len(staying) and workload.phase != Phase.SCALING
    if grows and may_move(workload.phase, Phase.SCALING):
        workload = book.move(workload, Phase.SCALING, actor, gang=gang)
    else:
        workload = book.put(replace(workload, gang=gang, version=workload.version + 1))
    if surplus := staying[decision.workers :]:
        book.excuse(workload.id)
        settle(book, leave(book, workload, surplus), (), actor)


# --- users ------------------------------------------------------------------------------------


def stop(book: Book, uid: str, actor: str) -> None:
    """End a workload; nothing if it has ended."""
    workload = book.get(uid)
    if workload is None or workload.phase in (Phase.STOPPING, *ENDED):
        return
    book.excuse(uid)
    if may_move(workload.phase, Phase.STOPPED):
        book.move(workload, Phase.STOPPED, actor, placement=(), after=())
        return
    moved = book.move(workload, Phase.STOPPING, actor)
    settle(book, leave(book, moved, moved.placement), (), actor)


def suspend(book: Book, uid: str, actor: str) -> None:
    """Give a workload's places back until it is resumed: Held if it waits, Suspended once its pods have left."""
    workload = book.get(uid)
    if workload is None:
        return
    if may_move(workload.phase, Phase.HELD):
        book.excuse(uid)
        book.move(workload, Phase.HELD, actor, placement=(), after=())
    elif may_move(workload.phase, Phase.SUSPENDING) and not book.records[uid].intent:
        book.excuse(uid)
        moved = book.move(workload, Phase.SUSPENDING, actor)
        settle(book, leave(book, moved, moved.placement), (), actor)


def resume(book: Book, uid: str, actor: str) -> None:
    """Queue a held or suspended workload again."""
    workload = book.get(uid)
    if workload is not None and workload.phase in (Phase.HELD, Phase.SUSPENDED):
        book.move(workload, Phase.QUEUED, actor, queued_at=book.at, moving=False)


# --- what was seen ----------------------------------------------------------------------------


def see(book: Book, uid: str, pods: Sequence[PodSeen], actor: str) -> bool:
    """Take in what was seen of a workload's pods; whether a place became free.

    A pod counts only for the place of its own attempt and rank, and goes only forward: what comes late, twice or out
    of order changes nothing.
    """
    workload = book.get(uid)
    if workload is None or workload.phase == Phase.RESERVED:
        return False
    record = book.records[uid]
    ends: list[End] = []
    for pod in pods:
        worker = next((a for a in workload.placement if a.rank == pod.rank and not a.reserved), None)
        if worker is None or pod.attempt != workload.attempt:
            continue
        if pod.phase in OVER:
            ends.append(End(worker, pod))
            workload = book.release(workload, worker, book.at if pod.ended_at is None else pod.ended_at)
        elif record.seen.get(pod.rank) != PodPhase.RUNNING:
            record.seen[pod.rank] = pod.phase
    settle(book, workload, ends, actor)
    return bool(ends)


def settle(book: Book, workload: Workload, ends: Sequence[End], actor: str) -> None:
    """Move a workload to where its workers say it is."""
    given_up = [a for a in workload.placement if a.leaving and a.reserved]
    if given_up:
        workload = book.put(replace(workload, placement=tuple(a for a in workload.placement if a not in given_up)))
    if workload.phase in LEAVING:
        if not workload.placement:
            _has_left(book, workload, ends, actor)
    elif workload.phase in ACTIVE and workload.kind == Kind.INFERENCE:
        _serve(book, workload, ends, actor)
    elif workload.phase in ACTIVE:
        _run(book, workload, ends, actor)


def _run(book: Book, workload: Workload, ends: Sequence[End], actor: str) -> None:
    record = book.records[workload.id]
    bad = [e for e in ends if not e.worker.leaving and not e.is_success]
    if bad and not record.intent:
        workload = _break(book, workload, bad, actor)
    if workload.placement and any(e.is_success and not e.worker.leaving for e in ends):
        workload = book.put(replace(workload, finishing=True, version=workload.version + 1))
    if not workload.placement:
        _has_ended(book, workload, ends, actor)
    elif record.intent:
        return  # waits for its last workers to leave
    elif all(record.seen.get(a.rank) == PodPhase.RUNNING for a in workload.placement):
        if workload.phase != Phase.RUNNING:
            book.move(workload, Phase.RUNNING, actor, started_at=workload.started_at or book.at)
    elif workload.phase == Phase.ADMITTED and record.seen:
        book.move(workload, Phase.STARTING, actor)


def _has_ended(book: Book, workload: Workload, ends: Sequence[End], actor: str) -> None:
    """The last worker of an attempt has ended: well, or because the attempt broke."""
    intent = book.records[workload.id].intent
    if intent == FAIL:
        book.move(workload, Phase.FAILED, actor)
    elif intent == REQUEUE:
        requeue(book, workload, actor)
    elif ends:
        book.move(workload, Phase.SUCCEEDED, actor)


def _break(book: Book, workload: Workload, bad: Sequence[End], actor: str) -> Workload:
    """A worker of a gang ended badly: its peers leave too, then the job is queued again or has failed."""
    record = book.records[workload.id]
    if any(end.counts for end in bad):
        record.failures += 1
        wait = min(BACKOFF_MOST_SECONDS, BACKOFF_SECONDS * 2.0 ** (record.failures - 1))
        workload = book.put(replace(workload, not_before=book.at + wait, queued_at=book.at))
    record.intent = FAIL if record.failures > record.retries else REQUEUE
    if workload.placement:
        if workload.phase != Phase.DEGRADED:
            if workload.phase == Phase.ADMITTED:
                workload = book.move(workload, Phase.STARTING, actor)
            workload = book.move(workload, Phase.DEGRADED, actor)
        workload = leave(book, workload, workload.placement)
    return workload


def requeue(book: Book, workload: Workload, actor: str) -> None:
    """Back to the queue with nothing held; age and history are kept."""
    record = book.records[workload.id]
    record.intent, record.seen = "", {}
    book.move(workload, Phase.QUEUED, actor, placement=(), after=(), started_at=None, reason="", message="")


def _serve(book: Book, workload: Workload, ends: Sequence[End], actor: str) -> None:
    record = book.records[workload.id]
    lost = [e for e in ends if not e.worker.leaving]
    if lost:
        workload = book.put(replace(workload, version=workload.version + 1))
    staying = [a for a in workload.placement if not a.leaving]
    running = sum(record.seen.get(a.rank) == PodPhase.RUNNING for a in staying if not a.reserved)
    to = workload.phase
    if running and running == len(staying) >= workload.gang.count:
        to = Phase.RUNNING
    elif lost or (workload.phase == Phase.DEGRADED and running < workload.gang.count):
        to = Phase.DEGRADED
    elif running:
        to = Phase.SCALING
    elif workload.phase == Phase.ADMITTED and record.seen:
        to = Phase.STARTING
    if workload.phase == Phase.ADMITTED and to in (Phase.SCALING, Phase.DEGRADED):
        workload = book.move(workload, Phase.STARTING, actor)
    if to != workload.phase:
        started = workload.started_at or book.at if to == Phase.RUNNING else workload.started_at
        book.move(workload, to, actor, started_at=started)


def _has_left(book: Book, workload: Workload, ends: Sequence[End], actor: str) -> None:
    if workload.kind == Kind.TRAINING and ends and all(end.is_success for end in ends):
        book.move(workload, Phase.SUCCEEDED, actor)
    elif workload.phase == Phase.CHECKPOINTING:
        requeue(book, book.move(workload, Phase.PREEMPTED, actor), actor)
    elif workload.phase == Phase.SUSPENDING:
        book.records[workload.id].seen = {}
        book.move(workload, Phase.SUSPENDED, actor, started_at=None, after=())
    else:
        book.move(workload, Phase.STOPPED, actor)
