"""First come, first served: strict, and with skipping.

`fifo` is the baseline of the literature on gang scheduling (Tiresias, NSDI'19; Sia, SOSP'23): gangs whole, in order of
submission, and one that does not fit blocks all behind it; places are chosen as the setting `placement` says.
`best-fit` is the baseline of FGD (ATC'23): one that does not fit is skipped, and each takes the place that it leaves
fullest. Neither knows entitlement, priority or preemption.
"""

from collections.abc import Iterator

from scheduler.fit.capacity import Refusal
from scheduler.fit.claim import claim
from scheduler.model.decision import Reason
from scheduler.model.mention import mention
from scheduler.model.snapshot import IDLE
from scheduler.model.workload import Phase, Workload
from scheduler.policies.line import looked_at, no_room
from scheduler.state.session import Session


def fifo(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place the line in order and stop at the first that does not fit.

    A service that runs and wants more replicas is served in its turn, but blocks nothing: it is not in the queue.
    """
    session.chooser = session.memo.choosers.of(session.snapshot, session.settings)
    first: Workload | None = None
    for workload, held in looked_at(session):
        if held is not None:
            yield workload, held
        elif first is not None:
            yield workload, stopped_by(first)
        elif claim(session, workload, IDLE):
            yield workload, None
        else:
            if workload.phase is Phase.QUEUED:
                first = workload
            yield workload, no_room(session, workload)


def best_fit(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place in order what fits, each where it leaves the least."""
    for workload, held in looked_at(session):
        if held is None and claim(session, workload, IDLE):
            yield workload, None
        else:
            yield workload, held or no_room(session, workload)


def stopped_by(first: Workload) -> Refusal:
    """What those behind are told under strict order."""
    name = mention(first.id)
    return Refusal(
        Reason.BEHIND_HIGHER_PRIORITY,
        f"Behind {name}: the policy starts workloads strictly in order.",
        (("behind", name),),
    )
