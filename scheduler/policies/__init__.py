"""The scheduling policies by name: Weft's own, and reference policies to compare it with or to use instead.

A policy goes through the queue, places some on the plan and says why it refuses the others; what a plan holds in
the end are its decisions. All policies see the same snapshot, keep to the same hard limits (capacity, a team's quota
plus its borrowing limit, gates, GPU models), and use the same settings; they differ in the order of the queue, where
a workload goes, and what is preempted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from scheduler.cycle import schedule as weft
from scheduler.explain.reasons import awaiting
from scheduler.explain.refresh import is_news
from scheduler.explain.roundview import Note
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Decision, Wait
from scheduler.model.partial_cycle import Starts
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase, Workload
from scheduler.policies.dragon import dragon, edragon
from scheduler.policies.fgd import fgd
from scheduler.policies.fifo import best_fit, fifo
from scheduler.policies.kubernetes import gang, native
from scheduler.state.memo import Memo
from scheduler.state.session import Session

Outcomes = Callable[[Session], Iterator[tuple[Workload, Refusal | None]]]
WEFT = "weft"

POLICIES: Mapping[str, Outcomes] = {
    WEFT: weft.outcomes,
    "fifo": fifo,
    "best-fit": best_fit,
    "fgd": fgd,
    "k8s+gang": gang,
    "dragon": dragon,
    "edragon": edragon,
    "native-k8s": native,
}
# It binds parts of gangs, which the life cycle of a real cluster never starts: for what-if and benchmarks only.
ONLY_COMPARED = frozenset({"native-k8s"})


class UnknownPolicyError(ValueError):
    """No policy has this name; the message lists those there are."""

    def __init__(self, name: object) -> None:
        super().__init__(f"{name!r} is not a scheduling policy. The policies are {', '.join(POLICIES)}.")


def decide(snapshot: Snapshot, settings: Settings, memo: Memo | None = None) -> tuple[Decision, ...]:
    """Decide one round by the policy that the settings name. Raises UnknownPolicyError."""
    return decide_round(snapshot, settings, memo)[0]


def decide_round(
    snapshot: Snapshot, settings: Settings, memo: Memo | None = None, note: Note | None = None
) -> tuple[tuple[Decision, ...], Starts]:
    """What `decide` decides, and the planned starts of those that wait on. Raises UnknownPolicyError.

    note: takes how the round left the queue.
    """
    if settings.policy == WEFT:
        return weft.decide(snapshot, settings, memo, note=note)
    session = Session(snapshot, settings, memo)
    plan = session.plan
    reserved = sorted((w for w in plan.reserved.values() if w.phase is Phase.RESERVED), key=lambda w: w.seq)
    told = [(workload, refusal) for workload, refusal in outcomes(session) if refusal is not None]
    if note is not None:
        note.take(session, told, None)
    told += [(workload, awaiting(plan, workload)) for workload in reserved]
    moved = {decision.workload for decision in plan.decisions}
    waits = (
        Wait(workload.id, workload.version, *refusal)
        for workload, refusal in told
        if workload.id not in moved and is_news(workload, refusal, snapshot.at, settings)
    )
    return (*plan.decisions, *waits), ()


class Decider:
    """`decide` for a caller that decides round after round: it keeps what rounds leave for the next ones."""

    def __init__(self) -> None:
        self.memo = Memo()

    def __call__(self, snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        """Decide one round. Raises UnknownPolicyError."""
        return decide(snapshot, settings, self.memo)


def outcomes(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """The queue, in the order of the policy that the settings name; None = placed. Raises UnknownPolicyError."""
    policy = POLICIES.get(session.settings.policy)
    if policy is None:
        raise UnknownPolicyError(session.settings.policy)
    return policy(session)


def with_policy(settings: Settings, name: str) -> Settings:
    """The same settings under another policy. Raises UnknownPolicyError."""
    if name not in POLICIES:
        raise UnknownPolicyError(name)
    return replace(settings, policy=name)
