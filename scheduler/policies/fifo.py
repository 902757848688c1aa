"""First come, first served: strict, and with skipping.

`fifo` is the baseline of the literature on gang scheduling (Tiresias, NSDI'19; Sia, SOSP'23): gangs whole, in order of
submission, and who does not fit stops everybody behind it; places are chosen as the setting `placement` says.
`best-fit` is the baseline of FGD (ATC'23): who does not fit is skipped, and each takes the place that it leaves
fullest. Neither knows entitlement, priority or preemption.
"""

from collections.abc import Iterator

from scheduler.claim import claim
from scheduler.decision import Reason
from scheduler.fit import Refusal
from scheduler.mention import mention
from scheduler.placement.chooser import chooser_of
from scheduler.plan import Plan
from scheduler.policies.line import looked_at, no_room
from scheduler.settings import Settings
from scheduler.snapshot import NOW
from scheduler.workload import Phase, Workload


def fifo(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place the line in order and stop at the first that does not fit.

    A service that runs and wants more replicas is served in its turn, but stops nobody: it is not in the queue.
    """
    plan.chooser = chooser_of(plan.snapshot, settings)
    first: Workload | None = None
    for workload, held in looked_at(plan, settings):
        if held is not None:
            yield workload, held
        elif first is not None:
            yield workload, stopped_by(first)
        elif claim(plan, workload, NOW):
            yield workload, None
        else:
            if workload.phase is Phase.QUEUED:
                first = workload
            yield workload, no_room(plan, workload)


def best_fit(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place in order whoever fits, each where it leaves the least."""
    for workload, held in looked_at(plan, settings):
        if held is None and claim(plan, workload, NOW):
            yield workload, None
        else:
            yield workload, held or no_room(plan, workload)


def stopped_by(first: Workload) -> Refusal:
    """What those behind are told under strict order."""
    name = mention(first.id)
    return Refusal(
        Reason.BEHIND_HIGHER_PRIORITY, f"Is behind {name}: the policy starts nothing out of turn.", (("behind", name),)
    )
