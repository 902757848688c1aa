"""Places in the queue: they are counted over what the next round looks at, from 1.

What waits for something else than room or quota has no place until then, as no round looks at it: the workloads that it
starts after, a back-off, its team's next budget, or those that leave its own place.
"""

from collections.abc import Iterable, Iterator

from scheduler.explain.reasons import gate
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Reason
from scheduler.model.workload import Workload
from scheduler.state.session import Session

# No change of a workload's ask, of quota or of other work opens a gate.
GATES = frozenset({Reason.MISCONFIGURED, Reason.ADMISSION_GATED, Reason.BACKOFF_AFTER_FAILURE, Reason.BUDGET_EXHAUSTED})
APART = GATES | {Reason.WAITING_FOR_PREEMPTED_WORKLOADS}


def has_place(refusal: Refusal | None) -> bool:
    """Whether one that was told this has a place in the queue; None: it starts."""
    return refusal is None or refusal.reason not in APART


def numbered(
    turns: Iterable[tuple[Workload, Refusal | None]],
) -> Iterator[tuple[int | None, Workload, Refusal | None]]:
    """The turns of a round, each with its place; None: it has none."""
    last = 0
    for workload, refusal in turns:
        last += has_place(refusal)
        yield last if has_place(refusal) else None, workload, refusal


def length(session: Session) -> int:
    """How many places there are: asked of a plan on which nothing was decided yet.

    A service that waits for a further replica is counted, also where the round then makes it leave before its turn.
    """
    plan = session.plan
    return sum(gate(session, workload) is None for workload in plan.ledger.waiting.values())
