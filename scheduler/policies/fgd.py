"""`fgd`: first come, first served with skipping, each single worker where it fragments the least.

The placement is fragmentation gradient descent (Weng et al., ATC'23), in scheduler/placement/fgd.py: the node whose
expected unusable GPUs, under the demand seen of late, grow the least. Until demand is known, places are best fit.
Gangs are placed as by weft.
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.fit import Refusal
from scheduler.placement.chooser import chooser_of
from scheduler.plan import Plan
from scheduler.policies.fifo import best_fit
from scheduler.settings import Placement, Settings
from scheduler.workload import Workload


def fgd(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place in order whoever fits, each where it fragments the least."""
    plan.chooser = chooser_of(plan.snapshot, replace(settings, placement=Placement.FGD))
    return best_fit(plan, settings)
